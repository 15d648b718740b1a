"""What a round changed about repairs, told once: as lines of the log and as Events of the Node.

Steps are told once for each approach. One that is tried again and again, such as for a device in use, is told when it
was held back for the first time, and when it is for another reason. So is an attempt that the remediator refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.agent_state import AgentState, PastAttempt, RepairAttempt
from nodeprep.decide import repair_budget, repair_refusal
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.repair_approach import ApproachStep
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.publish.node_events import NodeEvent
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import Value, field

STEPS: Mapping[str, str] = {
    ApproachStep.TAINT: "waits until the API server shows our taint",
    ApproachStep.SETTLING: "our taint is there; gives the scheduler time, then looks once more for the fault",
    ApproachStep.PODS: "asks which pods are here",
    ApproachStep.FLEET: "no pod is in the way; tells the other agents and asks what they say",
    ApproachStep.SLOT: "no other node is in the way; takes a slot",
    ApproachStep.READY: "has a slot",
    AttemptStep.LEDGER: "is written into the state file",
    AttemptStep.ASKED: "the remediator is asked to run it",
    AttemptStep.RUNNING: "the remediator runs it",
    AttemptStep.VALIDATING: "is over; the check is looked at anew",
}
OUTCOMES: Mapping[str, str] = {
    AttemptOutcome.RELEASED: "helped: the check passes",
    AttemptOutcome.CHANGED: "mended what it is for; the check is held for something else now",
    AttemptOutcome.UNRELEASED: "did not help: the check did not pass in time",
    AttemptOutcome.REFUSED: "did not run",
    AttemptOutcome.CUT_OFF: "was cut off: after a reboot, a reset or no look at all nobody can say whether it helped",
}
WELL = (AttemptOutcome.RELEASED, AttemptOutcome.CHANGED, AttemptOutcome.REFUSED)
# Somebody's will, or what ends by itself. The others need a human.
CALM = (
    SuppressionReason.MODE,
    SuppressionReason.DRILL,
    SuppressionReason.PAUSED,
    SuppressionReason.FOREIGN_MAINTENANCE,
    SuppressionReason.BACK_OFF,
    SuppressionReason.BUSY,
    SuppressionReason.IDLE,
    SuppressionReason.SLOT,
)


class RepairLine(Value):
    """One thing that happened. `word` is the log's, `reason` the Event's. A `warning` needs a human."""

    word: str
    reason: str
    message: str
    fields: Mapping[str, object] = field(default_factory=dict)
    warning: bool = False

    @property
    def event(self) -> NodeEvent:
        """The Event that tells it."""
        return NodeEvent(self.reason, self.message, self.warning)


def lines(before: NodeStatus | None, after: NodeStatus) -> tuple[RepairLine, ...]:
    """What changed in a round. `before` is None in the first round."""
    return (*_ended(before, after), *_suppressed(before, after), *_stepped(before, after))


def _stepped(before: NodeStatus | None, after: NodeStatus) -> Iterator[RepairLine]:
    """The step that an approach or an attempt has come to."""
    now, attempt = after.repair, after.agent_state.attempt
    former = None if before is None else before.repair
    if former is not None and (former.remedy, former.check, former.step) == (now.remedy, now.check, now.step):
        return
    if now.step not in STEPS or (now.is_retry and attempt is None):
        return
    if attempt is not None and now.step != AttemptStep.VALIDATING and _was_refused(after.agent_state, attempt):
        return
    what = f"{now.remedy} for {now.check}" if attempt is None else _about(attempt)
    fields: dict[str, object] = {"remedy": now.remedy, "check": now.check, "step": now.step}
    if attempt is not None:
        fields |= {"attempt": attempt.id, "args": dict(attempt.args)}
        fields |= {"end": attempt.end} if attempt.end else {}
    reason = "RepairPlanned" if now.step == ApproachStep.TAINT else "RepairStep"
    yield RepairLine("repair-step", reason, f"{what}: {STEPS[now.step]}", fields)


def _ended(before: NodeStatus | None, after: NodeStatus) -> Iterator[RepairLine]:
    """Attempts that are over since. In the first round those that a reboot ended: a former life told of the others."""
    former = after.former_agent_state if before is None else before.agent_state
    known = {one.id for one in former.attempts}
    for past in after.agent_state.attempts:
        if past.id in known or _is_refused_again(former, past):
            continue
        how = OUTCOMES.get(past.outcome, past.outcome)
        told = past.why or "see its log"
        refused = f": the remediator refused it ({past.refused}): {told}" if past.refused else ""
        fields = {"remedy": past.remedy, "check": past.check, "attempt": past.id, "outcome": past.outcome}
        fields |= {"refused": past.refused} if past.refused else {}
        is_bad = past.outcome not in WELL
        reason = "RepairFailed" if is_bad else "RepairRefused" if past.refused else "RepairHelped"
        message = f"{_about(past)}: {how}{refused}"
        yield RepairLine("repair-ended", reason, message, fields, is_bad)


def _suppressed(before: NodeStatus | None, after: NodeStatus) -> Iterator[RepairLine]:
    """Remedies that are due and not run, each once for a reason. In the other modes the log says what would run."""
    if after.mode is not Mode.REPAIR:
        return
    known = set() if before is None else {_key(one) for one in before.repair.suppressions}
    known |= set() if before is None else _refused_again(before.agent_state, after.agent_state)
    for one in after.repair.suppressions:
        if _key(one) not in known:
            message = f"{one.remedy} for {one.check} does not run ({one.reason}): {one.why}"
            fields = {"remedy": one.remedy, "check": one.check, "reason": one.reason, "why": one.why}
            warning = one.reason not in CALM
            yield RepairLine("repair-suppressed", "RepairSuppressed", message, fields, warning)


def _was_refused(state: AgentState, one: RepairAttempt | PastAttempt, word: str = "") -> bool:
    """Whether the last attempt before this one, for the same fault, was refused; with `word` if that is given."""
    mine = [
        past for past in state.attempts if past.id != one.id and repair_budget.fault(past) == repair_budget.fault(one)
    ]
    return bool(mine) and mine[-1].outcome == AttemptOutcome.REFUSED and word in ("", mine[-1].refused)


def _is_refused_again(before: AgentState, past: PastAttempt) -> bool:
    return past.outcome == AttemptOutcome.REFUSED and _was_refused(before, past, past.refused)


def _refused_again(before: AgentState, after: AgentState) -> set[tuple[str, str, str]]:
    """What of suppressions was told when it was refused for the first time."""
    known = {one.id for one in before.attempts}
    return {
        (past.check, past.remedy, repair_refusal.meaning(past.refused).reason)
        for past in after.attempts
        if past.id not in known and _is_refused_again(before, past)
    }


def _key(one: Suppression) -> tuple[str, str, str]:
    return one.check, one.remedy, one.reason


def _about(attempt: RepairAttempt | PastAttempt) -> str:
    where = attempt.place if attempt.port is None else f"{attempt.place}/{attempt.port}"
    return f"{attempt.remedy} for {attempt.check} {attempt.reason} of {where or 'the node'}"
