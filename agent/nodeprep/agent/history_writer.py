"""Writes a node's history without waiting for the disk. If that hangs or is full, the newest are lost, and said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from threading import Lock, Thread

from nodeprep import fault_boundary
from nodeprep.doors.files.line_file import LineFile
from nodeprep.history import node_record
from nodeprep.history.node_record import (
    BASE,
    CONFIGURATION,
    CONVICTED,
    LOST,
    MODE,
    NAME,
    SIZE_LIMIT_BYTES,
    NodeRecord,
)
from nodeprep.history.repeat_offenders import RepeatCounter
from nodeprep.values import replace

PENDING_LIMIT_RECORDS = 500  # that wait for the disk; a round of a whole node's failure has some 100
READ_EVENTS = tuple(f'"event":"{one}"'.encode() for one in (CONVICTED, CONFIGURATION, "folded", BASE))


class HistoryWriter:
    """Appends records in a thread that lives only while there are some.

    `trouble` says why the newest records are not kept, "" if they are. `repeats` counts convictions, also those of
    former starts. `keys` are the digests of the configuration that was recorded last.
    """

    def __init__(self, directory: str) -> None:
        self.file = LineFile(directory, NAME, MODE)
        self.trouble = ""
        self.repeats = RepeatCounter()
        self.keys: Mapping[str, str] = {}
        self._pending: deque[NodeRecord] = deque()
        self._again: tuple[NodeRecord, ...] = ()  # what holds now, for a file that lacks records
        self._lock = Lock()
        self._thread: Thread | None = None
        self._records = self._size = 0  # single ones in the file, and its bytes
        self._lost = 0

    def recall(self) -> str:
        """Read what former starts wrote: who repeats, and the last configuration. "" or why it cannot be read."""
        _, broke = fault_boundary.contained(self._read)
        if broke is None:
            return ""
        why = broke.strerror if isinstance(broke, OSError) else fault_boundary.words_of(broke)
        return f"{self.file.path}: {why}; the history is not read"

    def _read(self) -> None:
        for text in self.file.lines():
            self._records += node_record.is_single(text)
            self._size += len(text) + 1
            if any(one in text for one in READ_EVENTS):
                self._learn(text)

    def _learn(self, text: bytes) -> None:
        record = node_record.record_of(text)
        if record is None:
            return
        self.repeats.add(record)
        if record.event in (BASE, CONFIGURATION):
            was = record.fields.get("was", record.fields)  # a base record says what held
            keys = was.get("keys") if isinstance(was, dict) else None
            self.keys = keys if isinstance(keys, dict) else {}

    def add(self, records: Iterable[NodeRecord]) -> None:
        """Have these written soon. What a disk that does not answer leaves waiting is dropped beyond a limit."""
        known = tuple(records)
        for one in known:
            self.repeats.add(one)
        with self._lock:
            for one in known:
                if len(self._pending) < PENDING_LIMIT_RECORDS:
                    self._pending.append(one)
                else:
                    self._lost += 1
                    self.trouble = f"{self.file.path}: no answer from the disk; the newest records are lost"
        if known:
            self._start()

    def try_again(self, holding: Iterable[NodeRecord]) -> None:
        """Write how many records were lost, and what holds now, if the disk takes it: nobody knows what was between."""
        with self._lock:
            self._again = tuple(holding)
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = self._thread = Thread(target=self._write, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                self._thread = None
            self.trouble = f"{self.file.path}: no thread can be started ({error}); the newest records wait"

    @property
    def waiting(self) -> int:
        """How many records are not in the file yet and not lost."""
        return len(self._pending) + (self._thread is not None)

    def finish(self, seconds: float) -> None:
        """Wait at most so long until all is written."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _write(self) -> None:
        """Of the thread: write what waits until nothing does. Raises nothing: a thread has nobody to raise to."""
        while True:
            with self._lock:
                records, again = tuple(self._pending), self._again
                self._pending.clear()
                self._again = ()
                if not (records or again):
                    self._thread = None
                    return
            _, broke = fault_boundary.contained(lambda: self._append(records, again))  # noqa: B023 - called at once
            if broke is not None:
                self._lose(len(records), fault_boundary.words_of(broke))

    def _append(self, records: tuple[NodeRecord, ...], again: tuple[NodeRecord, ...]) -> None:
        with self._lock:
            lost = self._lost
        told = (*again, *records)
        if lost:
            told = (replace(told[0], event=LOST, fields={"count": lost, "why": self.trouble}), *told)
        data = b"".join(map(node_record.line, told))
        unfolded = ""
        if node_record.is_due(self._records, self._size) or self._size + len(data) > SIZE_LIMIT_BYTES:
            unfolded = self._fold()
        if self._size + len(data) > SIZE_LIMIT_BYTES:
            self._lose(len(records), unfolded or "it has its full size")
            return
        try:
            self._size = self.file.append(data)
        except OSError as error:
            self._lose(len(records), error.strerror or str(error))
            return
        self._records += len(told)
        with self._lock:
            self._lost -= lost
            if not self._lost:
                self.trouble = f"{self.file.path}: {unfolded}; it cannot be folded" if unfolded else ""

    def _lose(self, count: int, why: str) -> None:
        with self._lock:
            self._lost += count
            self.trouble = f"{self.file.path}: {why}; the newest records are lost; see df and findmnt -T"

    def _fold(self) -> str:
        """Fold the file; "" or why that failed. Then it is as it was."""
        from nodeprep.history import folding  # noqa: PLC0415 - once in 250 records; the agent has 40 MiB

        def fold() -> None:
            lines = folding.folded(self.file.lines())
            self._size = self.file.replace(lines)
            self._records = sum(map(node_record.is_single, lines))

        _, broke = fault_boundary.contained(fold)
        if broke is None:
            return ""
        return broke.strerror or str(broke) if isinstance(broke, OSError) else fault_boundary.words_of(broke)
