"""The Node's conditions: whether a job may land here, area by area, and in one line why not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nodeprep.agent_state import AgentState, Case, NodeState
from nodeprep.decide import active_faults, gate_readiness, kubernetes_text
from nodeprep.decide.gate_readiness import ProfileReadiness
from nodeprep.model import Check, Finding, Status
from nodeprep.values import Value

PREFIX = "nodeprep.io"
TRAINING_READY = f"{PREFIX}/TrainingReady"
# Of a ready node to which a profile came whose gate stays shut, for a look at it just failed.
TO_BE_CONFIRMED = "ToBeConfirmed"
NEWCOMERS = "new there and yet to pass:"
TROUBLE_LIMIT_CHARACTERS = 200  # characters of what is wrong with the agent itself, at the end of a message

# The areas of design 3.5, by families of checks; what is in none, such as limits, counts for TrainingReady alone.
RDMA_READY = f"{PREFIX}/RDMAReady"
AREAS: Mapping[str, frozenset[str]] = {
    RDMA_READY: frozenset(
        {"pci", "rdma", "port", "counter", "klog", "module", "erdma", "lingjun", "qos"},
    ),
    f"{PREFIX}/ENIReady": frozenset({"imds", "eni"}),
    f"{PREFIX}/GPUReady": frozenset({"gpu", "plugin"}),
    f"{PREFIX}/NetworkReady": frozenset({"cni", "route", "sysctl", "terway"}),
}


class NodeCondition(Value):
    """A Node condition that ought to be there; `status` is "True", "False" or "Unknown", positive polarity."""

    type: str
    status: str
    reason: str
    message: str


class AgentTrouble(Value):
    """What is wrong with the agent itself, for the message of TrainingReady.

    A memory that cannot be kept, a bad file, writes that the cluster denies or does not admission policy, and what of
    the node it could write and should not.
    """

    store: str = ""
    config: str = ""
    publish: str = ""
    exposed: str = ""


class ConditionInputs(Value):
    """What conditions and taints are read from.

    `gates` are those of all assigned profiles and `convicted` what is believed of them; `closing` are the gates that
    the state goes by. `untainted`: why our taint does not stand though it ought to.
    """

    agent_state: AgentState
    findings: tuple[Finding, ...]
    profiles: tuple[ProfileReadiness, ...]
    checks: Mapping[str, Check]
    gates: tuple[str, ...]
    closing: tuple[str, ...]
    convicted: tuple[Case, ...]
    now: float
    blind_after: float
    full_round: bool
    untainted: str = ""

    def blind(self, gates: Iterable[str]) -> tuple[str, str] | None:
        """The first of the gates that could not look for too long, and at what."""
        for gate in gates if self.agent_state.blind else ():
            blind = self.agent_state.blind.get(gate)
            if blind is not None and self.now - blind.since >= self.blind_after:
                return gate, blind.message
        return None

    def against(self, gates: Collection[str]) -> tuple[Case | None, str]:
        """What a person should look at first among these gates, and how many findings there are beside it."""
        found = [case for case in self.convicted if case.check in gates]
        if not found:
            return None, ""
        more = len(found) - 1
        return active_faults.roots(found, self.checks)[0], f" (and {more} more)" if more else ""


def conditions(sight: ConditionInputs, trouble: AgentTrouble) -> tuple[NodeCondition, ...]:
    """TrainingReady, and each area of which the node has something."""
    areas = (_area(sight, kind, families) for kind, families in AREAS.items())
    return (_training_ready(sight, trouble), *(one for one in areas if one is not None))


def _training_ready(sight: ConditionInputs, trouble: AgentTrouble) -> NodeCondition:
    """Whether a job may land here, and in one line why not."""
    status, why, message = _overall(sight)
    troubles = (sight.untainted, trouble.store, trouble.config, trouble.publish, trouble.exposed)
    tail = "".join(f"; {kubernetes_text.line(one, TROUBLE_LIMIT_CHARACTERS)}" for one in troubles if one)
    return NodeCondition(TRAINING_READY, status, kubernetes_text.reason(why), kubernetes_text.line(message, tail=tail))


def _overall(sight: ConditionInputs) -> tuple[str, str, str]:
    agent_state = sight.agent_state
    first, others = sight.against(sight.closing)
    if first is not None:
        return "False", first.reason, f"{agent_state.state}: {active_faults.summary(first)}{others}"
    blind = sight.blind(sight.closing)
    if blind:
        return "Unknown", "CannotLook", f"{agent_state.state}: {blind[0]} could not look: {blind[1]}"
    if agent_state.state is not NodeState.READY or any(one.gating and not one.ready for one in sight.profiles):
        why = next((one.why for one in _chosen(sight) if one.why), agent_state.why)
        return "False", state_reason(sight), why
    changed = next(
        (one for one in agent_state.cases if one.check in sight.closing and active_faults.is_deferred(one, sight.now)),
        None,
    )
    if changed is not None:
        return (
            "True",
            "VerdictChangedByUpgrade",
            f"the gate stays open, though only this version sees {active_faults.summary(changed)}",
        )
    new = gate_readiness.missing_gates(agent_state, sight.closing, sight.now)
    if new:
        return "True", "GatesToPass", f"the gate stays open, though {NEWCOMERS} {kubernetes_text.few(new)}"
    names = ", ".join(one.name for one in sight.profiles if one.ready)
    return "True", "Ready", f"every gate check passes: {names}" if names else "no profile demands anything"


def _chosen(sight: ConditionInputs) -> tuple[ProfileReadiness, ...]:
    """The profiles that the state goes by."""
    return tuple(one for one in sight.profiles if one.gating) or sight.profiles


def state_reason(sight: ConditionInputs) -> str:
    """The reason where nothing is convicted: a refused profile, a look to be confirmed, or the state itself."""
    if any(one.refused for one in _chosen(sight)):
        return "ProfileRefused"
    return TO_BE_CONFIRMED if sight.agent_state.state is NodeState.READY else sight.agent_state.state.value


def _area(sight: ConditionInputs, kind: str, families: frozenset[str]) -> NodeCondition | None:
    """The condition of an area; None where this node has nothing that it is about, or no profile asks for it."""
    gates = [one for one in sight.gates if family(one) in families]
    if kind == RDMA_READY and not any(one.rdma for one in sight.profiles):
        return None
    if not gates or not _applies(sight, families):
        return None
    first, others = sight.against(gates)
    if first is not None:
        return NodeCondition(
            kind,
            "False",
            kubernetes_text.reason(first.reason),
            kubernetes_text.line(active_faults.summary(first), tail=others),
        )
    blind = sight.blind(gates)
    if blind:
        return NodeCondition(
            kind, "Unknown", "CannotLook", kubernetes_text.line(f"{blind[0]} could not look: {blind[1]}")
        )
    unproven = gate_readiness.missing_gates(sight.agent_state, gates, sight.now)
    missing = gate_readiness.missing_gates(
        sight.agent_state, gates, sight.now, is_open=sight.agent_state.state is NodeState.READY
    )
    if missing:
        count = f"{len(gates) - len(missing)} of {len(gates)} gate checks passed often enough in this boot"
        return NodeCondition(
            kind, "Unknown", "Bootstrap", kubernetes_text.line(f"{count}; not yet {kubernetes_text.few(missing)}")
        )
    tail = f"; {NEWCOMERS} {kubernetes_text.few(unproven)}" if unproven else ""
    return NodeCondition(kind, "True", "Passed", f"{len(gates) - len(unproven)} of {len(gates)} gate checks pass{tail}")


def _applies(sight: ConditionInputs, families: frozenset[str]) -> bool:
    """Whether the node has what these checks are about.

    A fault that is remembered counts though its device is gone; before the first full round, so does what passed once,
    or a restart would take the condition away for a second.
    """
    if any(family(one.check) in families and one.status is not Status.ABSENT for one in sight.findings):
        return True
    if any(family(case.check) in families for case in sight.convicted):
        return True
    return not sight.full_round and any(family(key) in families for key in sight.agent_state.passed)


def family(check: str) -> str:
    """The family of a check's id, or of a key of `AgentState.passed`."""
    return check.partition(".")[0]
