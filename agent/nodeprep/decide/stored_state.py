"""What of a stored agent state still counts: after a boot, and after damage that put future times into it."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.agent_state import AgentState, BlindSince, Case, PassStreak
from nodeprep.decide import rule_change
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.values import replace


def surviving_reboot(agent_state: AgentState) -> AgentState:
    """What is still true of a node after a boot. The rest is as on a node that was never looked at.

    Of an attempt, `attempt_steps.at_start` says what becomes of it: it knows its own boot.
    """
    return AgentState(
        version=agent_state.version,
        configuration=agent_state.configuration,
        serial=agent_state.serial,
        hardware_profiles=agent_state.hardware_profiles,
        profile=agent_state.profile,
        want_by=agent_state.want_by,
        expect_by=agent_state.expect_by,
        chosen_by=agent_state.chosen_by,
        parts=agent_state.parts,
        baseline=agent_state.baseline,
        passed=agent_state.passed,
        taint_tolerated=agent_state.taint_tolerated,
        intolerant=dict.fromkeys(agent_state.intolerant),
        reset_done=agent_state.reset_done,
        attempt=agent_state.attempt,
        attempts=agent_state.attempts,
        approved=agent_state.approved,
        helped=agent_state.helped,
        unhelpful=agent_state.unhelpful,
        held=agent_state.held,
        slot=agent_state.slot,
    )


def has_plausible_times(agent_state: AgentState, now: float) -> bool:
    """Whether every time in it lies between the start of this boot and now. If not, it is damaged."""
    return all(0 <= time <= now for time in _times(agent_state))


def without_future_times(agent_state: AgentState, now: float) -> AgentState:
    """The agent state without times after `now`. Such proofs and passes do not count; convictions stay."""
    changed_at = agent_state.rules_changed_at
    if changed_at is not None and _is_future(changed_at, now):
        agent_state = rule_change.forgotten(agent_state)
    return replace(
        agent_state,
        pass_streaks={check: _streak_without_future(streak, now) for check, streak in agent_state.pass_streaks.items()},
        cases=tuple(_case_without_future(case, now) for case in agent_state.cases),
        blind={check: BlindSince(_at_most(one.since, now), one.message) for check, one in agent_state.blind.items()},
        intolerant={name: None if _is_future(gone, now) else gone for name, gone in agent_state.intolerant.items()},
        unproven_until={
            gate: at for gate, at in agent_state.unproven_until.items() if not _is_future(at, now + RULE_HOLD_SECONDS)
        },
    )


def _times(agent_state: AgentState) -> Iterator[float]:
    yield from (agent_state.at, agent_state.since)
    yield from (time for time in (agent_state.rules_changed_at, agent_state.all_passing_since) if time is not None)
    yield from (time for time in agent_state.intolerant.values() if time is not None)
    yield from (time - RULE_HOLD_SECONDS for time in agent_state.unproven_until.values())  # when they came
    yield from (blind.since for blind in agent_state.blind.values())
    for streak in agent_state.pass_streaks.values():
        yield from (streak.first, streak.last)
    for case in agent_state.cases:
        yield from _times_of(case)


def _times_of(case: Case) -> Iterator[float]:
    yield case.opened_at
    yield from (time for time, _ in case.looks)
    yield from case.flaps
    yield from (time for time in (case.passing_since, case.convicted_at, case.latched_at) if time is not None)
    if case.deferred_until is not None:
        yield case.deferred_until - RULE_HOLD_SECONDS  # when the rules changed


def _is_future(at: float | None, now: float) -> bool:
    return at is not None and not at <= now  # NaN counts as the future


def _at_most(at: float, now: float) -> float:
    return now if _is_future(at, now) else at


def _streak_without_future(streak: PassStreak, now: float) -> PassStreak:
    return PassStreak() if _is_future(streak.first, now) or _is_future(streak.last, now) else streak


def _case_without_future(case: Case, now: float) -> Case:
    deferred = None if _is_future(case.deferred_until, now + RULE_HOLD_SECONDS) else case.deferred_until
    times = (case.opened_at, case.passing_since, case.convicted_at, case.latched_at, *case.flaps)
    if not any(_is_future(at, now) for at in (*times, *(at for at, _ in case.looks))):
        return case if deferred == case.deferred_until else replace(case, deferred_until=deferred)
    return replace(
        case,
        opened_at=_at_most(case.opened_at, now),
        looks=tuple(look for look in case.looks if not _is_future(look[0], now)),
        passes=0,
        passing_since=None,
        convicted_at=None if case.convicted_at is None else _at_most(case.convicted_at, now),
        latched_at=None if case.latched_at is None else _at_most(case.latched_at, now),
        flaps=tuple(_at_most(time, now) for time in case.flaps),
        deferred_until=None,
    )
