"""What blocks a rollout on this node: a gate that closed after the upgrade, is about to close, or is new."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.agent_state import AgentState
from nodeprep.decide import upgrade
from nodeprep.decide.gate_readiness import READY, ProfileReadiness
from nodeprep.decide.upgrade import UPGRADE_HOLD_SECONDS

ROLLOUT_MARGIN_SECONDS = 60.0  # seconds after the last moment at which a new gate may close a profile


def rollout_blockers(agent_state: AgentState, profiles: Iterable[ProfileReadiness], now: float) -> tuple[str, ...]:
    """What closed a profile after an upgrade that was open before: checks, or else the profile itself.

    A new version may read another value and find a fault in it. What the former version passed does not excuse that.
    Whether the node is at fault shows on the other nodes, which a waiting rollout leaves alone.
    """
    if agent_state.upgraded_at is None or not agent_state.upgraded_at <= now < _end_of_hold(
        agent_state, agent_state.upgraded_at
    ):
        return ()
    new = upgrade.pending_gates(agent_state)
    before = {name for name, stage in agent_state.former_gates if stage == READY}
    there = tuple(profiles)
    found: list[str] = []
    for profile in there:
        if profile.ready or profile.name not in before:
            continue
        convicted = [case.check for case in agent_state.cases if case.convicted and case.check in profile.gates]
        found += convicted or sorted(new.intersection(profile.gates)) or [f"profile {profile.name}"]
    gone = before - {profile.name for profile in there}
    if not all(profile.ready for profile in there):  # the profile that replaced it may demand too much
        found += [f"profile {name}" for name in sorted(gone)]
    return tuple(dict.fromkeys(found))


def suspected_gates(agent_state: AgentState, profiles: Iterable[ProfileReadiness], now: float) -> tuple[str, ...]:
    """Gates of open profiles that failed at the last look, for a while after an upgrade, and are not confirmed yet.

    Confirmation needs a second look. If the agent counted as ready until then, a rollout would go on to the next node.
    What the former version saw, or what cannot be looked at any more, is not suspected.
    """
    if (
        agent_state.upgraded_at is None
        or not agent_state.upgraded_at <= now < agent_state.upgraded_at + UPGRADE_HOLD_SECONDS
    ):
        return ()
    gates = {gate for profile in profiles if profile.ready for gate in profile.gates}
    open_cases = (one for one in agent_state.cases if one.looks and not (one.convicted or one.blind))
    failed = (one.check for one in open_cases if one.looks[-1][1] and one.looks[-1][0] >= agent_state.upgraded_at)
    return tuple(dict.fromkeys(check for check in failed if check in gates))


def _end_of_hold(agent_state: AgentState, upgraded_at: float) -> float:
    """How long this holds. New gates came a little after the upgrade, so their time ends a little later."""
    return max(
        (
            upgraded_at + UPGRADE_HOLD_SECONDS,
            *(agent_state.unproven_until[gate] + ROLLOUT_MARGIN_SECONDS for gate in upgrade.pending_gates(agent_state)),
        )
    )
