"""Loops in which a repair feeds itself, one test or more for each. Each says the guard without which it fails.

They are the eleven of the design's review: a remedy that makes the next fault, a judgement that waits for itself, a
budget that a reboot gives back.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.checks import CHECKS as ALL_CHECKS
from nodeprep.config import remedy_files
from nodeprep.decide import (
    gate_readiness,
    look_schedule,
    reconciliation,
    repair_attempt,
    repair_budget,
    repair_choice,
    repair_validation,
    rule_change,
)
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.decide.repair_attempt import LedgerSaved, StatusAnswer
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.resource_slices import ResourceSlices
from nodeprep.model import Confirmation, Finding, Remedy, Severity, Status
from nodeprep.values import replace
from tests.agent_state_values import BOOT, attempt, check, checks, finding, past
from tests.repair_values import HEADERS, LINK_UP, NOW, WALL, clock, node, terms, unhealthy, wrong

ID = "a" * 32
PORT, FLAP, PLUGIN = "port.state", "port.flap", "plugin.allocatable"
KNOWN = checks(check(PORT), check(FLAP, confirmation=Confirmation.LATCHED), check(PLUGIN))
RULES = AgentPolicy(KNOWN, (AssignedProfile("rdma-roce", tuple(KNOWN), gating=True, rdma=True),), Mode.REPAIR)
MEMLOCK = Remedy("memlock")


def look(state: AgentState, at: float, *found: Finding, rules: AgentPolicy = RULES) -> AgentState:
    """The state after a look at everything. What is not named passes."""
    named = {one.check for one in found}
    passes = tuple(finding(one, Status.OK) for one in rules.checks if one not in named)
    fresh = dict.fromkeys(rules.checks, CheckObservation(at, at))
    observed = Observed((*found, *passes), fresh, full_round=True, wall=WALL + at - NOW)
    return reconciliation.reconcile(state, observed, rules, at)[0]


def proven() -> AgentState:
    """A node that was Ready, and whose port then failed for good."""
    state = gate_readiness.state_at_start(None, BOOT, "uid-1", NOW - 300)
    for at in (NOW - 290, NOW - 270, NOW - 250):
        state = look(state, at)
    assert state.state is NodeState.READY
    for at in (NOW - 101, NOW - 100):
        state = look(state, at, finding(PORT, remedy=LINK_UP))
    assert state.state is NodeState.UNHEALTHY
    return state


def runs(step: str = "running", ago: float = 5.0, **different: Any) -> AgentState:
    """That node, with link_up under way."""
    given = {"step_since": NOW - ago, "heard_at": NOW - ago, "disturbs": (FLAP, PORT)} | different
    return replace(proven(), attempt=attempt(step, **given))


def played() -> AgentState:
    """That node, and the play of link_up is over since NOW."""
    return repair_attempt.after(runs(), StatusAnswer(ID, "done", "done"), terms()).state


# 1. What a remedy disturbs latches, and a latch calls a human.


@pytest.mark.parametrize("step", ["asked", "running", "validating"])
def test_1_the_damage_of_the_remedy_itself_does_not_latch(step: str) -> None:
    """Guard: `repair_validation.counting`, which leaves out looks at what the remedy disturbs."""
    state = look(runs(step), NOW, finding(FLAP, reason="WentDown"), finding(PORT, remedy=LINK_UP))
    assert [case.check for case in state.cases] == [PORT]
    assert not any(case.latched for case in state.cases)
    assert state.state in (NodeState.REPAIRING, NodeState.VALIDATING)


def test_1_nor_does_it_in_the_first_look_afterwards() -> None:
    """Guard: `disturbed` of `repair_validation.played`. The look compares with one from before the play."""
    state = replace(played(), attempt=None)
    state = look(state, NOW + 1, finding(FLAP, reason="WentDown"))
    assert ([case for case in state.cases if case.check == FLAP], state.disturbed) == ([], {})
    state = look(state, NOW + 2, finding(FLAP, reason="WentDown"))
    assert [case.convicted for case in state.cases if case.check == FLAP] == [True]  # and what fails then is a fault


def test_1_nor_does_it_before_the_case_was_judged() -> None:
    """Guard: `repair_validation.excused`. A link that was set up trains for up to a minute."""
    state = look(played(), NOW + 1)
    for at in (NOW + 2, NOW + 12):
        state = look(state, at, finding(FLAP, reason="WentDown"))
        assert [case.check for case in state.cases] == [PORT]
        assert not state.pass_streaks[FLAP].passes
    for at in (NOW + 22, NOW + 31):
        state = look(state, at)
    assert (state.attempt, state.state) == (None, NodeState.BOOTSTRAP)
    state = look(state, NOW + 32, finding(FLAP, reason="WentDown"))
    assert [case.convicted for case in state.cases if case.check == FLAP] == [True]


def test_1_a_gate_that_fails_again_before_the_case_was_judged_is_not_open() -> None:
    """Guard: an excused failure takes what was proven too. It makes no case, so nothing else would close the gate."""
    state = look(played(), NOW + 1, finding(PORT, remedy=LINK_UP))
    for at in (NOW + 2, NOW + 12, NOW + 22, NOW + 34):
        state = look(state, at, finding(PORT, remedy=LINK_UP))
    assert state.pass_streaks[FLAP].proven
    state = look(state, NOW + 40, finding(PORT, remedy=LINK_UP), finding(FLAP, reason="WentDown"))
    for at in (NOW + 50, NOW + 60, NOW + 80):
        state = look(state, at, finding(FLAP, reason="WentDown"))
    assert [one.outcome for one in state.attempts] == ["released"]
    assert state.state in (NodeState.BOOTSTRAP, NodeState.UNHEALTHY)
    assert state.gates == ()


def test_1_a_fault_that_was_there_before_does_not_pass_by_looks_that_are_left_out() -> None:
    """Guard: of an excused check a conviction of before the play is judged as ever."""
    before = wrong(None, check=FLAP, reason="WentDown", looks=())
    state = played()
    state = look(replace(state, cases=(*state.cases, before)), NOW + 1)
    for at in (NOW + 2, NOW + 12):
        state = look(state, at)
    state = look(state, NOW + 20, finding(FLAP, reason="WentDown"))
    for at in (NOW + 21, NOW + 32):
        state = look(state, at)
    assert [case.passes for case in state.cases if case.check == FLAP] == [2], "counted anew since it failed"


def test_1_a_gate_that_it_disturbed_passes_anew_before_the_node_is_open() -> None:
    """Guard: `played` takes what these gates have proven. A remedy that mends one may have broken another."""
    state = look(played(), NOW + 1)
    for at in (NOW + 2, NOW + 12, NOW + 22, NOW + 31):
        state = look(state, at)
    assert [one.outcome for one in state.attempts] == ["released"]
    assert state.state is NodeState.BOOTSTRAP, "its passes count from the second look on"
    assert look(state, NOW + 32).state is NodeState.READY, "and beside those of the case: nobody waits twice"


def test_1_it_is_no_pass_either() -> None:
    """Guard: a look at what is disturbed is left out as a whole, and not its failures alone."""
    state = replace(runs("running"), pass_streaks={})
    for at in (NOW, NOW + 16, NOW + 32):
        state = look(state, at, finding(FLAP, reason="WentDown"), finding(PORT, remedy=LINK_UP))
    assert FLAP not in state.pass_streaks
    assert state.pass_streaks[PLUGIN].proven


# 2. Facts are polled each minute, or each ten: no case passes three times within two minutes.

MENDABLE = [one for one in ALL_CHECKS.values() if one.remedies and one.severity is Severity.GATE]


@pytest.mark.parametrize("one", MENDABLE, ids=lambda one: one.id)
def test_2_each_mendable_check_can_pass_three_times_within_the_limit(one: Any) -> None:
    """Guard: `repair_validation.wanted_facts`, which asks for all facts at once and then each 10 s, records too."""
    state = unhealthy(attempt=attempt("validating", check=one.id, disturbs=(), step_since=NOW))
    facts = {fact.kind: fact for fact in FACTS}
    begun = dict.fromkeys(look_schedule.observed_facts(one), NOW - 1.0)  # all were looked at just before
    passes: list[CheckObservation] = []
    before, now = CheckObservation(NOW - 1.0, NOW - 1.0), NOW
    while now <= NOW + 120.0 and (len(passes) < 3 or passes[-1].began - passes[0].ended < 30.0):
        wanted = repair_validation.wanted_facts(state, ALL_CHECKS, begun, now)
        for kind, at in wanted.items():
            if max(at, begun[kind] + facts[kind].rest) <= now:
                begun[kind] = now
        seen = look_schedule.check_observation(one, begun, before, (Cluster, ResourceSlices), now)
        if seen is not None and seen.began >= NOW:
            passes.append(seen)
            before = seen
        now += 1.0
    assert now <= NOW + 60.0
    assert min((at for at in begun.values()), default=inf) >= NOW, "a fact is still that of before the play"


# 3. A second fault that nothing mends makes each good repair a failure.


def test_3_only_the_own_case_is_judged() -> None:
    """Guard: `repair_validation._outcome` asks nothing of other gates."""
    state = played()
    for at in (NOW, NOW + 12, NOW + 24, NOW + 36):
        state = look(state, at, finding(PLUGIN, place="rdma/hca", port=None))
    assert state.state is NodeState.BOOTSTRAP
    assert [one.outcome for one in state.attempts] == ["released"]
    left = repair_budget.budget(state, wrong(), RepairPolicy(), clock(NOW + 36, WALL + 36))
    assert (left.spent, left.until) == (False, NOW + 36)


def test_3_and_a_fault_that_is_spent_keeps_no_other_from_being_mended() -> None:
    """Guard: the row AwaitingHuman to Repairing, and a budget for each fault."""
    spent = tuple(past(at=NOW - 10, place="0000:ff:00.0", id=f"{n}") for n in range(3))
    lame = wrong(LINK_UP, place="0000:ff:00.0")
    state = replace(proven(), cases=(lame,), attempts=spent, state=NodeState.UNHEALTHY)
    state = look(state, NOW, finding(PORT, place="0000:ff:00.0", remedy=LINK_UP))
    assert state.state is NodeState.AWAITING_HUMAN
    both = replace(state, cases=(lame, wrong(Remedy("plugin_restart"), check=PLUGIN, place="rdma/hca", port=None)))
    chosen = repair_choice.choose(both, terms(checks=KNOWN, gates=tuple(KNOWN))).candidate
    assert chosen is not None
    assert chosen.remedy.playbook == "plugin_restart"
    running = replace(both, attempt=attempt("running", check=PLUGIN, state_before="AwaitingHuman"))
    failing = finding(PORT, place="0000:ff:00.0", remedy=LINK_UP)
    assert look(running, NOW + 1, failing).state is NodeState.REPAIRING


# 4. A remediator that restarts says nothing, and its child runs on.


@pytest.mark.parametrize("step", ["asked", "running"])
def test_4_silence_ends_no_attempt_before_its_deadline(step: str) -> None:
    """Guard: `repair_attempt.given_up_at`."""
    state = runs(step, 0.0)
    for seconds in (1.0, 60.0, 179.0):
        at = terms(NOW + seconds)
        state = repair_attempt.after(state, StatusAnswer(ID), at).state
        state = repair_attempt.due(state, at).state
        state = look(state, NOW + seconds, finding(PORT, remedy=LINK_UP))
        assert state.state is NodeState.REPAIRING
    over = repair_attempt.due(state, terms(NOW + 180.0)).state
    assert over.attempt is not None
    assert (over.attempt.step, over.attempt.end) == ("validating", "lost")


# 5. Two remedies for one case: modprobe, then `rdma link add`. The case is never released between them.


def test_5_what_asks_for_another_remedy_is_mended_at_once() -> None:
    """Guard: `repair_validation._wants_another`, before the limit and with no failure."""
    state = runs("validating", 0.0)
    ended = repair_attempt.after(runs("running"), StatusAnswer(ID, "done", "done"), terms()).state
    assert state.attempt is not None
    state = look(ended, NOW + 1, finding(PORT, reason="NoDriver", remedy=Remedy("driver_bind")))
    assert (state.attempt, [one.outcome for one in state.attempts]) == (None, ["changed"])
    choice = repair_choice.choose(state, terms(NOW + 2, checks=KNOWN, gates=tuple(KNOWN)))
    assert choice.candidate is not None
    assert choice.candidate.remedy.playbook == "driver_bind"
    assert choice.candidate.due_at <= NOW + 2
    assert state.unhelpful == {}


def test_5_two_remedies_that_take_turns_end() -> None:
    """Guard: a changed reason is a try of its fault all the same (`repair_budget.UNCOUNTED` has refusals alone)."""
    state, tried = unhealthy(), 0
    for turn in range(40):
        reason, remedy = (("NoSignal", LINK_UP), ("NoDriver", Remedy("driver_bind")))[turn % 2]
        at = NOW + turn
        state = replace(state, cases=(wrong(remedy, reason=reason),))
        if repair_choice.choose(state, terms(at)).candidate is None:
            break
        tried += 1
        run = attempt(id=f"{turn}", reason=reason, remedy=remedy.playbook, disturbs=())
        state = repair_budget.recorded(state, run, repair_budget.AttemptOutcome.CHANGED, clock(at, WALL + turn))
    assert tried == 6


# 6. No confirmed gate: a job lands on the node while a remedy runs.

UNCONFIRMED: list[dict[str, Any]] = [
    {"taint": "no taint: kube-system/rdma does not tolerate it; see nodeprep explain plugin.tolerates-gate"},
    {"gate": GatePolicy(effect="PreferNoSchedule")},
    {"node": node(annotations={"nodeprep.io/released": "true"})},
    {"node": node(uid="another")},
    {"node": None},
]


@pytest.mark.parametrize("different", UNCONFIRMED)
def test_6_without_a_confirmed_gate_nothing_runs(different: dict[str, Any]) -> None:
    """Guard: `repair_choice._taint`. What only the read-back shows is in test_repair_approach."""
    choice = repair_choice.choose(unhealthy(wrong()), terms(**different))
    assert choice.candidate is None
    assert [one.reason for one in choice.suppressed] == [SuppressionReason.TAINT]


def test_6_each_of_them_says_what_it_is() -> None:
    whys = {repair_choice.choose(unhealthy(wrong()), terms(**one)).suppressed[0].why for one in UNCONFIRMED}
    assert len(whys) == len(UNCONFIRMED)


# 7. The memory is not kept, so the budget is lost with the next boot.


def test_7_what_cannot_be_remembered_is_not_done() -> None:
    """Guard: `memory` in `repair_choice`, and the saving before the question in `repair_attempt.after`."""
    choice = repair_choice.choose(unhealthy(wrong()), terms(memory="/var/lib/nodeprep: No space left on device"))
    assert [one.reason for one in choice.suppressed] == [SuppressionReason.MEMORY]
    result = repair_attempt.after(runs("ledger"), LedgerSaved(ID, "kept in /run until the next boot"), terms())
    assert result.action is not repair_attempt.AttemptAction.SEND_RUN
    assert result.state.attempt is None


# 8. Boot times begin anew, and wall time may be wrong.


@pytest.mark.parametrize("outcome", ["released", "unreleased", "cut-off"])
def test_8_a_reboot_gives_no_try_back(outcome: str) -> None:
    """Guard: `repair_budget.age` over a boot. The clock was set back since the second and the third."""
    tried = tuple(past(outcome, id=f"{n}", at=900.0 + n, wall=WALL + 90000 * n) for n in range(3))
    kept = unhealthy(attempts=tried, at=900.0)
    state = gate_readiness.state_at_start(kept, "next boot", "uid-1", 20.0)
    assert state.attempts == tried
    assert repair_budget.budget(state, wrong(), RepairPolicy(), clock(20.0, WALL, "next boot")).spent


def test_8_times_of_another_boot_are_no_damage() -> None:
    """Guard: `stored_state` holds no time of an attempt against this boot's clock."""
    kept = unhealthy(attempts=(past(at=9e6, boot_id="before"),), state=NodeState.READY, since=5.0, at=5.0)
    assert gate_readiness.state_at_start(kept, BOOT, "uid-1", 20.0).state is NodeState.READY


