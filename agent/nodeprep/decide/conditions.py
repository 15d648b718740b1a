"""The Node's conditions: whether a job may land here, also area by area, and in one line why not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache

from nodeprep.agent_state import AgentState, Case, NodeState
from nodeprep.decide import active_faults, gate_readiness, kubernetes_text
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import ProfileReadiness
from nodeprep.decide.rule_change import RuleChange
from nodeprep.model import Check, Finding, Status
from nodeprep.values import Value, replace

PREFIX = "nodeprep.io"
TRAINING_READY = f"{PREFIX}/TrainingReady"
PENDING_GATES_PREFIX = "new there and yet to pass:"
NO_EFFECT = "has no effect here: gate.profiles names"  # of a mode; `nodes` and `nodes lint` know it by these words
TROUBLE_LIMIT_CHARACTERS = 200  # characters of what is wrong with the agent itself, at the end of a message

# The areas of design 3.5, by families of checks. A family in no area, such as limits, counts for TrainingReady only.
RDMA_READY, ENI_READY, GPU_READY = f"{PREFIX}/RDMAReady", f"{PREFIX}/ENIReady", f"{PREFIX}/GPUReady"
AREAS: Mapping[str, frozenset[str]] = {
    RDMA_READY: frozenset(
        {"pci", "rdma", "port", "counter", "klog", "module", "erdma", "lingjun", "qos"},
    ),
    ENI_READY: frozenset({"imds", "eni"}),
    GPU_READY: frozenset({"gpu", "plugin"}),
    f"{PREFIX}/NetworkReady": frozenset({"cni", "route", "sysctl", "terway"}),
}
FAMILY_AREAS: Mapping[str, str] = {family: kind for kind, families in AREAS.items() for family in families}
# What is in another area than the rest of its family: checks, and resources of device plugins by how they begin.
CHECK_AREAS: Mapping[str, str] = {"klog.xid": GPU_READY}
PLUGIN_FAMILY = "plugin"
RESOURCE_AREAS: Mapping[str, str] = {
    "rdma/": RDMA_READY,
    "aliyun/erdma": RDMA_READY,
    "vpc.amazonaws.com/efa": RDMA_READY,
    "aliyun/eni": ENI_READY,
    "aliyun/member-eni": ENI_READY,
}


class NodeCondition(Value):
    """A desired condition of the Node. `status` is "True", "False" or "Unknown"; True is good."""

    type: str
    status: str
    reason: str
    message: str


class AgentTrouble(Value):
    """What is wrong with the agent itself, for the message of TrainingReady.

    `store`: the state file cannot be written. `config`: a file is bad. `publish`: the cluster denies writes, or
    enforces no admission policy. `exposed`: what of the node the agent could write and should not.
    """

    store: str = ""
    config: str = ""
    publish: str = ""
    exposed: str = ""


class ConditionInputs(Value):
    """What conditions and taints are made from.

    `gates` are the gates of all assigned profiles, and `convictions` the convicted cases of them. `closing_gates` are
    the gates that decide the state. `taint_hindrance`: why our taint is not set although it is due. `drill` is the one
    that runs now. `no_effect` says that the mode would set a taint and no profile of this node does, "" otherwise.
    """

    agent_state: AgentState
    findings: tuple[Finding, ...]
    profiles: tuple[ProfileReadiness, ...]
    checks: Mapping[str, Check]
    gates: tuple[str, ...]
    closing_gates: tuple[str, ...]
    convictions: tuple[Case, ...]
    now: float
    blind_after: float
    full_round: bool
    taint_hindrance: str = ""
    drill: DrillNotice | None = None
    no_effect: str = ""

    def blind_gate(self, gates: Iterable[str]) -> tuple[str, str] | None:
        """The first of the gates that could not look for too long, and what it could not look at."""
        for gate in gates if self.agent_state.blind else ():
            blind = self.agent_state.blind.get(gate)
            if blind is not None and self.now - blind.since >= self.blind_after:
                return gate, blind.message
        return None

    def main_fault(self, gates: Collection[str]) -> tuple[Case | None, str]:
        """The fault of these gates to look at first, and a text with the number of the others."""
        found = [case for case in self.convictions if case.check in gates]
        if not found:
            return None, ""
        more = len(found) - 1
        return active_faults.roots(found, self.checks, self.drill)[0], f" (and {more} more)" if more else ""

    def summary(self, case: Case) -> str:
        """A conviction in one line, with the drill that made it."""
        return active_faults.summary(case, self.drill)


def conditions(inputs: ConditionInputs, trouble: AgentTrouble) -> tuple[NodeCondition, ...]:
    """TrainingReady, and each area of which the node has something."""
    there = {(check, place): _area_of(inputs, check, place) for check, place in _there(inputs)}
    areas = (_area(inputs, kind, there) for kind in AREAS)
    return (_training_ready(inputs, trouble), *(one for one in areas if one is not None))


def _training_ready(inputs: ConditionInputs, trouble: AgentTrouble) -> NodeCondition:
    """Whether a job may land here, and in one line why not."""
    status, why, message = _overall(inputs)
    troubles = (
        inputs.taint_hindrance,
        inputs.no_effect,
        trouble.store,
        trouble.config,
        trouble.publish,
        trouble.exposed,
    )
    tail = "".join(f"; {kubernetes_text.line(one, TROUBLE_LIMIT_CHARACTERS)}" for one in troubles if one)
    return NodeCondition(TRAINING_READY, status, kubernetes_text.reason(why), kubernetes_text.line(message, tail=tail))


def _overall(inputs: ConditionInputs) -> tuple[str, str, str]:
    agent_state = inputs.agent_state
    first, others = inputs.main_fault(inputs.closing_gates)
    if first is not None:
        return "False", first.reason, f"{_words_of(agent_state)}: {inputs.summary(first)}{others}"
    blind = inputs.blind_gate(inputs.closing_gates)
    if blind:
        return "Unknown", gate_readiness.CANNOT_LOOK, f"{agent_state.state}: {blind[0]} could not look: {blind[1]}"
    if agent_state.state is not NodeState.READY or any(one.gating and not one.ready for one in inputs.profiles):
        why = next((one.why for one in _deciding_profiles(inputs) if one.why), agent_state.why)
        return "False", state_reason(inputs), why
    changed = next(
        (
            one
            for one in agent_state.cases
            if one.convicted and one.check in inputs.closing_gates and active_faults.is_deferred(one, inputs.now)
        ),
        None,
    )
    if changed is not None:
        rules = RuleChange.of(changed.deferred_by)
        said = f"the gate stays open, though only this {rules} sees {active_faults.summary(changed)}"
        return "True", rules.reason, said
    new = gate_readiness.missing_gates(agent_state, inputs.closing_gates, inputs.now)
    if new:
        return "True", "GatesToPass", f"the gate stays open, though {PENDING_GATES_PREFIX} {kubernetes_text.few(new)}"
    names = ", ".join(one.name for one in inputs.profiles if one.ready)
    return "True", "Ready", f"every gate check passes: {names}" if names else "no profile demands anything"


def _words_of(agent_state: AgentState) -> str:
    """The node state, and the remedy that runs or is judged."""
    attempt = agent_state.attempt
    return agent_state.state.value if attempt is None else f"{agent_state.state} by {attempt.remedy}"


def _deciding_profiles(inputs: ConditionInputs) -> tuple[ProfileReadiness, ...]:
    """The profiles that decide the state."""
    return tuple(one for one in inputs.profiles if one.gating) or inputs.profiles


def state_reason(inputs: ConditionInputs) -> str:
    """The reason if nothing is convicted: a refused profile, a failure to be confirmed, or the state itself."""
    if any(one.refusal for one in _deciding_profiles(inputs)):
        return gate_readiness.PROFILE_REFUSED
    # A ready node has a closed gate where a look at a profile that is new to it just failed.
    return (
        gate_readiness.TO_BE_CONFIRMED
        if inputs.agent_state.state is NodeState.READY
        else inputs.agent_state.state.value
    )


def _area(inputs: ConditionInputs, kind: str, there: Mapping[tuple[str, str], str | None]) -> NodeCondition | None:
    """The condition of an area. None if the node has nothing of the area, or if no profile asks for it.

    `there` has the area of each check and place.
    """
    if kind == RDMA_READY and not any(one.rdma for one in inputs.profiles):
        return None
    gates = [one for one in inputs.gates if _is_in(inputs, one, kind, there)]
    if not gates or kind not in there.values():
        return None
    inputs = replace(
        inputs, convictions=tuple(one for one in inputs.convictions if _area_of(inputs, one.check, one.place) == kind)
    )
    first, others = inputs.main_fault(gates)
    if first is not None:
        return NodeCondition(
            kind,
            "False",
            kubernetes_text.reason(first.reason),
            kubernetes_text.line(inputs.summary(first), tail=others),
        )
    blind = inputs.blind_gate(gates)
    if blind:
        return NodeCondition(
            kind, "Unknown", gate_readiness.CANNOT_LOOK, kubernetes_text.line(f"{blind[0]} could not look: {blind[1]}")
        )
    unproven = gate_readiness.missing_gates(inputs.agent_state, gates, inputs.now)
    missing = gate_readiness.missing_gates(
        inputs.agent_state, gates, inputs.now, is_open=inputs.agent_state.state is NodeState.READY
    )
    if missing:
        count = f"{len(gates) - len(missing)} of {len(gates)} gate checks passed often enough in this boot"
        return NodeCondition(
            kind,
            "Unknown",
            gate_readiness.BOOTSTRAP,
            kubernetes_text.line(f"{count}; not yet {kubernetes_text.few(missing)}"),
        )
    tail = f"; {PENDING_GATES_PREFIX} {kubernetes_text.few(unproven)}" if unproven else ""
    return NodeCondition(kind, "True", "Passed", f"{len(gates) - len(unproven)} of {len(gates)} gate checks pass{tail}")


def _there(inputs: ConditionInputs) -> frozenset[tuple[str, str]]:
    """The checks that the node has something for, and the places of that.

    A remembered fault counts although its device is gone. Before the first full round, what passed once counts too:
    otherwise a restart would remove the condition for a second.
    """
    found = {(one.check, one.subject.place) for one in inputs.findings if one.status is not Status.ABSENT}
    found |= {(case.check, case.place) for case in inputs.convictions}
    if not inputs.full_round:
        found |= {(check, place) for check, place, *_ in (key.split(" ") for key in inputs.agent_state.passed)}
    return frozenset(found)


def _is_in(inputs: ConditionInputs, check: str, kind: str, there: Mapping[tuple[str, str], str | None]) -> bool:
    """Whether a gate check counts for an area: by its id, or of device plugins by the resources that are there."""
    if family(check) != PLUGIN_FAMILY:
        return _area_of(inputs, check, "") == kind
    return any(one == check and area == kind for (one, _), area in there.items())


def _area_of(inputs: ConditionInputs, check: str, place: str) -> str | None:
    """The area of what a check says of a place; None if it counts for TrainingReady only."""
    if check in CHECK_AREAS:
        return CHECK_AREAS[check]
    if family(check) == PLUGIN_FAMILY:
        resource = next((kind for begin, kind in RESOURCE_AREAS.items() if place.startswith(begin)), None)
        if resource is not None or (not place and _serves_rdma_only(inputs)):
            return resource or RDMA_READY
    return FAMILY_AREAS.get(family(check))


def _serves_rdma_only(inputs: ConditionInputs) -> bool:
    """Whether the node has no GPU and a profile for RDMA: then its device plugins serve that."""
    gpus = any(family(one.check) == "gpu" and one.status is not Status.ABSENT for one in inputs.findings)
    return not gpus and any(one.rdma for one in inputs.profiles)


@cache  # of some hundred ids
def family(check: str) -> str:
    """The family of a check's id."""
    return check.partition(".")[0]
