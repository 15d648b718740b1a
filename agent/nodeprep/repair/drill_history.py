"""A drill in the history of repairs: a line before the fault is made, and one when it is undone."""

from __future__ import annotations

from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair.drill_undo import DrillUndo
from nodeprep.repair.repair_history import BEGAN, RepairHistory, RepairRecord

COMMAND = "drill"
UNDONE, NOT_UNDONE = "undone", "not undone"


def begin(directory: str, record: DrillRecord) -> None:
    """Raises OSError: what cannot be kept is not done."""
    RepairHistory(directory).add(_line(record, BEGAN))


def end(directory: str, record: DrillRecord, undone: DrillUndo, why: str) -> None:
    """Raises OSError."""
    words = why if undone.is_back else f"{why}; {undone.words}"
    RepairHistory(directory).add(_line(record, UNDONE if undone.is_back else NOT_UNDONE, words))


def _line(record: DrillRecord, state: str, why: str = "") -> RepairRecord:
    seconds = 0.0 if state == BEGAN else clock.now() - record.began
    return RepairRecord(
        record.id,
        clock.wall(),
        record.boot_id,
        COMMAND,
        record.name,
        state,
        {"target": record.target},
        changed=len(record.make),
        seconds=seconds,
        why=why,
    )
