"""What stands between looks: which checks are judged anew, which looks count, what rates are reckoned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

import pytest

from nodeprep.agent.latest_facts import LatestFacts
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.repair_choice import LastLook
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.job_profile import NO_PROFILE
from nodeprep.model import (
    NO_ACCESS,
    NODE,
    Check,
    Confirmation,
    Fact,
    Reason,
    Seen,
    Severity,
    Shown,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    guarded,
    shown,
)
from nodeprep.observer import Observation
from nodeprep.values import replace


@shown
class Port(Shown):
    """A fact with a value and the time at which it was read."""

    at: float
    value: int


@shown
class Bus(Shown):
    """Another."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class Want:
    """The least time that means something."""

    over: float = 60.0


IMDS = Fact(Imds, lambda _: None, every=300.0, rest=15.0)
PORT = Fact(Port, lambda _: None, every=10.0)
BUS = Fact(Bus, lambda _: None, every=60.0)
Judge = Callable[[Seen], Iterator[Verdict]]
SAID = ("Value", "Grown", "Said", "Bad")  # by the checks of these tests, with any status


def is_one(seen: Seen) -> Iterator[Verdict]:
    status = Status.OK if seen[Port].value == 1 else Status.FAIL
    yield Verdict(NODE, status, "Value", f"{seen[Port].value}")


def counted(calls: list[int]) -> Judge:
    def judge(seen: Seen) -> Iterator[Verdict]:
        calls.append(seen[Port].value)
        yield from is_one(seen)

    return judge


def growth(seen: Seen) -> Iterator[Verdict]:
    assert seen.before is not None
    grown = seen[Port].value - seen.before[Port].value
    yield Verdict(NODE, Status.FAIL if grown else Status.OK, "Grown", f"{grown} in {seen.seconds:g} s")


def check(judge: Judge = is_one, *needs: type, name: str = "a.b", rates: bool = False, over: float = 10.0) -> Check:
    return Check(
        id=name,
        question="?",
        why="",
        fix="",
        source="",
        severity=Severity.GATE,
        stage=Stage.DEVICE,
        confirmation=Confirmation.FAST,
        needs=needs or (Port,),
        judge=judge,
        reasons=tuple(Reason(word, status) for word in SAID for status in Status),
        rates=rates,
        window=lambda _: over,
    )


def port(at: float, value: int) -> Observation:
    return Observation(PORT, at, 0.001, Port(at, value))


def bus(at: float, value: int) -> Observation:
    return Observation(BUS, at, 0.001, Bus(at, value))


def told(latest: LatestFacts, *observations: Observation) -> frozenset[type]:
    """Take what was observed and judge it."""
    changed = latest.take(observations)
    latest.judge(frozenset(one.fact.kind for one in observations), changed, NO_PROFILE, {})
    return changed


def words(latest: LatestFacts) -> list[str]:
    return [f"{one.check} {one.status} {one.verdict.message}" for one in latest.findings()]


def test_a_check_waits_until_all_that_it_needs_was_seen() -> None:
    latest = LatestFacts((check(is_one, Port, Bus),))
    told(latest, port(1.0, 1))
    assert words(latest) == []
    told(latest, bus(2.0, 1))
    assert words(latest) == ["a.b ok 1"]


def test_what_shows_the_same_is_not_judged_again() -> None:
    calls: list[int] = []
    latest = LatestFacts((check(counted(calls)),))
    for at, value in enumerate((1, 1, 1, 1, 2, 2, 2)):
        told(latest, port(float(at), value))
    assert calls == [1, 1, 2, 2], "once, and once more with a look before it; the time of reading is no change"


def test_a_check_may_hold_two_looks_against_each_other() -> None:
    """As rdma.sources-agree does: what differs in both looks is a fault, what differs in one is on its way."""

    def judge(seen: Seen) -> Iterator[Verdict]:
        both = seen.before is not None and seen.before[Port].value == seen[Port].value == 2
        yield Verdict(NODE, Status.WARN if both else Status.OK, "Said", str(both))

    latest = LatestFacts((check(judge),))
    heard = []
    for at, value in enumerate((1, 1, 2, 2, 2, 1)):
        told(latest, port(float(at), value))
        heard.append(latest.findings()[0].status)
    assert heard == [Status.OK, Status.OK, Status.OK, Status.WARN, Status.WARN, Status.OK]


