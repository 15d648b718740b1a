"""One case, one fresh look after another: suspected, believed, passed over, released or latched (design 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nodeprep.decide.policy import DampingPolicy, Glance, Rule
from nodeprep.facts.past import Case
from nodeprep.model import Check, Damping, Finding, Subject

LOOKS = 5  # as many as the longest rule asks for
MOST_OBSERVED = 120  # characters; a value that is longer is compared with none
MOST_MESSAGE = 400  # the same: the report has all of it
AT_ONCE = "such a fault is believed at once and held"


def failed(case: Case | None, finding: Finding, glance: Glance, check: Check, policy: DampingPolicy) -> Case:
    """The case after a look that found its subject at fault; a new one where there is none."""
    rule = policy.rules[check.damping]
    before = case or _opened(finding)
    standing = before.convicted or is_suspected(before, rule)
    after = replace(
        _told(before, finding),
        opened_at=before.opened_at if standing else glance.began,
        looks=before.looks if _says_nothing_new(before) else _with(before.looks, glance.ended, fault=True),
        passes=0,
        passing_since=None,
        blind=False,
    )
    if not after.convicted and _believed(after.looks, rule, glance):
        after = replace(after, convicted_at=glance.began)
    # Silence is believed as soon as any such fault, but who speaks again is heard: a driver may reset itself.
    speaks = finding.verdict.blind is None
    if check.damping is Damping.LATCH and speaks and after.convicted and not after.latched:
        after = replace(after, latched=AT_ONCE, latched_at=glance.began)
    return after


def passed(case: Case, glance: Glance, check: Check, policy: DampingPolicy) -> Case | None:
    """The case after a look that found no fault of its subject; None where nothing is left to remember."""
    rule = policy.rules[check.damping]
    if case.passes and case.looks and glance.began <= case.looks[-1][0]:
        return case  # it rests on what the look before saw
    turns = _recent(case.turns, glance.ended, policy)
    if not (case.convicted or turns or is_suspected(case, rule)):
        return None
    if _rests(case, policy):
        return case
    after = replace(
        case,
        looks=_with(case.looks, glance.ended, fault=False),
        passes=case.passes + 1,
        passing_since=glance.ended if case.passing_since is None else case.passing_since,
        blind=False,
    )
    if not after.convicted:
        return after if turns or is_suspected(after, rule) else None
    if after.latched or not policy.enough(after.passes, after.passing_since, glance.began):
        return after
    return _released(after, turns, glance.ended, policy)


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


def is_suspected(case: Case, rule: Rule) -> bool:
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
        name=cut(verdict.subject.name, MOST_OBSERVED),
        reason=cut(verdict.reason, MOST_OBSERVED),
        message=cut(verdict.message, MOST_MESSAGE),
        observed=cut(verdict.observed, MOST_OBSERVED),
        remedy=verdict.remedy,
    )


def _believed(looks: tuple[tuple[float, bool], ...], rule: Rule, glance: Glance) -> bool:
    """Whether the last of these looks, which failed, is the one to be believed.

    It counts from the end of the first failure's look to the beginning of the last one's: what they saw is no closer.
    """
    if sum(fault for _, fault in looks[-rule.of :]) < rule.fails:
        return False
    first = first_failure(looks, rule.of)
    return rule.fails == 1 or (first < len(looks) - 1 and glance.began - looks[first][0] >= rule.reach)


def _with(looks: tuple[tuple[float, bool], ...], at: float, *, fault: bool) -> tuple[tuple[float, bool], ...]:
    """The last looks and one more.

    Of failures in a row the first one's time stays: however often one looks, a fault that lasts is believed in time.
    """
    more = (*looks, (at, fault))
    if len(more) <= LOOKS:
        return more
    return (more[0], *more[2:]) if more[0][1] and more[1][1] else more[1:]


def _says_nothing_new(case: Case) -> bool:
    """Whether it is believed and failed at every look for long: a memory that stands still need not be kept anew."""
    return case.convicted and len(case.looks) == LOOKS and all(fault for _, fault in case.looks)


def _rests(case: Case, policy: DampingPolicy) -> bool:
    """Whether more passes change nothing: it is latched, or only remembered for its turns."""
    waits = case.convicted and not case.latched
    return not (waits or any(fault for _, fault in case.looks)) and case.passes >= policy.passes


def _released(case: Case, turns: tuple[float, ...], at: float, policy: DampingPolicy) -> Case:
    if len(turns) + 1 < policy.turns:
        return replace(case, convicted_at=None, turns=(*turns, at), spared_until=None)
    why = f"failed and passed again {len(turns) + 1} times within {policy.turn_window / 60:g} min: it comes and goes"
    return replace(case, latched=why, latched_at=at, turns=turns)


def _recent(turns: tuple[float, ...], at: float, policy: DampingPolicy) -> tuple[float, ...]:
    return tuple(turn for turn in turns if at - turn < policy.turn_window)
