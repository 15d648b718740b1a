"""Observes facts in daemon threads. A fact that hangs is Unreadable after its deadline and delays no other fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, get_native_id

from nodeprep import fault_boundary
from nodeprep.doors import clock, processor
from nodeprep.doors.node_host import Host
from nodeprep.doors.processor import ProcessorMoment
from nodeprep.look import Look
from nodeprep.model import CannotLook, Fact, Unreadable, Why
from nodeprep.values import Struct, Value, field

# Seconds without an answer after which another thread takes the next fact, unless a thread computed on its fact for
# that time. Threads that read many small files at the same time only fight for the interpreter: 11 took 1.5 to 3 times
# as long as one (tests/bench/threads.py). A person waits for `check`. Nobody waits for the agent, and with cold caches
# more threads cost it three times the CPU.
CHECK_STALL_SECONDS = 0.02
AGENT_STALL_SECONDS = 0.1
BUSY_SHARE = 0.1  # of that time: a thread that hangs computes nothing, one that reads thousands of files does
BUSY_SECONDS = 1.0  # a driver may also compute in the kernel while it waits: nobody waits longer for such a fact
SYSFS_LINKS_PERIOD_SECONDS = 300.0  # without an event, links of sysfs are followed again after this time
DEAD_TREE_DEADLINE_SECONDS = 10.0  # a dead tree does not change while a busy machine is slow
BUSY_DEADLINES = 10  # deadlines after which a fact is given up although we ourselves were too busy to observe it


class Observation(Value):
    """A fact, or why it could not be observed. The observation began at `began` and took `seconds`."""

    fact: Fact
    began: float
    seconds: float
    value: object


class PendingFact(Struct):
    """A fact that has no answer yet, with its deadline in seconds. It was asked for at the moment `asked`.

    `began` is when a thread took it, None until then. `late` replaces the fact after its deadline.

    The time in which we were busy ourselves does not count. A device that does not answer is evidence against the
    device. A node whose processors are taken by a job still has good devices.
    """

    fact: Fact
    deadline: float
    asked: ProcessorMoment
    began: float | None = None
    late: Unreadable | None = None
    thread: int = 0  # that took it, by its number of the kernel
    computed: float = 0.0  # seconds that this thread had computed before

    def overdue(self, now: float) -> Unreadable | None:
        """What replaces it from now on; None while it has time."""
        spent = 0.0 if self.began is None else now - self.began
        if spent <= self.deadline:
            return None
        busy = processor.busy_since(self.asked)
        if spent - busy > self.deadline:
            return Unreadable(Why.TIMEOUT, self.fact.kind.__name__, detail=f"no answer in {self.deadline:g} s")
        if spent > BUSY_DEADLINES * self.deadline:
            of_us = f"{min(busy, spent):.0f} of which we computed or waited for a processor"
            return Unreadable(Why.BUSY, self.fact.kind.__name__, detail=f"no answer in {spent:.0f} s, {of_us}")
        return None

    def seconds_left(self, now: float) -> float:
        """How long it still has, if we are idle from now on."""
        spent = 0.0 if self.began is None else now - self.began
        if spent <= self.deadline:
            return self.deadline - spent
        return min(self.deadline + processor.busy_since(self.asked), BUSY_DEADLINES * self.deadline) - spent


class Observer(Struct):
    """Observes facts of one host. `look` waits for all of them. `begin` and `gather` are for a loop that must not stop.

    A late fact is Unreadable after its deadline. It is not begun again before it has returned, and its late answer is
    dropped. A thread that gets an answer after `gather` has returned calls `wake`.
    """

    host: Host
    wake: Callable[[], None] = lambda: None
    under_way: dict[type, PendingFact] = field(default_factory=dict)
    _todo: SimpleQueue[PendingFact] = field(default_factory=SimpleQueue)
    _answers: SimpleQueue[Observation] = field(default_factory=SimpleQueue)
    _idle: Event = field(default_factory=Event)
    _more: SimpleQueue[None] = field(default_factory=SimpleQueue)
    _parked: Lock = field(default_factory=Lock)  # held while a thread that has no facts left waits for more
    _waited_for: bool = False
    _found_at: float = -inf

    def look(self, facts: Iterable[Fact]) -> Look:
        """Observe those of these facts that this node shows, and wait until each has answered or is late."""
        wanted = [fact for fact in facts if self.host.live or not fact.live]
        for fact in wanted:  # before any thread begins: loading is our own time and does not count for a deadline
            self._load(fact)
        at = self.host.now()
        self.gather()  # a late fact that has returned may be asked again; for another the reason may be known now
        seen: dict[type, object] = {kind: one.late for kind, one in self.under_way.items() if one.late is not None}
        self.begin(wanted)
        while not seen.keys() >= {fact.kind for fact in wanted}:
            seen |= {one.fact.kind: one.value for one in self._awaited()}
        return Look(at, self.host.live, {fact.kind: seen[fact.kind] for fact in wanted})

    def begin(self, facts: Iterable[Fact], *, anew: bool = True) -> None:
        """Begin to observe these facts, except those under way. A call of `gather` must follow.

        `anew` is False if no event asked for this: then links of sysfs are not followed again.
        """
        due = [fact for fact in facts if fact.kind not in self.under_way]
        if not due:
            return
        self._look_again(anew=anew)
        unmounted = self.host.unmounted()
        self._idle.clear()
        self._waited_for = True
        asked = processor.moment()
        for fact in due:
            deadline = fact.deadline if self.host.live else max(fact.deadline, DEAD_TREE_DEADLINE_SECONDS)
            self.under_way[fact.kind] = PendingFact(fact, deadline, asked)
            if unmounted is not None:
                self._answers.put(Observation(fact, clock.now(), 0.0, unmounted))
                continue
            self._todo.put(self.under_way[fact.kind])
        if unmounted is None:
            self._another_thread()
        else:
            self._idle.set()

    def _look_again(self, *, anew: bool) -> None:
        """Follow links again after an event, or if that is long ago."""
        now = clock.now()
        if anew or now - self._found_at >= SYSFS_LINKS_PERIOD_SECONDS:
            self.host.files.forget()
            self._found_at = now
        else:
            self.host.files.look_again()

    def gather(self) -> list[Observation]:
        """The answers, after all facts have answered or none has for a moment, and then the overdue facts."""
        found: list[Observation] = []
        while any(one.late is None for one in self.under_way.values()):
            # Each answer does not wake us: two threads that wake each other fight for the interpreter.
            computed = self._computed()
            idle = self._idle.wait(AGENT_STALL_SECONDS)
            answers = self._drained()
            found += answers
            if idle or not (answers or not self._todo.empty()):
                break
            if not answers and not self._is_busy(computed, AGENT_STALL_SECONDS):
                self._another_thread()
        self._waited_for = False
        return [*found, *self._drained(), *self._overdue()]

    def _awaited(self) -> list[Observation]:
        """The next answers and the overdue facts. If a thread stalls, another thread takes the remaining facts."""
        # After all facts have begun we wait and do not poll: a poll computes, and then we would not be idle.
        deadline = self.next_deadline() if self._todo.empty() else None
        seconds = CHECK_STALL_SECONDS if deadline is None else max(deadline - clock.now(), CHECK_STALL_SECONDS)
        computed = self._computed()
        try:
            found = [*self._taken(self._answers.get(timeout=seconds))]
        except Empty:
            found = []
            if not self._todo.empty() and not self._is_busy(computed, seconds):
                self._another_thread()
        return [*found, *self._drained(), *self._overdue()]

    def _computed(self) -> dict[int, float]:
        """The seconds that each thread has computed that has a fact."""
        taken = {one.thread for one in self.under_way.values() if one.began is not None and one.late is None}
        return {thread: clock.computed_by(thread) for thread in taken if thread}

    def _is_busy(self, before: dict[int, float], seconds: float) -> bool:
        """Whether a thread computed on its fact or waits for a processor, and has not had that fact for long."""
        now = clock.now()
        lately = [
            one
            for one in self.under_way.values()
            if one.began is not None and one.late is None and now - one.began < BUSY_SECONDS
        ]
        share = BUSY_SHARE * seconds
        return any(
            clock.computed_by(one.thread) - before.get(one.thread, one.computed) >= share
            or processor.is_runnable(one.thread)
            for one in lately
        )

    def _drained(self) -> list[Observation]:
        """The answers that have come."""
        found: list[Observation] = []
        while not self._answers.empty():
            found += self._taken(self._answers.get())
        return found

    def next_deadline(self) -> float | None:
        """When the first fact under way will be overdue, if we are idle until then."""
        now = clock.now()
        waiting = [one for one in self.under_way.values() if one.began is not None and one.late is None]
        return min((now + one.seconds_left(now) for one in waiting), default=None)

    def _taken(self, answer: Observation) -> Iterator[Observation]:
        """The answer; nothing if the fact was already reported as late, because the answer is old then."""
        pending = self.under_way.pop(answer.fact.kind)
        if pending.late is None:
            yield answer

    def _overdue(self) -> Iterator[Observation]:
        now = clock.now()
        for one in tuple(self.under_way.values()):
            if one.began is None or (one.late is not None and one.late.kind is Why.TIMEOUT):
                continue
            blind = one.overdue(now)
            # An answer that came meanwhile may be of this fact. Its thread may have ended, and then its wait for a
            # processor is not known. So answers are taken first, and the next round judges the remaining facts.
            if not self._answers.empty():
                return
            # A fact that was late while we were busy may be found to hang when we are idle.
            if blind is not None and (one.late is None or blind.kind is not one.late.kind):
                one.late = blind
                yield Observation(one.fact, one.began, now - one.began, blind)

    def _another_thread(self) -> None:
        """Let one more thread take facts: the parked one, or a new one. If none can be started, facts are given up."""
        if self._parked.locked():
            self._parked.release()
            self._more.put(None)
            return
        try:
            # A daemon: a thread that hangs in the kernel must not prevent the end of the process.
            Thread(target=self._work, daemon=True).start()
        except RuntimeError as error:
            for one in self._left():
                blind = Unreadable(Why.IO_ERROR, one.fact.kind.__name__, detail=f"no thread can be started: {error}")
                self._answers.put(Observation(one.fact, clock.now(), 0.0, blind))
            self._idle.set()

    def _work(self) -> None:
        while True:
            self._take_facts()
            self._idle.set()
            # One thread waits for the next round: to start a thread costs as much as to read a port's counters.
            if not self._parked.acquire(blocking=False):
                return
            self._more.get()

    def _take_facts(self) -> None:
        for one in self._left():
            one.thread, one.computed = get_native_id(), clock.computed_by(get_native_id())
            one.began = began = clock.now()
            value = self._seen(one.fact)
            self._answers.put(Observation(one.fact, began, clock.now() - began, value))
            if not self._waited_for:
                self.wake()

    def _left(self) -> Iterator[PendingFact]:
        """Take the facts that no thread has taken yet."""
        with suppress(Empty):
            while True:
                yield self._todo.get_nowait()

    def _seen(self, fact: Fact) -> object:
        """The fact, or why there is none. Its own modules are loaded in this thread, because a disk may hang."""
        broke = self._load(fact)
        if broke is not None:
            return Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=fault_boundary.words_of(broke))
        return observed(fact, self.host)

    def _load(self, fact: Fact) -> Exception | None:
        """Load the modules that observe this fact on a live node. Returns the exception if one cannot be loaded."""
        doors = fact.doors if self.host.live else ()
        return fault_boundary.contained(lambda: [import_module(door) for door in doors])[1]


def observed(fact: Fact, host: Host) -> object:
    """The fact, or why there is none."""
    value, broke = fault_boundary.contained(lambda: fact.observe(host))
    if isinstance(broke, CannotLook):
        return broke.blind
    return (
        value if broke is None else Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=fault_boundary.words_of(broke))
    )
