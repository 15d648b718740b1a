"""One turn of the reconciler: from what a round saw to what is remembered and what the world should be told. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import AgentState
from nodeprep.decide import desired, fault_confirmation, gate_readiness, taint_toleration
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.desired import AgentTrouble, Desired, GatePolicy
from nodeprep.decide.gate_readiness import NO_REPAIR, AssignedProfile, Mode, ReadinessPolicy, Repair
from nodeprep.decide.state_table import TABLE
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.model import Check, Finding
from nodeprep.values import Value, field, replace


class Observed(Value):
    """What a round has to say.

    `findings` are the standing ones of all checks; only those of checks in `fresh` were looked at afresh. `full_round`:
    every fact was looked at once since the start. `log` is the kernel log, which tells of devices set up anew.
    """

    findings: tuple[Finding, ...] = ()
    fresh: Mapping[str, CheckObservation] = field(default_factory=dict)
    full_round: bool = False
    log: KernelLog | None = None
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


def reconcile(agent_state: AgentState, heard: Observed, rules: AgentPolicy, now: float) -> tuple[AgentState, Desired]:
    """The memory after a round, and what ought to stand in the world. `agent_state` comes from `begin` or from here."""
    agent_state = fault_confirmation.confirm(
        agent_state, heard.findings, heard.fresh, rules.checks, rules.confirmation, now, heard.log
    )
    # A few states follow each other at most. A table without an end would be a fault, and must not hang the agent.
    for _ in TABLE:
        before = agent_state
        agent_state = gate_readiness.advance(
            agent_state, rules.profiles, rules.checks, rules.readiness, now, repair=heard.repair
        )
        if agent_state is before:
            break
    stands = gate_readiness.profile_readiness(agent_state, rules.profiles, rules.checks, now)
    if agent_state.gates != (gates := gate_readiness.open_gates(stands)):
        agent_state = replace(agent_state, gates=gates)
    agent_state = taint_toleration.with_tolerations(agent_state, heard.findings, now, full_round=heard.full_round)
    told = desired.desired(
        agent_state,
        heard.findings,
        stands,
        rules.mode,
        rules.checks,
        now=now,
        gate=rules.gate,
        confirmation=rules.confirmation,
        readiness=rules.readiness,
        trouble=heard.trouble,
        full_round=heard.full_round,
    )
    return agent_state, told