def test_all_is_judged_anew_when_the_profile_changes() -> None:
    calls: list[int] = []
    latest = LatestFacts((check(counted(calls)),))
    told(latest, port(1.0, 1))
    latest.judge(frozenset(), frozenset(), NO_PROFILE, {}, anew=True)
    assert calls == [1, 1]


def test_a_look_counts_once() -> None:
    latest = LatestFacts((check(),))
    told(latest, port(1.0, 1))
    assert latest.fresh(1.5) == {"a.b": CheckObservation(1.0, 1.0)}
    assert latest.fresh(1.5) == {}
    told(latest, port(2.0, 1))
    assert latest.fresh(2.5) == {"a.b": CheckObservation(2.0, 2.0)}, "also if it shows the same"


def test_a_failure_that_began_too_early_does_not_count_and_leaves_a_doubt() -> None:
    latest = LatestFacts((check(),))
    told(latest, port(1.0, 2))
    assert latest.fresh(1.5, since=1.2) == {}
    assert latest.has_doubts, "so that the next look is reconciled although it says the same"
    told(latest, port(2.0, 2))
    assert latest.fresh(2.5, since=1.2) == {"a.b": CheckObservation(2.0, 2.0)}
    assert not latest.has_doubts


def test_a_pass_and_a_blind_look_that_began_too_early_count() -> None:
    latest = LatestFacts((check(),))
    for value in (port(1.0, 1), replace(port(1.1, 1), value=Unreadable(Why.TIMEOUT, "/sys"))):
        told(latest, value)
        assert set(latest.fresh(1.5, since=1.2)) == {"a.b"}
    assert not latest.has_doubts


def test_what_was_looked_at_before_anybody_asked_counts_too() -> None:
    latest = LatestFacts((check(is_one, Port, Bus),))
    told(latest, port(1.0, 1))
    told(latest, bus(1.2, 1))
    assert latest.fresh(1.5) == {"a.b": CheckObservation(1.0, 1.2)}


def test_what_was_looked_at_before_anybody_judged_it_counts_too() -> None:
    latest = LatestFacts((check(),))
    changed = latest.take([port(1.0, 1)])
    assert latest.fresh(1.2) == {}
    latest.judge(frozenset({Port}), changed, NO_PROFILE, {})
    assert latest.fresh(1.5) == {"a.b": CheckObservation(1.0, 1.0)}, "as a check that another profile asks for"


def test_a_check_that_cannot_be_run_is_tried_again_when_what_it_needs_changed() -> None:
    latest = LatestFacts((check(is_one, Port),))
    not_asked = Observation(PORT, 1.0, 0.0, Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS))
    told(latest, not_asked)
    assert list(latest.skipped) == ["a.b"]
    changed = latest.take([bus(2.0, 1)])
    assert not latest.judge(frozenset({Bus}), changed, NO_PROFILE, {}), "nothing can be another than before"
    told(latest, port(3.0, 2))
    assert words(latest) == ["a.b fail 2"]
    assert not latest.skipped


def test_a_judgement_that_says_the_same_is_no_news() -> None:
    """Counters change with each look, and on a healthy node nothing follows from it: no report is made again."""
    latest = LatestFacts((check(is_one, Port, Bus),))
    told(latest, port(1.0, 1), bus(1.0, 1))
    findings = latest.findings()
    changed = latest.take([bus(2.0, 2)])
    assert changed == {Bus}
    assert not latest.judge(changed, changed, NO_PROFILE, {})
    assert latest.findings() is findings
    changed = latest.take([port(3.0, 2)])
    assert latest.judge(changed, changed, NO_PROFILE, {})
    assert words(latest) == ["a.b fail 2"]


