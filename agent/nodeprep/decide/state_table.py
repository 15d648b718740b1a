"""The table of states (design 3.1) as data: from which state, on what event, to which one, and why."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.agent_state import Case, NodeState
from nodeprep.decide import active_faults, kubernetes_text
from nodeprep.values import Value


class ReadinessPolicy(Value):
    """Times in seconds (design 3.1).

    `grace`: a conviction in BOOTSTRAP stands this long before a human is called, for links train for up to a minute
    after a boot. `remedy_after`: a conviction stands this long before a remedy is planned for it.
    """

    bootstrap_limit: float = 3600.0
    human_passes: float = 600.0
    validation_limit: float = 120.0
    remedy_after: float = 30.0
    grace: float = 60.0


class Repair(Value):
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


class Situation(Value):
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
    return active_faults.summary(seen.roots[0]) if seen.roots else missing(seen)


def missing(seen: Situation) -> str:
    """Which gates have not passed often enough, for people."""
    return kubernetes_text.few(seen.missing)


def all_passed(seen: Situation) -> bool:
    return seen.passes


def released(seen: Situation) -> bool:
    return seen.proven and not (seen.refused or seen.roots or seen.suspect)


def released_closed(seen: Situation) -> bool:
    return bool(seen.refused or not seen.proven) and not (seen.roots or seen.suspect)


def mendable(seen: Situation) -> bool:
    free = seen.repair.able and not seen.repair.held and not seen.repair.spent
    return free and any(active_faults.repairable(case, seen.policy.remedy_after, seen.now) for case in seen.roots)


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


class Transition(Value):
    """In state `start`, if `event` holds: to state `to`, because of `why`; `tell` names whom it is about."""

    start: NodeState
    event: Callable[[Situation], bool]
    to: NodeState
    why: str
    tell: Callable[[Situation], str] = culprit


# Design 3.1. The first row that holds is taken.
GATE_CHECK_FAILS = "a gate check fails"
TABLE: tuple[Transition, ...] = (
    Transition(NodeState.BOOTSTRAP, all_passed, NodeState.READY, "every gate check passed often enough in this boot"),
    Transition(NodeState.BOOTSTRAP, mendable, NodeState.REPAIRING, "a remedy can mend what is wrong"),
    Transition(NodeState.BOOTSTRAP, beyond_us, NodeState.AWAITING_HUMAN, "no remedy of ours mends what is wrong"),
    Transition(NodeState.BOOTSTRAP, budget_spent, NodeState.AWAITING_HUMAN, "the budget of repairs is spent"),
    Transition(
        NodeState.BOOTSTRAP, too_long_in_bootstrap, NodeState.AWAITING_HUMAN, "not ready for too long since the start"
    ),
    Transition(NodeState.READY, is_refused, NodeState.BOOTSTRAP, "the profile is refused"),
    Transition(NodeState.READY, unproven, NodeState.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Transition(NodeState.READY, convicted, NodeState.UNHEALTHY, GATE_CHECK_FAILS),
    Transition(NodeState.UNHEALTHY, is_refused, NodeState.BOOTSTRAP, "the profile is refused"),
    Transition(NodeState.UNHEALTHY, unproven, NodeState.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Transition(
        NodeState.UNHEALTHY, released, NodeState.READY, "every gate check that failed passed often enough since"
    ),
    Transition(NodeState.UNHEALTHY, mendable, NodeState.REPAIRING, "a remedy can mend what is wrong"),
    Transition(
        NodeState.UNHEALTHY, latched, NodeState.AWAITING_HUMAN, "a fault that only a human or a new boot clears"
    ),
    Transition(NodeState.UNHEALTHY, budget_spent, NodeState.AWAITING_HUMAN, "the budget of repairs is spent"),
    Transition(NodeState.REPAIRING, repair_ended, NodeState.VALIDATING, "the playbook ended"),
    Transition(NodeState.REPAIRING, repair_off, NodeState.VALIDATING, "no playbook runs"),
    Transition(
        NodeState.VALIDATING, released, NodeState.READY, "every gate check that failed passed often enough since"
    ),
    Transition(
        NodeState.VALIDATING,
        released_closed,
        NodeState.BOOTSTRAP,
        "the repair is done, and gate checks are to pass yet",
    ),
    Transition(NodeState.VALIDATING, not_mended, NodeState.UNHEALTHY, "the repair did not help in time"),
    Transition(NodeState.VALIDATING, not_mended_unproven, NodeState.BOOTSTRAP, "the repair did not help in time"),
    Transition(NodeState.AWAITING_HUMAN, passing_long, NodeState.READY, "every gate check has passed for long enough"),
)
