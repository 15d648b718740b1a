"""What was repaired on this node, when, by whom and with which end: one line of JSON for each step.

A line is written before a step begins and one after it has ended: a step without an end was cut off. Each is synced, so
it is there after a power loss. A torn last line is passed over, and cut off before the next one is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.doors.files.line_file import LineFile
from nodeprep.values import Value, asdict, field, field_names

NAME = "history.jsonl"
MODE = 0o600
LIMIT_BYTES = 4 << 20  # then the older half goes; a line has some 400 bytes
TEXTS = ("id", "boot_id", "command", "remedy", "state", "why")
BEGAN, REFUSED, INTERRUPTED, CHECKED = "began", "refused", "interrupted", "checked"


class RepairRecord(Value):
    """One line. `at` is seconds since 1970, `id` that of the step: it is the same in all its lines.

    `state` is "began", "refused", "interrupted", "checked" of one that may change nothing, or how the play ended.
    `still` are the checks that fail after it. `changed` is the number of tasks that changed something, `seconds` how
    long the play took.
    """

    id: str
    at: float
    boot_id: str
    command: str
    remedy: str
    state: str
    args: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    changed: int = 0
    seconds: float = 0.0
    why: str = ""
    still: tuple[str, ...] = ()


class RepairHistory:
    """The file in a directory. Several processes may write."""

    def __init__(self, directory: str) -> None:
        self._file = LineFile(directory, NAME, MODE)

    def add(self, record: RepairRecord) -> None:
        """Append a line and sync it. Raises OSError: what cannot be kept is not done."""
        size = self._file.append((json.dumps(asdict(record), sort_keys=True) + "\n").encode())
        if size > LIMIT_BYTES:
            lines = list(self._file.lines())
            self._file.replace(line + b"\n" for line in lines[len(lines) // 2 :])

    def cut_torn(self) -> None:
        """Cut off a last line that its writer did not end. Raises OSError, also for a missing file."""
        self._file.cut_torn()

    def records(self) -> Iterator[RepairRecord]:
        """The lines, oldest first. Lines that are no record are passed over. Raises OSError but for a missing file."""
        for line in self._file.lines():
            record = record_of(line.decode(errors="replace"))
            if record is not None:
                yield record


def record_of(line: str) -> RepairRecord | None:
    """The record that a line holds, None for none."""
    try:
        found = json.loads(line)
        known: dict[str, Any] = {name: found[name] for name in field_names(RepairRecord) if name in found}
        is_sound = math.isfinite(known["at"]) and isinstance(known.get("args", {}), dict)
        is_sound = is_sound and all(isinstance(known.get(name, ""), str) for name in TEXTS)
        lists = {name: tuple(known.get(name, ())) for name in ("checks", "still")}
        return RepairRecord(**{**known, **lists}) if is_sound else None
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
