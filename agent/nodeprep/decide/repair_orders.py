"""What humans order about repairs by annotations that the agent cannot write: pause this node or the fleet, approve.

    nodeprep.io/pause=<reason>;until=<time>
    nodeprep.io/approve=<remedy>;until=<time>

Times are RFC 3339 with a zone. A pause that cannot be read holds, and an approval that cannot be read approves nothing.
`nodeprep repair pause` and `approve` write them, and so may kubectl.
"""

from __future__ import annotations

from datetime import datetime

from nodeprep import newer_python
from nodeprep.decide import kubernetes_text
from nodeprep.newer_python import UTC
from nodeprep.pattern import Pattern
from nodeprep.values import Value

PAUSE = "nodeprep.io/pause"
APPROVE = "nodeprep.io/approve"
APPROVED = "agent.nodeprep.io/approved"  # the agent notes there which approval it used
APPROVAL_LIMIT_SECONDS = 7 * 86400.0  # an approval for longer is a standing order, which belongs into the configuration
MARK = ";until="
NO_MOMENT = "?"
REMEDY = Pattern(r"[a-z][a-z0-9_]{0,63}")
ORDER_LIMIT_CHARACTERS = 256


class RepairApproval(Value):
    """One approval as it stands on the Node: `text` is the whole value, `until` seconds since 1970."""

    text: str
    remedy: str
    until: float


def pause_text(why: str, until: float | None) -> str:
    """The annotation of a pause that ends at `until`, seconds since 1970; None for one without an end."""
    return why.strip() if until is None else f"{why.strip()}{MARK}{time_text(until)}"


def approval_text(remedy: str, until: float) -> str:
    """The annotation that approves one run of a remedy before `until`, seconds since 1970."""
    return f"{remedy}{MARK}{time_text(until)}"


def time_text(at: float) -> str:
    """A moment, seconds since 1970, as `moment` reads it: whole seconds of UTC.

    What others say may be no moment of any calendar: NO_MOMENT.
    """
    try:
        return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return NO_MOMENT


def unusable_reason(why: str) -> str:
    """What is wrong with the reason of a pause, "" if nothing is."""
    if not why.strip():
        return "found nothing, wanted why, in a few words"
    if MARK in why:
        return f"found {MARK!r} in it, which begins the time of the end"
    if not why.isprintable():
        return "found characters that cannot be printed, wanted one line of text"
    if len(why) > ORDER_LIMIT_CHARACTERS:
        return f"found {len(why)} characters, wanted at most {ORDER_LIMIT_CHARACTERS}"
    return ""


def paused(text: str | None, wall: float, whom: str) -> str:
    """Why a pause holds at `wall`, seconds since 1970; "" if there is none, or its time is over. `whom` is paused.

    `text` is the annotation, None where there is none. An empty one pauses, for somebody put it there.
    """
    if text is None:
        return ""
    why, mark, stated = text.partition(MARK)
    why = kubernetes_text.line(why, ORDER_LIMIT_CHARACTERS).strip() or "no reason given"
    if not mark:
        return f"{whom} is paused ({why}) without an end: remove {PAUSE} there, or add {MARK}TIME to it"
    until = moment(stated)
    if until is None:
        shown = kubernetes_text.line(stated, 40)
        return f"{whom} is paused ({why}): found the time {shown!r}, wanted one as 2026-01-31T12:00:00Z, so it holds"
    return f"{whom} is paused ({why}) until {stated.strip()}" if wall < until else ""


def approval(text: str) -> RepairApproval | None:
    """The approval in an annotation, None if it approves nothing."""
    remedy, mark, stated = text.strip().partition(MARK)
    until = moment(stated)
    if not mark or until is None or len(text) > ORDER_LIMIT_CHARACTERS or not REMEDY.fullmatch(remedy):
        return None
    return RepairApproval(text.strip(), remedy, until)


def unapproved(found: RepairApproval | None, remedy: str, used: str, wall: float) -> str:
    """Why a remedy is not approved at `wall`, "" if it is. `used` is the last approval that was used.

    One that does not end later than that may have been used before it: only the last is remembered.
    """
    wanted = f"nodeprep repair approve {remedy} NODE"
    if found is None or found.remedy != remedy:
        return f"{remedy} runs only after an approval: {wanted}"
    if is_used(found, used):
        return f"the approval {found.text!r} was used, or ends no later than one that was: each counts once: {wanted}"
    if not wall < found.until:
        return f"the approval {found.text!r} is over: {wanted}"
    if found.until - wall > APPROVAL_LIMIT_SECONDS:
        return f"the approval {found.text!r} is for more than {APPROVAL_LIMIT_SECONDS / 86400:g} days: {wanted}"
    return ""


def is_used(found: RepairApproval, used: str) -> bool:
    """Whether an approval may have been used. `used` is the text of the last one that was, "" for none."""
    last = approval(used)
    return last is not None and found.until <= last.until


def moment(text: str) -> float | None:
    """Seconds since 1970 of a time with its zone."""
    try:
        found = newer_python.moment(text.strip())
        return None if found.tzinfo is None else found.timestamp()
    except (ValueError, OverflowError):
        return None
