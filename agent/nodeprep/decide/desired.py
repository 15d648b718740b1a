"""What should stand on the Node: the table of modes (design 3.4) as data, and the function that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide import (
    active_faults,
    attempt_note,
    attempt_steps,
    conditions,
    gate_readiness,
    kubernetes_text,
    taint_toleration,
)
from nodeprep.decide.attempt_note import ATTEMPTS
from nodeprep.decide.conditions import AREAS, PREFIX, TRAINING_READY, AgentTrouble, ConditionInputs, NodeCondition
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.fault_confirmation import ConfirmationPolicy
from nodeprep.decide.gate_readiness import Mode, ProfileReadiness, ReadinessPolicy
from nodeprep.decide.repair_orders import APPROVED
from nodeprep.history import repeat_offenders
from nodeprep.history.repeat_offenders import RepeatOffender
from nodeprep.model import Check, Finding, Remedy
from nodeprep.values import Value, field, replace

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
REPEATS_ANNOTATION = f"{AGENT_PREFIX}/repeat-offenders"
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
    """Which profiles set the taint (globs of names), with which effect, and the names of taints and labels.

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
    """A desired taint."""

    key: str
    value: str
    effect: str


class Desired(Value):
    """What should stand on the Node. Anything else of ours is to be removed.

    `taint_hindrance`: why our taint is not set although it is due, for people. `bootstrap_taint_may_stay`: the taint
    that others set at registration is left alone. `planned_remedies` are the remedies of root convictions that are old
    enough; only mode repair runs them. `fix` is what a human does about the fault that closes the gate, "" if none
    does.
    """

    state: NodeState
    profiles: tuple[ProfileReadiness, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    taint_hindrance: str = ""
    bootstrap_taint_may_stay: bool = True
    planned_remedies: tuple[tuple[str, Remedy], ...] = ()
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
    drill: DrillNotice | None = None,
) -> Desired:
    """What should stand on the Node. `full_round`: every fact was looked at once since the start.

    A `drill` closes gates as any fault does. Only the words say that it is one.
    """
    known_findings, known_profiles = tuple(findings), tuple(profiles)
    closing_gates = gate_readiness.node_gates(known_profiles)
    gates = tuple(dict.fromkeys((*closing_gates, *(one for profile in known_profiles for one in profile.gates))))
    inputs = ConditionInputs(
        agent_state=agent_state,
        findings=known_findings,
        profiles=known_profiles,
        checks=checks,
        gates=gates,
        closing_gates=closing_gates,
        convictions=active_faults.convictions(agent_state, gates, now),
        now=now,
        blind_after=confirmation.blind_after,
        full_round=full_round,
        taint_hindrance=taint_toleration.taint_hindrance(agent_state) if _is_taint_due(known_profiles, mode) else "",
        drill=drill,
        no_effect=_no_effect(known_profiles, mode),
    )
    return Desired(
        state=agent_state.state,
        profiles=known_profiles,
        conditions=conditions.conditions(inputs, trouble),
        labels=_labels(agent_state, known_profiles, gate),
        annotations=_annotations(agent_state),
        taints=_taints(inputs, mode, gate),
        taint_hindrance=inputs.taint_hindrance,
        bootstrap_taint_may_stay=_bootstrap_taint_may_stay(agent_state, mode, full_round=full_round),
        planned_remedies=_planned_remedies(inputs, readiness),
        fix=_fix(inputs),
    )


def _fix(inputs: ConditionInputs) -> str:
    """What to do about the first fault that closes the gate, as long as it is seen."""
    first, _ = inputs.main_fault(inputs.closing_gates)
    about = [one for one in inputs.findings if first and (one.check, one.subject) == (first.check, first.subject)]
    return about[0].fix if about else ""


def _labels(agent_state: AgentState, profiles: tuple[ProfileReadiness, ...], gate: GatePolicy) -> dict[str, str]:
    labels = {f"{PREFIX}/state": agent_state.state.value}
    labels |= {f"{PREFIX}/{kubernetes_text.label(f'profile.{one.name}')}": "ready" for one in profiles if one.ready}
    if any(one.ready and one.rdma for one in profiles):
        labels[gate.rdma_label] = "true"
    return labels


def _taints(inputs: ConditionInputs, mode: Mode, gate: GatePolicy) -> tuple[Taint, ...]:
    """Our taint, if the mode sets it, a gating profile is not ready, and the pods that the node needs tolerate it.

    While a remedy runs it stays in any case: it was there when the remedy began, and no job may land here meanwhile.
    """
    is_due = _is_taint_due(inputs.profiles, mode) and inputs.agent_state.taint_tolerated
    if not is_due and not attempt_steps.is_running(inputs.agent_state):
        return ()
    first, _ = inputs.main_fault(inputs.closing_gates)
    value = conditions.state_reason(inputs) if first is None else kubernetes_text.reason(first.reason)
    return (Taint(gate.unhealthy_taint, kubernetes_text.label(value), gate.effect),)


def _is_taint_due(profiles: Iterable[ProfileReadiness], mode: Mode) -> bool:
    """Whether the mode sets our taint and a gating profile is not ready."""
    return MODES[mode].taints and any(one.gating and not one.ready for one in profiles)


def _no_effect(profiles: tuple[ProfileReadiness, ...], mode: Mode) -> str:
    """That the mode never sets our taint here, for people; "" if it can, or if it sets none anywhere."""
    if not MODES[mode].taints or any(one.gating for one in profiles):
        return ""
    names = ", ".join(one.name for one in profiles)
    return f"mode {mode} {conditions.NO_EFFECT} {f'none of {names}' if names else 'no profile of this node'}"


def with_repeats(desired: Desired, offenders: tuple[RepeatOffender, ...]) -> Desired:
    """The same with an annotation that names the devices that fail again and again; without one where none does."""
    note = repeat_offenders.note(offenders)
    if desired.annotations.get(REPEATS_ANNOTATION, "") == note:
        return desired
    others = {key: value for key, value in desired.annotations.items() if key != REPEATS_ANNOTATION}
    return replace(desired, annotations=others | ({REPEATS_ANNOTATION: note} if note else {}))


def _annotations(agent_state: AgentState) -> dict[str, str]:
    """What the Node keeps for a node that loses its disk."""
    values = {
        HARDWARE_PROFILES_ANNOTATION: ",".join(sorted(agent_state.hardware_profiles)),
        RESET_DONE_ANNOTATION: agent_state.reset_done,
        ATTEMPTS: attempt_note.text(agent_state),
        APPROVED: attempt_note.approved(agent_state),
    }
    return {key: value for key, value in values.items() if value}


def _bootstrap_taint_may_stay(agent_state: AgentState, mode: Mode, *, full_round: bool) -> bool:
    if MODES[mode].keeps_bootstrap_taint:
        return agent_state.state is not NodeState.READY
    return not full_round


def _planned_remedies(inputs: ConditionInputs, readiness: ReadinessPolicy) -> tuple[tuple[str, Remedy], ...]:
    """The remedies of root convictions, in the order in which they would run, each once."""
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[str, Remedy]] = {}
    for case in active_faults.roots(inputs.convictions, inputs.checks):
        if case.remedy is not None and active_faults.is_repairable(case, readiness.remedy_after, inputs.now):
            key = (case.check, case.remedy.playbook, tuple(sorted(case.remedy.args.items())))
            found.setdefault(key, (case.check, case.remedy))
    return tuple(found.values())
