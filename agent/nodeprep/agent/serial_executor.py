"""One call at a time, made beside the loop: a question to a server must not keep gates from closing."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from nodeprep import fault_boundary
from nodeprep.values import Value


class CallBroke(Value):
    """A call that ended with a fault of ours, or could not be begun."""

    why: str


class SerialExecutor:
    """Makes each call in a thread of its own, one after the other. `wake` is called when one has ended."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._done: SimpleQueue[object] = SimpleQueue()
        self._under_way = 0  # begun, and its report was not taken yet

    @property
    def busy(self) -> bool:
        """Whether a call is under way, or its report was not taken yet."""
        return bool(self._under_way)

    def submit(self, call: Callable[[], object]) -> None:
        """Begin a call, whose result is its report."""
        self._under_way += 1
        try:
            Thread(target=self._run, args=(call,), name="repairing", daemon=True).start()
        except RuntimeError as error:
            self._done.put(CallBroke(f"no thread can be started ({error})"))

    def reports(self) -> list[object]:
        """The reports since the last time."""
        found: list[object] = []
        while True:
            try:
                found.append(self._done.get_nowait())
            except Empty:
                self._under_way -= len(found)
                return found

    def _run(self, call: Callable[[], object]) -> None:
        report, broke = fault_boundary.contained(call)
        self._done.put(report if broke is None else CallBroke(fault_boundary.words_of(broke)))
        self._wake()
