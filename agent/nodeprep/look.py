"""One look at a node: every fact that is due, observed in daemon threads, none waited for longer than its deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TypeVar

from nodeprep.doors import clock, processor
from nodeprep.doors.node_host import Host
from nodeprep.model import CannotLook, Fact, Unreadable, Why

T = TypeVar("T")
DEAD_TREE_DEADLINE_SECONDS = (
    10.0  # seconds for a fact of a dead tree, which does not change while a busy machine takes its time
)
# Seconds without an answer after which another thread takes the next fact. Threads that read many small files at the
# same time only fight for the interpreter: 11 took 1.5 to 3 times as long as one (tests/bench/threads.py).
CHECK_STALL_SECONDS = 0.02
BUSY_DEADLINES = (
    10  # deadlines, after which nobody waits for a fact any more that we ourselves kept from being observed
)


def overdue(fact: Fact, spent: float, at: processor.ProcessorMoment, deadline: float) -> Unreadable | None:
    """What stands for a fact that was under way for `spent` seconds; None while it has time.

    What it needed while we were busy ourselves, since the moment `at`, is not held against it: that a device did not
    answer is evidence, and a node whose processors are taken by a job has none the less good devices.
    """
    if spent <= deadline:
        return None
    busy = processor.busy_since(at)
    if spent - busy > deadline:
        return Unreadable(Why.TIMEOUT, fact.kind.__name__, detail=f"no answer in {deadline:g} s")
    if spent > BUSY_DEADLINES * deadline:
        detail = f"no answer in {spent:.0f} s, {min(busy, spent):.0f} of which we computed or waited for a processor"
        return Unreadable(Why.BUSY, fact.kind.__name__, detail=detail)
    return None


def left(fact: Fact, spent: float, at: processor.ProcessorMoment) -> float:
    """For how many seconds more it has time, if nothing but it takes time from now on."""
    within = fact.deadline - spent
    return within if within >= 0 else min(within + processor.busy_since(at), BUSY_DEADLINES * fact.deadline - spent)


@dataclass(frozen=True, slots=True)
class Look:
    """The facts of one look by kind, an Unreadable where one could not be observed. `at` is CLOCK_BOOTTIME seconds."""

    at: float
    live: bool
    facts: Mapping[type, object]

    def get(self, kind: type[T]) -> T | None:
        value = self.facts.get(kind)
        return value if isinstance(value, kind) else None


@dataclass(slots=True)
class Turn:
    """The facts of one look on their way: `todo` not begun, `begun` with when and by whom, `answers` as they come.

    `late` is what stands for those that nobody waits for any more.
    """

    host: Host
    # Taken before any is begun: who waits for them may itself get no processor until they are overdue.
    at: processor.ProcessorMoment = field(default_factory=processor.moment)
    late: dict[type, Unreadable] = field(default_factory=dict)
    todo: SimpleQueue[Fact] = field(default_factory=SimpleQueue)
    begun: dict[type, tuple[float, Thread]] = field(default_factory=dict)
    answers: SimpleQueue[tuple[type, object]] = field(default_factory=SimpleQueue)

    def another_thread(self) -> None:
        # A daemon: one that hangs in the kernel must not keep the process from ending.
        Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        """Observe one fact after another until none is left."""
        while True:
            try:
                fact = self.todo.get_nowait()
            except Empty:
                return
            self.begun[fact.kind] = (clock.now(), current_thread())
            self.answers.put((fact.kind, observed(fact, self.host)))


@dataclass(slots=True)
class Eyes:
    """Looks at one host again and again. A fact that is late is not started again before it returned."""

    host: Host
    late: dict[type, tuple[Thread, Unreadable]] = field(default_factory=dict)

    def look(self, facts: Iterable[Fact]) -> Look:
        """Observe `facts`; one that hangs delays the others by no more than a moment."""
        self.host.files.forget()
        wanted = [fact for fact in facts if self.host.live or not fact.live]
        for door in {door for fact in wanted if self.host.live for door in fact.doors}:
            import_module(door)
        at, unmounted = self.host.now(), self.host.unmounted()
        if unmounted is not None:
            return Look(at, self.host.live, dict.fromkeys((fact.kind for fact in wanted), unmounted))
        self.late = {kind: one for kind, one in self.late.items() if one[0].is_alive()}
        turn = Turn(self.host)
        due = [fact for fact in wanted if fact.kind not in self.late]
        for fact in due:
            turn.todo.put(fact)
        seen = self._gather(turn, due)
        self.late |= {kind: (turn.begun[kind][1], blind) for kind, blind in turn.late.items()}
        unseen = {fact.kind: self.late[fact.kind][1] for fact in wanted if fact.kind not in seen}
        return Look(at, self.host.live, {**unseen, **seen})

    def _gather(self, turn: Turn, due: list[Fact]) -> dict[type, object]:
        """Wait for the answers; where none comes for a moment, another thread goes on with what is left."""
        seen: dict[type, object] = {}
        turn.another_thread()
        while waited_for := [fact for fact in due if fact.kind not in seen and not self._is_late(turn, fact)]:
            try:
                kind, value = turn.answers.get(timeout=CHECK_STALL_SECONDS)
            except Empty:
                if not turn.todo.empty():
                    turn.another_thread()
                continue
            if any(fact.kind is kind for fact in waited_for):
                seen[kind] = value
        return seen

    def _is_late(self, turn: Turn, fact: Fact) -> bool:
        """Whether nobody waits for it any more; `turn.late` keeps what stands for it."""
        since, _ = turn.begun.get(fact.kind, (None, None))
        if since is None or fact.kind in turn.late:
            return fact.kind in turn.late
        deadline = fact.deadline if self.host.live else max(fact.deadline, DEAD_TREE_DEADLINE_SECONDS)
        blind = overdue(fact, clock.now() - since, turn.at, deadline)
        # A thread that has answered may have ended, and then nobody knows how long it waited for a processor.
        if blind is None or not turn.answers.empty():
            return False
        turn.late[fact.kind] = blind
        return True


def observed(fact: Fact, host: Host) -> object:
    """The fact, or why there is none."""
    value, broke = contained(lambda: fact.observe(host))
    if isinstance(broke, CannotLook):
        return broke.blind
    return value if broke is None else Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=words_of(broke))


def contained(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Call, and give what it returns or what it raised."""
    try:
        return call(), None
    except Exception as error:  # noqa: BLE001 - the boundary: a fault in one fact or check stays there
        return None, error


def words_of(error: Exception) -> str:
    """What a message says of a fault of ours; the trace goes to the log."""
    import logging  # noqa: PLC0415 - 2 ms that only a fault of ours costs

    logging.getLogger(__name__).debug("broke", exc_info=error)
    return f"{type(error).__name__}: {error}"
