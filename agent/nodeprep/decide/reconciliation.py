"""One reconciliation: from what a round observed to the new agent state and what should stand on the Node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import AgentState
from nodeprep.decide import (
    active_faults,
    desired,
    fault_confirmation,
    gate_readiness,
    repair_budget,
    repair_slots,
    repair_validation,
    rule_change,
    taint_toleration,
)
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.desired import AgentTrouble, Desired, GatePolicy
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import AssignedProfile, Mode, ReadinessPolicy
from nodeprep.decide.repair_budget import BudgetClock
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairPolicy, RepairWaits
from nodeprep.decide.repair_validation import ValidationTerms
from nodeprep.decide.rule_change import NO_JUDGEMENT, FormerJudgement
from nodeprep.decide.state_table import TABLE
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.model import Check, Finding
from nodeprep.values import Value, field, replace


class Observed(Value):
    """What a round observed.

    `findings` are the current ones of all checks. Only checks in `observations` have a fresh look. `full_round`: every
    fact was looked at once since the start. `log` is the kernel log, which shows devices that were probed again.
    `drill` is the one that runs now. `wall` is the time of the round in seconds since 1970, by which attempts of former
    boots are told from those of today. `former` is what the former configuration says of what fails now.
    """

    findings: tuple[Finding, ...] = ()
    observations: Mapping[str, CheckObservation] = field(default_factory=dict)
    full_round: bool = False
    log: KernelLog | None = None
    drill: DrillNotice | None = None
    wall: float = 0.0
    trouble: AgentTrouble = field(default_factory=AgentTrouble)
    former: FormerJudgement = NO_JUDGEMENT


class AgentPolicy(Value):
    """What the operator set: the checks, the profiles of this node, the mode and the numbers."""

    checks: Mapping[str, Check]
    profiles: tuple[AssignedProfile, ...] = ()
    mode: Mode = Mode.OBSERVE
    gate: GatePolicy = field(default_factory=GatePolicy)
    confirmation: ConfirmationPolicy = field(default_factory=ConfirmationPolicy)
    readiness: ReadinessPolicy = field(default_factory=ReadinessPolicy)
    repair: RepairPolicy = field(default_factory=RepairPolicy)
    waits: RepairWaits = SHIPPED_WAITS


def reconcile(
    agent_state: AgentState, observed: Observed, policy: AgentPolicy, now: float
) -> tuple[AgentState, Desired]:
    """The agent state after a round, and what should stand on the Node.

    `agent_state` comes from `gate_readiness.state_at_start` or from here.
    """
    clock = BudgetClock(agent_state.boot_id, now, observed.wall)
    counting = repair_validation.counting(agent_state, observed.observations)
    confirmation = repair_validation.confirmation(agent_state, policy.confirmation, policy.waits)
    excused = repair_validation.excused(agent_state)
    agent_state = fault_confirmation.confirm(
        agent_state,
        observed.findings,
        counting,
        policy.checks,
        confirmation,
        now,
        observed.log,
        excused=excused,
        former=observed.former,
    )
    agent_state = repair_validation.settled(agent_state, observed.observations)
    is_seen = agent_state.attempt is not None and agent_state.attempt.check in counting
    limit = policy.readiness.validation_limit
    agent_state = repair_validation.judged(agent_state, ValidationTerms(clock, policy.waits, limit, is_seen))
    budget_spent = _is_budget_spent(agent_state, policy, clock)
    # A few states follow each other at most. A table without an end would be a fault, and must not hang the agent.
    for _ in TABLE:
        before = agent_state
        agent_state = gate_readiness.advance(
            agent_state, policy.profiles, policy.checks, policy.readiness, now, budget_spent=budget_spent
        )
        if agent_state is before:
            break
    profiles = gate_readiness.profile_readiness(agent_state, policy.profiles, policy.checks, now, observed.drill)
    if agent_state.gates != (gates := gate_readiness.open_gates(profiles)):
        agent_state = replace(agent_state, gates=gates)
    agent_state = rule_change.settled(agent_state, now, is_open=all(one.ready for one in profiles))
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
    if policy.mode is Mode.OBSERVE or wanted.taint_hindrance:
        agent_state = repair_slots.unguarded(agent_state)
    return agent_state, wanted


def _is_budget_spent(agent_state: AgentState, policy: AgentPolicy, clock: BudgetClock) -> bool:
    """Whether no fault that closes the gate and has a remedy has a try left. Where nothing was tried it is not."""
    if not agent_state.attempts:
        return False
    gates = gate_readiness.node_gates(policy.profiles)
    roots = active_faults.roots(active_faults.convictions(agent_state, gates, clock.now), policy.checks)
    return repair_budget.spent(agent_state, roots, policy.repair, clock)
