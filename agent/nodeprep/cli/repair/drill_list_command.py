"""`nodeprep drill list`: the drills that there are, and the one that runs or was left behind."""

from __future__ import annotations

import json
from typing import Any

from nodeprep.cli import page_layout, place, terminal
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.repair import drill_stop_command, repair_command
from nodeprep.cli.usage import UsageError
from nodeprep.decide.drill_kinds import FORMS
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair import drill_files
from nodeprep.repair.drill_files import NotADrill

HEADER = ("NAME", "TARGET", "MAKES")


def run(output: ListFormat) -> int:
    """Print them; returns the exit code. Raises UsageError if the record of the running one cannot be read."""
    try:
        record = drill_files.kept(repair_command.directory())
    except NotADrill as error:
        raise UsageError(f"nodeprep drill list: {error}") from error
    if record is not None and record.boot_id != place.place(None, None).host().boot_id():
        record = None  # the reboot ended it
    if output is ListFormat.JSON:
        terminal.put(json.dumps({"drills": _forms(), "running": _running(record)}, indent=2, sort_keys=True))
        return 0
    rows = [(kind.value, form.target, form.makes) for kind, form in FORMS.items()]
    for line in page_layout.columns([HEADER, *rows], terminal.whole_width()):
        terminal.put(line)
    terminal.put("")
    terminal.put(_words(record) if record is not None else drill_stop_command.NOTHING)
    return 0


def _forms() -> list[dict[str, str]]:
    return [
        {"name": kind.value, "target": form.target, "makes": form.makes, "undone": form.undone}
        for kind, form in FORMS.items()
    ]


def _running(record: DrillRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "name": record.name,
        "device": record.device,
        "watcher": record.process if drill_stop_command.is_watched(record) else None,
        "seconds": round(clock.now() - record.began, 1),
        "secondsLeft": round(record.until - clock.now(), 1),
        "undo": list(record.by_hand),
    }


def _words(record: DrillRecord) -> str:
    now = clock.now()
    if not drill_stop_command.is_watched(record):
        by_hand = "; ".join(record.by_hand)
        return f"{record.words} was left behind, its watcher is gone: nodeprep drill stop, or {by_hand}"
    left = max(record.until - now, 0.0)
    return f"{record.words} runs for {now - record.began:.0f} s, and ends in {left:.0f} s (pid {record.process})"
