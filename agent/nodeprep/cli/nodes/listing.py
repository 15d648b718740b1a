"""`nodeprep nodes`: the fleet as the API server knows it, once, as it changes, or until it is ready."""

from __future__ import annotations

import json
import shutil

from nodeprep.cli import duration, terminal
from nodeprep.cli.check import json_report
from nodeprep.cli.check.choices import Format
from nodeprep.cli.nodes import fleet_table, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet, FleetLook
from nodeprep.cli.nodes.fleet_table import FleetTable
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.doors import clock
from nodeprep.publish import fleet_rows
from nodeprep.publish.fleet_rows import FleetRow, Readiness
from nodeprep.values import Struct, Value, field, replace

WATCH_PERIOD_SECONDS = 30.0  # seconds after which --watch asks for Leases and pods again
WAIT_PERIOD_SECONDS = 10.0  # the same of --wait
INTERRUPTED = 130  # 128 + SIGINT
NOBODY_READS = 141  # 128 + SIGPIPE
GONE_STATE = "Gone"  # in place of the state of a Node that is no longer there


class NodesOptions(Value):
    """The options of `nodes`, as they were typed."""

    where: FleetScope = field(default_factory=FleetScope)
    output: Format = Format.TABLE
    watch: bool = False
    wait: str | None = None

    def table(self) -> FleetTable:
        width = shutil.get_terminal_size().columns if terminal.is_terminal() else None
        return FleetTable(self.output is Format.WIDE, width)


def run(asked: NodesOptions) -> int:
    """List, watch or wait; returns the exit code. Raises UsageError."""
    if asked.watch and asked.wait is not None:
        raise UsageError("--watch looks until Ctrl-C and --wait until all are ready: give one of them")
    seconds = None if asked.wait is None else duration.seconds("--wait", asked.wait)
    fleet = asked.where.fleet(gpus=True)
    if asked.watch:
        return scope.exit_code(lambda: _watch(fleet, asked))
    if seconds is not None:
        return scope.exit_code(lambda: _wait(fleet, asked, seconds))
    return scope.exit_code(lambda: _list(fleet, asked))


def _list(fleet: Fleet, asked: NodesOptions) -> int:
    _put(fleet.look(), asked)
    return 0


def _put(look: FleetLook, asked: NodesOptions, known_notes: tuple[str, ...] = ()) -> None:
    rows = look.rows()
    _print_new_notes(look, known_notes)
    scope.print_notes(scope.effect_note(fleet_rows.without_effect(rows)))
    scope.print_notes(scope.repeats_note([(one.name, one.repeats) for one in rows if one.repeats]))
    if asked.output is Format.JSON:
        terminal.put(json_report.text(fleet_table.document(rows, look.now)))
    elif rows:
        terminal.put("\n".join(asked.table().lines(rows, look.now)))
    else:
        terminal.complain(asked.where.no_node_message)


def _print_new_notes(look: FleetLook, before: tuple[str, ...]) -> tuple[str, ...]:
    """Print the notes that were not there before; returns those of now."""
    scope.print_notes(tuple(note for note in look.notes if note not in before))
    return look.notes


def _watch(fleet: Fleet, asked: NodesOptions) -> int:
    """A line for each Node, and one more for each change of it, until Ctrl-C or until nobody reads any more."""
    news = FleetNews(asked.table(), json=asked.output is Format.JSON)
    notes: tuple[str, ...] = ()
    try:
        for look in fleet.follow(WATCH_PERIOD_SECONDS):
            notes = _print_new_notes(look, notes)
            lines = news.news(look)
            if lines and not terminal.put("\n".join(lines)):
                return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


class FleetNews(Struct):
    """What --watch has printed so far."""

    table: FleetTable
    json: bool
    rows: dict[str, FleetRow] = field(default_factory=dict)
    headed: bool = False

    def news(self, look: FleetLook) -> list[str]:
        """A line for each Node that is new, gone or changed; the header before the first of them."""
        rows = {row.name: row for row in look.rows() if look.changed is None or row.name in look.changed}
        meant = set(self.rows) if look.changed is None else set(self.rows) & look.changed
        lines = [] if self.headed or self.json or not rows else self.table.lines(tuple(rows.values()), look.now)[:1]
        self.headed = self.headed or bool(rows)
        lines += [
            self._line(replace(self.rows.pop(name), state=GONE_STATE), look.now) for name in sorted(meant - set(rows))
        ]
        for name, row in rows.items():
            if name not in self.rows or _content(self.rows[name]) != _content(row):
                lines.append(self._line(row, look.now))
        self.rows |= rows
        return lines

    def _line(self, row: FleetRow, now: float) -> str:
        return json.dumps(fleet_table.plain(row, now)) if self.json else self.table.line(row, now)


def _content(row: FleetRow) -> FleetRow:
    """All that deserves a line: a renewed Lease does not."""
    return replace(row, renewed=None)


def _wait(fleet: Fleet, asked: NodesOptions, seconds: float) -> int:
    """Prints what it waits for on stderr, each line once, and the fleet at the end."""
    end = clock.now() + seconds
    said = ""
    notes: tuple[str, ...] = ()
    code = 3
    for look in replace(fleet, gpus=False).follow(WAIT_PERIOD_SECONDS, end):
        rows = look.rows()
        gone = [name for name in fleet.selection.names if name not in look.nodes]
        code = 1 if gone or not rows else fleet_rows.outcome(rows)
        if code == 0:
            break
        notes = _print_new_notes(look, notes)
        words = _not_ready(rows, gone) or asked.where.no_node_message
        if words != said:
            terminal.complain(f"waiting: {words}")
            said = words
    try:
        _put(fleet.with_deleted.look(), asked, notes)
    except CannotSee as cannot:
        terminal.complain(str(cannot))
        return 3
    return code


def _not_ready(rows: list[FleetRow], gone: list[str]) -> str:
    late = [f"{row.name} {row.reason or row.state}" for row in rows if row.readiness is not Readiness.READY]
    late += [f"{name} {GONE_STATE}" for name in gone]
    return f"{len(late)} of {len(rows) + len(gone)} not ready: {kubernetes_text.few(late)}" if late else ""
