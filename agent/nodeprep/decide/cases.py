"""One case after each fresh look: suspected, convicted, dropped, released or latched (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import Case
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy, ConfirmationRule
from nodeprep.model import Check, Confirmation, Finding, Subject
from nodeprep.values import replace

LOOKS_KEPT = 5  # as many as the longest rule asks for
OBSERVED_LIMIT_CHARACTERS = 120  # characters; a longer value equals no other
MESSAGE_LIMIT_CHARACTERS = 400  # characters; the report has the whole message
LATCHED_AT_ONCE = "such a fault is believed at once and held"


def after_failure(
    case: Case | None, finding: Finding, observation: CheckObservation, check: Check, policy: ConfirmationPolicy
) -> Case:
    """The case after a look at which its subject failed. A new one if `case` is None."""
    rule = policy.rules[check.confirmation]
    before = case or _new_case(finding)
    standing = before.convicted or is_suspected(before, rule)
    after = replace(
        _with_failure(before, finding),
        opened_at=before.opened_at if standing else observation.began,
        looks=before.looks if _fails_steadily(before) else _with_look(before.looks, observation.ended, fault=True),
        passes=0,
        passing_since=None,
        blind=False,
    )
    if not after.convicted and _is_confirmed(after.looks, rule, observation):
        after = replace(after, convicted_at=observation.began)
    # A device that does not answer is convicted like any other, but not latched: a driver may reset itself.
    speaks = finding.verdict.blind is None
    if check.confirmation is Confirmation.LATCHED and speaks and after.convicted and not after.latched:
        after = replace(after, latched=LATCHED_AT_ONCE, latched_at=observation.began)
    return after


def after_pass(case: Case, observation: CheckObservation, check: Check, policy: ConfirmationPolicy) -> Case | None:
    """The case after a look at which its subject did not fail. None if nothing is left to remember."""
    rule = policy.rules[check.confirmation]
    if case.passes and case.looks and observation.began <= case.looks[-1][0]:
        return case  # the facts are those of the look before
    flaps = _recent_flaps(case.flaps, observation.ended, policy)
    if not (case.convicted or flaps or is_suspected(case, rule)):
        return None
    if _is_settled(case, policy):
        return case
    after = replace(
        case,
        looks=_with_look(case.looks, observation.ended, fault=False),
        passes=case.passes + 1,
        passing_since=observation.ended if case.passing_since is None else case.passing_since,
        blind=False,
    )
    if not after.convicted:
        return after if flaps or is_suspected(after, rule) else None
    if after.latched or not policy.is_enough(after.passes, after.passing_since, observation.began):
        return after
    return _after_release(after, flaps, observation.ended, policy)


def after_blind_look(case: Case) -> Case:
    """The case after a look that could not see its subject. It neither releases nor convicts."""
    return replace(case, passes=0, passing_since=None, blind=True)


def after_probe(case: Case, probed: Mapping[str, float]) -> Case:
    """The case without its latch if its device was probed again since. It stays convicted, and passes count from zero.

    `probed` is the time of the last probe of each device, by PCI address.
    """
    since = case.convicted_at if case.latched_at is None else case.latched_at
    if not case.latched or since is None or probed.get(case.place, since) <= since:
        return case
    return replace(case, latched="", latched_at=None, passes=0, passing_since=None)


def is_suspected(case: Case, rule: ConfirmationRule) -> bool:
    """Whether its last looks have a failure that can still help to convict."""
    last = case.looks[-1:] if rule.must_be_consecutive else case.looks[-rule.of :]
    return any(fault for _, fault in last)


def first_failure(looks: tuple[tuple[float, bool], ...], of: int) -> int:
    """The index of the first failure among the last `of` looks. Earlier failures without a pass in between count too.

    It is the number of looks if there is no failure.
    """
    first = next((number for number in range(max(0, len(looks) - of), len(looks)) if looks[number][1]), len(looks))
    while 0 < first < len(looks) and looks[first - 1][1]:
        first -= 1
    return first


def truncated(text: str, limit: int) -> str:
    """At most `limit` characters. A longer text ends in an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _new_case(finding: Finding) -> Case:
    subject: Subject = finding.subject
    return Case(finding.check, subject.place, subject.port, subject.name, "", "")


def _with_failure(case: Case, finding: Finding) -> Case:
    """The case with the reason and message of its last failure, truncated because a node may show long texts."""
    verdict = finding.verdict
    return replace(
        case,
        name=truncated(verdict.subject.name, OBSERVED_LIMIT_CHARACTERS),
        reason=truncated(verdict.reason, OBSERVED_LIMIT_CHARACTERS),
        message=truncated(verdict.message, MESSAGE_LIMIT_CHARACTERS),
        observed=truncated(verdict.observed, OBSERVED_LIMIT_CHARACTERS),
        remedy=verdict.remedy,
        lack=verdict.lack,
        follows=verdict.follows,
    )


def _is_confirmed(looks: tuple[tuple[float, bool], ...], rule: ConfirmationRule, observation: CheckObservation) -> bool:
    """Whether the last of these looks, which failed, completes the rule.

    The time counts from the end of the first failure's look to the beginning of the last one's. What they saw is at
    least so far apart.
    """
    if sum(fault for _, fault in looks[-rule.of :]) < rule.fails:
        return False
    first = first_failure(looks, rule.of)
    return rule.fails == 1 or (first < len(looks) - 1 and observation.began - looks[first][0] >= rule.least_span)


def _with_look(looks: tuple[tuple[float, bool], ...], at: float, *, fault: bool) -> tuple[tuple[float, bool], ...]:
    """The last looks and one more.

    Of failures in a row, the time of the first one stays. So a lasting fault is confirmed in time, however often the
    agent looks.
    """
    more = (*looks, (at, fault))
    if len(more) <= LOOKS_KEPT:
        return more
    return (more[0], *more[2:]) if more[0][1] and more[1][1] else more[1:]


def _fails_steadily(case: Case) -> bool:
    """Whether it is convicted and failed at each of its looks. Then another failure changes nothing worth saving."""
    return case.convicted and len(case.looks) == LOOKS_KEPT and all(fault for _, fault in case.looks)


def _is_settled(case: Case, policy: ConfirmationPolicy) -> bool:
    """Whether more passes change nothing: it is latched, or it is only remembered for its flaps."""
    waits = case.convicted and not case.latched
    return not (waits or any(fault for _, fault in case.looks)) and case.passes >= policy.passes


def _after_release(case: Case, flaps: tuple[float, ...], at: float, policy: ConfirmationPolicy) -> Case:
    if len(flaps) + 1 < policy.flap_count:
        return replace(case, convicted_at=None, flaps=(*flaps, at), deferred_until=None, deferred_by="")
    why = f"failed and passed again {len(flaps) + 1} times within {policy.flap_window / 60:g} min: it comes and goes"
    return replace(case, latched=why, latched_at=at, flaps=flaps)


def _recent_flaps(flaps: tuple[float, ...], at: float, policy: ConfirmationPolicy) -> tuple[float, ...]:
    return tuple(time for time in flaps if at - time < policy.flap_window)
