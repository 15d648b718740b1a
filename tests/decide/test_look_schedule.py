"""When which fact is looked at: periods, event sources, storms, looks that are wanted, facts that are under way."""

from __future__ import annotations

import itertools
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import look_schedule
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.look_schedule import EVENT_STORM_SECONDS, SECOND_LOOK_SECONDS, Schedule
from nodeprep.facts.expected.inventory import Expected
from nodeprep.model import Check, Confirmation, Fact, Severity, Stage, Topic


class Links:
    """A fact that an event source wakes."""


class Ports:
    pass


class Books:
    """A fact that others keep."""


class Slow:
    """A fact that only its period asks for."""


def nothing(_: object) -> None:
    return None


LINKS = Fact(Links, nothing, woken_by=frozenset({Topic.LINK}), every=30.0)
BOOKS = Fact(Books, nothing, woken_by=frozenset({Topic.LINK}), every=300.0, rest=15.0)
SLOW = Fact(Slow, nothing, every=60.0)


def schedule(*begun: float, every: dict[type, float] | None = None) -> Schedule:
    """Links, books and slow, last looked at then."""
    facts = (LINKS, BOOKS, SLOW)
    return Schedule(facts, every or {}, dict(zip((fact.kind for fact in facts), begun, strict=False)))


def due(of: Schedule, now: float, busy: frozenset[type] = frozenset()) -> list[str]:
    return [fact.kind.__name__ for fact in of.due(now, busy)]


def test_everything_is_due_at_the_start() -> None:
    assert due(schedule(), 0.0) == ["Links", "Books", "Slow"]
    assert schedule().next() == -inf


@pytest.mark.parametrize(
    ("now", "every", "expected"),
    [
        pytest.param(129.9, None, [], id="nothing before its period is over"),
        pytest.param(130.0, None, ["Links"], id="the shortest period"),
        pytest.param(160.0, None, ["Links", "Slow"], id="two periods"),
        pytest.param(105.0, {Links: 5.0}, ["Links"], id="the operator's period"),
        pytest.param(400.0, None, ["Links", "Books", "Slow"], id="all"),
    ],
)
def test_period(now: float, every: dict[type, float] | None, expected: list[str]) -> None:
    assert due(schedule(100.0, 100.0, 100.0, every=every), now) == expected


HEARD = [
    # topics that are heard               the operator's period  due at 130 s, of looks at 100 s
    (frozenset(), None, ["Links", "Ports"]),
    (frozenset({Topic.LINK}), None, ["Ports"]),  # one of its two topics is not heard
    (frozenset({Topic.LINK, Topic.RDMA}), None, []),
    (frozenset({Topic.LINK, Topic.RDMA}), {Ports: 20.0}, ["Ports"]),
]


@pytest.mark.parametrize(("heard", "every", "expected"), HEARD, ids=range(len(HEARD)))
def test_what_events_tell_is_polled_less_often(heard: frozenset[Topic], every: Any, expected: list[str]) -> None:
    links = Fact(Links, nothing, woken_by=frozenset({Topic.LINK}), every_heard=60.0)
    ports = Fact(Ports, nothing, woken_by=frozenset({Topic.LINK, Topic.RDMA}), every_heard=60.0)
    plan = Schedule((links, ports), every or {}, {Links: 100.0, Ports: 100.0})
    plan.heard = heard
    assert due(plan, 130.0) == expected
    assert due(plan, 160.0) == ["Links", "Ports"]
    plan.notify([Topic.LINK], 110.0)
    assert due(plan, 110.0) == ["Links", "Ports"], "an event asks at once"


def test_what_falls_due_in_a_moment_is_looked_at_with_the_rest() -> None:
    plan = schedule(100.0, 100.0, 70.4)
    assert due(plan, 129.9) == [], "nothing is due yet, so nobody comes before his time"
    assert due(plan, 130.0) == ["Links", "Slow"]
    assert due(schedule(100.0, 100.0, 70.6, every={Slow: 61.0}), 130.0) == ["Links"], "of no common period"
    rested = schedule(100.0, 100.0, every={Books: 5.0})
    rested.begun_at[Books] = 115.2
    assert due(rested, 130.0) == ["Links", "Slow"], "it rests"


