"""When to look at which fact: periods, event sources, and looks that confirmation wants (design 3.2)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from math import inf

from nodeprep.agent_state import AgentState
from nodeprep.decide.check_results import CheckObservation
from nodeprep.facts.expected.inventory import Expected
from nodeprep.model import Check, Confirmation, Fact, Topic
from nodeprep.values import Struct, field

EVENT_STORM_SECONDS = 1.0  # seconds between two looks that the same topic starts; design 3.2
SECOND_LOOK_SECONDS = 0.2  # seconds from the first look that a topic starts to its second, after a calm; design 3.2
CALM_SECONDS = 2.0  # seconds without a look that a topic started; long enough that two looks do not cost two a second
EARLY_LOOK_SECONDS = 0.5  # seconds by which a look may come before its period is over, if others begin
JOIN_SHARE = 0.5  # of the shorter of two periods: so much earlier a fact joins a round of the other, once
RECORD_VALIDITY_SECONDS = 60.0  # seconds for which a record that others keep may stand beside a fresh look; design 3.5
DERIVED = (Expected, AgentState)  # made from facts, never observed


class Schedule(Struct):
    """When each fact was last looked at, and what asks for the next look. All times are CLOCK_BOOTTIME seconds.

    `periods` overrides the periods of facts by kind. `heard` are the topics whose event sources work. `begun_at` is
    when the last look at each fact began. `pending_topics` are topics with an event and no look yet, each with the time
    of the event. `answered_at` is when each topic last started a look, and `muted_until` when its next one may begin.
    `wanted_at` is when a look at a fact is wanted beside its period. `longest_rest` is `RepairWaits.rest`.
    """

    facts: tuple[Fact, ...]
    periods: Mapping[type, float] = field(default_factory=dict)
    begun_at: dict[type, float] = field(default_factory=dict)
    pending_topics: dict[Topic, float] = field(default_factory=dict)
    answered_at: dict[Topic, float] = field(default_factory=dict)
    muted_until: dict[Topic, float] = field(default_factory=dict)
    wanted_at: dict[type, float] = field(default_factory=dict)
    heard: frozenset[Topic] = frozenset()
    longest_rest: float = inf

    def notify(self, topics: Iterable[Topic], now: float) -> None:
        """There were events. Their facts are due at once, or as soon as the last look is long enough ago."""
        for topic in topics:
            self.pending_topics.setdefault(topic, now)
        for topic, since in tuple(self.pending_topics.items()):
            if self._ready_at(topic) <= now:
                self.request((fact.kind for fact in self.facts if topic in fact.woken_by), since)
                self._answer(topic, now)

    def request(self, kinds: Iterable[type], at: float) -> None:
        """A look at these facts is wanted that begins at `at` or later. If one did, it is not wanted again."""
        for kind in kinds:
            if self.begun_at.get(kind, -inf) < at:
                self.wanted_at[kind] = min(self.wanted_at.get(kind, inf), at)

    def due(self, now: float, busy: Container[type] = ()) -> tuple[Fact, ...]:
        """The facts to look at now, without those that are `busy` being looked at.

        Facts that are due in a moment are looked at with them. One round with warm caches costs less than two. Looks
        that were wanted, or that events asked for, leave facts in different phases. Where the period of one is a
        multiple of the other's, one of the two comes earlier once. From then on they share their rounds.
        """
        free = tuple(fact for fact in self.facts if fact.kind not in busy)
        due = {fact.kind for fact in free if self._due_at(fact) <= now}
        if not due:
            return ()
        over = {self._period(fact) for fact in free if fact.kind in due and self._over_at(fact) <= now}
        return tuple(fact for fact in free if fact.kind in due or self._joins(fact, over, now))

    def is_calm(self, now: float) -> bool:
        """Whether looks begin only because their periods are over: no recent event, and no wanted look."""
        recent = any(now < at + EVENT_STORM_SECONDS for at in self.answered_at.values())
        return not (recent or self.wanted_at or self.pending_topics)

    def start(self, facts: Iterable[Fact], now: float) -> None:
        """Looks at these facts begin."""
        for fact in facts:
            self.begun_at[fact.kind] = now
            self.wanted_at.pop(fact.kind, None)

    def next(self, busy: Container[type] = ()) -> float:
        """When there is something to do next; inf if never."""
        looks = (self._due_at(fact) for fact in self.facts if fact.kind not in busy)
        return min((*looks, *(self._ready_at(topic) for topic in self.pending_topics)), default=inf)

    def muted_topics(self, now: float) -> frozenset[Topic]:
        """Topics whose next look would be put off anyway. Nobody needs to listen to them before `unmuted_at`."""
        return frozenset(topic for topic, until in self.muted_until.items() if now < until)

    def unmuted_at(self, now: float) -> float:
        """When to listen to the first of the muted topics again. inf if there is none."""
        return min((until for until in self.muted_until.values() if now < until), default=inf)

    def _answer(self, topic: Topic, now: float) -> None:
        """A topic starts a look. The second one after a calm comes soon: not the first event may be the fault's.

        A calm and two looks take longer than two looks of a storm. So no events start more than one look a second.
        """
        was_calm = now - self.answered_at.get(topic, -inf) >= CALM_SECONDS
        self.muted_until[topic] = now + (SECOND_LOOK_SECONDS if was_calm else EVENT_STORM_SECONDS)
        self.answered_at[topic] = now
        del self.pending_topics[topic]

    def _due_at(self, fact: Fact) -> float:
        last = self.begun_at.get(fact.kind)
        if last is None:
            return -inf
        return max(min(self._over_at(fact), self.wanted_at.get(fact.kind, inf)), last + self._rest(fact))

    def _over_at(self, fact: Fact) -> float:
        """When its period is over."""
        return self.begun_at.get(fact.kind, -inf) + self._period(fact)

    def _joins(self, fact: Fact, over: Iterable[float], now: float) -> bool:
        """Whether it comes before its time in a round that begins because of these periods."""
        if self.begun_at.get(fact.kind, -inf) + self._rest(fact) > now:
            return False
        early, period = self._over_at(fact) - now, self._period(fact)
        return early <= EARLY_LOOK_SECONDS or any(
            max(period, one) % min(period, one) == 0 and early <= JOIN_SHARE * min(period, one) for one in over
        )

    def _rest(self, fact: Fact) -> float:
        return min(fact.rest, self.longest_rest)

    def _period(self, fact: Fact) -> float:
        usual = fact.every_heard if fact.every_heard and fact.woken_by <= self.heard else fact.every
        return self.periods.get(fact.kind, usual)

    def _ready_at(self, topic: Topic) -> float:
        return max(self.pending_topics[topic], self.muted_until.get(topic, -inf))


def observed_facts(check: Check) -> tuple[type, ...]:
    """The facts that a fresh look at a check must observe."""
    return tuple(kind for kind in check.needs if kind not in DERIVED)


def check_observation(
    check: Check, begun: Mapping[type, float], before: CheckObservation | None, records: Iterable[type], now: float
) -> CheckObservation | None:
    """The look at a check that these observations make. None if it is not fresh after `before`.

    `begun` is when each newest observation began. `records` are kinds that others keep and serve to a whole fleet. A
    record that is a minute old is good enough beside a fresh look, except for checks that compare records with the
    kernel.
    """
    kinds = observed_facts(check)
    if check.confirmation is not Confirmation.RECORDS:
        recent = {kind for kind in records if now - begun.get(kind, -inf) <= RECORD_VALIDITY_SECONDS}
        kinds = tuple(kind for kind in kinds if kind not in recent) or kinds
    times = [begun.get(kind, -inf) for kind in kinds]
    since = -inf if before is None else before.ended
    if not times or min(times) <= since:
        return None
    return CheckObservation(min(times), max(times))


def stale_facts(
    check: Check, begun: Mapping[type, float], since: float, records: Iterable[type], now: float
) -> set[type]:
    """The facts to look at so that a look since `since` counts."""
    deferred = set(records) if check.confirmation is not Confirmation.RECORDS else set()
    return {
        kind
        for kind in observed_facts(check)
        if begun.get(kind, -inf) < since
        and not (kind in deferred and now - begun.get(kind, -inf) <= RECORD_VALIDITY_SECONDS)
    }
