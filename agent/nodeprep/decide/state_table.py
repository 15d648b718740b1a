"""The table of node states (design 3.1) as data: from which state, on what event, to which state, and why."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.agent_state import Case, NodeState
from nodeprep.decide import active_faults, kubernetes_text
from nodeprep.values import Value


class ReadinessPolicy(Value):
    """Times in seconds (design 3.1).

    `grace`: a conviction in BOOTSTRAP is this old before a human is called, because links train for up to a minute
    after a boot. `remedy_after`: a conviction is this old before a remedy is planned for it.
    """

    bootstrap_limit: float = 3600.0
    human_passes: float = 600.0
    validation_limit: float = 120.0
    remedy_after: float = 30.0
    grace: float = 60.0


class Repair(Value):
    """What the repair side says.

    `available`: mode repair, and a remediator that answers. `is_running`: a playbook runs. `has_ended`: a playbook
    ended since this state began. `budget_spent`: no repair is left. `on_hold`: something holds repairs back.
    """

    available: bool = False
    is_running: bool = False
    has_ended: bool = False
    budget_spent: bool = False
    on_hold: bool = False


NO_REPAIR = Repair()


class Situation(Value):
    """What the events of the table read.

    `proven`: every gate check has passed often enough in this boot. `roots` are convictions that close the gate.
    `has_suspect`: the last look at a gate failed. `has_blind_gate`: a gate could not be looked at. `state_age` is the
    age of the state, and `passing_seconds` for how long every gate has passed; seconds.
    """

    refusal: str
    missing_gates: tuple[str, ...]
    proven: bool
    roots: tuple[Case, ...]
    has_suspect: bool
    has_blind_gate: bool
    state_age: float
    passing_seconds: float
    now: float
    policy: ReadinessPolicy
    repair: Repair

    @property
    def all_pass(self) -> bool:
        """Whether nothing is in the way. A gate needs this to open for the first time."""
        return self.proven and not (self.refusal or self.roots or self.has_suspect or self.has_blind_gate)


def culprit(situation: Situation) -> str:
    """What is in the way, for people. "" if nothing is."""
    if situation.refusal:
        return situation.refusal
    return active_faults.summary(situation.roots[0]) if situation.roots else missing(situation)


def missing(situation: Situation) -> str:
    """Which gates have not passed often enough, for people."""
    return kubernetes_text.few(situation.missing_gates)


def all_passed(situation: Situation) -> bool:
    return situation.all_pass


def released(situation: Situation) -> bool:
    return situation.proven and not (situation.refusal or situation.roots or situation.has_suspect)


def released_closed(situation: Situation) -> bool:
    return bool(situation.refusal or not situation.proven) and not (situation.roots or situation.has_suspect)


def mendable(situation: Situation) -> bool:
    free = situation.repair.available and not situation.repair.on_hold and not situation.repair.budget_spent
    return free and any(
        active_faults.is_repairable(case, situation.policy.remedy_after, situation.now) for case in situation.roots
    )


def beyond_us(situation: Situation) -> bool:
    return any(
        (case.remedy is None or bool(case.latched))
        and situation.now - (case.convicted_at or 0.0) >= situation.policy.grace
        for case in situation.roots
    )


def budget_spent(situation: Situation) -> bool:
    return situation.repair.budget_spent and bool(situation.roots)


def too_long_in_bootstrap(situation: Situation) -> bool:
    return not situation.refusal and situation.state_age >= situation.policy.bootstrap_limit


def is_refused(situation: Situation) -> bool:
    return bool(situation.refusal)


def unproven(situation: Situation) -> bool:
    return not situation.proven


def convicted(situation: Situation) -> bool:
    return bool(situation.roots)


def latched(situation: Situation) -> bool:
    return any(case.latched for case in situation.roots)


# `state_age` > 0: what `repair` says was said after this state began.
def repair_ended(situation: Situation) -> bool:
    return situation.repair.has_ended and situation.state_age > 0


def repair_off(situation: Situation) -> bool:
    off = not situation.repair.available or situation.repair.on_hold or not situation.roots
    return off and not situation.repair.is_running and situation.state_age > 0


def not_mended(situation: Situation) -> bool:
    return situation.proven and situation.state_age >= situation.policy.validation_limit


def not_mended_unproven(situation: Situation) -> bool:
    return not situation.proven and situation.state_age >= situation.policy.validation_limit


def passing_long(situation: Situation) -> bool:
    return situation.all_pass and situation.passing_seconds >= situation.policy.human_passes


class Transition(Value):
    """In state `start`, if `event` holds: to state `to`, because of `why`. `tell` names what it is about."""

    start: NodeState
    event: Callable[[Situation], bool]
    to: NodeState
    why: str
    tell: Callable[[Situation], str] = culprit


# Design 3.1. The first row that holds counts.
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
