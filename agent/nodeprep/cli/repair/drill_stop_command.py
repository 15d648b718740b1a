"""`nodeprep drill stop`: ends the drill that runs and waits until it is undone; undoes one that was left behind."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from nodeprep.cli import place, terminal
from nodeprep.cli.repair import drill_page, repair_command
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.cli.usage import UsageError
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair import drill_files, drill_start, drill_undo, drill_watcher
from nodeprep.repair.drill_files import NotADrill
from nodeprep.repair.repair_history import BEGAN, RepairHistory
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay

NOTHING = "no drill runs here"
LOOK_SECONDS = 0.2  # between two looks at the watcher
LEFT_BEHIND = "nodeprep drill stop, for its watcher is gone"


def run() -> int:
    """Stop it; returns the exit code. Raises UsageError."""
    repair_command.require_host("drill stop", asks=False)
    try:
        record = drill_files.kept(repair_command.directory())
        if record is None:
            terminal.put(NOTHING)
            return repair_command.DONE
        return _stopped(record) if is_watched(record) else _undone()
    except NotADrill as error:
        raise UsageError(f"nodeprep drill stop: {error}") from error
    except RepairUnderWay as busy:
        terminal.complain(f"nodeprep drill stop: {busy}")
        return repair_command.FAILED


def is_watched(record: DrillRecord) -> bool:
    """Whether the watcher of this drill lives: its number may be another's by now."""
    return bool(record.started) and drill_watcher.started(record.process) == record.started


def _stopped(record: DrillRecord) -> int:
    """Ask the watcher to end, and wait for it. It writes how that went in the history."""
    with suppress(ProcessLookupError):
        os.kill(record.process, signal.SIGTERM)
    until = clock.now() + drill_start.UNDO_SECONDS
    while is_watched(record):
        if clock.now() >= until:
            terminal.complain(
                f"nodeprep drill stop: its watcher (pid {record.process}) does not end: {_by_hand(record)}"
            )
            return repair_command.FAILED
        clock.sleep(LOOK_SECONDS)
    lines = [one for one in RepairHistory(repair_command.directory()).records() if one.id == record.id]
    left = drill_files.kept(repair_command.directory())
    if left is not None and left.id == record.id:
        why = lines[-1].why if lines and lines[-1].state != BEGAN else "its watcher was killed"
        terminal.complain(f"nodeprep drill stop: {record.words} is not undone: {why}; run: {_by_hand(record)}")
        return repair_command.FAILED
    terminal.put(f"{record.words}: {lines[-1].state if lines else 'ended before it was made'}")
    return repair_command.DONE


def _by_hand(record: DrillRecord) -> str:
    return "; ".join(record.by_hand)


def _undone() -> int:
    """Undo what was left behind, with the lock that its watcher lost."""
    directory = repair_command.directory()
    style = PageStyle(terminal.width(), terminal.colourful(refused=False))
    with RepairLock(directory, "nodeprep drill stop"):
        record = drill_files.kept(directory)
        if record is None:
            terminal.put(NOTHING)
            return repair_command.DONE
        if record.boot_id != place.place(None, None).host().boot_id():
            drill_files.remove(directory)
            terminal.put(f"{record.words} was made before this boot, which ended it; its record is removed")
            return repair_command.DONE
        end = drill_undo.undo(record)
        drill_watcher.end(directory, record, end, LEFT_BEHIND)
    for line in drill_page.undone(record, end, LEFT_BEHIND, style):
        terminal.put(line)
    return repair_command.DONE if end.is_back else repair_command.FAILED
