"""What the kubelet's probes are told: whether the loop turns, and whether this start has seen enough of the node."""

from __future__ import annotations

from nodeprep.publish.status import NodeStatus

MISSED = 3  # intervals without a turn (design 3.5)


def health(age: float, interval: float) -> tuple[bool, str]:
    """Whether the loop, which last turned `age` seconds ago and should do so every `interval`, still turns."""
    if age <= MISSED * interval:
        return True, f"the loop turned {age:.1f} s ago"
    return False, f"the loop has not turned for {age:.0f} s, {MISSED} intervals of {interval:g} s are allowed"


def readiness(status: NodeStatus | None) -> tuple[bool, str]:
    """Whether every fact was looked at once and nothing is held against the node that only a new version sees."""
    if status is None or not status.complete:
        return False, "the first full round of this start is not done"
    if status.disputed:
        more = f" and {len(status.disputed) - 1} more" if len(status.disputed) > 1 else ""
        return False, (
            f"{status.disputed[0]}{more}: only this version finds the fault, the one before passed the same value "
            "(VerdictChangedByUpgrade); the rollout waits, see /report"
        )
    return True, f"round {status.rounds} is done"
