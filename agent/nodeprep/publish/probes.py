"""The answers to the kubelet's probes: whether the loop runs, and whether this start has seen enough of the node."""

from __future__ import annotations

from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.publish.node_status import NodeStatus

MISSED_PERIODS = 3  # intervals without a turn after which an agent counts as dead (design 3.5)


def health(age: float, interval: float) -> tuple[bool, str]:
    """Whether the loop still runs. It last ran `age` seconds ago and should run every `interval` seconds."""
    if age <= MISSED_PERIODS * interval:
        return True, f"the loop turned {age:.1f} s ago"
    return False, f"the loop has not turned for {age:.0f} s, {MISSED_PERIODS} intervals of {interval:g} s are allowed"


def readiness(status: NodeStatus | None) -> tuple[bool, str]:
    """Whether every fact was looked at once, and no gate waits or closed because of a new version or configuration."""
    if status is None or not status.complete:
        return False, "the first full round of this start is not done"
    if status.rule_disagreements:
        return False, (
            f"{_few(status.rule_disagreements)}: only this {status.new_rules} finds the fault, the former did not "
            f"({status.new_rules.reason}); the rollout waits, see /report"
        )
    closed = tuple(one for one in status.rollout_blockers if one not in status.pending_gates)
    if closed:
        return False, (
            f"{_few(closed)}: closed a gate that stood open before this {status.new_rules} came; the rollout waits "
            f"for {RULE_HOLD_SECONDS / 60:.0f} minutes from then, and for a new profile until it opens; "
            "see /report"
        )
    if status.suspected:
        return False, (
            f"{_few(status.suspected)}: failed under a new {status.new_rules} and is looked at again; see /report"
        )
    if status.pending_gates:
        is_open = all(
            one.ready for one in status.desired.profiles if not set(one.gates).isdisjoint(status.pending_gates)
        )
        so_far = f"for {RULE_HOLD_SECONDS / 60:.0f} minutes, or while it cannot look"
        gate = f"the gate stays open {so_far}" if is_open else "the gate is closed"
        return False, (
            f"{_few(status.pending_gates)}: new in this {status.new_rules} and yet to pass; {gate}; "
            "the rollout waits until it passed, see /report"
        )
    return True, f"round {status.rounds} is done"


def _few(checks: tuple[str, ...]) -> str:
    return f"{checks[0]} and {len(checks) - 1} more" if len(checks) > 1 else checks[0]
