"""The steps of an attempt, from the ledger to its end: each is stored before what follows from it is done.

    LEDGER      saved, and nobody was asked; a start takes it for ASKED, for a kill may have come after the question
    ASKED       the remediator was asked once; nobody knows yet whether it heard
    RUNNING     it says that the attempt runs
    VALIDATING  the play ended, or nobody will ever say how: only our own checks count
    then the attempt is over (`repair_validation`).

The question to run leaves here once, as the answer to the saving (`SEND_RUN`). Whoever starts anew only asks for the
status. So no attempt runs twice, whoever is killed when; and none is lost, for each step has an end.
"""

from __future__ import annotations

from math import inf

from nodeprep.agent_state import AgentState, RepairAttempt
from nodeprep.decide import (
    attempt_steps,
    kubernetes_text,
    repair_approach,
    repair_budget,
    repair_gate,
    repair_refusal,
    repair_slots,
    repair_validation,
)
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.repair_approach import RepairApproach
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.repair_choice import RepairChoice, RepairTerms
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, replace

WHY_LIMIT_CHARACTERS = 300  # of what the remediator says, which is kept
STATUS_PERIOD_SECONDS = 1.0  # seconds between two questions for the status


class AttemptAction(StrEnum):
    """What is to be done about the attempt now."""

    SAVE = "save"  # the agent state, with this attempt in it
    SEND_RUN = "send-run"  # once, now
    ASK_STATUS = "ask-status"
    LOOK = "look"  # at all facts of its case
    NOTHING = "nothing"


class LedgerSaved(Value):
    """The agent state with the attempt `id` was saved, or `trouble` says why the next start may not find it."""

    id: str
    trouble: str = ""


class RunAnswer(Value):
    """What became of the question to run attempt `id`.

    `sent`: some of it may have reached the remediator. `is_running`: it says so. `refused` is its word for why not, and
    `why` is for people.
    """

    id: str
    sent: bool = True
    is_running: bool = False
    refused: str = ""
    why: str = ""


class StatusAnswer(Value):
    """What the remediator says of attempt `id`: "running", "done" or "unknown"; "" if it said nothing.

    `end` is how a play ended. `refused` is the word if it ended before anything ran, and `why` is for people. `hangs`:
    it runs because something of it sleeps in the kernel.
    """

    id: str
    status: str = ""
    end: str = ""
    refused: str = ""
    why: str = ""
    hangs: bool = False


AttemptReport = LedgerSaved | RunAnswer | StatusAnswer
SEEN = "seen"  # the refusal of an id that began before


class AttemptResult(Value):
    """The agent state after a report, and what is to be done at once."""

    state: AgentState
    action: AttemptAction = AttemptAction.NOTHING


def begun(state: AgentState, approach: RepairApproach, choice: RepairChoice, terms: RepairTerms) -> AgentState | None:
    """The agent state with the attempt of an approach in its ledger, to be saved. None if it may not begin (any more).

    All that was proved on the way is held once more, by the values of now.
    """
    candidate, clock = choice.candidate, terms.clock
    if candidate is None or candidate.key != approach.candidate.key or state.attempt is not None:
        return None
    if clock.now < candidate.due_at or not repair_approach.is_ready(approach, terms):
        return None
    if any(one.id == approach.id for one in state.attempts):
        return None
    if repair_gate.hindrance(terms.node, state, terms.gate):
        return None
    header, case = candidate.header, candidate.case
    attempt = RepairAttempt(
        id=approach.id,
        check=case.check,
        place=case.place,
        port=case.port,
        reason=case.reason,
        remedy=header.name,
        step=AttemptStep.LEDGER.value,
        boot_id=clock.boot_id,
        wall=clock.wall,
        step_since=clock.now,
        deadline=repair_approach.deadline(approach, terms),
        args=dict(candidate.remedy.args),
        serving=candidate.serving,
        disturbs=header.disturbs,
        slot=approach.slot.name,
        slot_until=approach.slot_until,
        state_before=state.state.value,
        state_since=state.since,
        approval=candidate.approval,
        heard_at=clock.now,
    )
    return replace(state, attempt=attempt, slot=approach.slot.name)


def after(state: AgentState, report: AttemptReport, terms: RepairTerms) -> AttemptResult:
    """The agent state after a report. One about another attempt, or to another step, changes nothing."""
    attempt = state.attempt
    if attempt is None or report.id != attempt.id:
        return AttemptResult(state)
    match attempt_steps.step_of(attempt), report:
        case AttemptStep.LEDGER, LedgerSaved(trouble=""):
            return AttemptResult(_moved(state, attempt, AttemptStep.ASKED, terms), AttemptAction.SEND_RUN)
        case AttemptStep.LEDGER, LedgerSaved():
            return AttemptResult(_refused(state, attempt, repair_refusal.UNSAVED, terms), AttemptAction.SAVE)
        case AttemptStep.ASKED, RunAnswer():
            return _after_run(state, attempt, report, terms)
        case ((AttemptStep.ASKED | AttemptStep.RUNNING), StatusAnswer()):
            return _after_status(state, attempt, report, terms)
    return AttemptResult(state)


