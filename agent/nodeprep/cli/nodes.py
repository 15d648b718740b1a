"""`nodeprep nodes`: the fleet as the API server knows it, once, as it changes, or until it is ready."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace

from nodeprep.cli import machine, output
from nodeprep.cli.choices import Format
from nodeprep.cli.duration import seconds
from nodeprep.cli.nodes_reading import CannotSee, Fleet, Look
from nodeprep.cli.nodes_table import Table, document, plain
from nodeprep.cli.nodes_where import Where, say, seen
from nodeprep.cli.usage import UsageError
from nodeprep.decide.legal import few
from nodeprep.doors import clock
from nodeprep.publish.fleet import Readiness, Row, outcome

CYCLE = 30.0  # seconds after which --watch asks for Leases and pods again
WAITING = 10.0  # the same of --wait
INTERRUPTED = 130  # 128 + SIGINT
NOBODY_READS = 141  # 128 + SIGPIPE
GONE = "Gone"  # in place of the state of a Node that is no longer there


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `nodes`, as they were typed."""

    where: Where = field(default_factory=Where)
    output: Format = Format.TABLE
    watch: bool = False
    wait: str | None = None

    def table(self) -> Table:
        width = shutil.get_terminal_size().columns if output.is_terminal() else None
        return Table(self.output is Format.WIDE, width)


def run(asked: Asked) -> int:
    """List, watch or wait; returns the exit code. Raises UsageError."""
    if asked.watch and asked.wait is not None:
        raise UsageError("--watch looks until Ctrl-C and --wait until all are ready: give one of them")
    longest = None if asked.wait is None else seconds("--wait", asked.wait)
    fleet = asked.where.fleet(gpus=True)
    if asked.watch:
        return seen(lambda: _forever(fleet, asked))
    if longest is not None:
        return seen(lambda: _until_ready(fleet, asked, longest))
    return seen(lambda: _once(fleet, asked))


def _once(fleet: Fleet, asked: Asked) -> int:
    _put(fleet.look(), asked)
    return 0


def _put(look: Look, asked: Asked, heard: tuple[str, ...] = ()) -> None:
    rows = look.rows()
    _heard(look, heard)
    if asked.output is Format.JSON:
        output.put(machine.text(document(rows, look.now)))
    elif rows:
        output.put("\n".join(asked.table().lines(rows, look.now)))
    else:
        output.complain(asked.where.nobody)


def _heard(look: Look, before: tuple[str, ...]) -> tuple[str, ...]:
    """Say the notes that were not there before; those that now are."""
    say(tuple(note for note in look.notes if note not in before))
    return look.notes


def _forever(fleet: Fleet, asked: Asked) -> int:
    """A line for each Node, and one more whenever something in it changes, until Ctrl-C or nobody reads any more."""
    told = Told(asked.table(), json=asked.output is Format.JSON)
    notes: tuple[str, ...] = ()
    try:
        for look in fleet.follow(CYCLE):
            notes = _heard(look, notes)
            lines = told.news(look)
            if lines and not output.put("\n".join(lines)):
                return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


@dataclass(slots=True)
class Told:
    """What --watch has said so far."""

    table: Table
    json: bool
    rows: dict[str, Row] = field(default_factory=dict)
    headed: bool = False

    def news(self, look: Look) -> list[str]:
        """A line for each Node that is new, gone, or another than was said; the header before the first of them."""
        rows = {row.name: row for row in look.rows() if look.changed is None or row.name in look.changed}
        meant = set(self.rows) if look.changed is None else set(self.rows) & look.changed
        lines = [] if self.headed or self.json or not rows else self.table.lines(tuple(rows.values()), look.now)[:1]
        self.headed = self.headed or bool(rows)
        lines += [self._line(replace(self.rows.pop(name), state=GONE), look.now) for name in sorted(meant - set(rows))]
        for name, row in rows.items():
            if name not in self.rows or _content(self.rows[name]) != _content(row):
                lines.append(self._line(row, look.now))
        self.rows |= rows
        return lines

    def _line(self, row: Row, now: float) -> str:
        return json.dumps(plain(row, now)) if self.json else self.table.line(row, now)


def _content(row: Row) -> Row:
    """All that is worth a line: an agent that renews its Lease is none."""
    return replace(row, renewed=None)


def _until_ready(fleet: Fleet, asked: Asked, longest: float) -> int:
    """What it waits for goes to stderr, each word once; the fleet as it then is comes at the end."""
    end = clock.now() + longest
    said = ""
    notes: tuple[str, ...] = ()
    code = 3
    for look in replace(fleet, gpus=False).follow(WAITING, end):
        rows = look.rows()
        gone = [name for name in fleet.selection.names if name not in look.nodes]
        code = 1 if gone or not rows else outcome(rows)
        if code == 0:
            break
        notes = _heard(look, notes)
        words = _awaited(rows, gone) or asked.where.nobody
        if words != said:
            output.complain(f"waiting: {words}")
            said = words
    try:
        _put(fleet.afterwards.look(), asked, notes)
    except CannotSee as cannot:
        output.complain(str(cannot))
        return 3
    return code


def _awaited(rows: list[Row], gone: list[str]) -> str:
    late = [f"{row.name} {row.reason or row.state}" for row in rows if row.readiness is not Readiness.READY]
    late += [f"{name} {GONE}" for name in gone]
    return f"{len(late)} of {len(rows) + len(gone)} not ready: {few(late)}" if late else ""
