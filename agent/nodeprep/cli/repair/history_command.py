"""`nodeprep repair history`: what was repaired on this host."""

from __future__ import annotations

import json
from collections.abc import Iterable

from nodeprep.cli import page_layout, terminal
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.repair import repair_command
from nodeprep.cli.usage import UsageError
from nodeprep.doors import clock
from nodeprep.repair.repair_history import BEGAN, RepairHistory, RepairRecord
from nodeprep.values import asdict, replace

HEADER = ("TIME", "BY", "REMEDY", "FOR", "END", "CHANGED", "SECONDS", "WHY")
CUT_OFF = "cut off"  # it began, and nobody wrote its end


def run(output: ListFormat) -> int:
    """Print it; returns the exit code. Raises UsageError if it cannot be read."""
    history = RepairHistory(repair_command.directory())
    try:
        records = steps(history.records())
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; wanted to read the history of repairs") from error
    if output is ListFormat.JSON:
        terminal.put(json.dumps([asdict(one) for one in records], indent=2, sort_keys=True))
    elif not records:
        terminal.put("nothing was repaired here by nodeprep")
    else:
        for line in page_layout.columns([HEADER, *map(_row, records)], terminal.whole_width()):
            terminal.put(line)
    return 0


def steps(records: Iterable[RepairRecord]) -> list[RepairRecord]:
    """One record for each step: its end, or that it was cut off."""
    found: dict[str, RepairRecord] = {}
    for one in records:
        found[one.id] = replace(one, state=CUT_OFF) if one.state == BEGAN else one
    return list(found.values())


def _row(one: RepairRecord) -> tuple[str, ...]:
    args = ", ".join(f"{name}={value}" for name, value in sorted(one.args.items()))
    return (
        clock.utc_minute(one.at),
        one.command,
        f"{one.remedy}({args})",
        ", ".join(one.checks),
        f"{one.state}, and {', '.join(one.still)} still fails" if one.still else one.state,
        str(one.changed),
        f"{one.seconds:.1f}",
        one.why,
    )
