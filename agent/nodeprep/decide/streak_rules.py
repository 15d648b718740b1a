"""What a whole check has shown: fresh passes in a row, since when it could not look, and the values that passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, BlindSince, PassStreak
from nodeprep.decide import cases
from nodeprep.decide.cases import MESSAGE_LIMIT_CHARACTERS, OBSERVED_LIMIT_CHARACTERS
from nodeprep.decide.check_results import CheckResult
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.model import Severity

PASSED_LIMIT_SUBJECTS = 1000  # subjects; a node of 8 GPUs and 8 NICs has some 200


def proven(
    known: Mapping[str, PassStreak], answers: Iterable[CheckResult], policy: ConfirmationPolicy
) -> dict[str, PassStreak]:
    """The proofs after these answers: what is proven stays so, a fault or a look in vain begins anew."""
    return {**known, **{one.check.id: _proof(known.get(one.check.id, PassStreak()), one, policy) for one in answers}}


def blinded(known: Mapping[str, BlindSince], answers: Iterable[CheckResult]) -> dict[str, BlindSince]:
    """Which checks cannot look, since when."""
    after = dict(known)
    for one in answers:
        before = after.pop(one.check.id, None)
        if one.blind:
            since = one.observation.began if before is None else before.since
            after[one.check.id] = BlindSince(since, cases.cut(one.blind, MESSAGE_LIMIT_CHARACTERS))
    return after


def passing(known: Mapping[str, str], answers: Iterable[CheckResult]) -> dict[str, str]:
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


def _proof(before: PassStreak, answer: CheckResult, policy: ConfirmationPolicy) -> PassStreak:
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