def test_half_a_look_does_not_count_and_raises_a_doubt() -> None:
    latest = LatestFacts((check(is_one, Port, Bus),))
    told(latest, port(1.0, 1), bus(1.0, 1))
    assert latest.fresh(1.5)
    told(latest, port(5.0, 2))
    assert words(latest) == ["a.b fail 2"]
    assert latest.fresh(5.5) == {}
    assert latest.doubtful(5.0, 5.5) == {Bus}
    told(latest, bus(5.6, 1))
    assert latest.fresh(6.0) == {"a.b": CheckObservation(5.0, 5.6)}
    assert latest.doubtful(5.0, 6.0) == set()


def test_no_doubt_where_nothing_new_is_said() -> None:
    latest = LatestFacts((check(is_one, Port, Bus),))
    told(latest, port(1.0, 1), bus(1.0, 1))
    latest.fresh(1.5)
    told(latest, port(5.0, 1))
    assert latest.doubtful(5.0, 5.5) == set()


def test_a_fact_that_turns_unreadable_is_a_change() -> None:
    latest = LatestFacts((check(),))
    told(latest, port(1.0, 1))
    blind = Observation(PORT, 2.0, 3.0, Unreadable(Why.TIMEOUT, "Port"))
    assert told(latest, blind) == {Port}
    assert [one.status for one in latest.findings()] == [Status.UNKNOWN]
    told(latest, port(3.0, 1))
    assert words(latest) == ["a.b ok 1"]


@pytest.mark.parametrize(
    ("looks", "over", "expected"),
    [
        pytest.param([(0.0, 1)], 10.0, [], id="one look gives no rate"),
        pytest.param([(0.0, 1), (10.0, 3)], 10.0, ["a.b fail 2 in 10 s"], id="two do"),
        pytest.param([(0.0, 1), (10.0, 3), (20.0, 3)], 10.0, ["a.b ok 0 in 10 s"], id="from one to the next"),
        pytest.param([(0.0, 1), (10.0, 3), (10.5, 3)], 10.0, ["a.b fail 2 in 10.5 s"], id="not over half a second"),
        pytest.param(
            [(float(at), 1) for at in range(0, 70, 10)] + [(70.0, 2)], 60.0, ["a.b fail 1 in 60 s"], id="a long window"
        ),
        pytest.param([(0.0, 1), (10.0, 2)], 60.0, ["a.b fail 1 in 10 s"], id="as long as there was"),
        pytest.param(
            [(at / 10, int(at >= 55)) for at in range(100)],
            1.0,
            ["a.b fail 1 in 4.9 s"],
            id="what lies close is not kept",
        ),
    ],
)
def test_rates(looks: list[tuple[float, int]], over: float, expected: list[str]) -> None:
    latest = LatestFacts((check(growth, rates=True, over=over),))
    for at, value in looks:
        told(latest, port(at, value))
    assert words(latest) == expected


def test_no_event_is_lost_between_two_looks_at_a_rate() -> None:
    """Whenever the counter grows, one look at least says so."""
    latest = LatestFacts((check(growth, rates=True),))
    seen = 0
    for step in range(200):
        told(latest, port(step * 1.7, int(step >= 100)))
        seen += any("fail" in line for line in words(latest))
    assert seen >= 1


def record(at: float, value: int | None) -> Observation:
    """What a service told, or that it did not answer."""
    return Observation(IMDS, at, 0.001, Unreadable(Why.TIMEOUT, "Imds") if value is None else value)


