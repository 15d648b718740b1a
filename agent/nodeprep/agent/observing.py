"""Observes facts for a loop that must not stop: what answers is taken at once, what does not delays nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Thread

from nodeprep import look
from nodeprep.doors import clock, processor
from nodeprep.doors.node_host import Host
from nodeprep.model import Fact, Unreadable, Why

# Seconds without an answer after which another thread takes the next fact. A look with cold caches takes ten times as
# long as the next one; two threads that read files then fight for the interpreter, which took three times the CPU.
AGENT_STALL_SECONDS = 0.1
SYSFS_LINKS_PERIOD_SECONDS = (
    300.0  # seconds for which links of sysfs are taken to lead where they led, while no event source rings
)


@dataclass(frozen=True, slots=True)
class Observation:
    """A fact as it was seen, or why it was not. It began at `began` and took `seconds`."""

    fact: Fact
    began: float
    seconds: float
    value: object


@dataclass(slots=True)
class Observer:
    """Observes facts of one host in daemon threads.

    `wake` is called from a thread when it has an answer that nobody waits for any more. A fact that is late is
    Unreadable once its deadline is over, and not begun again before it returned; `late` says why.
    """

    host: Host
    wake: Callable[[], None]
    under_way: dict[type, Fact] = field(default_factory=dict)
    late: dict[type, Why] = field(default_factory=dict)
    _since: dict[type, float] = field(default_factory=dict)  # when a thread took it
    _asked: dict[type, processor.ProcessorMoment] = field(default_factory=dict)  # when it was asked for
    _todo: SimpleQueue[Fact] = field(default_factory=SimpleQueue)
    _answers: SimpleQueue[Observation] = field(default_factory=SimpleQueue)
    _idle: Event = field(default_factory=Event)
    _waited_for: bool = False
    _found_at: float = -inf

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
            idle = self._idle.wait(AGENT_STALL_SECONDS)
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
            now + look.left(fact, now - self._since[kind], self._asked[kind])
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
            if kind not in self._since or self.late.get(kind) is Why.TIMEOUT:
                continue
            spent = now - self._since[kind]
            blind = look.overdue(fact, spent, self._asked[kind], fact.deadline)
            if not self._answers.empty():  # its own, perhaps: the next round goes by it
                return
            # Who kept us waiting while we were busy may be found to hang once we are not.
            if blind is not None and blind.kind is not self.late.get(kind):
                self.late[kind] = blind.kind
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
        _, broke = look.contained(lambda: [import_module(door) for door in fact.doors])
        if broke is not None:
            return Unreadable(Why.IO_ERROR, fact.kind.__name__, detail=look.words_of(broke))
        return look.observed(fact, self.host)
