"""One case, one fresh look after another: suspected, believed, passed over, released or latched (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.agent_state import Case
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.confirmation_policy import ConfirmationPolicy, ConfirmationRule
from nodeprep.model import Check, Confirmation, Finding, Subject
from nodeprep.values import replace

LOOKS_KEPT = 5  # as many as the longest rule asks for
OBSERVED_LIMIT_CHARACTERS = 120  # characters; a value that is longer is compared with none
MESSAGE_LIMIT_CHARACTERS = 400  # the same: the report has all of it
LATCHED_AT_ONCE = "such a fault is believed at once and held"


def failed(
    case: Case | None, finding: Finding, observation: CheckObservation, check: Check, policy: ConfirmationPolicy
) -> Case:
    """The case after a look that found its subject at fault; a new one where there is none."""
    rule = policy.rules[check.confirmation]
    before = case or _opened(finding)
    standing = before.convicted or is_suspected(before, rule)
    after = replace(
        _told(before, finding),
        opened_at=before.opened_at if standing else observation.began,
        looks=before.looks if _says_nothing_new(before) else _with(before.looks, observation.ended, fault=True),
        passes=0,
        passing_since=None,
        blind=False,
    )
    if not after.convicted and _believed(after.looks, rule, observation):
        after = replace(after, convicted_at=observation.began)
    # Silence is believed as soon as any such fault, but who speaks again is heard: a driver may reset itself.
    speaks = finding.verdict.blind is None
    if check.confirmation is Confirmation.LATCHED and speaks and after.convicted and not after.latched:
        after = replace(after, latched=LATCHED_AT_ONCE, latched_at=observation.began)
    return after


def passed(case: Case, observation: CheckObservation, check: Check, policy: ConfirmationPolicy) -> Case | None:
    """The case after a look that found no fault of its subject; None where nothing is left to remember."""
    rule = policy.rules[check.confirmation]
    if case.passes and case.looks and observation.began <= case.looks[-1][0]:
        return case  # it rests on what the look before saw
    flaps = _recent(case.flaps, observation.ended, policy)
    if not (case.convicted or flaps or is_suspected(case, rule)):
        return None
    if _rests(case, policy):
        return case
    after = replace(
        case,
        looks=_with(case.looks, observation.ended, fault=False),
        passes=case.passes + 1,
        passing_since=observation.ended if case.passing_since is None else case.passing_since,
        blind=False,
    )
    if not after.convicted:
        return after if flaps or is_suspected(after, rule) else None
    if after.latched or not policy.enough(after.passes, after.passing_since, observation.began):
        return after
    return _released(after, flaps, observation.ended, policy)


def unseen(case: Case) -> Case:
    """The case after a look that could not look: it frees nobody and convicts nobody."""
    return replace(case, passes=0, passing_since=None, blind=True)


def freed(case: Case, probed: Mapping[str, float]) -> Case:
    """The case without its latch if its device was set up anew since: an ordinary conviction, and no pass counts yet.

    `probed` is when that was last, by PCI address.
    """
    since = case.convicted_at if case.latched_at is None else case.latched_at
    if not case.latched or since is None or probed.get(case.place, since) <= since:
        return case
    return replace(case, latched="", latched_at=None, passes=0, passing_since=None)


def is_suspected(case: Case, rule: ConfirmationRule) -> bool:
    """Whether its last looks hold a failure that may yet help to convict."""
    last = case.looks[-1:] if rule.in_a_row else case.looks[-rule.of :]
    return any(fault for _, fault in last)


def first_failure(looks: tuple[tuple[float, bool], ...], of: int) -> int:
    """Where the failures among the last `of` looks begin, those before included that no pass parts from them.

    The number of looks if there is none.
    """
    first = next((number for number in range(max(0, len(looks) - of), len(looks)) if looks[number][1]), len(looks))
    while 0 < first < len(looks) and looks[first - 1][1]:
        first -= 1
    return first


def cut(text: str, most: int) -> str:
    """At most so many characters; what was longer ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _opened(finding: Finding) -> Case:
    subject: Subject = finding.subject
    return Case(finding.check, subject.place, subject.port, subject.name, "", "")


def _told(case: Case, finding: Finding) -> Case:
    """The case in the words of its last failure: what a node shows may be long."""
    verdict = finding.verdict
    return replace(
        case,
        name=cut(verdict.subject.name, OBSERVED_LIMIT_CHARACTERS),
        reason=cut(verdict.reason, OBSERVED_LIMIT_CHARACTERS),
        message=cut(verdict.message, MESSAGE_LIMIT_CHARACTERS),
        observed=cut(verdict.observed, OBSERVED_LIMIT_CHARACTERS),
        remedy=verdict.remedy,
    )


def _believed(looks: tuple[tuple[float, bool], ...], rule: ConfirmationRule, observation: CheckObservation) -> bool:
    """Whether the last of these looks, which failed, is the one to be believed.

    It counts from the end of the first failure's look to the beginning of the last one's: what they saw is no closer.
    """
    if sum(fault for _, fault in looks[-rule.of :]) < rule.fails:
        return False
    first = first_failure(looks, rule.of)
    return rule.fails == 1 or (first < len(looks) - 1 and observation.began - looks[first][0] >= rule.reach)


def _with(looks: tuple[tuple[float, bool], ...], at: float, *, fault: bool) -> tuple[tuple[float, bool], ...]:
    """The last looks and one more.

    Of failures in a row the first one's time stays: however often one looks, a fault that lasts is believed in time.
    """
    more = (*looks, (at, fault))
    if len(more) <= LOOKS_KEPT:
        return more
    return (more[0], *more[2:]) if more[0][1] and more[1][1] else more[1:]


def _says_nothing_new(case: Case) -> bool:
    """Whether it is believed and failed at every look for long: a memory that stands still need not be kept anew."""
    return case.convicted and len(case.looks) == LOOKS_KEPT and all(fault for _, fault in case.looks)


def _rests(case: Case, policy: ConfirmationPolicy) -> bool:
    """Whether more passes change nothing: it is latched, or only remembered for its turns."""
    waits = case.convicted and not case.latched
    return not (waits or any(fault for _, fault in case.looks)) and case.passes >= policy.passes


def _released(case: Case, flaps: tuple[float, ...], at: float, policy: ConfirmationPolicy) -> Case:
    if len(flaps) + 1 < policy.flap_count:
        return replace(case, convicted_at=None, flaps=(*flaps, at), deferred_until=None)
    why = f"failed and passed again {len(flaps) + 1} times within {policy.flap_window / 60:g} min: it comes and goes"
    return replace(case, latched=why, latched_at=at, flaps=flaps)


def _recent(flaps: tuple[float, ...], at: float, policy: ConfirmationPolicy) -> tuple[float, ...]:
    return tuple(turn for turn in flaps if at - turn < policy.flap_window)
