"""A damaged memory may hold times that have not come yet: what rests on one of them opens no gate."""

from __future__ import annotations

from nodeprep.agent_state import AgentState, BlindSince, Case, PassStreak
from nodeprep.decide.upgrade import UPGRADE_HOLD_SECONDS
from nodeprep.values import replace


def without_future_times(agent_state: AgentState, now: float) -> AgentState:
    """The memory without times after `now`: such proofs are none, such passes do not count, convictions stand."""
    return replace(
        agent_state,
        pass_streaks={check: _proof(streak, now) for check, streak in agent_state.pass_streaks.items()},
        cases=tuple(_case(case, now) for case in agent_state.cases),
        blind={check: BlindSince(_by(one.since, now), one.message) for check, one in agent_state.blind.items()},
        upgraded_at=None
        if agent_state.upgraded_at is None or _is_to_come(agent_state.upgraded_at, now)
        else agent_state.upgraded_at,
        intolerant={name: None if _is_to_come(gone, now) else gone for name, gone in agent_state.intolerant.items()},
        unproven_until={
            gate: at
            for gate, at in agent_state.unproven_until.items()
            if not _is_to_come(at, now + UPGRADE_HOLD_SECONDS)
        },
    )


def _is_to_come(at: float | None, now: float) -> bool:
    return at is not None and not at <= now  # what is no number at all (NaN) is in no past either


def _by(at: float, now: float) -> float:
    return now if _is_to_come(at, now) else at


def _proof(streak: PassStreak, now: float) -> PassStreak:
    return PassStreak() if _is_to_come(streak.first, now) or _is_to_come(streak.last, now) else streak


def _case(case: Case, now: float) -> Case:
    deferred = None if _is_to_come(case.deferred_until, now + UPGRADE_HOLD_SECONDS) else case.deferred_until
    times = (case.opened_at, case.passing_since, case.convicted_at, case.latched_at, *case.flaps)
    if not any(_is_to_come(at, now) for at in (*times, *(at for at, _ in case.looks))):
        return case if deferred == case.deferred_until else replace(case, deferred_until=deferred)
    return replace(
        case,
        opened_at=_by(case.opened_at, now),
        looks=tuple(look for look in case.looks if not _is_to_come(look[0], now)),
        passes=0,
        passing_since=None,
        convicted_at=None if case.convicted_at is None else _by(case.convicted_at, now),
        latched_at=None if case.latched_at is None else _by(case.latched_at, now),
        flaps=tuple(_by(turn, now) for turn in case.flaps),
        deferred_until=None,
    )