@pytest.mark.parametrize(
    ("begun", "now", "expected"),
    [
        pytest.param((100.0, 100.0, 85.0), 130.0, ["Links", "Slow"], id="half of the shorter period early"),
        pytest.param((100.0, 100.0, 85.1), 130.0, ["Links"], id="earlier than that"),
        pytest.param((104.0, 100.0, 70.0), 130.0, ["Links", "Slow"], id="the shorter one joins the longer one"),
        pytest.param((116.0, 100.0, 70.0), 130.0, ["Slow"], id="nor that one earlier"),
    ],
)
def test_a_fact_joins_a_round_of_another_one(begun: tuple[float, ...], now: float, expected: list[str]) -> None:
    assert due(schedule(*begun), now) == expected


def test_nobody_joins_a_round_that_an_event_began() -> None:
    plan = schedule(100.0, 100.0, 61.0)
    plan.notify({Topic.LINK}, 120.0)
    assert due(plan, 120.0) == ["Links", "Books"]


@given(st.lists(st.tuples(st.sampled_from([10.0, 30.0, 60.0]), st.floats(0.0, 60.0)), min_size=1, max_size=12))
def test_facts_share_their_rounds_after_a_while(given: list[tuple[float, float]]) -> None:
    """However looks began: six rounds a minute at most, nobody waits longer than before, hardly any look is more."""
    kinds = [type(f"Kind{number}", (), {}) for number in range(len(given))]
    facts = tuple(Fact(kind, nothing, every=every) for kind, (every, _) in zip(kinds, given, strict=True))
    plan = Schedule(
        facts, begun_at={kind: -every * share / 60 for kind, (every, share) in zip(kinds, given, strict=True)}
    )
    rounds, looks = list[float](), dict[type, list[float]]()
    while (now := plan.next()) <= 600.0:
        begun = plan.due(now)
        plan.start(begun, now)
        rounds.append(now)
        for fact in begun:
            looks.setdefault(fact.kind, []).append(now)
    assert len([at for at in rounds if at > 300.0]) <= 30 + 1
    for fact in facts:
        times = looks[fact.kind]
        assert max(after - before for before, after in itertools.pairwise(times)) < fact.every + 1e-6
        assert len(times) <= 600.0 / fact.every + 3


def test_wishes_come_at_their_time_and_no_sooner() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.request([Slow], 130.3)
    assert due(plan, 130.0) == ["Links"], "a look before its time would not count"


def test_it_is_calm_where_nothing_rang_and_nothing_is_wanted() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    assert plan.is_calm(130.0)
    plan.notify({Topic.LINK}, 130.0)
    assert not plan.is_calm(130.0), "a look is wanted"
    plan.start(plan.due(130.0), 130.0)
    assert not plan.is_calm(130.9), "what rings now is not heard"
    assert plan.is_calm(131.0)
    plan.notify({Topic.LINK}, 140.0)
    plan.start(plan.due(140.0), 140.0)
    plan.notify({Topic.LINK}, 140.5)
    assert not plan.is_calm(141.0), "an event source waits to be answered"
    wanting = schedule(100.0, 100.0, 100.0)
    wanting.request([Slow], 200.0)
    assert not wanting.is_calm(130.0)


def test_an_event_source_makes_what_it_wakes_due_at_once() -> None:
    plan = schedule(100.0, 50.0, 100.0)
    plan.notify({Topic.LINK}, 110.0)
    assert due(plan, 110.0) == ["Links", "Books"]
    plan.start(plan.due(110.0), 110.0)
    assert due(plan, 110.0) == []
    assert plan.next() == 140.0


def test_a_topic_that_nothing_listens_to_wakes_nothing() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.notify({Topic.KERNEL_LOG}, 110.0)
    assert due(plan, 110.0) == []


@pytest.mark.parametrize(("longest", "now"), [(inf, 115.0), (20.0, 115.0), (2.0, 102.0)])
def test_only_tests_shorten_the_rest_of_what_others_keep(longest: float, now: float) -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.longest_rest = longest
    plan.request((Books,), 101.0)
    assert (plan.next(), due(plan, now - 0.1), due(plan, now)) == (now, [], ["Books"])


def test_what_others_keep_rests_between_two_looks() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.notify({Topic.LINK}, 105.0)
    assert due(plan, 105.0) == ["Links"]
    plan.start(plan.due(105.0), 105.0)
    assert plan.next() == 115.0
    assert due(plan, 115.0) == ["Books"]


def test_a_storm_costs_one_look_a_second_and_one_more() -> None:
    plan = schedule(0.0, 0.0, 0.0)
    looks = []
    for event in range(10_000):
        now = 10.0 + event / 10_000 * 5.0
        plan.notify({Topic.LINK}, now)
        begun = [fact for fact in plan.due(now) if fact is LINKS]
        plan.start(begun, now)
        looks += [now] * len(begun)
    assert looks == pytest.approx([10.0, 10.2, 11.2, 12.2, 13.2, 14.2], abs=0.01)


