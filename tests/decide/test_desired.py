"""What the world is told: conditions, labels, taints and remedies, by mode and state."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak
from nodeprep.decide import attempt_note, desired, gate_readiness, kubernetes_text, taint_toleration
from nodeprep.decide.desired import AgentTrouble, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import AssignedProfile, Mode, ReadinessPolicy
from nodeprep.decide.repair_orders import APPROVED
from nodeprep.model import Finding, Remedy, Stage, Status
from nodeprep.values import replace
from tests.agent_state_values import WAIVED, agent_state, attempt, case, check, checks, finding, past

NOW = 10_000.0
PCI, PORT, ENI, PLUGIN, CNI = "pci.driver-bound", "port.state", "eni.up", "plugin.registered", "cni.first"
LIMITS, SYNC = "limits.memlock", "time.sync"
IDS = (PCI, PORT, ENI, PLUGIN, CNI, LIMITS)
CHECKS = checks(
    *(
        check(one, stage=Stage.NODE if one == PLUGIN else Stage.DEVICE, after=(PCI,) if one == PORT else ())
        for one in IDS
    )
)
RDMA = AssignedProfile("rdma-roce", IDS, gating=True, rdma=True)
TCP = AssignedProfile("tcp-shared-eni", (ENI, CNI), gating=False, rdma=False)
PROVEN = {one: PassStreak(3, 100.0, 130.0, proven=True) for one in IDS}
FINE = tuple(finding(one, Status.OK) for one in IDS)
GATE = GatePolicy()
LINK_UP = Remedy("link_up", {"interface": "eth2"})
CAPABLE = "feature.node.kubernetes.io/network-rdma.capable"
BLIND = {PORT: BlindSince(NOW - 600.0, "/sys/class/infiniband: denied (errno 13)")}


def wrong(check_id: str = PORT, ago: float = 100.0, **different: Any) -> Case:
    usual: dict[str, Any] = {"convicted_at": NOW - ago, "looks": ((NOW - ago, True),)}
    return case(check_id, **(usual | different))


def memory(state: NodeState = NodeState.READY, **different: Any) -> AgentState:
    usual: dict[str, Any] = {"state": state, "since": NOW - 100.0, "pass_streaks": PROVEN}
    return agent_state(**(usual | different))


def tell(
    now: AgentState,
    *assigned: AssignedProfile,
    mode: Mode = Mode.GATE,
    found: tuple[Finding, ...] = FINE,
    gate: GatePolicy = GATE,
    **different: Any,
) -> Desired:
    now = taint_toleration.with_tolerations(now, found, NOW, full_round=True)
    stands = gate_readiness.profile_readiness(now, assigned, CHECKS, NOW, different.get("drill"))
    policies: dict[str, Any] = {"gate": gate, "confirmation": ConfirmationPolicy(), "readiness": ReadinessPolicy()}
    return desired.desired(now, found, stands, mode, CHECKS, now=NOW, **(policies | different))


def said(told: Desired, kind: str) -> str:
    """A condition as `kubectl describe node` shows it, "" if it is not there."""
    found = [one for one in told.conditions if one.type == f"nodeprep.io/{kind}"]
    return f"{found[0].status} {found[0].reason}: {found[0].message}" if found else ""


def kinds(told: Desired) -> list[str]:
    return [one.type.removeprefix("nodeprep.io/") for one in told.conditions]


READY, BOOTSTRAP, UNHEALTHY = NodeState.READY, NodeState.BOOTSTRAP, NodeState.UNHEALTHY
WRONG: dict[str, Any] = {"cases": (wrong(),)}
OFTEN = "gate checks passed often enough in this boot"
UNPROVEN = {one: streak for one, streak in PROVEN.items() if one != PORT}

SPARED = "the gate stays open, though only this version sees port.state NoSignal: mlx5_3/1: NoSignal"

CONDITIONS: list[tuple[AgentState, str, str]] = [
    (memory(), "TrainingReady", "True Ready: every gate check passes: rdma-roce"),
    (memory(), "RDMAReady", "True Passed: 2 of 2 gate checks pass"),
    (memory(), "ENIReady", "True Passed: 1 of 1 gate checks pass"),
    (memory(), "GPUReady", "True Passed: 1 of 1 gate checks pass"),
    (memory(), "NetworkReady", "True Passed: 1 of 1 gate checks pass"),
    (memory(UNHEALTHY, **WRONG), "TrainingReady", "False NoSignal: Unhealthy: port.state NoSignal: mlx5_3/1: NoSignal"),
    (memory(UNHEALTHY, **WRONG), "RDMAReady", "False NoSignal: port.state NoSignal: mlx5_3/1: NoSignal"),
    (memory(UNHEALTHY, **WRONG), "ENIReady", "True Passed: 1 of 1 gate checks pass"),
    (
        memory(UNHEALTHY, cases=(wrong(), wrong(PCI, port=None, reason="NoDriver", message="nobody drives it"))),
        "RDMAReady",
        "False NoDriver: pci.driver-bound NoDriver: nobody drives it (and 1 more)",
    ),
    (
        memory(UNHEALTHY, cases=(wrong(), wrong(port=2), wrong(ENI))),
        "RDMAReady",
        "False NoSignal: port.state NoSignal: mlx5_3/1: NoSignal (and 1 more)",
    ),
    (
        memory(UNHEALTHY, cases=(wrong(LIMITS),)),
        "TrainingReady",
        "False NoSignal: Unhealthy: limits.memlock NoSignal: mlx5_3/1: NoSignal",
    ),
    (memory(UNHEALTHY, cases=(wrong(LIMITS),)), "RDMAReady", "True Passed: 2 of 2 gate checks pass"),
    (
        memory(cases=(wrong(deferred_until=NOW + 1),)),
        "TrainingReady",
        f"True VerdictChangedByUpgrade: {SPARED}",
    ),
    (
        memory(cases=(wrong(deferred_until=NOW + 1, deferred_by="configuration"),)),
        "TrainingReady",
        f"True VerdictChangedByConfiguration: {SPARED.replace('version', 'configuration')}",
    ),
    (
        memory(cases=(wrong(deferred_until=NOW + 1, convicted_at=None),)),  # and not believed yet
        "TrainingReady",
        "True Ready: every gate check passes: rdma-roce",
    ),
    (
        memory(cases=(wrong(SYNC, deferred_until=NOW + 1),)),
        "TrainingReady",
        "True Ready: every gate check passes: rdma-roce",
    ),
    (memory(cases=(wrong(deferred_until=NOW + 1),)), "RDMAReady", "True Passed: 2 of 2 gate checks pass"),
    (
        memory(blind=BLIND),
        "TrainingReady",
        "Unknown CannotLook: Ready: port.state could not look: /sys/class/infiniband: denied (errno 13)",
    ),
    (
        memory(blind=BLIND),
        "RDMAReady",
        "Unknown CannotLook: port.state could not look: /sys/class/infiniband: denied (errno 13)",
    ),
    (memory(blind=BLIND), "ENIReady", "True Passed: 1 of 1 gate checks pass"),
    (memory(blind={SYNC: BLIND[PORT]}), "TrainingReady", "True Ready: every gate check passes: rdma-roce"),
    (
        memory(blind={PORT: BlindSince(NOW - 599.0, "")}),
        "TrainingReady",
        "True Ready: every gate check passes: rdma-roce",
    ),
    (memory(blind={PORT: BlindSince(NOW - 599.0, "")}), "RDMAReady", "True Passed: 2 of 2 gate checks pass"),
    (
        memory(UNHEALTHY, blind=BLIND, cases=(wrong(ENI),)),
        "TrainingReady",
        "False NoSignal: Unhealthy: eni.up NoSignal: mlx5_3/1: NoSignal",
    ),
    (
        memory(BOOTSTRAP, pass_streaks=UNPROVEN),
        "TrainingReady",
        "False Bootstrap: 5 of 6 gate checks passed often enough in this boot; not yet port.state",
    ),
    (
        memory(BOOTSTRAP, pass_streaks=UNPROVEN),
        "RDMAReady",
        "Unknown Bootstrap: 1 of 2 gate checks passed often enough in this boot; not yet port.state",
    ),
    (memory(BOOTSTRAP, pass_streaks=UNPROVEN), "ENIReady", "True Passed: 1 of 1 gate checks pass"),
    (
        memory(BOOTSTRAP, pass_streaks={}),
        "TrainingReady",
        f"False Bootstrap: 0 of 6 {OFTEN}; not yet pci.driver-bound, port.state, eni.up and 3 more",
    ),
    (
        memory(NodeState.AWAITING_HUMAN, why="it flaps"),
        "TrainingReady",
        "False AwaitingHuman: the node is AwaitingHuman: it flaps",
    ),
]


@pytest.mark.parametrize(("now", "kind", "words"), CONDITIONS)
def test_conditions(now: AgentState, kind: str, words: str) -> None:
    assert said(tell(now, RDMA, found=(*FINE, finding(PORT, port=7))), kind) == words


ALL_KINDS = ["TrainingReady", "RDMAReady", "ENIReady", "GPUReady", "NetworkReady"]
NOTHING = tuple(finding(one, Status.ABSENT) for one in IDS)
APPLIES: list[tuple[tuple[Finding, ...], AgentState, tuple[AssignedProfile, ...], bool, list[str]]] = [
    # findings, memory, profiles, full round, conditions
    (FINE, memory(), (RDMA,), True, ALL_KINDS),
    (NOTHING, memory(), (RDMA,), True, ["TrainingReady"]),
    ((), memory(), (RDMA,), True, ["TrainingReady"]),
    ((finding(ENI, Status.UNKNOWN),), memory(), (RDMA,), True, ["TrainingReady", "ENIReady"]),
    (FINE, memory(), (TCP,), True, ["TrainingReady", "ENIReady", "NetworkReady"]),
    (NOTHING, memory(UNHEALTHY, **WRONG), (RDMA,), True, ["TrainingReady", "RDMAReady"]),
    ((), memory(passed={"eni.up x ": "up"}), (RDMA,), False, ["TrainingReady", "ENIReady"]),
    ((), memory(passed={"eni.up x ": "up"}), (RDMA,), True, ["TrainingReady"]),
    (FINE, memory(), (), True, ["TrainingReady"]),
]


@pytest.mark.parametrize(("found", "now", "profiles", "full_round", "there"), APPLIES)
def test_an_area_is_there_where_it_applies_and_somebody_asks(
    found: tuple[Finding, ...],
    now: AgentState,
    profiles: tuple[AssignedProfile, ...],
    full_round: bool,
    there: list[str],
) -> None:
    assert kinds(tell(now, *profiles, found=found, full_round=full_round)) == there


XID, NIC_LOG, DRIVER = "klog.xid", "klog.nic", "gpu.driver"
AREA_IDS = (PCI, XID, NIC_LOG, DRIVER, PLUGIN)
GPU_SAYS, RDMA_SAYS = finding(DRIVER, Status.OK), finding(PCI, Status.OK)
WIDE = AssignedProfile("rdma-roce", AREA_IDS, gating=True, rdma=True)
WIDE_PROVEN = {one: PassStreak(3, 100.0, 130.0, proven=True) for one in AREA_IDS}
AREAS_BY_ID = [
    # the check that fails, at which place, beside what                  the area that is False
    (XID, "0000:1b:00.0", (GPU_SAYS, RDMA_SAYS), "GPUReady"),
    (NIC_LOG, "0000:5c:00.0", (GPU_SAYS, RDMA_SAYS), "RDMAReady"),
    (DRIVER, "0000:1b:00.0", (RDMA_SAYS,), "GPUReady"),
    (PLUGIN, "nvidia.com/gpu", (GPU_SAYS, RDMA_SAYS), "GPUReady"),
    (PLUGIN, "amd.com/gpu", (RDMA_SAYS,), "GPUReady"),
    (PLUGIN, "rdma/hca", (GPU_SAYS, RDMA_SAYS), "RDMAReady"),
    (PLUGIN, "rdma/hca_shared_devices_a", (GPU_SAYS,), "RDMAReady"),
    (PLUGIN, "aliyun/erdma", (GPU_SAYS,), "RDMAReady"),
    (PLUGIN, "vpc.amazonaws.com/efa", (GPU_SAYS,), "RDMAReady"),
    (PLUGIN, "aliyun/member-eni", (GPU_SAYS,), "ENIReady"),
    (PLUGIN, "", (GPU_SAYS, RDMA_SAYS), "GPUReady"),
    (PLUGIN, "", (RDMA_SAYS,), "RDMAReady"),  # no GPU: what plugins serve is RDMA
]


@pytest.mark.parametrize(("check_id", "place", "beside", "area"), AREAS_BY_ID)
def test_a_fault_is_of_one_area_by_its_check_and_its_resource(
    check_id: str, place: str, beside: tuple[Finding, ...], area: str
) -> None:
    bad = wrong(check_id, place=place, port=None)
    now = memory(UNHEALTHY, cases=(bad,), pass_streaks=WIDE_PROVEN)
    told = tell(now, WIDE, found=(*beside, finding(check_id, place=place, port=None)), gate=GATE)
    statuses = {one.type.removeprefix("nodeprep.io/"): one.status for one in told.conditions}
    assert [kind for kind, status in statuses.items() if status == "False"] == ["TrainingReady", area]


def test_a_resource_that_is_fine_is_in_no_other_area() -> None:
    fine = finding(PLUGIN, Status.OK, place="rdma/hca", port=None)
    told = tell(memory(pass_streaks=WIDE_PROVEN), WIDE, found=(RDMA_SAYS, fine))
    assert kinds(told) == ["TrainingReady", "RDMAReady"]
    assert said(told, "RDMAReady") == "True Passed: 3 of 3 gate checks pass"


def test_what_is_wrong_with_the_agent_stands_at_the_end_of_a_message_that_is_cut() -> None:
    now = memory(UNHEALTHY, cases=(wrong(message="x" * 600),))
    trouble = AgentTrouble(
        "memory cannot be kept: /var/lib/nodeprep is full", "/etc/nodeprep.yaml:3: bad\n" + "y" * 300
    )
    told = tell(now, RDMA, trouble=trouble)
    message = told.conditions[0].message
    assert len(message) == 512
    assert len(message.rpartition("; ")[2]) == 200
    assert message.startswith("Unhealthy: port.state NoSignal: xxx")
    assert "...; memory cannot be kept: /var/lib/nodeprep is full; /etc/nodeprep.yaml:3: bad y" in message
    assert len(told.conditions[1].message) == 512


TAINTED = "NoSignal"
REFUSED = replace(RDMA, refusal="no baseline")
INTOLERANT, DOUBTFUL = finding("plugin.tolerates-gate"), finding("plugin.tolerates-gate", Status.WARN)
UNSEEN = finding("plugin.tolerates-gate", Status.UNKNOWN)
OTHERS = finding("plugin.tolerates-gate", Status.WARN, reason="BootstrapNotTolerated")
OPENED = ((RDMA.name, "device"), (RDMA.name, "ready"))
TAINTS: list[tuple[AgentState, tuple[AssignedProfile, ...], Mode, tuple[Finding, ...], str]] = [
    # memory, profiles, mode, findings, value of the taint
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, FINE, TAINTED),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.REPAIR, FINE, TAINTED),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.OBSERVE, FINE, ""),
    (memory(), (RDMA,), Mode.GATE, FINE, ""),
    (memory(blind=BLIND), (RDMA,), Mode.GATE, FINE, ""),
    (agent_state(), (RDMA,), Mode.GATE, (), "Bootstrap"),
    (agent_state(), (RDMA,), Mode.OBSERVE, (), ""),
    (agent_state(), (TCP,), Mode.GATE, (), ""),
    (agent_state(), (), Mode.GATE, (), ""),
    (memory(cases=(wrong(convicted_at=None),)), (RDMA,), Mode.GATE, FINE, "ToBeConfirmed"),
    (memory(cases=(wrong(convicted_at=None),)), (TCP,), Mode.GATE, FINE, ""),
    (memory(cases=(wrong(convicted_at=None),), gates=OPENED), (RDMA,), Mode.GATE, FINE, ""),
    (memory(NodeState.AWAITING_HUMAN), (RDMA,), Mode.GATE, FINE, "AwaitingHuman"),
    (memory(NodeState.VALIDATING), (TCP, RDMA), Mode.REPAIR, FINE, "Validating"),
    (memory(BOOTSTRAP), (REFUSED,), Mode.GATE, FINE, "ProfileRefused"),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, INTOLERANT), ""),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, DOUBTFUL), ""),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, replace(INTOLERANT, waived=WAIVED)), ""),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, finding("plugin.tolerates-gate", Status.OK)), TAINTED),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, UNSEEN), TAINTED),
    (memory(UNHEALTHY, **WRONG, taint_tolerated=False), (RDMA,), Mode.GATE, (*FINE, UNSEEN), ""),
    (memory(UNHEALTHY, **WRONG, taint_tolerated=False), (RDMA,), Mode.GATE, FINE, ""),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, OTHERS), TAINTED),
    (memory(UNHEALTHY, **WRONG), (RDMA,), Mode.GATE, (*FINE, OTHERS, DOUBTFUL), ""),
    # While a remedy runs: it was there when that began, and no mode and no plugin takes it away.
    *(
        (memory(NodeState.REPAIRING, **WRONG, attempt=attempt(step)), (RDMA,), mode, found, TAINTED)
        for step in ("asked", "running")
        for mode, found in ((Mode.OBSERVE, FINE), (Mode.GATE, (*FINE, INTOLERANT)), (Mode.REPAIR, FINE))
    ),
    (memory(NodeState.VALIDATING, **WRONG, attempt=attempt("validating")), (RDMA,), Mode.OBSERVE, FINE, ""),
    (memory(UNHEALTHY, cases=(wrong(reason="bad: value!"),)), (RDMA,), Mode.GATE, FINE, "badvalue"),
    (
        memory(UNHEALTHY, cases=(wrong(), wrong(PCI, port=None, reason="NoDriver"))),
        (RDMA,),
        Mode.GATE,
        FINE,
        "NoDriver",
    ),
]


@pytest.mark.parametrize(("now", "profiles", "mode", "found", "value"), TAINTS)
def test_taints(
    now: AgentState, profiles: tuple[AssignedProfile, ...], mode: Mode, found: tuple[Finding, ...], value: str
) -> None:
    wanted = (Taint("nodeprep.io/unhealthy", value, "NoSchedule"),) if value else ()
    assert tell(now, *profiles, mode=mode, found=found).taints == wanted


WITHHELD = "; no taint: kube-system/rdma-dp does not tolerate it; see nodeprep explain plugin.tolerates-gate"
PLUGINS_POD = finding("plugin.tolerates-gate", Status.WARN, name="kube-system/rdma-dp")
SAYS_SO = [
    # memory, mode, findings, whether the Node says that the taint is withheld
    (memory(UNHEALTHY, **WRONG), Mode.GATE, (PLUGINS_POD,), True),
    (memory(BOOTSTRAP, pass_streaks={}), Mode.REPAIR, (PLUGINS_POD,), True),
    (memory(UNHEALTHY, **WRONG, taint_tolerated=False, intolerant={"kube-system/rdma-dp": None}), Mode.GATE, (), True),
    (memory(UNHEALTHY, **WRONG), Mode.OBSERVE, (PLUGINS_POD,), False),
    (memory(), Mode.GATE, (PLUGINS_POD,), False),
    (memory(UNHEALTHY, **WRONG), Mode.GATE, (OTHERS,), False),
]


@pytest.mark.parametrize(("now", "mode", "found", "says"), SAYS_SO)
def test_a_node_without_the_taint_that_it_ought_to_have_says_so(
    now: AgentState, mode: Mode, found: tuple[Finding, ...], says: bool
) -> None:
    told = tell(now, RDMA, mode=mode, found=(*FINE, *found))
    assert (told.conditions[0].message.endswith(WITHHELD), told.taint_hindrance) == (says, WITHHELD[2:] if says else "")
    assert not any(WITHHELD in one.message for one in told.conditions[1:])


def test_names_and_effect_are_the_operators() -> None:
    gate = GatePolicy(effect="PreferNoSchedule", unhealthy_taint="example.com/bad", rdma_label="example.com/rdma")
    assert tell(memory(UNHEALTHY, **WRONG), RDMA, gate=gate).taints == (
        Taint("example.com/bad", "NoSignal", "PreferNoSchedule"),
    )
    assert tell(memory(), RDMA, gate=gate).labels["example.com/rdma"] == "true"


OTHER_RDMA = AssignedProfile("rdma", (PORT,), gating=False, rdma=True)
LABELS: list[tuple[AgentState, tuple[AssignedProfile, ...], dict[str, str]]] = [
    (
        memory(),
        (RDMA, TCP),
        {CAPABLE: "true", "nodeprep.io/profile.rdma-roce": "ready", "nodeprep.io/profile.tcp-shared-eni": "ready"},
    ),
    (memory(), (TCP,), {"nodeprep.io/profile.tcp-shared-eni": "ready"}),
    (memory(), (), {}),
    (memory(UNHEALTHY, **WRONG), (RDMA, TCP), {"nodeprep.io/profile.tcp-shared-eni": "ready"}),
    (memory(UNHEALTHY, **WRONG), (RDMA, OTHER_RDMA), {}),
    (
        memory(UNHEALTHY, cases=(wrong(ENI),)),
        (RDMA, OTHER_RDMA),
        {CAPABLE: "true", "nodeprep.io/profile.rdma": "ready"},
    ),
    (memory(NodeState.AWAITING_HUMAN), (RDMA,), {}),
    (agent_state(), (RDMA,), {}),
]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(("now", "profiles", "labels"), LABELS)
def test_labels(now: AgentState, profiles: tuple[AssignedProfile, ...], labels: dict[str, str], mode: Mode) -> None:
    assert tell(now, *profiles, mode=mode).labels == {"nodeprep.io/state": str(now.state)} | labels


STAYS: list[tuple[NodeState, Mode, bool, bool]] = [
    # state, mode, full round, whether the bootstrap taint may stay
    (BOOTSTRAP, Mode.OBSERVE, False, True),
    (BOOTSTRAP, Mode.OBSERVE, True, False),
    (READY, Mode.OBSERVE, False, True),
    (BOOTSTRAP, Mode.GATE, True, True),
    (READY, Mode.GATE, False, False),
    (UNHEALTHY, Mode.GATE, True, True),
    (BOOTSTRAP, Mode.REPAIR, True, True),
    (READY, Mode.REPAIR, True, False),
]


@pytest.mark.parametrize(("state", "mode", "full_round", "stays"), STAYS)
def test_the_bootstrap_taint(state: NodeState, mode: Mode, full_round: bool, stays: bool) -> None:
    assert tell(memory(state), RDMA, mode=mode, full_round=full_round).bootstrap_taint_may_stay is stays


REMEDIES: list[tuple[tuple[Case, ...], list[str]]] = [
    ((wrong(remedy=LINK_UP),), ["port.state link_up eth2"]),
    ((wrong(remedy=LINK_UP, ago=30.0),), ["port.state link_up eth2"]),
    ((wrong(remedy=LINK_UP, ago=29.0),), []),
    ((wrong(),), []),
    ((wrong(remedy=LINK_UP, latched="it flaps"),), []),
    ((wrong(remedy=LINK_UP, passes=1),), []),
    ((wrong(remedy=LINK_UP, convicted_at=None),), []),
    ((wrong(remedy=LINK_UP, deferred_until=NOW + 1),), []),
    ((wrong(SYNC, remedy=LINK_UP),), []),
    ((wrong(remedy=LINK_UP), wrong(port=2, remedy=LINK_UP)), ["port.state link_up eth2"]),
    (
        (wrong(remedy=LINK_UP), wrong(port=2, remedy=Remedy("link_up", {"interface": "eth3"}))),
        ["port.state link_up eth2", "port.state link_up eth3"],
    ),
    ((wrong(remedy=LINK_UP), wrong(ENI, remedy=LINK_UP)), ["port.state link_up eth2", "eni.up link_up eth2"]),
    (
        (wrong(remedy=LINK_UP), wrong(PCI, port=None, remedy=Remedy("driver_bind", {"interface": "x"}))),
        ["pci.driver-bound driver_bind x"],
    ),
]


@pytest.mark.parametrize(("cases", "runs"), REMEDIES)
def test_planned_remedies(cases: tuple[Case, ...], runs: list[str]) -> None:
    would = tell(memory(UNHEALTHY, cases=cases), RDMA).planned_remedies
    assert [f"{one} {remedy.playbook} {remedy.args['interface']}" for one, remedy in would] == runs


TO_DO = tuple(replace(finding(one, port=port), fix=f"fix {one} {port}") for one in (PCI, PORT) for port in (1, 2))
FIXES: list[tuple[tuple[Case, ...], tuple[Finding, ...], str]] = [
    ((), TO_DO, ""),
    ((wrong(),), TO_DO, f"fix {PORT} 1"),
    ((wrong(port=2),), TO_DO, f"fix {PORT} 2"),
    ((wrong(), wrong(PCI)), TO_DO, f"fix {PCI} 1"),  # at the root of the other
    ((wrong(),), FINE, ""),  # not seen now
    ((wrong(SYNC),), TO_DO, ""),  # closes no gate
]


@pytest.mark.parametrize(("cases", "found", "fix"), FIXES)
def test_what_to_do_about_the_fault_that_closes_the_gate(
    cases: tuple[Case, ...], found: tuple[Finding, ...], fix: str
) -> None:
    assert tell(memory(UNHEALTHY, cases=cases), RDMA, found=found).fix == fix


LEGAL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@given(st.text())
def test_labels_and_reasons_are_what_kubernetes_takes(text: str) -> None:
    assert LEGAL.fullmatch(kubernetes_text.label(text))
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,62}", kubernetes_text.reason(text))


@given(st.text(max_size=400), st.text(max_size=300), st.integers(0, 300))
def test_a_line_is_printable_and_short_and_keeps_its_tail(text: str, tail: str, most: int) -> None:
    written = kubernetes_text.line(text, most, tail=tail)
    assert len(written) <= most
    assert written.isprintable()
    assert len(tail) > most or not tail.isprintable() or written.endswith(tail)


CUTS = [
    # text                  most  tail    line
    ("one two three", 13, "", "one two three"),
    ("one two three", 12, "", "one two..."),
    ("one two three", 10, "", "one two..."),
    ("one two three", 9, "", "one..."),
    ("one   two three", 10, "", "one..."),
    ("one two three", 3, "", ""),
    ("one two three", 16, "; more", "one two...; more"),
    ("seven " + "x" * 200, 100, "", "seven " + "x" * 91 + "..."),
    ("x" * 200, 100, "", "x" * 97 + "..."),
]


@pytest.mark.parametrize(("text", "most", "tail", "cut"), CUTS)
def test_a_line_is_cut_between_words_unless_one_is_too_long_to_be_one(
    text: str, most: int, tail: str, cut: str
) -> None:
    assert kubernetes_text.line(text, most, tail=tail) == cut


def test_an_area_names_three_that_are_yet_to_pass() -> None:
    ids = tuple(f"pci.c{number}" for number in range(21))
    many = replace(RDMA, gates=ids)
    told = tell(memory(BOOTSTRAP), many, found=tuple(finding(one, Status.OK) for one in ids))
    assert said(told, "RDMAReady").endswith("in this boot; not yet pci.c0, pci.c1, pci.c2 and 18 more")


@pytest.mark.parametrize("text", ["NoSignal", "profile.rdma-roce", "a", "x" * 63])
def test_a_legal_label_stays_as_it_is(text: str) -> None:
    assert kubernetes_text.label(text) == text


def test_two_names_do_not_become_one_label() -> None:
    long = "x" * 80
    assert (
        len(
            {
                kubernetes_text.label(long + "1"),
                kubernetes_text.label(long + "2"),
                kubernetes_text.label("a/b"),
                kubernetes_text.label("a-b"),
                kubernetes_text.label("a b"),
            }
        )
        == 5
    )


def test_the_label_of_a_profile_of_any_name_is_legal() -> None:
    named = replace(OTHER_RDMA, name="käse/" + "x" * 80)
    keys = set(tell(memory(), named).labels) - {"nodeprep.io/state", CAPABLE}
    assert all(key.startswith("nodeprep.io/profile.") and LEGAL.fullmatch(key.partition("/")[2]) for key in keys)
    assert len(keys) == 1


NO_EFFECT = [
    # mode, the profiles of the node, what it says at the end of its message
    (Mode.GATE, (), "gate has no effect here: gate.profiles names no profile of this node"),
    (Mode.GATE, (OTHER_RDMA,), f"gate has no effect here: gate.profiles names none of {OTHER_RDMA.name}"),
    (Mode.REPAIR, (OTHER_RDMA,), f"repair has no effect here: gate.profiles names none of {OTHER_RDMA.name}"),
    (Mode.OBSERVE, (OTHER_RDMA,), ""),
    (Mode.GATE, (RDMA,), ""),
    (Mode.GATE, (RDMA, OTHER_RDMA), ""),
]


@pytest.mark.parametrize(("mode", "assigned", "tail"), NO_EFFECT)
def test_a_mode_that_closes_nothing_here_says_so(mode: Mode, assigned: tuple[AssignedProfile, ...], tail: str) -> None:
    profiles = tuple(replace(one, gating=one is RDMA) for one in assigned)
    message = tell(memory(), *profiles, mode=mode).conditions[0].message
    assert message.partition("; mode ")[2] == tail


def test_a_node_without_profiles_says_so() -> None:
    assert tell(memory(), mode=Mode.OBSERVE).conditions[0] == NodeCondition(
        "nodeprep.io/TrainingReady", "True", "Ready", "no profile demands anything"
    )


def test_a_ready_node_is_not_ready_for_a_profile_whose_gate_stays_shut() -> None:
    told = tell(memory(cases=(wrong(convicted_at=None, message="mlx5_0/1 has no signal"),)), RDMA)
    assert (told.conditions[0].status, told.conditions[0].reason) == ("False", "ToBeConfirmed")
    assert (told.profiles[0].check, told.profiles[0].reason) == ("port.state", "ToBeConfirmed")
    why = "just seen to fail, to be confirmed or to pass first: port.state NoSignal: mlx5_0/1 has no signal"
    assert told.conditions[0].message == why


DRILL = DrillNotice("link-down", "eth1", ("eth1", "0000:5c:00.0"), "b1", 50.0, NOW + 300.0)


def test_a_drill_closes_the_gate_and_each_word_of_it_says_so() -> None:
    """As a fault does: taint, labels and states are the same. Only messages and the reason's drill differ."""
    now = memory(NodeState.UNHEALTHY, cases=(wrong(opened_at=NOW - 100.0),))
    fault, drill = tell(now, RDMA), tell(now, RDMA, drill=DRILL)
    assert (drill.taints, drill.labels, drill.planned_remedies) == (fault.taints, fault.labels, fault.planned_remedies)
    assert [(one.drill, one.ready, one.reason) for one in drill.profiles] == [
        ("link-down", False, fault.profiles[0].reason)
    ]
    assert fault.profiles[0].drill == ""
    assert drill.profiles[0].why == f"drill link-down of eth1: {fault.profiles[0].why}"
    for kind in ("TrainingReady", "RDMAReady"):
        assert "drill link-down of eth1: port.state" in said(drill, kind)
        assert "drill" not in said(fault, kind)


def test_a_real_fault_beside_a_drill_is_the_reason() -> None:
    made, real = wrong(opened_at=NOW - 100.0), wrong(ENI, place="0000:ff:00.0", opened_at=NOW - 100.0)
    told = tell(memory(NodeState.UNHEALTHY, cases=(made, real)), RDMA, drill=DRILL)
    assert (told.profiles[0].check, told.profiles[0].drill) == (ENI, "")
    assert "drill" not in said(told, "TrainingReady")


@pytest.mark.parametrize("mode", Mode)
def test_the_node_keeps_what_was_tried_and_the_approval_that_was_used(mode: Mode) -> None:
    """A node that loses its disk at each boot would else have all its tries anew, and use an approval again."""
    order = "pci_rescan;until=2026-12-01T00:00:00Z"
    tried = memory(attempts=(past(),), attempt=attempt(approval=order), approved="an older one")
    kept = tell(tried, RDMA, mode=mode).annotations
    assert kept[attempt_note.ATTEMPTS] == attempt_note.text(tried)
    assert kept[APPROVED] == order
    assert {attempt_note.ATTEMPTS, APPROVED}.isdisjoint(tell(memory(), RDMA, mode=mode).annotations)
