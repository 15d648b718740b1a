"""Observes facts in daemon threads: one that hangs is Unreadable after its deadline, and delays no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Thread

from nodeprep import fault_boundary
from nodeprep.doors import clock, processor
from nodeprep.doors.node_host import Host
from nodeprep.look import Look
from nodeprep.model import CannotLook, Fact, Unreadable, Why

# Seconds without an answer after which another thread takes the next fact. Threads that read many small files at the
# same time only fight for the interpreter: 11 took 1.5 to 3 times as long as one (tests/bench/threads.py). A person
# waits for `check`; the agent, whose caches are cold more often, would start threads that cost three times the CPU.
CHECK_STALL_SECONDS = 0.02
AGENT_STALL_SECONDS = 0.1
SYSFS_LINKS_PERIOD_SECONDS = 300.0  # links of sysfs are taken to lead where they led for so long while no event comes
DEAD_TREE_DEADLINE_SECONDS = 10.0  # a dead tree does not change while a busy machine takes its time
BUSY_DEADLINES = 10  # deadlines after which nobody waits for a fact that we ourselves kept from being observed


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


def seconds_left(fact: Fact, spent: float, at: processor.ProcessorMoment) -> float:
    """For how many seconds more it has time, if nothing but it takes time from now on."""
    within = fact.deadline - spent
    return within if within >= 0 else min(within + processor.busy_since(at), BUSY_DEADLINES * fact.deadline - spent)


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact as it was seen, or why it was not. It began at `began` and took `seconds`."""

    fact: Fact
    began: float
    seconds: float
    value: object