def due(state: AgentState, terms: RepairTerms) -> AttemptResult:
    """The agent state as time goes by, and what is to be done about its attempt now."""
    attempt = state.attempt
    if attempt is None:
        return AttemptResult(state)
    now, step = terms.clock.now, attempt_steps.step_of(attempt)
    if step is AttemptStep.LEDGER:
        return AttemptResult(state, AttemptAction.SAVE)
    if step is AttemptStep.VALIDATING:
        return AttemptResult(state, AttemptAction.LOOK)
    if now >= given_up_at(attempt, terms):
        return AttemptResult(_ended(state, attempt, repair_budget.LOST, terms), AttemptAction.SAVE)
    return AttemptResult(state, AttemptAction.ASK_STATUS)


def given_up_at(attempt: RepairAttempt, terms: RepairTerms) -> float:
    """When nobody waits any more for a remediator that says nothing (CLOCK_BOOTTIME seconds).

    As long as it says that the attempt runs, it does. A remediator that restarts says nothing for a while, and its
    child may run on meanwhile: no silence ends an attempt before its deadline. What sleeps in the kernel keeps also a
    container from its end, so no other remediator comes to say so: only a reboot ends that.
    """
    if attempt.hangs:
        return inf
    return max(attempt.step_since + attempt.deadline, attempt.heard_at) + terms.waits.silent


def renews_slot(attempt: RepairAttempt, now: float, limit: float) -> bool:
    """Whether the slot is to be renewed now, so that it never ends while a remedy runs or is judged.

    A step that takes longer than any may loses it, so no renewal lasts for longer. Then another node is mended: also
    where an agent starts again and again, and never comes to judge. `limit` is `readiness.validation-limit`.
    """
    lasts = repair_slots.duration(attempt.deadline)
    is_due = attempt.slot_until - now < lasts - repair_slots.RENEWAL_SECONDS
    judged_in = repair_validation.longest(limit) if attempt_steps.step_of(attempt) is AttemptStep.VALIDATING else 0.0
    until = attempt.step_since + max(attempt.deadline + attempt_steps.HUNG_SECONDS, judged_in + lasts)
    return bool(attempt.slot) and is_due and now + lasts <= until


def with_renewed_slot(state: AgentState, began: float) -> AgentState:
    """The agent state after a renewal of the slot, whose request began at `began`."""
    attempt = state.attempt
    if attempt is None:
        return state
    return replace(state, attempt=replace(attempt, slot_until=began + repair_slots.duration(attempt.deadline)))


def slot_to_give_back(state: AgentState) -> str:
    """The slot that this node holds and needs no more, "" for none."""
    return state.slot if state.attempt is None else ""


def _after_run(state: AgentState, attempt: RepairAttempt, report: RunAnswer, terms: RepairTerms) -> AttemptResult:
    if report.refused == SEEN:  # it began before: how it stands, the status says
        return AttemptResult(state)
    if report.refused or not report.sent:
        word = report.refused or repair_refusal.UNSENT
        return AttemptResult(_refused(state, attempt, word, terms, report.why), AttemptAction.SAVE)
    if report.is_running:
        return AttemptResult(_moved(state, attempt, AttemptStep.RUNNING, terms), AttemptAction.SAVE)
    return AttemptResult(state)


def _after_status(state: AgentState, attempt: RepairAttempt, report: StatusAnswer, terms: RepairTerms) -> AttemptResult:
    now = terms.clock.now
    if report.status == "running":
        told = replace(attempt, heard_at=now, hangs=report.hangs)
        if attempt_steps.step_of(attempt) is AttemptStep.RUNNING:
            action = AttemptAction.NOTHING if told.hangs == attempt.hangs else AttemptAction.SAVE
            return AttemptResult(replace(state, attempt=told), action)
        return AttemptResult(_moved(state, told, AttemptStep.RUNNING, terms), AttemptAction.SAVE)
    if report.status == "done" and report.refused:
        return AttemptResult(_refused(state, attempt, report.refused, terms, report.why), AttemptAction.SAVE)
    if report.status == "done":
        return AttemptResult(_ended(state, attempt, report.end, terms), AttemptAction.SAVE)
    if report.status == "unknown" and now - attempt.step_since >= terms.waits.unknown:
        return AttemptResult(_ended(state, attempt, repair_budget.UNHEARD, terms), AttemptAction.SAVE)
    return AttemptResult(state)  # silent, or its question may still be on its way


def _moved(state: AgentState, attempt: RepairAttempt, step: AttemptStep, terms: RepairTerms) -> AgentState:
    now = terms.clock.now
    return replace(state, attempt=replace(attempt, step=step.value, step_since=now, heard_at=now))


def _ended(state: AgentState, attempt: RepairAttempt, end: str, terms: RepairTerms) -> AgentState:
    """The play is over. What its case showed before counts no more: passes and failures are counted from now."""
    cases = tuple(
        replace(case, looks=(), passes=0, passing_since=None, blind=False)
        if (case.check, case.subject) == (attempt.check, attempt.subject)
        else case
        for case in state.cases
    )
    after = repair_validation.played(replace(state, cases=cases), attempt, terms.clock.now)
    return _moved(after, replace(attempt, end=end), AttemptStep.VALIDATING, terms)


def _refused(state: AgentState, attempt: RepairAttempt, word: str, terms: RepairTerms, why: str = "") -> AgentState:
    """Nothing ran, so nothing is judged and no try is spent."""
    said = kubernetes_text.line(why, WHY_LIMIT_CHARACTERS)
    return repair_budget.recorded(state, attempt, AttemptOutcome.REFUSED, terms.clock, refused=word, why=said)
