"""What is believed of what is seen: convictions, releases, latches, proofs, and when to look again (design 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak
from nodeprep.decide import cases, check_results, stored_state, upgrade
from nodeprep.decide.cases import MESSAGE_LIMIT_CHARACTERS, OBSERVED_LIMIT_CHARACTERS
from nodeprep.decide.check_results import CheckObservation, CheckResult
from nodeprep.decide.confirmation_policy import RULES, ConfirmationPolicy, ConfirmationRule
from nodeprep.facts.machine.kernel_log import PROBE_LINE, KernelLog
from nodeprep.model import Check, Finding, Severity, Subject
from nodeprep.values import replace

__all__ = ["RULES", "CheckObservation", "ConfirmationPolicy", "ConfirmationRule", "confirm", "reset", "wanted_looks"]

PASSED_LIMIT_SUBJECTS = 1000  # subjects; a node of 8 GPUs and 8 NICs has some 200


def confirm(  # noqa: PLR0917 - the memory, and what one round says to it
    agent_state: AgentState,
    findings: Iterable[Finding],
    fresh: Mapping[str, CheckObservation],
    checks: Mapping[str, Check],
    policy: ConfirmationPolicy,
    now: float,
    log: KernelLog | None = None,
) -> AgentState:
    """The memory after a round; the very same value if nothing changed.

    `findings` are the standing ones of all checks, `fresh` the checks that were looked at afresh, by id: only those
    count. `log` frees latches of devices that were set up anew since.
    """
    now = max((now, *(observation.ended for observation in fresh.values())))
    before = stored_state.without_future_times(agent_state, now)
    said = check_results.check_results(findings, fresh, checks)
    blind = _blinded(before.blind, said)
    after = replace(
        before,
        pass_streaks=_pass_streaks(before.pass_streaks, said, policy),
        cases=_freed(_cases(before, said, policy), log, now),
        blind=blind,
        unproven_until=upgrade.waiting_on(before, blind, now),
        passed=_passing(before.passed, said),
    )
    return agent_state if after == agent_state else after


def wanted_looks(
    agent_state: AgentState, checks: Mapping[str, Check], gates: Iterable[str], policy: ConfirmationPolicy
) -> dict[str, float]:
    """By check id, when a look is wanted that no period gives. A time that has gone by means at once.

    It is wanted to confirm a failure, or for the next pass of a proof (of a gate that is not proven) or of a release.
    """
    wanted: dict[str, float] = {}
    for case in agent_state.cases:
        check = checks.get(case.check)
        at = None if check is None else _wanted(case, policy.rules[check.confirmation], policy)
        if at is not None:
            wanted[case.check] = min(at, wanted.get(case.check, at))
    for gate in gates:
        streak = agent_state.pass_streaks.get(gate)
        if gate in checks and streak is not None and streak.passes and not streak.proven:
            at = _next_pass(streak.first, streak.last, policy)
            wanted[gate] = min(at, wanted.get(gate, at))
    return wanted


def reset(agent_state: AgentState, now: float) -> AgentState:
    """The memory after a human said so: nothing is proven, nothing is held against anyone."""
    return replace(
        agent_state,
        state=NodeState.BOOTSTRAP,
        since=now,
        why="reset by a human",
        pass_streaks={},
        cases=(),
        blind={},
        all_passing_since=None,
    )


def _cases(agent_state: AgentState, said: tuple[CheckResult, ...], policy: ConfirmationPolicy) -> tuple[Case, ...]:
    """All cases after these answers: those that were there in their order, then the new ones."""
    by_check = {answer.check.id: answer for answer in said}
    failures = {answer.check.id: answer.failures for answer in said}
    kept: list[Case] = []
    for case in agent_state.cases:
        answer = by_check.get(case.check)
        failure = failures[case.check].pop(case.subject, None) if answer else None
        after = case if answer is None else _after(agent_state, case, answer, failure, policy)
        kept += () if after is None else (after,)
    for check, others in failures.items():
        for subject in sorted(others, key=_place):
            opened = _after(agent_state, None, by_check[check], others[subject], policy)
            kept += () if opened is None else (opened,)
    return tuple(kept)


def _after(
    agent_state: AgentState, case: Case | None, answer: CheckResult, failure: Finding | None, policy: ConfirmationPolicy
) -> Case | None:
    """One case after a fresh answer of its check, None where there is none any more."""
    if failure is not None:
        after = cases.failed(case, failure, answer.observation, answer.check, policy)
        was_deferred = case is None or not case.convicted or case.deferred_until is not None
        return replace(after, deferred_until=upgrade.deferred_until(agent_state, after)) if was_deferred else after
    if case is None:
        return None
    if not answer.could_look_at(case.subject):
        return cases.unseen(case)
    return cases.passed(case, answer.observation, answer.check, policy)


def _freed(found: tuple[Case, ...], log: KernelLog | None, now: float) -> tuple[Case, ...]:
    """The cases, without the latches of devices that the kernel set up anew. What a process wrote frees none."""
    if log is None or not any(case.latched for case in found):
        return found
    lines = (line for line in log.lines if line.from_kernel and line.at <= now and PROBE_LINE.search(line.text))
    probed: dict[str, float] = {}
    for line in lines:
        if line.bdf:
            probed[line.bdf] = max(line.at, probed.get(line.bdf, line.at))
    return tuple(cases.freed(case, probed) for case in found)


def _pass_streaks(
    known: Mapping[str, PassStreak], answers: Iterable[CheckResult], policy: ConfirmationPolicy
) -> dict[str, PassStreak]:
    """The proofs after these answers: what is proven stays so, a fault or a look in vain begins anew."""
    return {
        **known,
        **{one.check.id: _pass_streak(known.get(one.check.id, PassStreak()), one, policy) for one in answers},
    }


def _blinded(known: Mapping[str, BlindSince], answers: Iterable[CheckResult]) -> dict[str, BlindSince]:
    """Which checks cannot look, since when."""
    after = dict(known)
    for one in answers:
        before = after.pop(one.check.id, None)
        if one.blind:
            since = one.observation.began if before is None else before.since
            after[one.check.id] = BlindSince(since, cases.cut(one.blind, MESSAGE_LIMIT_CHARACTERS))
    return after


def _passing(known: Mapping[str, str], answers: Iterable[CheckResult]) -> dict[str, str]:
    """The values at which subjects of gate checks last passed, the newest of them; who failed has none."""
    after = dict(known)
    for one in answers:
        if one.check.severity is not Severity.GATE:
            continue
        values = {AgentState.passed_key(one.check.id, subject): value for subject, value in one.values.items()}
        for key, value in sorted(values.items()):
            if after.get(key, "") == value:
                continue
            after.pop(key, None)
            if len(value) <= OBSERVED_LIMIT_CHARACTERS and value:
                after[key] = value
    return dict(list(after.items())[-PASSED_LIMIT_SUBJECTS:])


def _pass_streak(before: PassStreak, answer: CheckResult, policy: ConfirmationPolicy) -> PassStreak:
    if before.proven:
        return before
    if not answer.is_clean:
        return PassStreak()
    observation = answer.observation
    if not before.passes:
        first, passes = observation.ended, 1
    elif observation.began <= before.last:
        return before  # it rests on what the look before saw
    else:
        first, passes = before.first, before.passes + 1
    return PassStreak(passes, first, observation.ended, policy.enough(passes, first, observation.began))


def _wanted(case: Case, rule: ConfirmationRule, policy: ConfirmationPolicy) -> float | None:
    """When to look at a subject again; after a look in vain the period will do."""
    if case.blind or not case.looks:
        return None
    last, fault = case.looks[-1]
    if case.convicted:
        if not case.passes or case.passing_since is None or case.latched:
            return None
        return _next_pass(case.passing_since, last, policy)
    if not fault:
        return None
    first = case.looks[cases.first_failure(case.looks, rule.of)][0]
    return _sooner(last, rule.step, first, rule.reach)


def _next_pass(first: float, last: float, policy: ConfirmationPolicy) -> float:
    return _sooner(last, policy.pass_every, first, policy.pass_span)


def _sooner(last: float, step: float, first: float, span: float) -> float:
    """A step after the last look, or when the span from the first one is over if that comes before."""
    following, end = _since(last, step), _since(first, span)
    return min(following, end) if end > last else following


def _since(start: float, seconds: float) -> float:
    """The first time that is no less than so many seconds after `start`, however the sum was rounded."""
    at = start + seconds
    while at - start < seconds:
        at = math.nextafter(at, math.inf)
    return at


def _place(subject: Subject) -> tuple[str, int]:
    return subject.place, -1 if subject.port is None else subject.port
