"""Whether a remedy helped: only passes of its own case count, seen after the play, and what it disturbed tells nothing.

A play that ends well proves nothing, and a play that fails may have helped. That other gates fail is no failure of this
remedy. What the remedy itself makes fail (`disturbs` of its header) tells nothing until it was looked at once after the
play. Then its passes count, beside those of the case, and it is no fault before the case was judged: a link that was
set up trains for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import AgentState, Case, RepairAttempt
from nodeprep.decide import attempt_steps, look_schedule, repair_budget
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.repair_budget import AttemptOutcome, BudgetClock
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairWaits
from nodeprep.model import Check
from nodeprep.values import Value, replace

LOOK_PERIOD_SECONDS = 10.0  # seconds between two looks at all facts of the case
# Seconds for which a check is awaited at which nobody could look, or that passes: as `blind-after` is shipped, but a
# fleet's slot is held meanwhile, so no key makes it longer.
UNSEEN_SECONDS = 600.0
SETTLED_LOOK_SECONDS = 1.0  # seconds after the look that settles a disturbed check until the first that counts


class ValidationTerms(Value):
    """What an attempt is judged with. `limit` is `readiness.validation-limit` in seconds.

    `is_seen`: a look at its check came with this round. An older failure may be gone by now.
    """

    clock: BudgetClock
    waits: RepairWaits = SHIPPED_WAITS
    limit: float = 120.0
    is_seen: bool = True


def longest(limit: float) -> float:
    """The most seconds that a judgement takes: nobody looks from the limit on, and then the case begins to pass."""
    return limit + UNSEEN_SECONDS + max(limit, UNSEEN_SECONDS)


def counting(state: AgentState, observations: Mapping[str, CheckObservation]) -> Mapping[str, CheckObservation]:
    """The looks that count while a remedy runs, is judged, or has just been judged.

    Of what it disturbs none does while it runs, and of its own case those that began after the play. A check that was
    disturbed counts again after one look: that one compares with a time in which the remedy ran.
    """
    attempt = state.attempt
    if attempt is None and not state.disturbed:
        return observations
    own = "" if attempt is None else attempt.check
    apart = set(state.disturbed) | set(
        attempt.disturbs if attempt is not None and attempt_steps.is_running(state) else ()
    )
    found = {check: look for check, look in observations.items() if check != own and check not in apart}
    if attempt is not None and own in observations and _is_of_validation(attempt, observations[own]):
        found[own] = observations[own]
    return found


def excused(state: AgentState) -> frozenset[str]:
    """The checks whose new failures are no faults yet: what a remedy disturbed, until its case was judged."""
    attempt = state.attempt
    if attempt is None or not attempt_steps.is_validating(state):
        return frozenset()
    return frozenset(attempt.disturbs) - {attempt.check}


def played(state: AgentState, attempt: RepairAttempt, now: float) -> AgentState:
    """The agent state when the play of an attempt is over: what it disturbed is to pass anew.

    A remedy that mends one gate may have broken another, so a gate that it disturbs proves nothing from before.
    """
    disturbed = [check for check in attempt.disturbs if check != attempt.check]
    return replace(
        state,
        disturbed={**state.disturbed, **dict.fromkeys(disturbed, now)},
        pass_streaks={check: streak for check, streak in state.pass_streaks.items() if check not in disturbed},
    )


def confirmation(state: AgentState, policy: ConfirmationPolicy, waits: RepairWaits) -> ConfirmationPolicy:
    """The numbers of confirmation of a node on which a remedy runs, or has run and still counts.

    `confirmation.pass-span` may be 0 s. After a remedy the looks must pass for as long as nobody may shorten: a driver
    that was just loaded passes once, and fails a moment later. It holds for all checks, for what a remedy mends may be
    the root of others, and also where a remedy was taken for one that did not help.
    """
    ran = state.attempt is not None or any(one.outcome != AttemptOutcome.REFUSED for one in state.attempts)
    if not ran or policy.pass_span >= waits.passes:
        return policy
    return replace(policy, pass_span=waits.passes)


def settled(state: AgentState, observations: Mapping[str, CheckObservation]) -> AgentState:
    """The agent state without the disturbed checks that were looked at once since. The same object if there is none."""
    again = state.attempt.disturbs if state.attempt is not None and attempt_steps.is_running(state) else ()
    left = {
        check: since
        for check, since in state.disturbed.items()
        if check not in observations or observations[check].began <= since or check in again
    }
    return state if left == state.disturbed else replace(state, disturbed=left)


def judged(state: AgentState, terms: ValidationTerms) -> AgentState:
    """The agent state after its attempt was judged. The same object if it is not time to."""
    attempt = state.attempt
    outcome = _outcome(state, attempt, terms) if attempt is not None and attempt_steps.is_validating(state) else None
    if attempt is None or outcome is None:
        return state
    return repair_budget.recorded(state, attempt, outcome, terms.clock)


def wanted_facts(
    state: AgentState, checks: Mapping[str, Check], begun: Mapping[type, float], now: float
) -> dict[type, float]:
    """When to look at which facts of the case that is being judged: all at once at first, and then each 10 s.

    So with what its remedy disturbed. Nothing announces that a fault is gone, and some facts are looked at each ten
    minutes. Also a record that others keep is asked for anew, for what it said before the play tells nothing. `begun`
    is when each was last looked at.
    """
    attempt = state.attempt
    if attempt is None or not attempt_steps.is_validating(state):
        return {}
    since, wanted = attempt.step_since, dict[type, float]()
    for check in {attempt.check, *attempt.disturbs} & checks.keys():
        is_settling = check != attempt.check and check not in state.disturbed and check not in state.pass_streaks
        period = SETTLED_LOOK_SECONDS if is_settling else LOOK_PERIOD_SECONDS
        kinds = look_schedule.observed_facts(checks[check])
        last = min((begun.get(kind, 0.0) for kind in kinds), default=now)
        # A look at a check counts when all of its facts were observed anew, so all are wanted at the same time.
        at = since if last < since else max(last + period, since)
        wanted |= {kind: min(at, wanted.get(kind, at)) for kind in kinds}
    return wanted


def _outcome(state: AgentState, attempt: RepairAttempt, terms: ValidationTerms) -> AttemptOutcome | None:
    """How it came out, None if that is yet to be seen."""
    case, age = state.case(attempt.check, attempt.subject), terms.clock.now - attempt.step_since
    if case is None:
        return AttemptOutcome.CUT_OFF  # a reset, or another Node, came between
    if not case.convicted:
        return AttemptOutcome.RELEASED if age >= terms.waits.passes else None
    fails = not case.blind and any(fault for _, fault in case.looks[-1:])
    if fails and _wants_another(case, attempt):
        return AttemptOutcome.CHANGED
    if case.latched and case.passes:
        return AttemptOutcome.CHANGED  # it passed for long enough, and is held because it comes and goes
    if fails and terms.is_seen:
        told = AttemptOutcome.UNRELEASED if case.reason == attempt.reason else AttemptOutcome.CHANGED
        return told if age >= max(terms.limit, terms.waits.passes) else None
    if fails:  # by a look of before
        return AttemptOutcome.CUT_OFF if age >= max(terms.limit, terms.waits.passes) + UNSEEN_SECONDS else None
    return AttemptOutcome.CUT_OFF if terms.clock.now >= _awaited_until(case, attempt, terms) else None


def _awaited_until(case: Case, attempt: RepairAttempt, terms: ValidationTerms) -> float:
    """Until when a case is awaited that shows no fault: nobody could look, or it passes and is yet to be released.

    An agent that just started has not looked (its start is `heard_at`).
    """
    since = attempt.step_since if case.passing_since is None else case.passing_since
    return max(since + max(terms.limit, UNSEEN_SECONDS), attempt.heard_at + terms.waits.silent)


def _wants_another(case: Case, attempt: RepairAttempt) -> bool:
    """Whether the check asks for another remedy now. So the first part is mended, and the next is planned at once.

    Another reason alone does not tell it so soon: a link that was set up trains for a while, and a daemon that was
    restarted starts.
    """
    return case.remedy is not None and case.remedy.playbook != attempt.remedy


def _is_of_validation(attempt: RepairAttempt, look: CheckObservation) -> bool:
    is_judged = attempt_steps.step_of(attempt) is AttemptStep.VALIDATING
    return is_judged and look.began >= attempt.step_since
