"""Where the attempt under way stands, and what of it a start finds."""

from __future__ import annotations

from nodeprep.agent_state import AgentState, Case, RepairAttempt
from nodeprep.decide import repair_budget
from nodeprep.newer_python import StrEnum
from nodeprep.values import replace


class AttemptStep(StrEnum):
    """Where an attempt stands (`repair_attempt`). The values are stored as text."""

    LEDGER = "ledger"  # saved, and nobody was asked
    ASKED = "asked"  # the remediator was asked once; nobody knows yet whether it heard
    RUNNING = "running"  # it says that the attempt runs
    VALIDATING = "validating"  # the play ended, or nobody will ever say how: only our own checks count


RUN_STEPS = (AttemptStep.LEDGER, AttemptStep.ASKED, AttemptStep.RUNNING)
# Seconds over its deadline after which a play counts as hung. The remediator kills it at its deadline, and what hangs
# in the kernel outlives that. Its node keeps no slot of the fleet for ever.
HUNG_SECONDS = 900.0


def step_of(attempt: RepairAttempt) -> AttemptStep:
    """Where a stored attempt stands. A word of a newer version is some step in which it may run."""
    return AttemptStep(attempt.step) if attempt.step in list(AttemptStep) else AttemptStep.ASKED


def is_running(state: AgentState) -> bool:
    """Whether a remedy may be running now."""
    return state.attempt is not None and step_of(state.attempt) in RUN_STEPS


def is_validating(state: AgentState) -> bool:
    return state.attempt is not None and step_of(state.attempt) is AttemptStep.VALIDATING


def is_hung(attempt: RepairAttempt, now: float) -> bool:
    """Whether its play runs for so long that nobody will end it: only a reboot does."""
    return step_of(attempt) in RUN_STEPS and now - attempt.step_since > attempt.deadline + HUNG_SECONDS


def at_start(state: AgentState, boot_id: str, now: float) -> AgentState:
    """The agent state at a start in this boot: an attempt that may have been asked for is only asked about.

    One of another boot is over. Another Node object of this name, or a damaged memory, ends none: it may run all the
    same. While there was no agent nobody asked and nobody looked: silence counts from now, and so do the looks at what
    is judged.
    """
    attempt = state.attempt
    if attempt is None:
        return state
    if not boot_id or attempt.boot_id != boot_id:
        # It may have brought the boot about, on each node on which it runs. What nobody was asked for has not.
        blamed = {} if step_of(attempt) is AttemptStep.LEDGER else {attempt.remedy: attempt.wall}
        return replace(
            state,
            attempt=None,
            attempts=(*state.attempts, repair_budget.cut_off(attempt)),
            unhelpful={**state.unhelpful, **blamed},
            approved=attempt.approval or state.approved,
            slot=attempt.slot or state.slot,
        )
    step = step_of(attempt)
    known = AttemptStep.ASKED if step is AttemptStep.LEDGER else step
    after = replace(attempt, step=known.value, step_since=min(attempt.step_since, now), heard_at=now)
    return replace(state, attempt=after, cases=tuple(_unseen(case, after) for case in state.cases))


def _unseen(case: Case, attempt: RepairAttempt) -> Case:
    """The case without what it showed before a start, if the attempt for it is judged."""
    is_judged = step_of(attempt) is AttemptStep.VALIDATING and case.subject == attempt.subject
    return replace(case, looks=()) if is_judged and case.check == attempt.check else case
