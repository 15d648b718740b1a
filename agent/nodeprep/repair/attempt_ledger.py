"""Which attempts this remediator has begun, and how each ended: on a disk that nobody else mounts.

An id is written before anything of the attempt runs, so none can run twice. Where the ledger is gone, is another one or
cannot be written, nothing runs: what cannot be remembered is not done. No file at the start is a first start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nodeprep.decide.remediator_limits import PastRun
from nodeprep.decide.remedy_header import RemedyHeader
from nodeprep.repair import repair_history
from nodeprep.repair.repair_history import BEGAN, RepairHistory, RepairRecord

# Of the newest attempts: a day has 500 at most (--attempts-a-day), and the file has some days of them.
KEPT_ATTEMPTS = 4096
SHOWN_CHARACTERS = 40  # of a line that is none


class LedgerLost(Exception):
    """The ledger is not what we wrote. Its text is one line that names the file."""


class AttemptLedger:
    """The ledger in a directory, which is made. Raises OSError or LedgerLost where it cannot be read."""

    def __init__(self, directory: str) -> None:
        path = Path(directory)
        path.mkdir(0o700, parents=True, exist_ok=True)
        self._path = path / repair_history.NAME
        self._history = RepairHistory(directory)
        self._path.touch(repair_history.MODE, exist_ok=True)
        self._history.cut_torn()
        self._records = {record.id: record for record in self._read()}
        self._is_lost = False
        self._known = self._seen()

    def record(self, attempt: str) -> RepairRecord | None:
        """The last line of an attempt, None for one that never began."""
        return self._records.get(attempt)

    def begin(self, record: RepairRecord) -> None:
        """Write that an attempt begins. Raises LedgerLost, or OSError: then it must not."""
        self._add(record)

    def end(self, record: RepairRecord) -> None:
        """Write how it ended. It is known here also where that cannot be written. Raises LedgerLost or OSError then."""
        self._records[record.id] = record
        self._add(record)

    def past(self, headers: Mapping[str, RemedyHeader]) -> Iterator[PastRun]:
        """The attempts, for the limits. `headers` are those of all remedies."""
        for one in self._records.values():
            header = headers.get(one.remedy)
            is_restart = header is not None and header.uses_runtime
            is_idle = one.state in (repair_history.REFUSED, repair_history.CHECKED)
            yield PastRun(one.remedy, one.at, is_restart, is_idle)

    def open_attempts(self) -> tuple[RepairRecord, ...]:
        """Those that began and have no end: they run, or were cut off."""
        return tuple(one for one in self._records.values() if one.state == BEGAN)

    def _read(self) -> Iterator[RepairRecord]:
        """Raises LedgerLost for a line that we have not written: the attempts that it stood for would be forgotten."""
        for number, line in enumerate(self._path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            record = repair_history.record_of(line)
            if record is None:
                words = "wanted the record of an attempt; move the file away, and all limits begin anew"
                raise LedgerLost(f"{self._path}: line {number}: found {line[:SHOWN_CHARACTERS]!a}, {words}")
            yield record

    def _add(self, record: RepairRecord) -> None:
        self._is_lost = self._is_lost or self._seen() != self._known
        if self._is_lost:
            raise LedgerLost(
                f"{self._path}: found another file than the one that this remediator wrote; "
                "see what changed it, then start the remediator again"
            )
        try:
            self._history.add(record)
        finally:
            self._known = self._seen()
        self._records[record.id] = record
        while len(self._records) > KEPT_ATTEMPTS:
            del self._records[next(iter(self._records))]

    def _seen(self) -> tuple[int, int]:
        """The file that is there: a shorter one or another is not ours. Raises LedgerLost."""
        try:
            found = self._path.stat(follow_symlinks=False)
        except OSError as error:
            self._is_lost = True
            raise LedgerLost(f"{self._path}: {error.strerror}; nothing runs without the ledger") from error
        return found.st_ino, found.st_size
