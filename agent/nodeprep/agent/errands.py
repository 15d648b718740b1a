"""One thing at a time, done beside the loop: a question to a server must not keep gates from closing."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from nodeprep import fault_boundary
from nodeprep.values import Value


class ErrandBroke(Value):
    """An errand that ended with a fault of ours, or could not be begun."""

    why: str


class Errands:
    """Runs each errand in a thread of its own, one after the other. `wake` is called when one has ended."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._done: SimpleQueue[object] = SimpleQueue()
        self._under_way = 0  # begun, and not heard of yet

    @property
    def busy(self) -> bool:
        """Whether one is under way, or its report was not taken yet."""
        return bool(self._under_way)

    def begin(self, errand: Callable[[], object]) -> None:
        """Begin an errand. Nobody else does anything until its report was taken."""
        self._under_way += 1
        try:
            Thread(target=self._run, args=(errand,), name="repairing", daemon=True).start()
        except RuntimeError as error:
            self._done.put(ErrandBroke(f"no thread can be started ({error})"))

    def reports(self) -> list[object]:
        """What came of errands since the last call."""
        found: list[object] = []
        while True:
            try:
                found.append(self._done.get_nowait())
            except Empty:
                self._under_way -= len(found)
                return found

    def _run(self, errand: Callable[[], object]) -> None:
        report, broke = fault_boundary.contained(errand)
        self._done.put(report if broke is None else ErrandBroke(fault_boundary.words_of(broke)))
        self._wake()
