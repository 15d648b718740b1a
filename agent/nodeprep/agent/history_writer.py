"""Writes a node's history without waiting for the disk. If that hangs or is full, the newest are lost, and said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from threading import Lock, Thread

from nodeprep import fault_boundary
from nodeprep.doors.files.line_file import LineFile
from nodeprep.history import node_record
from nodeprep.history.node_record import BASE, CONFIGURATION, CONVICTED, LOST, MODE, NAME, NodeRecord
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
        self._lock = Lock()
        self._thread: Thread | None = None
        self._records = 0  # single ones in the file
        self._lost = 0

    def recall(self) -> str:
        """Read what former starts wrote: who repeats, and the last configuration. "" or why it cannot be read."""
        try:
            for text in self.file.lines():
                self._records += node_record.is_single(text)
                if any(one in text for one in READ_EVENTS):
                    self._learn(text)
        except OSError as error:
            return f"{self.file.path}: {error.strerror}; the history is not read"
        return ""

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
        if not known:
            return
        for one in known:
            self.repeats.add(one)
        with self._lock:
            for one in known:
                if len(self._pending) < PENDING_LIMIT_RECORDS:
                    self._pending.append(one)
                else:
                    self._lost += 1
                    self.trouble = f"{self.file.path}: no answer from the disk; the newest records are lost"
            if self._thread is not None:
                return
            self._thread = Thread(target=self._write, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            with self._lock:
                self._thread = None
            self.trouble = f"{self.file.path}: no thread can be started ({error}); the newest records wait"

    @property
    def waiting(self) -> int:
        """How many records the thread has not taken yet."""
        return len(self._pending)

    def finish(self, seconds: float) -> None:
        """Wait at most so long until all is written."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _write(self) -> None:
        """Of the thread: write what waits until nothing does. Raises nothing: a thread has nobody to raise to."""
        while True:
            with self._lock:
                records = tuple(self._pending)
                self._pending.clear()
                if not records:
                    self._thread = None
                    return
            _, broke = fault_boundary.contained(lambda: self._append(records))  # noqa: B023 - called at once
            if broke:
                self.trouble = f"{self.file.path}: {fault_boundary.words_of(broke)}"

    def _append(self, records: tuple[NodeRecord, ...]) -> None:
        first, lost = records[0], self._lost
        told = (replace(first, event=LOST, fields={"count": lost, "why": self.trouble}), *records) if lost else records
        try:
            size = self.file.append(b"".join(map(node_record.line, told)))
            self._records += len(told)
            self._lost -= lost
            if node_record.is_due(self._records, size):
                self._fold()
        except OSError as error:
            self._lost += len(records)
            self.trouble = f"{self.file.path}: {error.strerror}; the newest records are lost; see df and findmnt -T"
            return
        if not self._lost:
            self.trouble = ""

    def _fold(self) -> None:
        """Raises OSError; then the file is as it was."""
        from nodeprep.history import folding  # noqa: PLC0415 - once in 250 records; the agent has 40 MiB

        lines = folding.folded(self.file.lines())
        self.file.replace(lines)
        self._records = sum(map(node_record.is_single, lines))
