"""When to look at what: periods, event sources, and looks that confirmation wants (design 3.2)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from math import inf

from nodeprep.agent_state import AgentState
from nodeprep.decide.check_results import CheckObservation
from nodeprep.facts.expected.inventory import Expected
from nodeprep.model import Check, Confirmation, Fact, Topic
from nodeprep.values import Struct, field

EVENT_STORM_SECONDS = 1.0  # seconds between two looks that the same topic starts; design 3.2
EARLY_LOOK_SECONDS = 0.5  # seconds by which a look may come before its period is over, if others begin
RECORD_VALIDITY_SECONDS = 60.0  # seconds for which a record that others keep may stand beside a fresh look; design 3.5
DERIVED = (Expected, AgentState)  # made from facts, never observed


class Schedule(Struct):
    """When each fact was last looked at, and what asks for the next look. All times are CLOCK_BOOTTIME seconds.

    `every` overrides the periods of facts by kind. `rung` are topics that wait to be answered since that time,
    `answered` when each last was; `wanted` is when a look at a fact is wanted beside its period.
    """

    facts: tuple[Fact, ...]
    every: Mapping[type, float] = field(default_factory=dict)
    begun: dict[type, float] = field(default_factory=dict)
    rung: dict[Topic, float] = field(default_factory=dict)
    answered: dict[Topic, float] = field(default_factory=dict)
    wanted: dict[type, float] = field(default_factory=dict)

    def ring(self, topics: Iterable[Topic], now: float) -> None:
        """There were events: their facts are due at once, or as soon as the look before is long enough ago."""
        for topic in topics:
            self.rung.setdefault(topic, now)
        for topic, since in tuple(self.rung.items()):
            if self._ready(topic) <= now:
                self.want((fact.kind for fact in self.facts if topic in fact.woken_by), since)
                self.answered[topic] = now
                del self.rung[topic]

    def want(self, kinds: Iterable[type], at: float) -> None:
        """A look at these facts is wanted that begins at a time or later; where one did, it is not wanted again."""
        for kind in kinds:
            if self.begun.get(kind, -inf) < at:
                self.wanted[kind] = min(self.wanted.get(kind, inf), at)

    def due(self, now: float, busy: Container[type] = ()) -> tuple[Fact, ...]:
        """The facts to look at now, without those that are `busy` being looked at.

        What falls due in a moment is looked at with them: one round with warm caches costs less than two.
        """
        free = tuple(fact for fact in self.facts if fact.kind not in busy)
        if not any(self._due_at(fact) <= now for fact in free):
            return ()
        return tuple(fact for fact in free if self._due_at(fact) <= now or self._soon(fact, now))

    def is_calm(self, now: float) -> bool:
        """Whether looks begin only because their periods are over: nothing rang of late, and nobody wants one."""
        return not (self.wanted or self.rung or self.deaf(now))

    def start(self, facts: Iterable[Fact], now: float) -> None:
        """Looks at these facts begin."""
        for fact in facts:
            self.begun[fact.kind] = now
            self.wanted.pop(fact.kind, None)

    def next(self, busy: Container[type] = ()) -> float:
        """When there is something to do next; inf if never."""
        looks = (self._due_at(fact) for fact in self.facts if fact.kind not in busy)
        return min((*looks, *(self._ready(topic) for topic in self.rung)), default=inf)

    def deaf(self, now: float) -> frozenset[Topic]:
        """Topics that would only be put off: they need not be listened to before `hears_at`."""
        return frozenset(topic for topic, at in self.answered.items() if now < at + EVENT_STORM_SECONDS)

    def hears_at(self, now: float) -> float:
        """When the first of the deaf topics is to be heard again; inf if there is none."""
        return min((self.answered[topic] + EVENT_STORM_SECONDS for topic in self.deaf(now)), default=inf)

    def _due_at(self, fact: Fact) -> float:
        last = self.begun.get(fact.kind)
        if last is None:
            return -inf
        return max(min(last + self._period(fact), self.wanted.get(fact.kind, inf)), last + fact.rest)

    def _soon(self, fact: Fact, now: float) -> bool:
        last = self.begun.get(fact.kind, -inf)
        return last + self._period(fact) <= now + EARLY_LOOK_SECONDS and last + fact.rest <= now

    def _period(self, fact: Fact) -> float:
        return self.every.get(fact.kind, fact.every)

    def _ready(self, topic: Topic) -> float:
        return max(self.rung[topic], self.answered.get(topic, -inf) + EVENT_STORM_SECONDS)


def looked_at(check: Check) -> tuple[type, ...]:
    """The facts that must be observed anew for a look at a check to count."""
    return tuple(kind for kind in check.needs if kind not in DERIVED)


def check_observation(
    check: Check, begun: Mapping[type, float], before: CheckObservation | None, records: Iterable[type], now: float
) -> CheckObservation | None:
    """The look at a check that these observations make, None if it is no fresh one after `before`.

    `begun` is when each newest observation began. `records` are kinds that others keep and serve to a whole fleet: but
    for checks that hold such books against the kernel, one that is a minute old stands beside a fresh look.
    """
    kinds = looked_at(check)
    if check.confirmation is not Confirmation.RECORDS:
        recent = {kind for kind in records if now - begun.get(kind, -inf) <= RECORD_VALIDITY_SECONDS}
        kinds = tuple(kind for kind in kinds if kind not in recent) or kinds
    times = [begun.get(kind, -inf) for kind in kinds]
    since = -inf if before is None else before.ended
    if not times or min(times) <= since:
        return None
    return CheckObservation(min(times), max(times))


def not_fresh(
    check: Check, begun: Mapping[type, float], since: float, records: Iterable[type], now: float
) -> set[type]:
    """The facts that are to be looked at so that a look since `since` counts."""
    deferred = set(records) if check.confirmation is not Confirmation.RECORDS else set()
    return {
        kind
        for kind in looked_at(check)
        if begun.get(kind, -inf) < since
        and not (kind in deferred and now - begun.get(kind, -inf) <= RECORD_VALIDITY_SECONDS)
    }
