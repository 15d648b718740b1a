"""What humans order about repairs by annotations that the agent cannot write: pause this node or the fleet, approve.

    nodeprep.io/pause=<reason>;until=<time>
    nodeprep.io/approve=<remedy>;until=<time>

Times are RFC 3339 with a zone. A pause that cannot be read holds, and an approval that cannot be read approves nothing.
"""

from __future__ import annotations

from datetime import datetime

from nodeprep.decide import kubernetes_text
from nodeprep.pattern import Pattern
from nodeprep.values import Value

PAUSE = "nodeprep.io/pause"
APPROVE = "nodeprep.io/approve"
APPROVED = "agent.nodeprep.io/approved"  # the agent notes there which approval it used
APPROVAL_LIMIT_SECONDS = 7 * 86400.0  # an approval for longer is a standing order, which belongs into the configuration
MARK = ";until="
REMEDY = Pattern(r"[a-z][a-z0-9_]{0,63}")
ORDER_LIMIT_CHARACTERS = 256


class RepairApproval(Value):
    """One approval as it stands on the Node: `text` is the whole value, `until` seconds since 1970."""

    text: str
    remedy: str
    until: float


def paused(text: str, wall: float, whom: str) -> str:
    """Why a pause holds at `wall`, seconds since 1970; "" if there is none, or its time is over. `whom` is paused."""
    if not text.strip():
        return ""
    why, mark, stated = text.partition(MARK)
    why = kubernetes_text.line(why, ORDER_LIMIT_CHARACTERS) or "no reason given"
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
    """Why a remedy is not approved at `wall`, "" if it is. `used` is the last approval that was used."""
    wanted = f"kubectl annotate node NODE --overwrite '{APPROVE}={remedy}{MARK}TIME'"
    if found is None or found.remedy != remedy:
        return f"{remedy} runs only after an approval: {wanted}"
    if found.text == used:
        return f"the approval {found.text!r} was used, and each counts once: {wanted}"
    if not wall < found.until:
        return f"the approval {found.text!r} is over: {wanted}"
    if found.until - wall > APPROVAL_LIMIT_SECONDS:
        return f"the approval {found.text!r} is for more than {APPROVAL_LIMIT_SECONDS / 86400:g} days: {wanted}"
    return ""


def moment(text: str) -> float | None:
    """Seconds since 1970 of a time with its zone."""
    try:
        found = datetime.fromisoformat(text.strip())
        return None if found.tzinfo is None else found.timestamp()
    except (ValueError, OverflowError):
        return None