@pytest.mark.parametrize(
    ("others", "fault", "look"),
    [
        pytest.param([], 10.0, 10.0, id="the first event is the fault's"),
        pytest.param([10.0], 10.05, 10.2, id="another event came just before"),
        pytest.param([10.0], 10.5, 10.5, id="another event came before"),
        pytest.param([8.5, 10.0], 10.05, 11.0, id="and one a moment before that: no calm"),
        pytest.param([8.0, 10.0], 10.05, 10.2, id="and one long before that"),
        pytest.param([10.0, 10.1], 10.25, 11.2, id="a storm"),
        pytest.param([10.0, 10.3, 12.3], 12.35, 12.5, id="calm again"),
    ],
)
def test_a_fault_behind_other_events_is_looked_at(others: list[float], fault: float, look: float) -> None:
    """A look that an earlier event started says nothing of a fault that comes after it."""
    plan = schedule(0.0, 0.0, 0.0)
    told = sorted([*others, fault])
    begun = []
    for step in range(800, 1500):
        now = step / 100
        plan.notify({Topic.LINK} if told and told[0] <= now else (), now)
        told = [at for at in told if at > now]
        due = [fact for fact in plan.due(now) if fact is LINKS]
        plan.start(due, now)
        begun += [now] * len(due)
    assert next(at for at in begun if at >= fault) == pytest.approx(look, abs=0.011)


def test_the_first_event_is_never_put_off_and_the_last_is_never_lost() -> None:
    plan = schedule(0.0, 0.0, 0.0)
    plan.notify({Topic.LINK}, 10.0)
    plan.start(plan.due(10.0), 10.0)
    plan.notify({Topic.LINK}, 10.1)
    assert "Links" not in due(plan, 10.15)
    assert plan.next() == plan.unmuted_at(10.1) == 10.0 + SECOND_LOOK_SECONDS
    assert plan.muted_topics(10.1) == {Topic.LINK}
    plan.notify((), 10.2)
    plan.start(plan.due(10.2), 10.2)
    plan.notify({Topic.LINK}, 10.3)
    assert "Links" not in due(plan, 11.1)
    assert plan.next() == plan.unmuted_at(10.3) == 10.2 + EVENT_STORM_SECONDS
    assert plan.muted_topics(10.3) == {Topic.LINK}
    plan.notify((), 11.2)
    assert "Links" in due(plan, 11.2)


@given(st.lists(st.floats(0.001, 4.0), min_size=2, max_size=40))
def test_no_events_start_more_than_one_look_a_second(pauses: list[float]) -> None:
    """However they come: of any looks, at most two more than seconds pass from the first to the last."""
    plan, now, begun = schedule(0.0, 0.0, 0.0), 1.0, list[float]()
    for pause in pauses:
        for at in (now, *(one for one in [plan.unmuted_at(now)] if one < now + pause)):
            plan.notify({Topic.LINK}, at)
            begun += [at] * (plan.answered_at[Topic.LINK] == at)
            plan.start(plan.due(at), at)
        now += pause
    for first, at in enumerate(begun):
        for last in range(first, len(begun)):
            assert last - first + 1 <= begun[last] - at + 2 + 1e-6


def test_a_storm_of_one_topic_puts_off_no_other() -> None:
    config = Fact(Slow, nothing, woken_by=frozenset({Topic.CONFIG}), every=60.0)
    plan = Schedule((LINKS, config), begun_at={Links: 0.0, Slow: 0.0})
    plan.notify({Topic.CONFIG}, 10.0)
    plan.start(plan.due(10.0), 10.0)
    plan.notify({Topic.CONFIG, Topic.LINK}, 10.1)
    assert due(plan, 10.1) == ["Links"]


def test_a_wanted_look_waits_for_its_time_and_is_wanted_once() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.request([Links], 100.5)
    assert due(plan, 100.4) == []
    assert plan.next() == 100.5
    assert due(plan, 100.5) == ["Links"]
    plan.start(plan.due(100.5), 100.5)
    plan.request([Links], 100.5)
    assert plan.next() == 130.5


def test_the_sooner_of_two_wishes_holds() -> None:
    plan = schedule(100.0, 100.0, 100.0)
    plan.request([Slow], 120.0)
    plan.request([Slow], 110.0)
    plan.request([Slow], 130.0)
    assert plan.next() == 110.0


