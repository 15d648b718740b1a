"""What was repaired on this node, when, by whom and with which end: one line of JSON for each step.

A line is written before a step begins and one after it has ended: a step without an end was cut off. Each is synced, so
it is there after a power loss. A torn last line is passed over, and cut off before the next one is written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nodeprep.doors.files import atomic
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
    """The file in a directory. Several processes may write: each holds flock(2) on the directory meanwhile."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / NAME

    def add(self, record: RepairRecord) -> None:
        """Append a line and sync it. Raises OSError: what cannot be kept is not done."""
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            self._shorten()
            self._append((json.dumps(asdict(record), sort_keys=True) + "\n").encode())
        except OSError as error:
            error.filename = error.filename or str(self._path)  # a descriptor has no name
            raise
        finally:
            os.close(directory)

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, MODE)
        try:
            whole = self.cut_torn()
            if os.write(descriptor, line) != len(line):  # the disk took a part of it
                os.ftruncate(descriptor, whole)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def records(self) -> Iterator[RepairRecord]:
        """The lines, oldest first. Lines that are no record are passed over. Raises OSError but for a missing file."""
        with suppress(FileNotFoundError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                record = record_of(line)
                if record is not None:
                    yield record

    def _shorten(self) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size > LIMIT_BYTES:
                lines = self._path.read_bytes().splitlines(keepends=True)
                atomic.put(str(self._path.parent), NAME, b"".join(lines[len(lines) // 2 :]), MODE)

    def cut_torn(self) -> int:
        """Cut off a last line without an end: the machine or we were killed while it was written. The bytes that stay.

        A line that lacks nothing but its end gets that. Raises OSError.
        """
        with self._path.open("r+b") as file:
            content = file.read()
            torn = content.rpartition(b"\n")[2]
            if not torn:
                return len(content)
            if record_of(torn.decode(errors="replace")) is not None:
                return len(content) + file.write(b"\n")
            file.truncate(len(content) - len(torn))
            return len(content) - len(torn)


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
