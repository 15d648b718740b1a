"""A bad release stops its own rollout: what only the new version sees does not close the gate yet (design 3.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodeprep.agent_state import AgentState, Case
from nodeprep.values import replace

UPGRADE_HOLD_SECONDS = 600.0  # seconds after an upgrade; design 3.5


def after_upgrade(agent_state: AgentState, version: str, now: float) -> AgentState:
    """The agent state as this version finds it. If another version wrote it, its passes are kept separately."""
    if agent_state.version == version:
        return agent_state
    if not agent_state.version:
        return replace(agent_state, version=version)
    return replace(
        agent_state,
        version=version,
        former_passed=agent_state.passed,
        former_gates=agent_state.gates,
        upgraded_at=now,
        came_with_version=(),
    )


def deferred_until(agent_state: AgentState, case: Case) -> float | None:
    """Until when a conviction must not close the gate.

    Either the former version passed this subject with the same value, or it did not have the check, and the check came
    to an open profile with this version.
    """
    if (
        agent_state.upgraded_at is None
        or case.convicted_at is None
        or case.convicted_at >= agent_state.upgraded_at + UPGRADE_HOLD_SECONDS
    ):
        return None
    if case.check in pending_gates(agent_state):
        return agent_state.upgraded_at + UPGRADE_HOLD_SECONDS
    if case.convicted_at < agent_state.upgraded_at:
        return None
    former = agent_state.former_passed.get(AgentState.passed_key(case.check, case.subject))
    return agent_state.upgraded_at + UPGRADE_HOLD_SECONDS if former and former == case.observed else None


def deferred_cases(agent_state: AgentState, now: float) -> tuple[Case, ...]:
    """Convictions that do not close the gate now."""
    return tuple(
        one for one in version_disagreements(agent_state) if one.deferred_until is not None and now < one.deferred_until
    )


def version_disagreements(agent_state: AgentState) -> tuple[Case, ...]:
    """Convictions that only this version sees, deferred or not any more. While there is one, `/readyz` says no.

    A gate closes in the end, because the new version may be right. Whether the rollout goes on is for a human to say.
    """
    return tuple(one for one in agent_state.cases if one.convicted and one.deferred_until is not None)


def with_pending_gates(
    agent_state: AgentState, gates: Iterable[str], now: float, *, configured: bool = False
) -> AgentState:
    """The agent state after these gates came to an open profile.

    It stays open for a while although they have not passed.

    `configured`: the configuration changed since the start. So the gates come from it, and no rollout waits for them.
    """
    new_gates = sorted(set(gates) - agent_state.unproven_until.keys())
    if not new_gates:
        return agent_state
    upgraded = (
        agent_state.upgraded_at is not None
        and agent_state.upgraded_at <= now < agent_state.upgraded_at + UPGRADE_HOLD_SECONDS
    )
    agent_state = replace(
        agent_state,
        unproven_until={**agent_state.unproven_until, **dict.fromkeys(new_gates, now + UPGRADE_HOLD_SECONDS)},
        came_with_version=(*agent_state.came_with_version, *(new_gates if upgraded and not configured else ())),
    )
    cases = (
        replace(one, deferred_until=deferred_until(agent_state, one)) if one.check in new_gates else one
        for one in agent_state.cases
    )
    return replace(agent_state, cases=tuple(cases))


def pending_gates(agent_state: AgentState) -> frozenset[str]:
    """Gates that came with this version to an open profile and have not passed yet."""
    return frozenset(agent_state.came_with_version) & agent_state.unproven_until.keys()


def pending_until(agent_state: AgentState, blind: Collection[str], now: float) -> dict[str, float]:
    """`AgentState.unproven_until` after a round with these blind checks.

    A check that can look again has its whole time.
    """
    no_longer_blind = agent_state.blind.keys() - set(blind)
    return {
        gate: now + UPGRADE_HOLD_SECONDS if gate in no_longer_blind else until
        for gate, until in agent_state.unproven_until.items()
    }
