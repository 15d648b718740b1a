"""What blocks a rollout on this node: a gate that closed after a change of the rules, is about to close, or is new."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.agent_state import READY_STAGE, AgentState
from nodeprep.decide import rule_change
from nodeprep.decide.gate_readiness import ProfileReadiness
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS

ROLLOUT_MARGIN_SECONDS = 60.0  # seconds after the last moment at which a new gate may close a profile


def rollout_blockers(agent_state: AgentState, profiles: Iterable[ProfileReadiness], now: float) -> tuple[str, ...]:
    """What closed a profile that was open before the rules changed: checks, or else the profile itself.

    A new version may read another value and find a fault in it. What the former version passed does not excuse that.
    Whether the node is at fault shows on the other nodes, which a waiting rollout leaves alone. So this lasts for a
    while. Only a profile that replaced an open one and never opened blocks without end: it may never open anywhere.
    """
    there = tuple(profiles)
    gone = [] if all(profile.ready for profile in there) else list(rule_change.replaced_profiles(agent_state))
    found: list[str] = []
    if agent_state.rules_changed_at is not None and agent_state.rules_changed_at <= now < _end_of_hold(
        agent_state, agent_state.rules_changed_at
    ):
        new = rule_change.pending_gates(agent_state)
        before = {name for name, stage in agent_state.former_gates if stage == READY_STAGE}
        for profile in there:
            if profile.ready or profile.name not in before:
                continue
            convicted = [case.check for case in agent_state.cases if case.convicted and case.check in profile.gates]
            found += convicted or sorted(new.intersection(profile.gates)) or [f"profile {profile.name}"]
        if not all(profile.ready for profile in there):  # the profile that replaced it may demand too much
            gone += sorted(before - {profile.name for profile in there})
    return tuple(dict.fromkeys((*found, *(f"profile {name}" for name in gone))))


def suspected_gates(agent_state: AgentState, profiles: Iterable[ProfileReadiness], now: float) -> tuple[str, ...]:
    """Gates of open profiles that failed at the last look, for a while after the rules changed, unconfirmed yet.

    Confirmation needs a second look. If the agent counted as ready until then, a rollout would go on to the next node.
    What the former rules saw, or what cannot be looked at any more, is not suspected.
    """
    changed_at = agent_state.rules_changed_at
    if changed_at is None or not rule_change.is_recent(agent_state, now):
        return ()
    gates = {gate for profile in profiles if profile.ready for gate in profile.gates}
    open_cases = (one for one in agent_state.cases if one.looks and not (one.convicted or one.blind))
    failed = (one.check for one in open_cases if one.looks[-1][1] and one.looks[-1][0] >= changed_at)
    return tuple(dict.fromkeys(check for check in failed if check in gates))


def _end_of_hold(agent_state: AgentState, changed_at: float) -> float:
    """How long this holds. New gates came a little after the rules changed, so their time ends a little later."""
    pending = rule_change.pending_gates(agent_state)
    ends = (agent_state.unproven_until[gate] + ROLLOUT_MARGIN_SECONDS for gate in pending)
    return max((changed_at + RULE_HOLD_SECONDS, *ends))
