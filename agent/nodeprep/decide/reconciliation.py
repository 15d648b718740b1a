"""One reconciliation: from what a round observed to the new agent state and what should stand on the Node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import AgentState
from nodeprep.decide import desired, fault_confirmation, gate_readiness, taint_toleration
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.desired import AgentTrouble, Desired, GatePolicy
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import NO_REPAIR, AssignedProfile, Mode, ReadinessPolicy, Repair
from nodeprep.decide.state_table import TABLE
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.model import Check, Finding
from nodeprep.values import Value, field, replace


class Observed(Value):
    """What a round observed.

    `findings` are the current ones of all checks. Only checks in `observations` have a fresh look. `full_round`: every
    fact was looked at once since the start. `log` is the kernel log, which shows devices that were probed again.
    `drill` is the one that runs now.
    """

    findings: tuple[Finding, ...] = ()
    observations: Mapping[str, CheckObservation] = field(default_factory=dict)
    full_round: bool = False
    log: KernelLog | None = None
    drill: DrillNotice | None = None
    repair: Repair = NO_REPAIR
    trouble: AgentTrouble = field(default_factory=AgentTrouble)


class AgentPolicy(Value):
    """What the operator set: the checks, the profiles of this node, the mode and the numbers."""

    checks: Mapping[str, Check]
    profiles: tuple[AssignedProfile, ...] = ()
    mode: Mode = Mode.OBSERVE
    gate: GatePolicy = field(default_factory=GatePolicy)
    confirmation: ConfirmationPolicy = field(default_factory=ConfirmationPolicy)
    readiness: ReadinessPolicy = field(default_factory=ReadinessPolicy)


def reconcile(
    agent_state: AgentState, observed: Observed, policy: AgentPolicy, now: float
) -> tuple[AgentState, Desired]:
    """The agent state after a round, and what should stand on the Node.

    `agent_state` comes from `gate_readiness.state_at_start` or from here.
    """
    agent_state = fault_confirmation.confirm(
        agent_state, observed.findings, observed.observations, policy.checks, policy.confirmation, now, observed.log
    )
    # A few states follow each other at most. A table without an end would be a fault, and must not hang the agent.
    for _ in TABLE:
        before = agent_state
        agent_state = gate_readiness.advance(
            agent_state, policy.profiles, policy.checks, policy.readiness, now, repair=observed.repair
        )
        if agent_state is before:
            break
    profiles = gate_readiness.profile_readiness(agent_state, policy.profiles, policy.checks, now, observed.drill)
    if agent_state.gates != (gates := gate_readiness.open_gates(profiles)):
        agent_state = replace(agent_state, gates=gates)
    agent_state = taint_toleration.with_tolerations(agent_state, observed.findings, now, full_round=observed.full_round)
    wanted = desired.desired(
        agent_state,
        observed.findings,
        profiles,
        policy.mode,
        policy.checks,
        now=now,
        gate=policy.gate,
        confirmation=policy.confirmation,
        readiness=policy.readiness,
        trouble=observed.trouble,
        full_round=observed.full_round,
        drill=observed.drill,
    )
    return agent_state, wanted
