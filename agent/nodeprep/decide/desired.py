"""What the world should be told of this node: the table of design 3.4 as data, and what reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide import active_faults, conditions, gate_readiness, kubernetes_text, taint_toleration
from nodeprep.decide.conditions import AREAS, PREFIX, TRAINING_READY, AgentTrouble, ConditionInputs, NodeCondition
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import Mode, ProfileReadiness, ReadinessPolicy
from nodeprep.model import Check, Finding, Remedy
from nodeprep.values import Value, field

__all__ = [
    "AREAS",
    "PREFIX",
    "TRAINING_READY",
    "AgentTrouble",
    "Desired",
    "GatePolicy",
    "NodeCondition",
    "Taint",
    "desired",
]

AGENT_PREFIX = (
    f"agent.{PREFIX}"  # of annotations: what humans write has the other one, and the admission policy keeps us from it
)
HARDWARE_PROFILES_ANNOTATION = f"{AGENT_PREFIX}/profiles"
RESET_DONE_ANNOTATION = f"{AGENT_PREFIX}/reset"
NO_TROUBLE = AgentTrouble()


class ModeRow(Value):
    """What a mode does to the taints of a node with a gating profile (design 3.4)."""

    taints: bool
    keeps_bootstrap_taint: bool


MODES: Mapping[Mode, ModeRow] = {
    Mode.OBSERVE: ModeRow(taints=False, keeps_bootstrap_taint=False),
    Mode.GATE: ModeRow(taints=True, keeps_bootstrap_taint=True),
    Mode.REPAIR: ModeRow(taints=True, keeps_bootstrap_taint=True),
}


class GatePolicy(Value):
    """Which profiles set the taint (globs of names), with which effect, and what the taints and labels are called.

    `allow_auto`: a profile for RDMA that only hardware chose may open a gate without a baseline. Names: design 3.4;
    some autoscalers want a prefix of their own for a bootstrap taint (docs/autoscalers.md).
    """

    profiles: tuple[str, ...] = ("rdma", "rdma-*")
    allow_auto: bool = False
    effect: str = "NoSchedule"
    unhealthy_taint: str = "nodeprep.io/unhealthy"
    bootstrap_taint: str = "nodeprep.io/bootstrap"
    rdma_label: str = "feature.node.kubernetes.io/network-rdma.capable"


class Taint(Value):
    """A taint that ought to be there."""

    key: str
    value: str
    effect: str


class Desired(Value):
    """What ought to stand: of ours, whatever is not in it is to be removed.

    `labels` and `annotations` by key; `untainted`: why our taint does not stand though it ought to, for people;
    `bootstrap_taint_may_stay`: whether the taint that others set at registration is left alone; `would_run` are
    remedies of root convictions that stood long enough; no mode but repair runs them. `fix` is what a human does about
    the fault that closes the gate, "" where none does.
    """

    state: NodeState
    profiles: tuple[ProfileReadiness, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    untainted: str = ""
    bootstrap_taint_may_stay: bool = True
    would_run: tuple[tuple[str, Remedy], ...] = ()
    fix: str = ""


def desired(
    agent_state: AgentState,
    findings: Iterable[Finding],
    profiles: Iterable[ProfileReadiness],
    mode: Mode,
    checks: Mapping[str, Check],
    *,
    now: float,
    gate: GatePolicy,
    confirmation: ConfirmationPolicy,
    readiness: ReadinessPolicy,
    trouble: AgentTrouble = NO_TROUBLE,
    full_round: bool = True,
) -> Desired:
    """What the world should be told. `full_round`: every fact was looked at once since the start."""
    said, assigned = tuple(findings), tuple(profiles)
    closing = gate_readiness.node_gates(assigned)
    gates = tuple(dict.fromkeys((*closing, *(one for profile in assigned for one in profile.gates))))
    sight = ConditionInputs(
        agent_state=agent_state,
        findings=said,
        profiles=assigned,
        checks=checks,
        gates=gates,
        closing=closing,
        convicted=active_faults.convictions(agent_state, gates, now),
        now=now,
        blind_after=confirmation.blind_after,
        full_round=full_round,
        untainted=taint_toleration.why_untainted(agent_state) if _is_due(assigned, mode) else "",
    )
    return Desired(
        state=agent_state.state,
        profiles=assigned,
        conditions=conditions.conditions(sight, trouble),
        labels=_labels(agent_state, assigned, gate),
        annotations=_annotations(agent_state),
        taints=_taints(sight, mode, gate),
        untainted=sight.untainted,
        bootstrap_taint_may_stay=_bootstrap_taint_may_stay(agent_state, mode, full_round=full_round),
        would_run=_would_run(sight, readiness),
        fix=_fix(sight),
    )


def _fix(sight: ConditionInputs) -> str:
    """What to do about the first fault that closes the gate, as long as it is seen."""
    first, _ = sight.against(sight.closing)
    about = [one for one in sight.findings if first and (one.check, one.subject) == (first.check, first.subject)]
    return about[0].fix if about else ""


def _labels(agent_state: AgentState, profiles: tuple[ProfileReadiness, ...], gate: GatePolicy) -> dict[str, str]:
    labels = {f"{PREFIX}/state": agent_state.state.value}
    labels |= {f"{PREFIX}/{kubernetes_text.label(f'profile.{one.name}')}": "ready" for one in profiles if one.ready}
    if any(one.ready and one.rdma for one in profiles):
        labels[gate.rdma_label] = "true"
    return labels


def _taints(sight: ConditionInputs, mode: Mode, gate: GatePolicy) -> tuple[Taint, ...]:
    """Our taint, where the mode sets one, a gating profile is not ready and the pods it needs would bear it."""
    if not _is_due(sight.profiles, mode) or not sight.agent_state.taint_tolerated:
        return ()
    first, _ = sight.against(sight.closing)
    value = conditions.state_reason(sight) if first is None else kubernetes_text.reason(first.reason)
    return (Taint(gate.unhealthy_taint, kubernetes_text.label(value), gate.effect),)


def _is_due(profiles: Iterable[ProfileReadiness], mode: Mode) -> bool:
    """Whether our taint ought to stand."""
    return MODES[mode].taints and any(one.gating and not one.ready for one in profiles)


def _annotations(agent_state: AgentState) -> dict[str, str]:
    """What the Node keeps for a node that loses its disk."""
    kept = {
        HARDWARE_PROFILES_ANNOTATION: ",".join(sorted(agent_state.hardware_profiles)),
        RESET_DONE_ANNOTATION: agent_state.reset_done,
    }
    return {key: value for key, value in kept.items() if value}


def _bootstrap_taint_may_stay(agent_state: AgentState, mode: Mode, *, full_round: bool) -> bool:
    if MODES[mode].keeps_bootstrap_taint:
        return agent_state.state is not NodeState.READY
    return not full_round


def _would_run(sight: ConditionInputs, readiness: ReadinessPolicy) -> tuple[tuple[str, Remedy], ...]:
    """The remedies of root convictions, in the order in which they would run, each once."""
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[str, Remedy]] = {}
    for case in active_faults.roots(sight.convicted, sight.checks):
        if case.remedy is not None and active_faults.repairable(case, readiness.remedy_after, sight.now):
            key = (case.check, case.remedy.playbook, tuple(sorted(case.remedy.args.items())))
            found.setdefault(key, (case.check, case.remedy))
    return tuple(found.values())
