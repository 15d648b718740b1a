"""What of the memory may be believed after a start, and what outlives a boot."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.agent_state import AgentState, Case
from nodeprep.decide.upgrade import UPGRADE_HOLD_SECONDS


def surviving_reboot(agent_state: AgentState) -> AgentState:
    """What is still true of a node after a boot; all else is as of a node that was never looked at."""
    return AgentState(
        version=agent_state.version,
        serial=agent_state.serial,
        hardware_profiles=agent_state.hardware_profiles,
        profile=agent_state.profile,
        chosen_by=agent_state.chosen_by,
        parts=agent_state.parts,
        baseline=agent_state.baseline,
        passed=agent_state.passed,
        taint_tolerated=agent_state.taint_tolerated,
        intolerant=dict.fromkeys(agent_state.intolerant),
        reset_done=agent_state.reset_done,
    )


def has_plausible_times(agent_state: AgentState, now: float) -> bool:
    """Whether every time in it lies in this boot, between its start and now; else somebody or something damaged it."""
    return all(0 <= time <= now for time in _times(agent_state))


def _times(agent_state: AgentState) -> Iterator[float]:
    yield from (agent_state.at, agent_state.since)
    yield from (time for time in (agent_state.upgraded_at, agent_state.all_passing_since) if time is not None)
    yield from (time for time in agent_state.intolerant.values() if time is not None)
    yield from (time - UPGRADE_HOLD_SECONDS for time in agent_state.unproven_until.values())  # when they came
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
        yield case.deferred_until - UPGRADE_HOLD_SECONDS  # when the version changed