def test_a_slow_metadata_service_is_asked_again_before_its_period_is_over() -> None:
    """A closed gate is not to wait five minutes for it."""
    slow = Imds(20.0, guarded(Unreadable(Why.TIMEOUT, "http://100.100.100.200/latest/meta-data/instance-id")), None)
    latest = LatestFacts(())
    told(latest, Observation(IMDS, 20.0, 2.3, slow))
    assert latest.asked_again_at() == {Imds: 35.0}
    told(latest, Observation(IMDS, 35.0, 2.3, slow))
    assert latest.asked_again_at() == {Imds: 65.0}
    answered = Imds(65.0, None, None)
    told(latest, Observation(IMDS, 65.0, 0.1, answered))
    assert latest.asked_again_at() == {}
    told(latest, Observation(IMDS, 90.0, 2.3, slow))
    assert latest.facts[Imds] is answered, "for a minute"
    told(latest, Observation(IMDS, 130.0, 2.3, slow))
    assert latest.facts[Imds] is slow


def test_metadata_that_is_denied_is_not_asked_for_in_haste() -> None:
    denied = Imds(20.0, guarded(Unreadable(Why.DENIED, "http://100.100.100.200/latest/api/token", detail="403")), None)
    latest = LatestFacts(())
    told(latest, Observation(IMDS, 20.0, 0.1, denied))
    assert latest.asked_again_at() == {}


def test_a_record_stands_for_a_minute_when_its_keeper_fails() -> None:
    """What the cloud said a moment ago of an ENI is no reason to look away from its link."""

    def judge(seen: Seen) -> Iterator[Verdict]:
        assert seen[Imds] is not None
        yield from is_one(seen)

    latest = LatestFacts((check(judge, Port, Imds),))
    told(latest, port(1.0, 1), record(1.0, 7))
    latest.fresh(1.5)
    told(latest, record(20.0, None))
    assert words(latest) == ["a.b ok 1"]
    assert latest.asked_again_at() == {Imds: 35.0}
    told(latest, port(21.0, 2))
    assert latest.fresh(21.5) == {"a.b": CheckObservation(21.0, 21.0)}
    told(latest, record(35.0, 7))
    assert latest.asked_again_at() == {}
    told(latest, record(70.0, None))
    told(latest, record(96.0, None))
    assert [one.status for one in latest.findings()] == [Status.UNKNOWN], "no longer than that"


def test_a_device_that_does_not_answer_twice_is_evidence() -> None:
    """Whoever judges gets the look before, in which it did not answer either."""
    seen_before: list[object] = []

    def judge(seen: Seen) -> Iterator[Verdict]:
        seen_before.append(seen.before and seen.before._values[Port])
        yield from is_one(seen)

    latest = LatestFacts((check(judge),))
    silent = Unreadable(Why.TIMEOUT, "Port")
    told(latest, Observation(PORT, 1.0, 3.0, silent))
    told(latest, Observation(PORT, 31.0, 3.0, silent))
    assert seen_before == [None, silent]


def test_consequences_fold_over_checks_that_were_judged_at_different_times() -> None:
    root = check(is_one, Port, name="a.root")
    follows = check(lambda seen: iter([Verdict(NODE, Status.FAIL, "Bad", str(seen[Bus].value))]), Bus, name="b.follows")
    follows = replace(follows, after=("a.root",))
    latest = LatestFacts((root, follows))
    told(latest, bus(1.0, 1))
    told(latest, port(2.0, 2))
    assert [(one.check, one.root) for one in latest.findings()] == [("a.root", None), ("b.follows", "a.root")]


def test_the_last_look_is_what_the_newest_facts_say_also_where_no_look_counts() -> None:
    """Facts of a check come one after the other. A look counts when all of them are newer than the one before."""
    latest = LatestFacts((check(is_one, Port, Bus),))
    assert latest.last_look("a.b") == LastLook({Port: -inf, Bus: -inf})
    told(latest, port(90.0, 0), bus(80.0, 0))
    assert latest.fresh(90.0) == {"a.b": CheckObservation(80.0, 90.0)}
    told(latest, bus(85.0, 0))
    assert latest.fresh(91.0) == {}
    assert latest.last_look("a.b") == LastLook({Port: 90.0, Bus: 85.0}, frozenset({NODE}))
    told(latest, port(95.0, 1))
    assert latest.fresh(96.0) == {}
    assert latest.last_look("a.b") == LastLook({Port: 95.0, Bus: 85.0}, frozenset())
