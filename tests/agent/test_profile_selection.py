"""Whose word the profiles are, and when nobody's word is enough to open a gate."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep import job_profile, profile_selection
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState, NodeState, PassStreak
from nodeprep.config import profile_files
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.assign_rules import AssignRule
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import NamedProfile
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import Mode
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import NO_ACCESS, Unreadable, Why
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import replace
from tests.cluster_values import cluster, node_object

NOBODY = Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS)
RACK = AssignRule(match={"rack": "a*"}, use=("base",), expect="", profiles=(profile_files.named("base"),))
BASELINE = job_profile.mapping(profile_files.named("rdma-roce").profile)


def part(name: str) -> dict[str, Any]:
    return {"names": profile_files.named(name).names, "profile": job_profile.mapping(profile_files.named(name).profile)}


def chosen(
    *,
    agent_state: AgentState | None = None,
    rules: tuple[AssignRule, ...] = (),
    default: str = "auto",
    labels: dict[str, str] | None = None,
    unseen: tuple[type, ...] = (),
) -> ProfileSelection:
    """Of a node whose hardware shows nothing, unless it is remembered; facts that are `unseen` could not be had."""
    known: object = NOBODY if labels is None else cluster(node=node_object(labels=labels))
    settings = Settings("config.yaml", default=default, agent_part=AgentSettings(assign=rules))
    blind = dict.fromkeys(unseen, Unreadable(Why.MISSING, "/host", detail="the host's root is not mounted here"))
    look = Look(0.0, live=True, facts={Cluster: known, **blind})
    return profile_selection.select(settings, look, agent_state or AgentState())


def words(
    selection: ProfileSelection,
    mode: Mode = Mode.GATE,
    agent_state: AgentState | None = None,
    gate: GatePolicy | None = None,
) -> list[str]:
    """Each profile: its name, whether it gates, and in a word why it is refused."""
    policy = gate or GatePolicy(profiles=("*",))
    found = profile_state.assigned_profiles(selection, policy, mode, agent_state or AgentState())
    return [f"{one.name} {'gates' if one.gating else 'tells'} {'refused' if one.refusal else 'free'}" for one in found]


@pytest.mark.parametrize(
    ("kept", "rules", "labels", "expected"),
    [
        pytest.param(AgentState(), (RACK,), {"rack": "a1"}, ["base gates free"], id="a rule that matches"),
        pytest.param(AgentState(), (RACK,), {"rack": "b1"}, [], id="one that does not, and no hardware either"),
        pytest.param(
            AgentState(), (RACK,), None, ["unknown gates refused"], id="labels that nobody can tell open nothing"
        ),
        pytest.param(
            AgentState(parts=(part("base"),)),
            (RACK,),
            None,
            ["base gates free"],
            id="what it last said holds on meanwhile",
        ),
        pytest.param(
            AgentState(hardware_profiles=("rdma-roce",), parts=(part("base"),)),
            (RACK,),
            None,
            ["base gates free"],
            id="whatever the hardware once chose",
        ),
        pytest.param(
            AgentState(hardware_profiles=("rdma-roce",)),
            (RACK,),
            None,
            ["unknown gates refused"],
            id="what hardware chose is no such word",
        ),
        pytest.param(
            AgentState(parts=(part("base"),), by_hardware=True),
            (RACK,),
            None,
            ["unknown gates refused"],
            id="nor what it had",
        ),
        pytest.param(
            AgentState(parts=({"x": 1},)), (RACK,), None, ["unknown gates refused"], id="a memory that is damaged"
        ),
    ],
)
def test_the_configurations_word(
    kept: AgentState, rules: tuple[AssignRule, ...], labels: dict[str, str] | None, expected: list[str]
) -> None:
    selection = chosen(agent_state=kept, rules=rules, labels=labels)
    assert words(selection, agent_state=kept) == expected


@pytest.mark.parametrize(
    ("kept", "unseen", "expected"),
    [
        pytest.param(AgentState(), (Rdma, Pci), ["unknown gates refused"], id="unseen hardware opens nothing"),
        pytest.param(AgentState(), (Pci,), ["unknown gates refused"], id="nor do unseen NICs"),
        pytest.param(AgentState(), (), [], id="hardware that shows nothing demands nothing"),
        pytest.param(AgentState(state=NodeState.READY), (Rdma,), [], id="a look in vain closes nothing"),
        pytest.param(
            AgentState(hardware_profiles=("base",)), (Rdma,), ["base gates free"], id="what it once chose is held"
        ),
    ],
)
def test_hardware_that_cannot_be_seen(kept: AgentState, unseen: tuple[type, ...], expected: list[str]) -> None:
    selection = chosen(agent_state=kept, unseen=unseen)
    assert words(selection, agent_state=kept) == expected
    assert bool(selection.undecided) is (expected == ["unknown gates refused"])
    assert all("the host's root is not mounted here" in reason for reason in selection.undecided)


def test_what_the_configuration_last_said_does_not_ask_the_hardware() -> None:
    """Neither what could not be seen nor what was missing says anything of a profile that an operator named."""
    kept = AgentState(parts=(part("base"),))
    selection = chosen(agent_state=kept, rules=(RACK,), unseen=(Rdma, Pci))
    assert words(selection, agent_state=kept) == ["base gates free"]
    assert (selection.undecided, selection.missing_hardware, selection.omitted_gates) == ((), "", ())
    assert profile_state.with_selection(kept, selection) is kept


def test_a_guess_is_not_kept_as_the_configurations_word() -> None:
    """Or the next round would take it for what the configuration last said."""
    selection = chosen(agent_state=AgentState(hardware_profiles=("tcp-shared-eni",)), rules=(RACK,))
    assert selection.temporary
    assert selection.undecided


@pytest.mark.parametrize(
    ("mode", "baseline", "gate", "expected"),
    [
        pytest.param(Mode.OBSERVE, None, GatePolicy(), "free", id="observe needs nobody's word"),
        pytest.param(Mode.GATE, None, GatePolicy(), "refused", id="gate does"),
        pytest.param(Mode.REPAIR, None, GatePolicy(), "refused", id="repair too"),
        pytest.param(Mode.GATE, BASELINE, GatePolicy(), "free", id="a baseline is one"),
        pytest.param(Mode.GATE, {"nonsense": 1}, GatePolicy(), "refused", id="one that cannot be read is none"),
        pytest.param(Mode.GATE, None, GatePolicy(allow_auto=True), "free", id="the operator's leave is one"),
        pytest.param(Mode.GATE, None, GatePolicy(profiles=("tcp-*",)), "free", id="what does not gate needs none"),
    ],
)
def test_hardware_alone(mode: Mode, baseline: dict[str, Any] | None, gate: GatePolicy, expected: str) -> None:
    kept = AgentState(hardware_profiles=("rdma-roce",), baseline=baseline)
    (said,) = words(chosen(agent_state=kept), mode, kept, gate)
    assert said.split()[0] == "rdma-roce"
    assert said.split()[2] == expected


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        pytest.param(
            AgentState(hardware_profiles=("rdma-next",)),
            ["unknown gates refused"],
            id="a name of another version opens nothing, ends nothing",
        ),
        pytest.param(
            AgentState(hardware_profiles=("tcp-shared-eni", "rdma-next")),
            ["tcp-shared-eni gates free", "unknown gates refused"],
            id="beside one that is known",
        ),
        pytest.param(
            AgentState(
                hardware_profiles=("rdma-next",),
                parts=({**part("base"), "profile": {**part("base")["profile"], "name": "rdma-next"}},),
            ),
            ["rdma-next gates free"],
            id="what it was is remembered",
        ),
    ],
)
def test_a_profile_that_this_version_does_not_know(kept: AgentState, expected: list[str]) -> None:
    selection = chosen(agent_state=kept)
    assert words(selection, Mode.OBSERVE, kept) == expected
    assert bool(selection.undecided) is ("unknown gates refused" in expected)
    assert all("rdma-next" in reason and "reset --inventory" in reason for reason in selection.undecided)


PROVEN, HALF = PassStreak(3, 1.0, 31.0, proven=True), PassStreak(2, 1.0, 11.0)


@pytest.mark.parametrize(
    ("before", "now", "proven"),
    [
        pytest.param("base", "base", {"pci.answers", "port.state"}, id="the same profile"),
        pytest.param("base", "rdma-roce", set(), id="another one asks more: what passed proves nothing of it"),
        pytest.param(None, "rdma-roce", set(), id="where none was, what was absent proves nothing"),
        pytest.param("rdma-roce", "base", {"port.state"}, id="what another one asks is to pass under it"),
    ],
)
def test_what_passed_under_one_profile_opens_no_other(before: str | None, now: str, proven: set[str]) -> None:
    kept = AgentState(pass_streaks={"pci.answers": PROVEN, "port.state": PROVEN})
    kept = profile_state.with_selection(kept, chosen(default=before)) if before else kept
    after = profile_state.with_new_gates(kept, chosen(default=now), 100.0)
    assert {check for check, streak in after.pass_streaks.items() if streak.proven} == proven


def test_passes_that_are_not_enough_begin_anew_under_other_demands() -> None:
    kept = profile_state.with_selection(
        AgentState(pass_streaks={"pci.answers": PROVEN, "port.state": HALF}), chosen(default="rdma-roce")
    )
    asked = chosen(default="rdma-roce")
    more = replace(asked, profile=replace(asked.profile, want={"port.mtu": {"at-least": 9000}}))
    assert profile_state.with_new_gates(kept, asked, 100.0) is kept
    assert profile_state.with_new_gates(kept, more, 100.0).pass_streaks == {"pci.answers": PROVEN}


def asking(**gates: str) -> ProfileSelection:
    """Profiles by name, each with its gates."""
    parts = tuple(NamedProfile(Profile(name, gates=tuple(asked.split())), (name,)) for name, asked in gates.items())
    return ProfileSelection(profile_selection.merged(parts), "a test", parts=parts)


A, B, C = "port.state", "port.rate", "klog.nic"
GATES: list[tuple[dict[str, str], dict[str, str], set[str]]] = [
    # what was asked, what is, what is still proven of all
    ({"x": f"{A} {B}"}, {"x": f"{B} {A}"}, {A, B, C}),
    ({"x": f"{A} {B}"}, {"x": A}, {A, B, C}),
    ({"x": f"{A} {B}"}, {"x": f"{A} {B} {C}"}, {A, B}),
    ({"x": f"{A} {B}"}, {"x": f"{C} {A}"}, {A, B}),
    ({"x": A, "y": f"{B} {C}"}, {"x": f"{A} {B}", "y": C}, {A, B, C}),  # the node was asked for it before
    ({"x": f"{A} {B}"}, {"x": f"{A} {B}", "y": B}, {A, C}),  # a profile that is new opens nothing by what passed
    ({"x": f"{A} {B}"}, {"y": f"{A} {B}"}, {C}),
    ({"x": f"{A} {B} {C}"}, {"x": f"{A} {B}", "y": f"{A} {C}"}, {B}),
    ({}, {"x": f"{A} {B}"}, {C}),
]


@pytest.mark.parametrize(("before", "now", "proven"), GATES)
def test_only_a_gate_that_nobody_asked_for_is_to_pass_anew(
    before: dict[str, str], now: dict[str, str], proven: set[str]
) -> None:
    kept = AgentState(pass_streaks=dict.fromkeys((A, B, C), PROVEN))
    kept = profile_state.with_selection(kept, asking(**before)) if before else kept
    assert set(profile_state.with_new_gates(kept, asking(**now), 100.0).pass_streaks) == proven


OPEN = (("x", "device"), ("x", "ready"))
COMES: list[tuple[tuple[tuple[str, str], ...], dict[str, str], set[str]]] = [
    # the gates that stand open, what is asked now, for what an open gate waits
    (OPEN, {"x": f"{A} {B}"}, {B}),
    (OPEN[:1], {"x": f"{A} {B}"}, {B}),
    ((), {"x": f"{A} {B}"}, set()),
    ((("y", "ready"),), {"x": f"{A} {B}", "y": C}, set()),
    (OPEN, {"x": A, "z": f"{A} {B}"}, set()),  # a new profile waits for itself
    (OPEN, {"x": A}, set()),
]


@pytest.mark.parametrize(("gates", "now", "waits"), COMES)
def test_what_is_open_waits_for_a_gate_that_comes_to_it(
    gates: tuple[tuple[str, str], ...], now: dict[str, str], waits: set[str]
) -> None:
    kept = replace(
        profile_state.with_selection(AgentState(pass_streaks={A: PROVEN, C: PROVEN}), asking(x=A, y=C)), gates=gates
    )
    after = profile_state.with_new_gates(kept, asking(**now), 100.0)
    assert after.unproven_until == dict.fromkeys(waits, 700.0)


def test_nobody_waits_longer_than_once() -> None:
    """Where hardware is not seen, what was chosen is not kept: the same gate comes again and again."""
    kept = replace(profile_state.with_selection(AgentState(pass_streaks={A: PROVEN}), asking(x=A)), gates=OPEN)
    once = profile_state.with_new_gates(kept, asking(x=f"{A} {B}"), 100.0)
    assert profile_state.with_new_gates(once, asking(x=f"{A} {B}"), 200.0).unproven_until == {B: 700.0}
    passed = replace(profile_state.with_selection(once, asking(x=f"{A} {B}")), pass_streaks={A: PROVEN, B: PROVEN})
    assert profile_state.with_new_gates(passed, asking(x=f"{A} {B}"), 200.0).unproven_until == {}
    assert (
        profile_state.with_new_gates(profile_state.with_selection(once, asking(x=A)), asking(x=A), 200.0).unproven_until
        == {}
    )


def test_what_passed_came_with_no_version_any_more() -> None:
    kept = replace(
        profile_state.with_selection(AgentState(pass_streaks={A: PROVEN}), asking(x=A)),
        gates=OPEN,
        rules_changed_at=100.0,
    )
    once = profile_state.with_selection(
        profile_state.with_new_gates(kept, asking(x=f"{A} {B}"), 100.0), asking(x=f"{A} {B}")
    )
    assert once.came_with_rules == (B,)
    assert (
        profile_state.with_new_gates(
            replace(once, pass_streaks={A: PROVEN, B: PROVEN}), asking(x=f"{A} {B}"), 200.0
        ).came_with_rules
        == ()
    )


def test_what_is_held_is_kept_in_a_form_that_comes_back() -> None:
    kept = profile_state.with_selection(
        AgentState(), chosen(agent_state=AgentState(hardware_profiles=("rdma-roce", "tcp-shared-eni")))
    )
    assert kept.hardware_profiles == ("rdma-roce", "tcp-shared-eni")
    assert [one.profile.name for one in profile_selection.remembered_profiles(kept)] == ["rdma-roce", "tcp-shared-eni"]
    assert "rdma" in profile_selection.remembered_profiles(kept)[0].names
    assert profile_state.with_selection(kept, chosen(agent_state=kept)) is kept


def test_the_inventory_is_laid_over_what_hardware_chose_and_nothing_else() -> None:
    first = replace(profile_files.named("rdma-roce").profile, name="baseline")
    kept = AgentState(hardware_profiles=("rdma-roce",), baseline=job_profile.mapping(first))
    assert profile_selection.baseline(kept) is not None
    assert "as when it was first ready" in chosen(agent_state=kept).chosen_by
    assert "as when it was first ready" not in chosen(agent_state=kept, default="rdma-roce").chosen_by