# 9. A kubelet restart by a remedy zeroes the books, and the plugin is restarted for it.


def test_9_what_the_remedy_makes_fail_asks_for_no_other_remedy() -> None:
    """Guards: `disturbs` of the header, and that one remedy runs at a time (`repair_choice._unrunnable`)."""
    state = replace(proven(), cases=(wrong(MEMLOCK),))
    state = replace(state, attempt=attempt("running", remedy="memlock", disturbs=HEADERS["memlock"].disturbs))
    restart = finding(PLUGIN, place="rdma/hca", port=None, remedy=Remedy("plugin_restart"))
    for at in (NOW, NOW + 31, NOW + 62):
        state = look(state, at, restart, finding(PORT, remedy=MEMLOCK))
    assert [case.check for case in state.cases] == [PORT]
    broken_before = replace(
        state, cases=(*state.cases, wrong(Remedy("plugin_restart"), check=PLUGIN, place="rdma/hca"))
    )
    choice = repair_choice.choose(broken_before, terms(NOW + 62, checks=KNOWN, gates=tuple(KNOWN)))
    assert choice.candidate is None
    assert {one.reason for one in choice.suppressed} == {SuppressionReason.BUSY}


def test_9_the_shipped_remedies_name_what_a_restart_of_the_kubelet_disturbs() -> None:
    """Guard: `disturbs` of memlock, as shipped."""
    headers = remedy_files.headers()
    assert {"plugin.registered", "plugin.allocatable", "kubelet.health"} <= set(headers["memlock"].disturbs)
    assert {"port.flap", "counter.physical"} <= set(headers["link_up"].disturbs)


