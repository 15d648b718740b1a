"""The table of node states (design 3.1) as data: from which state, on what event, to which state, and why."""

from __future__ import annotations

from collections.abc import Callable

from nodeprep.agent_state import Case, NodeState
from nodeprep.decide import active_faults, kubernetes_text
from nodeprep.values import Value


class ReadinessPolicy(Value):
    """Times in seconds (design 3.1).

    `grace`: a conviction in BOOTSTRAP is this old before a human is called, because links train for up to a minute
    after a boot. `remedy_after`: a conviction is this old before a remedy is planned for it. `validation_limit` is the
    time that a remedy has to help.
    """

    bootstrap_limit: float = 3600.0
    human_passes: float = 600.0
    validation_limit: float = 120.0
    remedy_after: float = 30.0
    grace: float = 60.0


class Situation(Value):
    """What the events of the table read.

    `proven`: every gate check has passed often enough in this boot. `roots` are convictions that close the gate.
    `has_suspect`: the last look at a gate failed. `has_blind_gate`: a gate could not be looked at. `state_age` is the
    age of the state, and `passing_seconds` for how long every gate has passed; seconds. `runs`: a remedy may run now.
    `validates`: it ended, and its case is judged. `repair` is that remedy with its check, "" for none. `before` is the
    state in which the last one began, "" for none. `refused_since` is since when that stood if the last one was
    refused, and None otherwise. `budget_spent`: no fault with a remedy has a try left.
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
    runs: bool = False
    validates: bool = False
    repair: str = ""
    before: str = ""
    refused_since: float | None = None
    budget_spent: bool = False

    @property
    def all_pass(self) -> bool:
        """Whether nothing is in the way. A gate needs this to open for the first time."""
        return self.proven and not (self.refusal or self.roots or self.has_suspect or self.has_blind_gate)


def culprit(situation: Situation) -> str:
    """What is in the way, for people. "" if nothing is."""
    if situation.refusal:
        return situation.refusal
    return active_faults.summary(situation.roots[0]) if situation.roots else missing(situation)


def repair(situation: Situation) -> str:
    """Which remedy it is about, for people. Another fault than its own may be the first."""
    return situation.repair or culprit(situation)


def missing(situation: Situation) -> str:
    """Which gates have not passed often enough, for people."""
    return kubernetes_text.few(situation.missing_gates)


def all_passed(situation: Situation) -> bool:
    return situation.all_pass


def released(situation: Situation) -> bool:
    return situation.proven and not (situation.refusal or situation.roots or situation.has_suspect)


def under_repair(situation: Situation) -> bool:
    return situation.runs or situation.validates


def remedy_runs(situation: Situation) -> bool:
    return situation.runs


def beyond_us(situation: Situation) -> bool:
    return any(
        ((case.remedy is None and not case.passes) or bool(case.latched))
        and situation.now - (case.convicted_at or 0.0) >= situation.policy.grace
        for case in situation.roots
    )


def budget_spent(situation: Situation) -> bool:
    return situation.budget_spent and bool(situation.roots)


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


def remedy_ended(situation: Situation) -> bool:
    return situation.validates


def judged_for_human(situation: Situation) -> bool:
    return is_judged(situation) and situation.before == NodeState.AWAITING_HUMAN


def judged_and_released(situation: Situation) -> bool:
    return is_judged(situation) and released(situation)


def judged_and_unproven(situation: Situation) -> bool:
    return is_judged(situation) and (is_refused(situation) or unproven(situation))


def is_judged(situation: Situation) -> bool:
    return not under_repair(situation)


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
REMEDY_RUNS = "a remedy runs"
TABLE: tuple[Transition, ...] = (
    Transition(NodeState.BOOTSTRAP, under_repair, NodeState.REPAIRING, REMEDY_RUNS, repair),
    Transition(NodeState.BOOTSTRAP, all_passed, NodeState.READY, "every gate check passed often enough in this boot"),
    Transition(NodeState.BOOTSTRAP, beyond_us, NodeState.AWAITING_HUMAN, "no remedy of ours mends what is wrong"),
    Transition(NodeState.BOOTSTRAP, budget_spent, NodeState.AWAITING_HUMAN, "the budget of repairs is spent"),
    Transition(
        NodeState.BOOTSTRAP, too_long_in_bootstrap, NodeState.AWAITING_HUMAN, "not ready for too long since the start"
    ),
    Transition(NodeState.READY, under_repair, NodeState.REPAIRING, REMEDY_RUNS, repair),
    Transition(NodeState.READY, is_refused, NodeState.BOOTSTRAP, "the profile is refused"),
    Transition(NodeState.READY, unproven, NodeState.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Transition(NodeState.READY, convicted, NodeState.UNHEALTHY, GATE_CHECK_FAILS),
    Transition(NodeState.UNHEALTHY, under_repair, NodeState.REPAIRING, REMEDY_RUNS, repair),
    Transition(NodeState.UNHEALTHY, is_refused, NodeState.BOOTSTRAP, "the profile is refused"),
    Transition(NodeState.UNHEALTHY, unproven, NodeState.BOOTSTRAP, "gates that are yet to pass often enough", missing),
    Transition(
        NodeState.UNHEALTHY, released, NodeState.READY, "every gate check that failed passed often enough since"
    ),
    Transition(
        NodeState.UNHEALTHY, latched, NodeState.AWAITING_HUMAN, "a fault that only a human or a new boot clears"
    ),
    Transition(NodeState.UNHEALTHY, budget_spent, NodeState.AWAITING_HUMAN, "the budget of repairs is spent"),
    Transition(
        NodeState.REPAIRING, remedy_ended, NodeState.VALIDATING, "the remedy ended, and its case is looked at", repair
    ),
    Transition(NodeState.REPAIRING, is_judged, NodeState.VALIDATING, "no remedy runs"),
    Transition(NodeState.VALIDATING, remedy_runs, NodeState.REPAIRING, REMEDY_RUNS, repair),
    Transition(NodeState.VALIDATING, judged_for_human, NodeState.AWAITING_HUMAN, "a human is called for as before"),
    Transition(
        NodeState.VALIDATING,
        judged_and_released,
        NodeState.READY,
        "every gate check that failed passed often enough since",
    ),
    Transition(
        NodeState.VALIDATING,
        judged_and_unproven,
        NodeState.BOOTSTRAP,
        "the remedy is over, and gate checks are to pass yet",
    ),
    Transition(NodeState.VALIDATING, is_judged, NodeState.UNHEALTHY, "the remedy is over, and a gate check fails"),
    Transition(NodeState.AWAITING_HUMAN, under_repair, NodeState.REPAIRING, REMEDY_RUNS, repair),
    Transition(NodeState.AWAITING_HUMAN, passing_long, NodeState.READY, "every gate check has passed for long enough"),
)
