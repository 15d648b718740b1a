"""What a whole check has shown: fresh passes in a row, since when it could not look, and the values that passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.decide.answers import Answer
from nodeprep.decide.cases import MOST_MESSAGE, MOST_OBSERVED, cut
from nodeprep.decide.policy import DampingPolicy
from nodeprep.facts.past import Blind, Proof, passed_key
from nodeprep.model import Severity

MOST_PASSED = 1000  # subjects; a node of 8 GPUs and 8 NICs has some 200


def proven(known: Mapping[str, Proof], answers: Iterable[Answer], policy: DampingPolicy) -> dict[str, Proof]:
    """The proofs after these answers: what is proven stays so, a fault or a look in vain begins anew."""
    return {**known, **{one.check.id: _proof(known.get(one.check.id, Proof()), one, policy) for one in answers}}


def blinded(known: Mapping[str, Blind], answers: Iterable[Answer]) -> dict[str, Blind]:
    """Which checks cannot look, since when."""
    after = dict(known)
    for one in answers:
        before = after.pop(one.check.id, None)
        if one.blind:
            since = one.glance.began if before is None else before.since
            after[one.check.id] = Blind(since, cut(one.blind, MOST_MESSAGE))
    return after


def passing(known: Mapping[str, str], answers: Iterable[Answer]) -> dict[str, str]:
    """The values at which subjects of gate checks last passed, the newest of them; who failed has none."""
    after = dict(known)
    for one in answers:
        if one.check.severity is not Severity.GATE:
            continue
        values = {passed_key(one.check.id, subject): value for subject, value in one.values.items()}
        for key, value in sorted(values.items()):
            if after.get(key, "") == value:
                continue
            after.pop(key, None)
            if len(value) <= MOST_OBSERVED and value:
                after[key] = value
    return dict(list(after.items())[-MOST_PASSED:])


def _proof(before: Proof, answer: Answer, policy: DampingPolicy) -> Proof:
    if before.proven:
        return before
    if not answer.is_clean:
        return Proof()
    glance = answer.glance
    if not before.passes:
        first, passes = glance.ended, 1
    elif glance.began <= before.last:
        return before  # it rests on what the look before saw
    else:
        first, passes = before.first, before.passes + 1
    return Proof(passes, first, glance.ended, policy.enough(passes, first, glance.began))