# 10. A bad release convicts everywhere; after ten minutes a thousand nodes mend what is not broken.


@pytest.mark.parametrize(("version", "configuration"), [("2.0", "A"), ("1.0", "B")])
def test_10_what_only_new_rules_see_is_never_mended(version: str, configuration: str) -> None:
    """Guard: `repair_choice._disputed`, also after the ten minutes for which such a fault closes no gate."""
    state = gate_readiness.state_at_start(None, BOOT, "uid-1", 0.0)
    state = replace(state, version="1.0", configuration="A")
    good = tuple(finding(one, Status.OK, observed="same") for one in KNOWN)
    for at in (10.0, 30.0, 50.0):
        state = look(state, at, *good)
    state = rule_change.after_rule_change(state, version, configuration, 60.0)
    bad = finding(PORT, observed="same", remedy=LINK_UP)
    for at in (61.0, 62.0, 63.0, 700.0):
        state = look(state, at, bad, *good[1:])
    assert state.state is NodeState.UNHEALTHY
    choice = repair_choice.choose(state, terms(9999.0, checks=KNOWN, gates=tuple(KNOWN)))
    assert [one.reason for one in choice.suppressed] == [SuppressionReason.DISPUTED]


def test_10_a_version_that_reads_another_value_mends_nothing_where_it_is_the_first() -> None:
    """Guard: `rule_change.deferred` keeps the doubt. A rollout replaces one node, so no fault is that of many."""
    state = gate_readiness.state_at_start(None, BOOT, "uid-1", 0.0)
    state = replace(state, version="1.0", configuration="A")
    good = tuple(finding(one, Status.OK, observed="same") for one in KNOWN)
    for at in (10.0, 30.0, 50.0):
        state = look(state, at, *good)
    state = rule_change.after_rule_change(state, "2.0", "A", 60.0)
    for at in (61.0, 62.0, 63.0, 700.0):
        state = look(state, at, finding(PORT, observed="another", remedy=LINK_UP), *good[1:])
    assert (state.state, state.since) == (NodeState.UNHEALTHY, 62.0)
    choice = repair_choice.choose(state, terms(9999.0, checks=KNOWN, gates=tuple(KNOWN)))
    assert [one.reason for one in choice.suppressed] == [SuppressionReason.DISPUTED]


# 11. The remediator must run where all is broken.


def test_11_the_remediator_needs_nothing_of_what_it_mends() -> None:
    """Guard: its manifest. It tolerates all, and needs no CNI, no plugin, no runtime class, no gate file, no pull."""
    manifest = Path(__file__).resolve().parents[2] / "daemonset/components/repair/remediator.yaml"
    pod = yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]
    assert {"operator": "Exists"} in pod["tolerations"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "Default")
    assert pod["priorityClassName"] == "system-node-critical"
    assert not {"runtimeClassName", "initContainers", "nodeSelector", "resourceClaims"} & pod.keys()
    for container in pod["containers"]:
        asked = {name for kind in container["resources"].values() for name in kind}
        assert asked <= {"cpu", "memory"}
        assert container["imagePullPolicy"] in ("IfNotPresent", "Never")
