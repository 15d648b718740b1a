"""Confirms what looks show: convictions, releases, latches, pass streaks, and when to look again (design 3.2)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak
from nodeprep.decide import cases, check_results, rule_change, stored_state
from nodeprep.decide.cases import MESSAGE_LIMIT_CHARACTERS, OBSERVED_LIMIT_CHARACTERS
from nodeprep.decide.check_results import CheckObservation, CheckResult
from nodeprep.decide.confirmation_policy import RULES, ConfirmationPolicy, ConfirmationRule
from nodeprep.decide.rule_change import NO_JUDGEMENT, FormerJudgement
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.model import Check, Finding, Severity, Subject
from nodeprep.values import replace

__all__ = [
    "RULES",
    "CheckObservation",
    "ConfirmationPolicy",
    "ConfirmationRule",
    "confirm",
    "counts_looks",
    "reset",
    "wanted_looks",
]

LATE_PASS_SECONDS = 1.0  # seconds to the look after one that was begun just before a span was over
PASSED_LIMIT_SUBJECTS = 1000  # subjects; a node of 8 GPUs and 8 NICs has some 200


def confirm(  # noqa: PLR0917 - the memory, and what one round says to it
    agent_state: AgentState,
    findings: Iterable[Finding],
    observations: Mapping[str, CheckObservation],
    checks: Mapping[str, Check],
    policy: ConfirmationPolicy,
    now: float,
    log: KernelLog | None = None,
    *,
    excused: Collection[str] = (),
    former: FormerJudgement = NO_JUDGEMENT,
) -> AgentState:
    """The agent state after a round. The same object if nothing changed.

    `findings` are the current ones of all checks. `observations` are the checks with a fresh look, by id: only these
    count. `former` is what the former configuration says of what fails now. `log` frees latches of devices that were
    probed again since. A failure of an `excused` check ends its passes, and makes no case.
    """
    now = max((now, *(observation.ended for observation in observations.values())))
    before = stored_state.without_future_times(agent_state, now)
    results = check_results.check_results(findings, observations, checks)
    blind = _blinded(before.blind, results)
    after = replace(
        before,
        pass_streaks=_pass_streaks(before.pass_streaks, results, policy, excused),
        cases=_without_freed_latches(_cases(before, results, policy, excused, former), checks, log, now),
        blind=blind,
        unproven_until=rule_change.pending_until(before, blind, now),
        passed=_passing(before.passed, results),
    )
    after = rule_change.with_judged(after, (one.check.id for one in results if not one.blind_message), now)
    return agent_state if after == agent_state else after


def wanted_looks(
    agent_state: AgentState, checks: Mapping[str, Check], gates: Iterable[str], policy: ConfirmationPolicy
) -> dict[str, float]:
    """By check id, when a look is wanted beside the periods. A time in the past means at once.

    A look is wanted to confirm a failure, or for the next pass of a release or of a gate that is not proven.
    """
    wanted: dict[str, float] = {}
    for case in agent_state.cases:
        check = checks.get(case.check)
        at = None if check is None else _wanted_look_at(case, policy.rules[check.confirmation], policy)
        if at is not None:
            wanted[case.check] = min(at, wanted.get(case.check, at))
    for gate in gates:
        streak = agent_state.pass_streaks.get(gate)
        if gate in checks and streak is not None and streak.passes and not streak.proven:
            at = _next_pass(streak.first, streak.last, streak.passes, policy)
            wanted[gate] = min(at, wanted.get(gate, at))
    return wanted


def counts_looks(agent_state: AgentState, gates: Iterable[str]) -> bool:
    """Whether another look that finds the same matters now: for a case, or since a gate is not proven or blind.

    The passes of other checks are counted too, and nothing waits for them.
    """
    streaks, blind = agent_state.pass_streaks, agent_state.blind
    return not all(map(_only_fails_on, agent_state.cases)) or any(
        gate in blind or gate not in streaks or not streaks[gate].proven for gate in gates
    )


def _only_fails_on(case: Case) -> bool:
    """Whether another failure changes nothing: it is convicted, waits for nothing and does not pass."""
    waits = case.deferred_until is not None or case.latched or case.remedy
    return case.convicted and not (waits or case.passes or case.blind)


def reset(agent_state: AgentState, now: float) -> AgentState:
    """The agent state after a human's reset: nothing is proven, there are no cases, and each fault has all its tries.

    An attempt that runs goes on: nothing can take it back. What the fleet was told of a remedy stays too.
    """
    return replace(
        agent_state,
        state=NodeState.BOOTSTRAP,
        since=now,
        why="reset by a human",
        pass_streaks={},
        cases=(),
        blind={},
        all_passing_since=None,
        attempts=(),
    )


def _cases(
    agent_state: AgentState,
    results: tuple[CheckResult, ...],
    policy: ConfirmationPolicy,
    excused: Collection[str],
    former: FormerJudgement,
) -> tuple[Case, ...]:
    """All cases after these results: the known ones in their order, then the new ones."""
    by_check = {result.check.id: result for result in results}
    failures = {result.check.id: result.failures for result in results}
    after_round: list[Case] = []
    for case in agent_state.cases:
        result = by_check.get(case.check)
        failure = failures[case.check].pop(case.subject, None) if result else None
        is_excused = failure is not None and case.check in excused and not case.convicted
        after = (
            case if result is None or is_excused else _case_after(agent_state, case, result, failure, policy, former)
        )
        after_round += () if after is None else (after,)
    for check, others in failures.items():
        if check in excused:
            continue
        for subject in sorted(others, key=_subject_order):
            opened = _case_after(agent_state, None, by_check[check], others[subject], policy, former)
            after_round += () if opened is None else (opened,)
    return tuple(after_round)


def _case_after(  # noqa: PLR0917 - what is known of one case, and what one look says to it
    agent_state: AgentState,
    case: Case | None,
    result: CheckResult,
    failure: Finding | None,
    policy: ConfirmationPolicy,
    former: FormerJudgement,
) -> Case | None:
    """One case after a fresh result of its check. None if there is no case any more."""
    if failure is not None:
        after = cases.after_failure(case, failure, result.observation, result.check, policy)
        return rule_change.deferred(agent_state, case, after, former, result.observation.ended)
    if case is None:
        return None
    if not result.could_look_at(case.subject):
        return cases.after_blind_look(case)
    return cases.after_pass(case, result.observation, result.check, policy)


def _without_freed_latches(
    found: tuple[Case, ...], checks: Mapping[str, Check], log: KernelLog | None, now: float
) -> tuple[Case, ...]:
    """The cases, without latches of devices that the kernel set up again. Lines of processes free none."""
    if log is None or not any(case.latched for case in found):
        return found
    lines = [line for line in log.lines if line.from_kernel and line.at <= now]
    probed: dict[str, float] = {}
    for line in lines:
        if line.sets_up and line.bdf:
            probed[line.bdf] = max(line.at, probed.get(line.bdf, line.at))
    return tuple(_freed(case, checks.get(case.check), lines, probed) if case.latched else case for case in found)


def _freed(case: Case, check: Check | None, lines: list[KernelLogLine], probed: Mapping[str, float]) -> Case:
    """The case, without its latch if a line that came since frees it."""
    since = case.convicted_at if case.latched_at is None else case.latched_at
    own = () if check is None or since is None else (one for one in lines if one.at > since)
    freed = next((one.at for one in own if check is not None and check.frees(one, case.place)), None)
    return cases.after_probe(case, probed if freed is None else {**probed, case.place: freed})


def _pass_streaks(
    known: Mapping[str, PassStreak],
    results: Iterable[CheckResult],
    policy: ConfirmationPolicy,
    excused: Collection[str],
) -> dict[str, PassStreak]:
    """The pass streaks after these results. A proven one stays. A fault or a blind look starts it again.

    An excused failure makes no case that could close a gate, so it starts a proven one again too.
    """
    after = dict(known)
    for one in results:
        name = one.check.id
        before = PassStreak() if name in excused and not one.is_clean else known.get(name, PassStreak())
        after[name] = _pass_streak(before, one, policy)
    return after


def _blinded(known: Mapping[str, BlindSince], results: Iterable[CheckResult]) -> dict[str, BlindSince]:
    """Which checks cannot look, and since when."""
    after = dict(known)
    for one in results:
        before = after.pop(one.check.id, None)
        if one.blind_message:
            since = one.observation.began if before is None else before.since
            after[one.check.id] = BlindSince(since, cases.truncated(one.blind_message, MESSAGE_LIMIT_CHARACTERS))
    return after


def _passing(known: Mapping[str, str], results: Iterable[CheckResult]) -> dict[str, str]:
    """The values at which subjects of gate checks last passed, the newest of them. A failed subject has none."""
    after = dict(known)
    for one in results:
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


def _pass_streak(before: PassStreak, result: CheckResult, policy: ConfirmationPolicy) -> PassStreak:
    if before.proven:
        return before
    if not result.is_clean:
        return PassStreak()
    observation = result.observation
    if not before.passes:
        first, passes = observation.ended, 1
    elif observation.began <= before.last:
        return before  # the facts are those of the look before
    else:
        first, passes = before.first, before.passes + 1
    return PassStreak(passes, first, observation.ended, policy.is_enough(passes, first, observation.began))


def _wanted_look_at(case: Case, rule: ConfirmationRule, policy: ConfirmationPolicy) -> float | None:
    """When to look at a subject again. After a blind look, the period is enough."""
    if case.blind or not case.looks:
        return None
    last, fault = case.looks[-1]
    if case.convicted:
        if not case.passes or case.passing_since is None or case.latched:
            return None
        return _next_pass(case.passing_since, last, case.passes, policy)
    if not fault:
        return None
    first = case.looks[cases.first_failure(case.looks, rule.of)][0]
    return _next_step_or_end(last, rule.look_interval, first, rule.least_span)


def _next_pass(first: float, last: float, passes: int, policy: ConfirmationPolicy) -> float:
    """When to look for the next pass. Soon, if the last one began before the span was over, and ended after it."""
    if passes >= policy.passes and _time_after(first, policy.pass_span) <= last:
        return _time_after(last, min(LATE_PASS_SECONDS, policy.pass_every))
    return _next_step_or_end(last, policy.pass_every, first, policy.pass_span)


def _next_step_or_end(last: float, step: float, first: float, span: float) -> float:
    """A step after the last look, or the end of the span from the first one if that comes before."""
    following, end = _time_after(last, step), _time_after(first, span)
    return min(following, end) if end > last else following


def _time_after(start: float, seconds: float) -> float:
    """The first time that is at least so many seconds after `start`, however the sum was rounded."""
    at = start + seconds
    while at - start < seconds:
        at = math.nextafter(at, math.inf)
    return at


def _subject_order(subject: Subject) -> tuple[str, int]:
    return subject.place, -1 if subject.port is None else subject.port
