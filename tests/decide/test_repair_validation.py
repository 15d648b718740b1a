"""Whether a remedy helped: passes of its own case, after the play, while what it disturbs tells nothing."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import AgentState, Case, NodeState, PassStreak
from nodeprep.decide import gate_readiness, reconciliation, repair_validation
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.decide.repair_policy import RepairWaits
from nodeprep.decide.repair_validation import ValidationTerms
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Remedy, Status
from nodeprep.values import replace
from tests.agent_state_values import BOOT, attempt, check, checks, finding, observation, past
from tests.repair_values import LINK_UP, NOW, PORT, WALL, clock, unhealthy, wrong

FREE: dict[str, Any] = {"convicted_at": None, "flaps": (NOW - 1,), "passes": 3, "passing_since": NOW - 31}
FAILS = ((NOW - 1, True),)


def judged(case: Case | None, ago: float, **different: Any) -> AgentState:
    """The state after an attempt was judged that validates for so many seconds."""
    cases = () if case is None else (case,)
    state = unhealthy(*cases, attempt=attempt("validating", step_since=NOW - ago, **different))
    return repair_validation.judged(state, ValidationTerms(clock()))


OUTCOMES: list[tuple[Case | None, float, str]] = [
    # the case now, seconds since the play ended, the outcome, "" for not yet
    (wrong(looks=()), 0.0, ""),
    (wrong(looks=FAILS), 119.9, ""),
    (wrong(looks=FAILS), 120.0, "unreleased"),
    (wrong(looks=(), blind=True), 599.9, ""),  # the API server is away, and with it the records of the case
    (wrong(looks=(), blind=True), 600.0, "cut-off"),
    (wrong(looks=FAILS, blind=True), 599.9, ""),
    (wrong(looks=FAILS, blind=True), 600.0, "cut-off"),
    (wrong(looks=()), 599.9, ""),  # the agent was away
    (wrong(looks=()), 600.0, "cut-off"),
    # half a minute of passes is on its way, also where nobody could look for long before
    (wrong(looks=((NOW - 1, False),), passes=2, passing_since=NOW - 20), 9999.0, ""),
    (wrong(looks=((NOW - 1, False),), passes=99, passing_since=NOW - 599.9), 9999.0, ""),
    (wrong(looks=((NOW - 1, False),), passes=99, passing_since=NOW - 600), 9999.0, "cut-off"),
    (wrong(**FREE), 29.9, ""),  # passes over less than half a minute, whatever the configuration asks
    (wrong(**FREE), 30.0, "released"),
    (wrong(**FREE), 9999.0, "released"),
    (wrong(Remedy("driver_bind"), looks=FAILS, reason="NotActive"), 1.0, "changed"),
    (wrong(Remedy("driver_bind"), looks=FAILS), 1.0, "changed"),
    (wrong(Remedy("driver_bind"), looks=FAILS, blind=True), 1.0, ""),
    (wrong(None, looks=FAILS, reason="NotActive"), 119.9, ""),  # a link that was set up and trains
    (wrong(None, looks=FAILS, reason="NotActive"), 120.0, "changed"),
    (wrong(looks=FAILS, reason="NotActive"), 119.9, ""),  # a daemon that was restarted and starts
    (wrong(looks=FAILS, reason="NotActive"), 120.0, "changed"),
    (wrong(None, looks=FAILS), 1.0, ""),  # a daemon that was restarted and fails at its start
    (wrong(None, looks=FAILS), 120.0, "unreleased"),
    (wrong(looks=(), reason="NotActive"), 1.0, ""),  # as before the play: nothing was seen since
    (wrong(looks=((NOW - 1, False),), reason="NotActive", passes=1, passing_since=NOW - 1), 1.0, ""),
    (None, 1.0, "cut-off"),  # a reset came between
    (wrong(place="0000:ff:00.0"), 1.0, "cut-off"),
    (wrong(looks=FAILS, latched="3 times"), 120.0, "unreleased"),
    (wrong(looks=((NOW - 1, False),), passes=3, latched="3 times"), 31.0, "changed"),  # it helped, each time
]


@pytest.mark.parametrize(("case", "ago", "outcome"), OUTCOMES)
def test_it_comes_out_so(case: Case | None, ago: float, outcome: str) -> None:
    after = judged(case, ago)
    assert (after.attempt is None) == bool(outcome)
    assert [one.outcome for one in after.attempts] == ([outcome] if outcome else [])


UNSEEN = [
    # seconds since the play ended, readiness.validation-limit, the outcome by a failure that was seen before this round
    (120.0, 120.0, ""),
    (719.9, 120.0, ""),
    (720.0, 120.0, "cut-off"),
    (1800.0, 1800.0, ""),
    (2399.9, 1800.0, ""),
    (2400.0, 1800.0, "cut-off"),
    (629.9, 5.0, ""),  # the passes take longer
    (630.0, 5.0, "cut-off"),
]


@pytest.mark.parametrize(("ago", "limit", "outcome"), UNSEEN)
def test_an_old_failure_judges_nothing(ago: float, limit: float, outcome: str) -> None:
    """The API server went away after the last look, or the agent was stopped for a while."""
    state = unhealthy(wrong(looks=FAILS), attempt=attempt("validating", step_since=NOW - ago))
    terms = ValidationTerms(clock(), limit=limit, is_seen=False)
    assert [one.outcome for one in repair_validation.judged(state, terms).attempts] == ([outcome] if outcome else [])


@pytest.mark.parametrize(("seen", "outcome"), [(PORT, ["unreleased"]), ("port.flap", [])])
def test_only_a_look_at_its_own_check_judges_it(seen: str, outcome: list[str]) -> None:
    rules = AgentPolicy(checks(check(PORT), check("port.flap")), (), Mode.REPAIR)
    state = unhealthy(wrong(looks=FAILS), attempt=attempt("validating", step_since=NOW - 121))
    fails = finding(PORT, Status.FAIL, remedy=LINK_UP)
    observed = Observed((fails,), {seen: observation(NOW - 1)}, full_round=True, wall=WALL)
    state, _ = reconciliation.reconcile(state, observed, rules, NOW)
    assert [one.outcome for one in state.attempts] == outcome


STARTS: list[tuple[Case, float, str]] = [
    # the case after a start, seconds since that, the outcome
    (wrong(looks=()), 59.9, ""),
    (wrong(looks=()), 60.0, "cut-off"),
    (wrong(looks=(), blind=True), 59.9, ""),
    (wrong(looks=((NOW, False),), passes=1, passing_since=NOW), 1.0, ""),
    (wrong(looks=((NOW, True),)), 1.0, "unreleased"),
]


@pytest.mark.parametrize(("case", "ago", "outcome"), STARTS)
def test_an_agent_that_was_away_for_long_looks_before_it_judges(case: Case, ago: float, outcome: str) -> None:
    after = judged(case, 700.0, heard_at=NOW - ago)
    assert [one.outcome for one in after.attempts] == ([outcome] if outcome else [])


def test_what_was_seen_before_a_start_judges_nothing() -> None:
    """Nobody looked while the agent was away, and the fault may be gone since."""
    before = unhealthy(wrong(looks=((NOW - 200, True),)), attempt=attempt("validating", step_since=NOW - 700))
    state = gate_readiness.state_at_start(before, BOOT, "uid-1", NOW)
    assert repair_validation.judged(before, ValidationTerms(clock())).attempt is None
    assert repair_validation.judged(state, ValidationTerms(clock())) is state


@pytest.mark.parametrize("step", ["ledger", "asked", "running", "odd"])
def test_nothing_is_judged_before_the_play_has_ended(step: str) -> None:
    state = unhealthy(wrong(**FREE), attempt=attempt(step, step_since=NOW - 9999))
    assert repair_validation.judged(state, ValidationTerms(clock())) is state


RAN = (past("unreleased"),)
SPANS: list[tuple[AgentState, float, float]] = [
    # state, confirmation.pass-span, what holds
    (unhealthy(), 0.0, 0.0),
    (unhealthy(attempts=(past("refused"),)), 0.0, 0.0),  # nothing ran
    *((unhealthy(attempt=attempt(step)), 0.0, 30.0) for step in ("ledger", "asked", "running", "validating", "odd")),
    (unhealthy(attempts=RAN), 0.0, 30.0),  # it may have helped too late
    (unhealthy(attempts=(past("released"),)), 29.9, 30.0),
    (unhealthy(attempts=RAN), 45.0, 45.0),
    (unhealthy(attempt=attempt("running")), 45.0, 45.0),
]


@pytest.mark.parametrize(("state", "span", "holds"), SPANS)
def test_after_a_remedy_no_configuration_shortens_the_passes(state: AgentState, span: float, holds: float) -> None:
    policy = ConfirmationPolicy(passes=1, pass_span=span)
    assert repair_validation.confirmation(state, policy, RepairWaits()) == replace(policy, pass_span=holds)
    brief = repair_validation.confirmation(state, policy, RepairWaits(passes=1.0))
    assert brief.pass_span == max(span, min(holds, 1.0))


def test_a_repaired_fault_is_believed_until_it_passed_for_so_long() -> None:
    known = checks(check(PORT))
    profile = AssignedProfile("rdma-roce", (PORT,), gating=True, rdma=True)
    rules = AgentPolicy(known, (profile,), Mode.REPAIR, confirmation=ConfirmationPolicy(passes=1, pass_span=0.0))
    state = unhealthy(wrong(looks=()), attempt=attempt("validating", step_since=NOW))
    state = replace(state, pass_streaks={PORT: PassStreak(3, 1.0, 40.0, proven=True)})
    for seconds, failing in ((5.0, False), (20.0, True), (25.0, False), (54.0, False)):
        found = (finding(PORT, Status.FAIL if failing else Status.OK, remedy=LINK_UP if failing else None),)
        observed = Observed(found, {PORT: observation(NOW + seconds)}, full_round=True, wall=WALL + seconds)
        state, _ = reconciliation.reconcile(state, observed, rules, NOW + seconds)
        assert state.attempt is not None
        assert (state.cases[0].convicted, state.gates) == (True, ())
    observed = Observed((finding(PORT, Status.OK),), {PORT: observation(NOW + 55.0)}, full_round=True, wall=WALL + 55.0)
    state, _ = reconciliation.reconcile(state, observed, rules, NOW + 55.0)
    assert [one.outcome for one in state.attempts] == ["released"]
    assert state.state is NodeState.READY


LIMITS = [(30.0, 30.0, 30.0), (5.0, 30.0, 30.0), (300.0, 30.0, 300.0), (1.0, 2.0, 2.0)]


@pytest.mark.parametrize(("limit", "passes", "after"), LIMITS)
def test_the_limit_is_no_shorter_than_the_passes(limit: float, passes: float, after: float) -> None:
    terms = ValidationTerms(clock(), RepairWaits(passes=passes), limit)
    for ago, over in ((after - 0.1, False), (after, True)):
        state = unhealthy(wrong(looks=FAILS), attempt=attempt("validating", step_since=NOW - ago))
        assert (repair_validation.judged(state, terms).attempt is None) is over


OLD, NEW = observation(NOW - 10), observation(NOW + 1)
LOOKS = {"port.state": NEW, "port.flap": NEW, "plugin.sockets": NEW}
COUNTS: list[tuple[AgentState, dict[str, CheckObservation], set[str]]] = [
    # state, looks, those that count
    (unhealthy(), LOOKS, {"port.state", "port.flap", "plugin.sockets"}),
    *((unhealthy(attempt=attempt(step)), LOOKS, {"plugin.sockets"}) for step in ("ledger", "asked", "running", "odd")),
    (unhealthy(attempt=attempt("validating", step_since=NOW)), LOOKS, {"port.state", "port.flap", "plugin.sockets"}),
    (unhealthy(attempt=attempt("validating", step_since=NOW)), {"port.state": OLD}, set()),
    (
        unhealthy(attempt=attempt("validating", step_since=NOW), disturbed={"port.flap": NOW}),
        LOOKS,
        {"port.state", "plugin.sockets"},
    ),
    (unhealthy(disturbed={"port.flap": NOW}), LOOKS, {"port.state", "plugin.sockets"}),
    (unhealthy(disturbed={"port.flap": NOW + 9}), LOOKS, {"port.state", "plugin.sockets"}),
]


@pytest.mark.parametrize(("state", "looks", "count"), COUNTS)
def test_looks_count(state: AgentState, looks: dict[str, CheckObservation], count: set[str]) -> None:
    assert set(repair_validation.counting(state, looks)) == count


SETTLES: list[tuple[dict[str, CheckObservation], set[str]]] = [
    ({}, {"port.flap", "counter.physical"}),
    ({"port.flap": NEW}, {"counter.physical"}),
    ({"port.flap": OLD}, {"port.flap", "counter.physical"}),  # it began before the end
    ({"port.flap": NEW, "counter.physical": NEW}, set()),
    ({"port.state": NEW}, {"port.flap", "counter.physical"}),
]


@pytest.mark.parametrize(("looks", "left"), SETTLES)
def test_one_look_after_the_end_settles_a_check(looks: dict[str, CheckObservation], left: set[str]) -> None:
    state = unhealthy(disturbed={"port.flap": NOW, "counter.physical": NOW})
    after = repair_validation.settled(state, looks)
    assert set(after.disturbed) == left
    assert (after is state) == (len(left) == 2)


def test_what_the_next_remedy_disturbs_too_stays_disturbed() -> None:
    state = unhealthy(disturbed={"port.flap": NOW}, attempt=attempt("running"))
    assert repair_validation.settled(state, {"port.flap": NEW}) is state
    over = replace(state, attempt=attempt("validating", step_since=NOW))
    assert not repair_validation.settled(over, {"port.flap": NEW}).disturbed


EXCUSED = [("ledger", set()), ("running", set()), ("validating", {"port.flap", "counter.physical"})]


@pytest.mark.parametrize(("step", "excused"), EXCUSED)
def test_what_it_disturbed_is_no_fault_before_it_was_judged(step: str, excused: set[str]) -> None:
    assert repair_validation.excused(unhealthy(attempt=attempt(step))) == excused
    assert repair_validation.excused(unhealthy()) == frozenset()


def validates(own: str, **different: Any) -> AgentState:
    """The play of a remedy for this check, that disturbs terway.pod, is over since NOW."""
    return unhealthy(attempt=attempt("validating", check=own, disturbs=("terway.pod",), step_since=NOW), **different)


KNOWN = checks(check("port.state", needs=(Rdma, Links)), check("terway.pod", needs=(Cluster,)))
WANTED: list[tuple[AgentState, dict[type, float], dict[type, float]]] = [
    # state, when each fact was last looked at, when the next look is wanted
    (unhealthy(), {}, {}),
    (unhealthy(attempt=attempt("running")), {}, {}),
    (unhealthy(attempt=attempt("validating", check="gone.check", disturbs=())), {}, {}),
    (unhealthy(attempt=attempt("validating", step_since=NOW)), {}, {Rdma: NOW, Links: NOW}),
    (unhealthy(attempt=attempt("validating", step_since=NOW)), {Rdma: NOW + 1}, {Rdma: NOW, Links: NOW}),
    (
        unhealthy(attempt=attempt("validating", step_since=NOW)),
        {Rdma: NOW + 1, Links: NOW + 2},
        {Rdma: NOW + 11, Links: NOW + 11},
    ),
    (validates("terway.pod"), {Cluster: NOW - 5}, {Cluster: NOW}),
    # what was disturbed: one look that settles it, the next at once, and from then on with the case
    (validates("port.state", disturbed={"terway.pod": NOW}), {Rdma: NOW - 1}, {Rdma: NOW, Links: NOW, Cluster: NOW}),
    (
        validates("port.state"),
        {Rdma: NOW + 1, Links: NOW + 2, Cluster: NOW + 3},
        {Rdma: NOW + 11, Links: NOW + 11, Cluster: NOW + 4},
    ),
    (
        validates("port.state", pass_streaks={"terway.pod": PassStreak()}),
        {Rdma: NOW + 1, Links: NOW + 2, Cluster: NOW + 3},
        {Rdma: NOW + 11, Links: NOW + 11, Cluster: NOW + 13},
    ),
    (
        unhealthy(attempt=attempt("running", disturbs=("terway.pod",), step_since=NOW), disturbed={"terway.pod": NOW}),
        {},
        {},
    ),
]


@pytest.mark.parametrize(("state", "begun", "wanted"), WANTED)
def test_all_facts_of_the_case_are_looked_at(
    state: AgentState, begun: dict[type, float], wanted: dict[type, float]
) -> None:
    assert repair_validation.wanted_facts(state, KNOWN, begun, NOW + 3) == wanted