def test_what_is_under_way_is_neither_due_nor_waited_for() -> None:
    plan = schedule(130.0, 100.0, 110.0)
    plan.notify({Topic.LINK}, 150.0)
    busy = frozenset({Links, Books})
    assert due(plan, 150.0, busy) == []
    assert plan.next(busy) == 170.0
    assert due(plan, 150.0) == ["Links", "Books"], "the event counts once the fact has returned"


@given(st.lists(st.tuples(st.floats(0.001, 20.0), st.sampled_from(["ring", "want", "look"])), max_size=60))
def test_no_event_is_forgotten(steps: list[tuple[float, str]]) -> None:
    """After whatever happens, a look at the links begins no later than a second after the last event."""
    plan, now, pending = schedule(0.0, 0.0, 0.0), 1.0, -inf
    for pause, what in steps:
        now += pause
        if what == "ring":
            plan.notify({Topic.LINK}, now)
            pending = now
        elif what == "want":
            plan.request([Slow], now + 1.0)
        plan.notify((), now)
        if plan.begun_at[Links] >= pending:
            pending = -inf
        plan.start(plan.due(now), now)
    end = now + EVENT_STORM_SECONDS
    plan.notify((), end)
    plan.start(plan.due(end), end)
    assert plan.begun_at[Links] >= pending


def check(*needs: type, confirmation: Confirmation = Confirmation.FAST) -> Check:
    return Check(
        "a.b", "?", "why", "fix", "source", Severity.GATE, Stage.DEVICE, confirmation, needs, lambda _: iter(())
    )


@pytest.mark.parametrize(
    ("of", "begun", "before", "expected"),
    [
        pytest.param(check(Links), {Links: 5.0}, None, CheckObservation(5.0, 5.0), id="the first look"),
        pytest.param(check(Links), {}, None, None, id="never seen"),
        pytest.param(check(Links, Slow), {Links: 5.0}, None, None, id="one of two never seen"),
        pytest.param(
            check(Links, Slow),
            {Links: 5.0, Slow: 4.0},
            None,
            CheckObservation(4.0, 5.0),
            id="from the first to the last",
        ),
        pytest.param(
            check(Links), {Links: 5.0}, CheckObservation(5.0, 5.0), None, id="the same look does not count twice"
        ),
        pytest.param(
            check(Links, Slow), {Links: 9.0, Slow: 4.0}, CheckObservation(4.0, 5.0), None, id="half of it is stale"
        ),
        pytest.param(
            check(Links, Slow), {Links: 9.0, Slow: 5.0}, CheckObservation(4.0, 5.0), None, id="as old as the one before"
        ),
        pytest.param(
            check(Links, Slow),
            {Links: 9.0, Slow: 6.0},
            CheckObservation(4.0, 5.0),
            CheckObservation(6.0, 9.0),
            id="all of it is fresh",
        ),
        pytest.param(
            check(Links, Expected),
            {Links: 5.0},
            None,
            CheckObservation(5.0, 5.0),
            id="what is derived is not looked at",
        ),
        pytest.param(
            check(Links, Books),
            {Links: 99.0, Books: 50.0},
            CheckObservation(60.0, 60.0),
            CheckObservation(99.0, 99.0),
            id="a recent record",
        ),
        pytest.param(
            check(Links, Books), {Links: 99.0, Books: 30.0}, CheckObservation(60.0, 60.0), None, id="an old record"
        ),
        pytest.param(
            check(Links, Books, confirmation=Confirmation.RECORDS),
            {Links: 99.0, Books: 50.0},
            CheckObservation(60.0, 60.0),
            None,
            id="who compares books wants them fresh",
        ),
        pytest.param(
            check(Books), {Books: 50.0}, CheckObservation(50.0, 50.0), None, id="nothing but a record, and the same one"
        ),
    ],
)
def test_glance(
    of: Check, begun: dict[type, float], before: CheckObservation | None, expected: CheckObservation | None
) -> None:
    assert look_schedule.check_observation(of, begun, before, (Books,), 100.0) == expected


def test_what_is_not_fresh_is_to_be_looked_at() -> None:
    begun: dict[type, float] = {Links: 99.0, Slow: 10.0, Books: 30.0}
    assert look_schedule.stale_facts(check(Links, Slow, Books), begun, 98.0, (Books,), 100.0) == {Slow, Books}
    assert look_schedule.stale_facts(check(Links, Slow, Books), begun | {Books: 50.0}, 98.0, (Books,), 100.0) == {Slow}
    books = check(Links, Books, confirmation=Confirmation.RECORDS)
    assert look_schedule.stale_facts(books, begun | {Books: 50.0}, 98.0, (Books,), 100.0) == {Books}
