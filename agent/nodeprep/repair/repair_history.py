"""What was repaired on this node, when, by whom and with which end: one line of JSON for each step.

A line is written before a step begins and one after it has ended: a step without an end was cut off. Each is synced, so
it is there after a power loss. A torn last line is passed over.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nodeprep.doors.files import atomic
from nodeprep.values import Value, asdict, field, field_names

NAME = "history.jsonl"
MODE = 0o600
LIMIT_BYTES = 4 << 20  # then the older half goes; a line has some 400 bytes
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
    """The file in a directory. Who writes holds the lock of the same directory."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / NAME

    def add(self, record: RepairRecord) -> None:
        """Append a line and sync it. Raises OSError: what cannot be kept is not done."""
        self._shorten()
        try:
            self._append((json.dumps(asdict(record), sort_keys=True) + "\n").encode())
        except OSError as error:
            error.filename = error.filename or str(self._path)  # a descriptor has no name
            raise

    def _append(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, MODE)
        try:
            line = b"\n" + line if self._is_torn() else line
            if os.write(descriptor, line) != len(line):  # the disk took a part of it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def records(self) -> Iterator[RepairRecord]:
        """The lines, oldest first. Lines that are no record are passed over. Raises OSError but for a missing file."""
        with suppress(FileNotFoundError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                record = _record(line)
                if record is not None:
                    yield record

    def _shorten(self) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size > LIMIT_BYTES:
                lines = self._path.read_bytes().splitlines(keepends=True)
                atomic.put(str(self._path.parent), NAME, b"".join(lines[len(lines) // 2 :]), MODE)

    def _is_torn(self) -> bool:
        """Whether the last line has no end: the machine or we were killed while it was written."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return size > 0 and file.read(1) != b"\n"


def _record(line: str) -> RepairRecord | None:
    try:
        found = json.loads(line)
        known = {name: found[name] for name in field_names(RepairRecord) if name in found}
        lists = {name: tuple(known.get(name, ())) for name in ("checks", "still")}
        return RepairRecord(**{**known, **lists})
    except (ValueError, TypeError):
        return None
