"""The table of states (design 3.1) as data: from which state, on what event, to which one, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodeprep.decide.against import repairable, told
from nodeprep.decide.legal import few
from nodeprep.facts.past import Case, State


@dataclass(frozen=True, slots=True)
class ReadinessPolicy:
    """Times in seconds (design 3.1).

    `grace`: a conviction in BOOTSTRAP stands this long before a human is called, for links train for up to a minute
    after a boot. `remedy_after`: a conviction stands this long before a remedy is planned for it.
    """

    bootstrap_limit: float = 3600.0
    human_passes: float = 600.0
    validation_limit: float = 120.0
    remedy_after: float = 30.0
    grace: float = 60.0


@dataclass(frozen=True, slots=True)
class Repair:
    """What the repair side says.

    `able`: mode repair and a remediator that answers; `running`: a playbook runs; `ended`: one ended since the state
    was entered; `spent`: its budget is; `held`: something holds it back.
    """

    able: bool = False
    running: bool = False
    ended: bool = False
    spent: bool = False
    held: bool = False


NO_REPAIR = Repair()


@dataclass(frozen=True, slots=True)
class Situation:
    """What the events of the table are read from.

    `proven`: every gate check has passed often enough in this boot. `roots` are convictions that close the gate;
    `suspect`: the last look at some gate failed; `blind`: some gate could not be looked at. `stood` is how long the
    state has been what it is, `passing` for how long every gate has passed; seconds.
    """

    refused: str
    missing: tuple[str, ...]
    proven: bool
    roots: tuple[Case, ...]
    suspect: bool
    blind: bool
    stood: float
    passing: float
    now: float
    policy: ReadinessPolicy
    repair: Repair

    @property
    def passes(self) -> bool:
        """Whether nothing at all is in the way: what a gate takes to open for the first time."""
        return self.proven and not (self.refused or self.roots or self.suspect or self.blind)


def culprit(seen: Situation) -> str:
    """What is in the way, for people; "" if nothing is."""
    if seen.refused:
        return seen.refused
    return told(seen.roots[0]) if seen.roots else missing(seen)


def missing(seen: Situation) -> str:
    """Which gates have not passed often enough, for people."""
    return few(seen.missing)


def all_passed(seen: Situation) -> bool:
    return seen.passes


def released(seen: Situation) -> bool:
    return seen.proven and not (seen.refused or seen.roots or seen.suspect)


def released_closed(seen: Situation) -> bool:
    return bool(seen.refused or not seen.proven) and not (seen.roots or seen.suspect)


def mendable(seen: Situation) -> bool:
    free = seen.repair.able and not seen.repair.held and not seen.repair.spent
    return free and any(repairable(case, seen.policy.remedy_after, seen.now) for case in seen.roots)


def beyond_us(seen: Situation) -> bool:
    return any(
        (case.remedy is None or bool(case.latched)) and seen.now - (case.convicted_at or 0.0) >= seen.policy.grace
        for case in seen.roots
    )


def budget_spent(seen: Situation) -> bool:
    return seen.repair.spent and bool(seen.roots)


def too_long_in_bootstrap(seen: Situation) -> bool:
    return not seen.refused and seen.stood >= seen.policy.bootstrap_limit


def is_refused(seen: Situation) -> bool:
    return bool(seen.refused)


def unproven(seen: Situation) -> bool:
    return not seen.proven


def convicted(seen: Situation) -> bool:
    return bool(seen.roots)


def latched(seen: Situation) -> bool:
    return any(case.latched for case in seen.roots)


# `stood` > 0: what is said of a repair was said after this state was entered, not before.
def repair_ended(seen: Situation) -> bool:
    return seen.repair.ended and seen.stood > 0


def repair_off(seen: Situation) -> bool:
    off = not seen.repair.able or seen.repair.held or not seen.roots
    return off and not seen.repair.running and seen.stood > 0


def not_mended(seen: Situation) -> bool:
    return seen.proven and seen.stood >= seen.policy.validation_limit


def not_mended_unproven(seen: Situation) -> bool:
    return not seen.proven and seen.stood >= seen.policy.validation_limit


def passing_long(seen: Situation) -> bool:
    return seen.passes and seen.passing >= seen.policy.human_passes


@dataclass(frozen=True, slots=True)
class Row:
    """In state `start`, if `event` holds: to state `to`, because of `why`; `tell` names whom it is about."""

    start: State
    event: Callable[[Situation], bool]
    to: State
    why: str
    tell: Callable[[Situation], str] = culprit


# Design 3.1. The first row that holds is taken.
FAILS = "a gate check fails"
TABLE: tuple[Row, ...] = (
    Row(State.BOOTSTRAP, all_passed, State.READY, "every gate check passed often enough in this boot"),
    Row(State.BOOTSTRAP, mendable, State.REPAIRING, "a remedy can mend what is wrong"),
    Row(State.BOOTSTRAP, beyond_us, State.AWAITING_HUMAN, "no remedy of ours mends what is wrong"),
    Row(State.BOOTSTRAP, budget_spent, State.AWAITING_HUMAN, "the budget of repairs is spent"),
    Row(State.BOOTSTRAP, too_long_in_bootstrap, State.AWAITING_HUMAN, "not ready for too long since the start"),
    Row(State.READY, is_refused, State.BOOTSTRAP, "the profile is refused"),
    Row(State.READY, unproven, State.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Row(State.READY, convicted, State.UNHEALTHY, FAILS),
    Row(State.UNHEALTHY, is_refused, State.BOOTSTRAP, "the profile is refused"),
    Row(State.UNHEALTHY, unproven, State.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Row(State.UNHEALTHY, released, State.READY, "every gate check that failed passed often enough since"),
    Row(State.UNHEALTHY, mendable, State.REPAIRING, "a remedy can mend what is wrong"),
    Row(State.UNHEALTHY, latched, State.AWAITING_HUMAN, "a fault that only a human or a new boot clears"),
    Row(State.UNHEALTHY, budget_spent, State.AWAITING_HUMAN, "the budget of repairs is spent"),
    Row(State.REPAIRING, repair_ended, State.VALIDATING, "the playbook ended"),
    Row(State.REPAIRING, repair_off, State.VALIDATING, "no playbook runs"),
    Row(State.VALIDATING, released, State.READY, "every gate check that failed passed often enough since"),
    Row(State.VALIDATING, released_closed, State.BOOTSTRAP, "the repair is done, and gate checks are to pass yet"),
    Row(State.VALIDATING, not_mended, State.UNHEALTHY, "the repair did not help in time"),
    Row(State.VALIDATING, not_mended_unproven, State.BOOTSTRAP, "the repair did not help in time"),
    Row(State.AWAITING_HUMAN, passing_long, State.READY, "every gate check has passed for long enough"),
)