@dataclass(slots=True)
class Observer:
    """Observes facts of one host: `look` waits for all of them, `begin` and `gather` are for a loop that must not stop.

    `wake` is called from a thread when it has an answer that nobody waits for any more. A fact that is late is
    Unreadable once its deadline is over, and is not begun again before it returned; `late` has what stands for it.
    `stall` is the time without an answer, in seconds, after which another thread takes the next fact.
    """

    host: Host
    wake: Callable[[], None] = lambda: None
    stall: float = AGENT_STALL_SECONDS
    under_way: dict[type, Fact] = field(default_factory=dict)
    late: dict[type, Unreadable] = field(default_factory=dict)
    _since: dict[type, float] = field(default_factory=dict)  # when a thread took it
    _asked: dict[type, processor.ProcessorMoment] = field(default_factory=dict)  # when it was asked for
    _todo: SimpleQueue[Fact] = field(default_factory=SimpleQueue)
    _answers: SimpleQueue[Observation] = field(default_factory=SimpleQueue)
    _idle: Event = field(default_factory=Event)
    _waited_for: bool = False
    _found_at: float = -inf

    def look(self, facts: Iterable[Fact]) -> Look:
        """Observe all of these as far as this node shows them; one that hangs delays the others by a moment."""
        wanted = [fact for fact in facts if self.host.live or not fact.live]
        for door in {door for fact in wanted if self.host.live for door in fact.doors}:
            import_module(door)
        at = self.host.now()
        self._drained()  # who was late and has returned may be asked again
        seen: dict[type, object] = {fact.kind: self.late[fact.kind] for fact in wanted if fact.kind in self.late}
        self.begin(wanted)
        while missing := {fact.kind for fact in wanted} - seen.keys():
            seen |= {one.fact.kind: one.value for one in self.gather() if one.fact.kind in missing}
        return Look(at, self.host.live, seen)

    def begin(self, facts: Iterable[Fact], *, anew: bool = True) -> None:
        """Begin to observe these; those under way are passed over. `gather` is to follow.

        `anew`: for a reason, so that nothing is taken from the look before but what costs nothing to see again.
        """
        due = [fact for fact in facts if fact.kind not in self.under_way]
        if not due:
            return
        self._look_again(anew=anew)
        unmounted = self.host.unmounted()
        self._idle.clear()
        self._waited_for = True
        at = processor.moment()
        for fact in due:
            self.under_way[fact.kind] = fact
            self._asked[fact.kind] = at
            if unmounted is not None:
                self._answers.put(Observation(fact, clock.now(), 0.0, unmounted))
                continue
            self._todo.put(fact)
        if unmounted is None:
            self._another_thread()
        else:
            self._idle.set()

    def _look_again(self, *, anew: bool) -> None:
        """Let files be found anew if something was heard of, or if they were not for long."""
        now = clock.now()
        if anew or now - self._found_at >= SYSFS_LINKS_PERIOD_SECONDS:
            self.host.files.forget()
            self._found_at = now
        else:
            self.host.files.look_again()

    def gather(self) -> list[Observation]:
        """What is there, once all that was begun has answered or none answered for a moment; then what is overdue."""
        found: list[Observation] = []
        while self.under_way.keys() - self.late.keys():
            # Not woken by each answer: two threads that wake each other fight for the interpreter.
            idle = self._idle.wait(self.stall)
            answers = self._drained()
            found += answers
            if idle or not (answers or not self._todo.empty()):
                break
            if not answers:
                self._another_thread()
        self._waited_for = False
        return [*found, *self._drained(), *self._overdue()]

    def _drained(self) -> list[Observation]:
        """The answers that are there."""
        found: list[Observation] = []
        while not self._answers.empty():
            found += self._taken(self._answers.get())
        return found

    def next_deadline(self) -> float | None:
        """When the first of what is under way will be overdue, if we are idle until then."""
        now = clock.now()
        waiting = [
            now + seconds_left(fact, now - self._since[kind], self._asked[kind])
            for kind, fact in self.under_way.items()
            if kind in self._since and kind not in self.late
        ]
        return min(waiting, default=None)

    def _taken(self, answer: Observation) -> Iterator[Observation]:
        kind = answer.fact.kind
        self.under_way.pop(kind, None)
        self._since.pop(kind, None)
        self._asked.pop(kind, None)
        if self.late.pop(kind, None):
            return  # it was told as unreadable; what it says now is old
        yield answer

    def _overdue(self) -> Iterator[Observation]:
        now = clock.now()
        for kind, fact in tuple(self.under_way.items()):
            before = self.late.get(kind)
            if kind not in self._since or (before is not None and before.kind is Why.TIMEOUT):
                continue
            spent = now - self._since[kind]
            deadline = fact.deadline if self.host.live else max(fact.deadline, DEAD_TREE_DEADLINE_SECONDS)
            blind = overdue(fact, spent, self._asked[kind], deadline)
            if not self._answers.empty():  # its own, perhaps: the next round goes by it
                return
            # Who kept us waiting while we were busy may be found to hang once we are not.
            if blind is not None and (before is None or blind.kind is not before.kind):
                self.late[kind] = blind
                yield Observation(fact, self._since[kind], spent, blind)

    def _another_thread(self) -> None:
        """Let one more take what is to do; where there can be no more, nobody waits for what none has taken."""
        try:
            # A daemon: one that hangs in the kernel must not keep the process from ending.
            Thread(target=self._work, daemon=True).start()
        except RuntimeError as error:
            for fact in self._left():
                blind = Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=f"no thread can be started: {error}")
                self._answers.put(Observation(fact, clock.now(), 0.0, blind))
            self._idle.set()

    def _work(self) -> None:
        for fact in self._left():
            began = clock.now()
            self._since[fact.kind] = began
            value = self._seen(fact)
            self._answers.put(Observation(fact, began, clock.now() - began, value))
            if not self._waited_for:
                self.wake()
        self._idle.set()

    def _left(self) -> Iterator[Fact]:
        """Take what nobody has taken yet."""
        with suppress(Empty):
            while True:
                yield self._todo.get_nowait()

    def _seen(self, fact: Fact) -> object:
        """The fact, or why there is none; the modules that only it wants are read here, where a disk may hang."""
        _, broke = fault_boundary.contained(lambda: [import_module(door) for door in fact.doors])
        if broke is not None:
            return Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=fault_boundary.words_of(broke))
        return observed(fact, self.host)


def observed(fact: Fact, host: Host) -> object:
    """The fact, or why there is none."""
    value, broke = fault_boundary.contained(lambda: fact.observe(host))
    if isinstance(broke, CannotLook):
        return broke.blind
    return (
        value if broke is None else Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=fault_boundary.words_of(broke))
    )
