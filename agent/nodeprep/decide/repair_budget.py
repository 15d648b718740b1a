"""How often a fault may still be tried today, and when: by attempts that carry wall time and boot id.

CLOCK_BOOTTIME begins anew with each boot, and wall time may be set back, so neither counts alone. Within one boot the
age of an attempt is the difference of boot times. Over a reboot it is that of wall times, at least as long as this boot
lasts, and a wall time that has not come yet counts as now. What cannot be true makes an attempt young, so it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from nodeprep.agent_state import AgentState, Case, PastAttempt, RepairAttempt
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, replace

DAY_SECONDS = 86400.0
CLOCK_SET_SINCE = 1735689600.0  # 2025-01-01, seconds since 1970: before, a clock was not set yet and tells no age
KEPT_LIMIT_ATTEMPTS = 500  # attempts in the memory; the newest
NODE_LIMIT_ATTEMPTS = 24  # attempts in a day on one node, of all faults: as the remediator's own --runs-a-day


class AttemptOutcome(StrEnum):
    """How an attempt came out. What a newer version wrote beside these counts as a try that did not help."""

    RELEASED = "released"  # its case was released
    CHANGED = "changed"  # another remedy or reason is in the way of its case now: no failure
    UNRELEASED = "unreleased"  # its case was not released in time
    REFUSED = "refused"  # nothing ran
    CUT_OFF = "cut-off"  # a reboot, a reset or another Node came between, or nobody could look: nobody can judge it


UNCOUNTED = (AttemptOutcome.REFUSED,)
HELPFUL = (AttemptOutcome.RELEASED, AttemptOutcome.CHANGED)
LOST = "lost"  # the end of a play of which nobody will say how it ended
UNHEARD = "unheard"  # the end of an attempt that the remediator does not know
Fault = tuple[str, str, int | None, str, str]  # check, place, port, reason, remedy


class BudgetClock(Value):
    """What the ages of attempts are told by: `now` in the boot `boot_id`, and `wall`, seconds since 1970."""

    boot_id: str
    now: float
    wall: float


class Budget(Value):
    """What a fault has had: `tries` in a day, `spent` if none is left, and `until` when the next may begin.

    `until` is CLOCK_BOOTTIME seconds. `of_node` are the attempts of all faults in a day.
    """

    tries: int
    spent: bool
    until: float
    of_node: int = 0


def fault(one: Case | RepairAttempt | PastAttempt) -> Fault:
    """What the budget goes by. Of a case, its remedy now: another reason or remedy is another fault."""
    remedy = one.remedy
    name = remedy if isinstance(remedy, str) else "" if remedy is None else remedy.playbook
    return one.check, one.place, one.port, one.reason, name


def age(attempt: PastAttempt, clock: BudgetClock) -> float:
    """The least seconds that can have passed since it ended."""
    if attempt.boot_id == clock.boot_id:
        return max(clock.now - attempt.at, 0.0)
    if not attempt.wall >= CLOCK_SET_SINCE:  # NaN tells nothing either
        return clock.now
    return max(clock.wall - attempt.wall, clock.now, 0.0)


def budget(state: AgentState, case: Case, policy: RepairPolicy, clock: BudgetClock) -> Budget:
    """What is left for the fault of a case.

    Tries of a day count, and so do failures in a row, however old: what never helped is tried again after a reset.
    """
    counted = [one for one in state.attempts if one.outcome not in UNCOUNTED]
    mine = [one for one in counted if fault(one) == fault(case)]
    today = sum(age(one, clock) < DAY_SECONDS for one in mine)
    failed = len(_failures_in_a_row(mine))
    of_node = sum(age(one, clock) < DAY_SECONDS for one in counted)
    spent_now = max(today, failed) >= policy.tries or of_node >= NODE_LIMIT_ATTEMPTS
    return Budget(max(today, failed), spent_now, _until(mine, failed, policy, clock), of_node)


def spent(state: AgentState, roots: Iterable[Case], policy: RepairPolicy, clock: BudgetClock) -> bool:
    """Whether some of these faults have a remedy, and none of those has a try left."""
    mendable = [case for case in roots if case.remedy is not None and not case.latched]
    return bool(mendable) and all(budget(state, case, policy, clock).spent for case in mendable)


def recorded(
    state: AgentState,
    attempt: RepairAttempt,
    outcome: AttemptOutcome,
    clock: BudgetClock,
    *,
    refused: str = "",
    why: str = "",
) -> AgentState:
    """The agent state after an attempt came out so: it is over.

    `refused` says who refused it, and `why` is for people.
    """
    over = replace(_over(attempt, outcome, clock), refused=refused, why=why)
    ran = outcome is not AttemptOutcome.REFUSED
    return replace(
        state,
        attempt=None,
        attempts=with_attempt(state.attempts, over, clock),
        approved=(attempt.approval if ran else "") or state.approved,
        helped={**state.helped, over.remedy: over.wall} if outcome is AttemptOutcome.RELEASED else state.helped,
        unhelpful=_unhelpful(state.unhelpful, over, may_have_run=attempt.end != UNHEARD),
        slot=attempt.slot or state.slot,
    )


def with_attempt(known: Iterable[PastAttempt], over: PastAttempt, clock: BudgetClock) -> tuple[PastAttempt, ...]:
    """The attempts that still count, and one more: those of a day, and failures after which nothing helped.

    Of refusals of one fault only the newest tells anything: a device in use is asked about all day long.
    """
    before = [one for one in known if one.id != over.id and not _is_older_refusal(one, over)]
    by_fault: dict[Fault, list[PastAttempt]] = {}
    for one in before:
        if one.outcome not in UNCOUNTED:
            by_fault.setdefault(fault(one), []).append(one)
    in_vain = {one.id for mine in by_fault.values() for one in _failures_in_a_row(mine)}
    kept = [one for one in before if one.id in in_vain or age(one, clock) < DAY_SECONDS]
    return (*kept[-(KEPT_LIMIT_ATTEMPTS - 1) :], over)


def refusal(state: AgentState, case: Case) -> PastAttempt | None:
    """The last attempt for the fault of a case, if it was refused."""
    mine = [one for one in state.attempts if fault(one) == fault(case)]
    return mine[-1] if mine and mine[-1].outcome == AttemptOutcome.REFUSED else None


def cut_off(attempt: RepairAttempt) -> PastAttempt:
    """An attempt of a former boot. It may have brought the boot about, so it counts as a failure."""
    return _over(attempt, AttemptOutcome.CUT_OFF, BudgetClock(attempt.boot_id, attempt.step_since, attempt.wall))


def _over(attempt: RepairAttempt, outcome: AttemptOutcome, at: BudgetClock) -> PastAttempt:
    """An attempt that is over since that time of that boot."""
    return PastAttempt(
        id=attempt.id,
        check=attempt.check,
        place=attempt.place,
        port=attempt.port,
        reason=attempt.reason,
        remedy=attempt.remedy,
        boot_id=at.boot_id,
        at=at.now,
        wall=at.wall,
        outcome=outcome.value,
        state_before=attempt.state_before,
        state_since=attempt.state_since,
        serving=attempt.serving,
    )


def _is_older_refusal(one: PastAttempt, over: PastAttempt) -> bool:
    return one.outcome == AttemptOutcome.REFUSED and fault(one) == fault(over)


def _failures_in_a_row(mine: Sequence[PastAttempt]) -> list[PastAttempt]:
    """Those at the end that did not help."""
    return list(takewhile(lambda one: one.outcome not in HELPFUL, reversed(mine)))


def _unhelpful(noted: Mapping[str, float], over: PastAttempt, *, may_have_run: bool) -> Mapping[str, float]:
    """What did not help here. A remedy that released its case since then is taken out.

    Another reason than before tells nothing: a port that was down may be gone now. A play that was cut off counts, for
    a remedy may have cut it off itself.
    """
    if over.outcome == AttemptOutcome.RELEASED:
        return {remedy: at for remedy, at in noted.items() if remedy != over.remedy}
    failed = over.outcome == AttemptOutcome.UNRELEASED and may_have_run
    return {**noted, over.remedy: over.wall} if failed else noted


def _until(mine: Sequence[PastAttempt], failed: int, policy: RepairPolicy, clock: BudgetClock) -> float:
    """When the next try may begin, after so many failures in a row."""
    if not failed or not policy.back_off:
        return clock.now
    wait = policy.back_off[min(failed, len(policy.back_off)) - 1]
    return clock.now + max(wait - age(mine[-1], clock), 0.0)
