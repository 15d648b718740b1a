"""The attempts as an annotation of the Node: for an agent whose disk is lost, which must not have all its tries anew.

A node that loses its disk at each boot would else try a remedy that brings the boot about, for ever.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from nodeprep.agent_state import AgentState, PastAttempt
from nodeprep.decide import repair_budget
from nodeprep.decide.repair_budget import AttemptOutcome, BudgetClock
from nodeprep.values import replace

ATTEMPTS = "agent.nodeprep.io/attempts"  # the annotation
ATTEMPTS_LIMIT = 32  # attempts in it, the newest; a node begins 24 a day at most
TEXT_LIMIT_CHARACTERS = 16384  # of an annotation that is read; ours has up to 8,000
UNREADABLE = f"{ATTEMPTS} on the Node cannot be read"
FIELDS = 8  # of one attempt: check, place, port, reason, remedy, boot id, wall time, outcome


def text(state: AgentState) -> str:
    """The attempts that count, the one under way as one that was cut off; "" for none."""
    counted = [one for one in state.attempts if one.outcome not in repair_budget.UNCOUNTED]
    counted += [] if state.attempt is None else [repair_budget.cut_off(state.attempt)]
    rows = [
        [one.check, one.place, one.port, one.reason, one.remedy, one.boot_id, round(one.wall), one.outcome]
        for one in counted[-ATTEMPTS_LIMIT:]
    ]
    return json.dumps(rows, separators=(",", ":")) if rows else ""


def approved(state: AgentState) -> str:
    """The last approval that was used, for the Node: noted from the ledger on, so that no lost disk uses it again."""
    return (state.attempt.approval if state.attempt is not None else "") or state.approved


def recalled(state: AgentState, annotation: str | None, clock: BudgetClock) -> tuple[AgentState, str]:
    """The agent state of an agent without a memory, with the attempts that the Node kept.

    And why nobody knows what was tried, "" where all is well. Times of this boot are not told: such an attempt counts
    as one of now.
    """
    if not annotation:
        return state, ""
    found = attempts(annotation, clock.now)
    if found is None:
        return state, f"{UNREADABLE}: remove it, and nodeprep nodes reset NODE"
    known = {one.id for one in state.attempts}
    return replace(
        state,
        attempts=(*(one for one in found if one.id not in known), *state.attempts),
        unhelpful={**_unhelpful(found, clock.boot_id), **state.unhelpful},
    ), ""


def _unhelpful(attempts: Sequence[PastAttempt], boot_id: str) -> dict[str, float]:
    """Remedies that by these attempts did not help here, with the wall time: the fleet counts the nodes that say so.

    What a boot cut off is one. What was cut off in this boot tells nothing.
    """
    last = {
        one.remedy: one for one in attempts if one.outcome not in (*repair_budget.UNCOUNTED, AttemptOutcome.CHANGED)
    }
    return {
        remedy: one.wall
        for remedy, one in last.items()
        if one.outcome == AttemptOutcome.UNRELEASED
        or (one.outcome == AttemptOutcome.CUT_OFF and one.boot_id != boot_id)
    }


def attempts(annotation: str, now: float = 0.0) -> tuple[PastAttempt, ...] | None:
    """The attempts in an annotation, None if it cannot be read. Their ends in their boots are not told: `now` each."""
    if not annotation:
        return ()
    try:
        rows = json.loads(annotation) if len(annotation) <= TEXT_LIMIT_CHARACTERS else None
        if not isinstance(rows, list) or len(rows) > ATTEMPTS_LIMIT:
            return None
        return tuple(_attempt(number, row, now) for number, row in enumerate(rows))
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None


def _attempt(number: int, row: object, now: float) -> PastAttempt:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != FIELDS:
        raise TypeError("no attempt")
    check, place, port, reason, remedy, boot_id, wall, outcome = row
    texts = (check, place, reason, remedy, boot_id, outcome)
    is_port = port is None or (isinstance(port, int) and not isinstance(port, bool))
    is_time = isinstance(wall, int | float) and not isinstance(wall, bool) and math.isfinite(wall)
    if not (all(isinstance(one, str) for one in texts) and is_port and is_time):
        raise TypeError("no attempt")
    told = outcome if outcome in list(AttemptOutcome) else AttemptOutcome.CUT_OFF.value
    return PastAttempt(f"node-{number}-{wall:.0f}", check, place, port, reason, remedy, boot_id, now, float(wall), told)
