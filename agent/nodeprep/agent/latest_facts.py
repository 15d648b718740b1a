"""What stands now: the newest observation of every fact, what each check says of it, and which looks were fresh."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from nodeprep import check_round
from nodeprep.decide import look_schedule
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.look_schedule import RECORD_VALIDITY_SECONDS
from nodeprep.decide.repair_choice import LastLook
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import Check, Finding, Shown, Skipped, Status, Subject, Unreadable, Why, grouped, raw, shortest
from nodeprep.observer import Observation

EXPECTATION_SOURCES = frozenset({Pci, Rdma, Links})  # what ought to be there is reckoned from these
EXPECTATION_USES = EXPECTATION_SOURCES | {RdmaNetlink}  # and from this where it can be had
RECORDS = frozenset(fact.kind for fact in FACTS if fact.rest)
TRANSIENT_CAUSES = (Why.TIMEOUT, Why.BUSY)  # what a record lacks for a moment; what is denied stays denied
OBSERVATION_RETRY_SECONDS = (
    15.0  # seconds until a fact that could not be observed is asked for again, and twice that, and so on
)
RETRY_DOUBLINGS = 10  # doublings: beyond any period
SHORTEST_WINDOW_SECONDS = shortest(None)
RATE_SAMPLE_SECONDS = 5.0  # seconds between two observations that are kept for rates
Words = frozenset[tuple[Subject, Status]]


class LatestFacts:
    """All that is known of the node. `facts` are the newest observations by kind, `begun` when each began.

    `said` are the findings of each check, not folded; `skipped` the checks that could not be run. `expected` is the
    inventory that the last judgement compared these facts with, None before the first.
    """

    def __init__(self, checks: tuple[Check, ...]) -> None:
        self.checks = checks
        self.facts: dict[type, object] = {}
        self.begun: dict[type, float] = {}
        self.seconds: dict[type, float] = {}
        self.said: dict[str, tuple[Finding, ...]] = {}
        self.skipped: dict[str, Skipped] = {}
        self._in_vain: dict[type, tuple[int, float]] = {}
        self._said_in_words: dict[str, Words] = {}
        self._observations: dict[str, CheckObservation] = {}
        self._counted: dict[str, Words] = {}
        self._before: dict[type, deque[tuple[float, object]]] = {}
        self._last: dict[type, object] = {}
        self._moved: set[type] = set()
        self._changed_at: dict[type, float] = {}
        self.expected: Expected | Unreadable | None = None
        self._folded: tuple[Finding, ...] | None = None
        self._taken: set[type] = set()  # since it was last asked which looks are fresh
        self._every: dict[type, float] = {}
        self._window = 0.0  # seconds, the longest over which a check reckons rates
        self._rates_since: dict[str, float] = {}  # by check: what began until then counts for none of its rates
        self._forgot_at = -inf  # the last of them
        self._sees = {check.id: frozenset((*check.needs, *check.uses)) for check in checks}  # what each check may see
        # The facts that checks compare over time.
        self._rated = EXPECTATION_SOURCES.union(*(self._sees[check.id] for check in checks if check.rates))

    def take(self, observations: Iterable[Observation]) -> frozenset[type]:
        """Keep what was observed; the kinds that show something else than before, or did so the time before.

        A check may hold two looks against each other: after a change it has another answer twice.
        """
        changed = set()
        for one in observations:
            kind = one.fact.kind
            self._taken.add(kind)
            self._note(one)
            if self._stands_in(one):
                continue
            if kind not in self.facts or not _alike(self.facts[kind], one.value):
                changed.add(kind)
                self._moved.add(kind)
                self._changed_at[kind] = one.began
            elif kind in self._moved:
                changed.add(kind)
                self._moved.discard(kind)
            if kind in self.facts:
                self._last[kind] = self.facts[kind]
            self._keep_for_rates(kind, one)
            self.facts[kind], self.begun[kind], self.seconds[kind] = one.value, one.began, one.seconds
        return frozenset(changed)

    def forget_rates(self, now: float, checks: Iterable[str] | None = None) -> None:
        """What was seen before now counts for no rate of these checks, None for all. The newest look is included."""
        self._forgot_at = max((now, *self.begun.values()))
        self._rates_since |= dict.fromkeys(self._sees if checks is None else checks, self._forgot_at)

    def asked_again_at(self) -> dict[type, float]:
        """When what could not be observed is to be asked for again before its period is over: after 15, 30, 60 s ..."""
        waits = {kind: OBSERVATION_RETRY_SECONDS * 2 ** (count - 1) for kind, (count, _) in self._in_vain.items()}
        return {kind: self._in_vain[kind][1] + wait for kind, wait in waits.items() if wait < self._every[kind]}

    def _note(self, one: Observation) -> None:
        """Count how often a fact was asked for in vain, one after another; what nobody gave access to is not."""
        kind, blind = one.fact.kind, unanswered(one.fact.kind, one.value)
        self._every[kind] = one.fact.every
        if blind is not None and not (blind.not_asked or blind.not_recorded):
            self._in_vain[kind] = (min(self._in_vain.get(kind, (0, 0.0))[0] + 1, RETRY_DOUBLINGS), one.began)
        else:
            self._in_vain.pop(kind, None)

    def _stands_in(self, one: Observation) -> bool:
        """Whether a record that could be had a moment ago stands for the one that cannot be had now."""
        kind, before = one.fact.kind, self.facts.get(one.fact.kind)
        failed = before is not None and unanswered(kind, one.value) is not None and unanswered(kind, before) is None
        return kind in RECORDS and failed and one.began - self.begun[kind] <= RECORD_VALIDITY_SECONDS

    def judge(
        self,
        observed: frozenset[type],
        changed: frozenset[type],
        profile: Profile,
        wants: Mapping[str, object],
        *,
        anew: bool = False,
    ) -> bool:
        """Judge what may have another answer now, `anew` everything; whether any check says something else."""
        says, skipped = dict(self.said), dict(self.skipped)
        seen = changed | {Expected} if changed & EXPECTATION_USES else changed
        if anew or changed & EXPECTATION_USES:
            self.expected = None
        due = [one for one in self.checks if anew or self._is_new(one) or not seen.isdisjoint(self._sees[one.id])]
        due = [check for check in due if not check.rates and self._complete(check)]
        rates = [check for check in self.checks if check.rates and self._complete(check)]
        rates = [check for check in rates if anew or self._may_have_grown(check, observed, wants)]
        now, last = (Look(0.0, live=True, facts=facts) for facts in (self.facts, self._last))
        first = [check for check in due if not self._seen_twice(check)]
        self._judged(first, now, None, profile, wants)
        self._judged([check for check in due if check not in first], now, last, profile, wants)
        for check in rates:
            self._judged([check], *self._two_looks(check, wants), profile, wants)
        return says != self.said or skipped != self.skipped

    def fresh(self, now: float, since: float = 0.0) -> dict[str, CheckObservation]:
        """The looks that count: of checks whose facts were all observed anew since the last one that did.

        No failure that began before `since` counts: it stays in doubt until the next look.
        """
        found = {}
        taken, self._taken = self._taken, set()
        for check in self.checks:
            if check.id not in self.said or (check.id in self._observations and taken.isdisjoint(self._sees[check.id])):
                continue
            look = look_schedule.check_observation(check, self.begun, self._observations.get(check.id), RECORDS, now)
            if look is not None and (look.began >= since or not self._fails(check.id)):
                found[check.id] = self._observations[check.id] = look
                self._counted[check.id] = self._words(check.id)
        return found

    def last_look(self, check: str) -> LastLook:
        """What the newest facts say of a check, and when each that it needs was looked at."""
        kinds = look_schedule.observed_facts(next(one for one in self.checks if one.id == check))
        failing = (one.subject for one in self.said.get(check, ()) if one.status is Status.FAIL)
        return LastLook({kind: self.begun.get(kind, -inf) for kind in kinds}, frozenset(failing))

    def _fails(self, check: str) -> bool:
        return any(finding.status is Status.FAIL for finding in self.said[check])

    @property
    def has_doubts(self) -> bool:
        """Whether a check says something else than at its last look that counted."""
        return any(True for _ in self._doubted())

    def _doubted(self) -> Iterator[Check]:
        return (one for one in self.checks if one.id in self.said and self._words(one.id) != self._counted.get(one.id))

    def doubtful(self, since: float, now: float) -> set[type]:
        """Facts to look at at once: a check says something new, and not all that it rests on was seen since then."""
        return {
            kind
            for check in self._doubted()
            for kind in look_schedule.stale_facts(check, self.begun, since, RECORDS, now)
        }

    def words(self) -> Mapping[str, Words]:
        """What is said of whom by each check, without the figures of the moment."""
        return dict(self._said_in_words)

    def findings(self) -> tuple[Finding, ...]:
        """What all checks say, consequences folded under their roots."""
        if self._folded is None:
            every = (finding for check in self.checks for finding in self.said.get(check.id, ()))
            self._folded = check_round.fold(every, {check.id: check.after for check in self.checks})
        return self._folded

    def _complete(self, check: Check) -> bool:
        """Whether everything that the check needs was looked at once."""
        needs = EXPECTATION_SOURCES.union(check.needs) - {Expected} if Expected in check.needs else check.needs
        return all(kind in self.facts for kind in needs)

    def _is_new(self, check: Check) -> bool:
        return check.id not in self.said and check.id not in self.skipped

    def _seen_twice(self, check: Check) -> bool:
        return all(kind in self._last for kind in check.needs if kind is not Expected)

    def _judged(
        self, checks: list[Check], look: Look, before: Look | None, profile: Profile, wants: Mapping[str, object]
    ) -> None:
        if not checks:
            return
        if self.expected is None and self.facts.keys() >= EXPECTATION_SOURCES:
            self.expected = check_round.expect(look, profile)
        judged = check_round.unfolded(checks, look, before, profile, wants, expected=self.expected)
        found = grouped(judged.findings, lambda one: one.check)
        without = {one.check: one for one in judged.skipped}
        for check in checks:
            if check.id in without:
                if self.said.pop(check.id, ()):
                    self._folded = None
                self._said_in_words.pop(check.id, None)
                self.skipped[check.id] = without[check.id]
                continue
            says = tuple(found.get(check.id, ()))
            self.skipped.pop(check.id, None)
            if says != self.said.get(check.id):
                self.said[check.id], self._folded = says, None
                self._said_in_words[check.id] = frozenset((one.subject, one.status) for one in says)

    def _words(self, check: str) -> Words:
        return self._said_in_words[check]

    def _may_have_grown(self, check: Check, observed: frozenset[type], wants: Mapping[str, object]) -> bool:
        """Whether a rate may be another than when it was last reckoned: nothing in it stood still for its window."""
        kinds = self._sees[check.id] - {Expected}
        if not kinds & observed:
            return False
        least = self._least(check, wants) + max(self._every.get(kind, 0.0) for kind in kinds)
        still = (self.begun[kind] - self._changed_at[kind] > least for kind in kinds if kind in self.facts)
        return check.id not in self.said or not all(still)

    def _least(self, check: Check, wants: Mapping[str, object]) -> float:
        """The seconds over which the check reckons rates."""
        return check.window(wants.get(check.id) or (check.want() if check.want else None))

    def _two_looks(self, check: Check, wants: Mapping[str, object]) -> tuple[Look, Look | None]:
        """What stands now, and what stood so long ago that the check's rates mean something."""
        least = self._least(check, wants)
        self._window = max(self._window, least)
        kinds = [kind for kind in (*check.needs, *check.uses) if kind is not Expected]
        since = self._rates_since.get(check.id, -inf)
        earlier = {kind: self._earlier(kind, least, since) for kind in (*kinds, *EXPECTATION_SOURCES)}
        anchor = min((kind for kind in check.needs if kind is not Expected), key=self._every.__getitem__)
        now = Look(self.begun[anchor], live=True, facts=self.facts)
        told = {kind: one for kind, one in earlier.items() if one is not None}
        if anchor not in told or self.begun[anchor] - told[anchor][0] < min(least, SHORTEST_WINDOW_SECONDS):
            return now, None
        if any(kind not in told for kind in check.needs if kind is not Expected):
            return now, None
        return now, Look(told[anchor][0], live=True, facts={kind: value for kind, (_, value) in told.items()})

    def _earlier(self, kind: type, least: float, since: float) -> tuple[float, object] | None:
        kept = [one for one in self._before.get(kind, ()) if one[0] > since]
        until = self.begun.get(kind, 0.0) - least
        return next((one for one in reversed(kept) if one[0] <= until), kept[0] if kept else None)

    def _keep_for_rates(self, kind: type, one: Observation) -> None:
        """Move the observation that this one takes the place of aside, unless one is kept from shortly before it."""
        if kind not in self.facts or kind not in self._rated:
            return
        kept = self._before.setdefault(kind, deque())
        is_first = bool(kept) and kept[-1][0] <= self._forgot_at < self.begun[kind]
        if not kept or is_first or self.begun[kind] - kept[-1][0] >= RATE_SAMPLE_SECONDS:
            kept.append((self.begun[kind], self.facts[kind]))
        while len(kept) > 1 and kept[1][0] <= one.began - self._window:
            kept.popleft()


def _alike(one: object, other: object) -> bool:
    """Whether two observations show the same; when they were made is no matter."""
    if not isinstance(one, Shown) or type(one) is not type(other):
        return one == other
    theirs = raw(other)
    return all(value == theirs[name] for name, value in raw(one).items() if name != "at")


def unanswered(kind: type, value: object) -> Unreadable | None:
    """Why it was observed in vain: as a whole, or as a record whose keeper was too slow for a part of it."""
    if isinstance(value, Unreadable):
        return value
    return (
        next((part for part in check_round.unreadables(value) if part.kind in TRANSIENT_CAUSES), None)
        if kind in RECORDS
        else None
    )
