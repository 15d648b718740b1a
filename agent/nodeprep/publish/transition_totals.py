"""What only a sequence of rounds tells: convictions, closed gates and repairs, how many and how long they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from nodeprep.agent_state import AgentState, NodeState, RepairAttempt
from nodeprep.decide import attempt_steps
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.newer_python import StrEnum
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import Value, field, replace

# Seconds. The class latched convicts at once, fast 0.5 s after the first look (the goal is 0.8 s), records after 15 s,
# and slow after 60 s. A bucket ends shortly after each, and what is above the last is late.
DETECTION_BOUNDS_SECONDS = (0.6, 0.8, 2.0, 17.0, 65.0)
# Seconds. No gate opens before 30 s of passes: without a bound soon after, a quantile would begin at 0. Links train for
# a minute after a boot, and a repair of a link that is down is to take 110 s: both end within 120 s. Any other repair
# is to end within 300 s. Plays that take all of their time, and second tries, end within 30 min. A human takes hours.
# Phases share the bounds, so that they add up.
CLOSED_BOUNDS_SECONDS = (35.0, 120.0, 300.0, 1800.0, 14400.0)
# Seconds. Of its own caution an attempt takes 35 s: 30 s of passes, and a look each 10 s of validation. So a play of
# seconds that helps ends within 45 s. Within 160 s: one that takes all of the 120 s of S1 and helps, and a short one
# that is judged after the 120 s of its validation. The longest is the play of 600 s, a minute of silence, and 120 s.
REPAIR_BOUNDS_SECONDS = (35.0, 45.0, 90.0, 160.0, 780.0)
JUDGED = (AttemptOutcome.RELEASED, AttemptOutcome.CHANGED, AttemptOutcome.UNRELEASED)  # not what was refused or cut off


class ClosurePhase(StrEnum):
    """Why a gate was closed: since the start of a boot, because something failed, or either until a remedy ran."""

    BOOTSTRAP = "bootstrap"
    UNHEALTHY = "unhealthy"
    REPAIR = "repair"


class Histogram(Value):
    """How many values are at or below each bound and above the one before. The last count is above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

    @property
    def has_values(self) -> bool:
        return any(self.counts)

    def with_value(self, value: float) -> Histogram:
        place = sum(bound < value for bound in self.bounds)
        counts = tuple(count + (index == place) for index, count in enumerate(self.counts))
        return replace(self, counts=counts, total=self.total + value)

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, with the bounds as Prometheus writes them."""
        names = (*(str(bound) for bound in self.bounds), "+Inf")
        return [(name, float(count)) for name, count in zip(names, accumulate(self.counts), strict=True)]


def empty_histogram(bounds: tuple[float, ...]) -> Histogram:
    return Histogram(bounds, (0,) * (len(bounds) + 1))


class GateClosure(Value):
    """Since when (CLOCK_BOOTTIME seconds) and why the gate is closed."""

    since: float
    phase: ClosurePhase


class AttemptBeginning(Value):
    """When the attempt `id` began, CLOCK_BOOTTIME seconds."""

    id: str
    began: float


class TransitionTotals(Value):
    """What was counted since this start. `observe` returns the next value.

    `detection` is from the first failing look to the conviction. `closed` is how long a gate was closed. It is counted
    when the gate opens, by the phase in which it closed, and as a repair if a remedy ran meanwhile. `closure` is the
    current closure.

    `runs` are the attempts that ended, by remedy and outcome. `repairs` is how long those took that were judged, from
    the ledger on. `beginning` is that of the attempt under way.
    """

    detection: Histogram = field(default_factory=lambda: empty_histogram(DETECTION_BOUNDS_SECONDS))
    closed: tuple[tuple[ClosurePhase, Histogram], ...] = tuple(
        (phase, empty_histogram(CLOSED_BOUNDS_SECONDS)) for phase in ClosurePhase
    )
    closure: GateClosure | None = None
    runs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    repairs: Histogram = field(default_factory=lambda: empty_histogram(REPAIR_BOUNDS_SECONDS))
    beginning: AttemptBeginning | None = None

    def observe(self, before: NodeStatus | None, after: NodeStatus) -> TransitionTotals:
        """The totals after a round. `before` is None in the first round. New in that is only what a reboot ended."""
        former = after.former_agent_state if before is None else before.agent_state
        totals = _with_news(self, former, after.agent_state)
        return _with_closure(_with_beginning(totals, after), after.agent_state)


def _with_news(totals: TransitionTotals, before: AgentState, after: AgentState) -> TransitionTotals:
    """The convictions and the ends of attempts that came with a round."""
    detection, repairs, runs = totals.detection, totals.repairs, dict(totals.runs)
    for seconds in _convictions(before, after):
        detection = detection.with_value(seconds)
    beginning, known = totals.beginning, {one.id for one in before.attempts}
    for over in (one for one in after.attempts if one.id not in known):
        runs[over.remedy, over.outcome] = runs.get((over.remedy, over.outcome), 0) + 1
        if beginning is not None and beginning.id == over.id and over.outcome in JUDGED:
            repairs = repairs.with_value(max(over.at - beginning.began, 0.0))
    return replace(totals, detection=detection, repairs=repairs, runs=runs)


def _with_beginning(totals: TransitionTotals, after: NodeStatus) -> TransitionTotals:
    attempt, known = after.agent_state.attempt, totals.beginning
    if attempt is None:
        return totals if known is None else replace(totals, beginning=None)
    if known is not None and known.id == attempt.id:
        return totals
    return replace(totals, beginning=AttemptBeginning(attempt.id, _began(attempt, after)))


def _with_closure(totals: TransitionTotals, agent_state: AgentState) -> TransitionTotals:
    if agent_state.state is not NodeState.READY:
        return replace(totals, closure=totals.closure or _closure(agent_state))
    if totals.closure is None:
        return totals
    phase = ClosurePhase.REPAIR if _was_repaired(agent_state, totals.closure.since) else totals.closure.phase
    closed = _counted(totals.closed, phase, agent_state.since - totals.closure.since)
    return replace(totals, closed=closed, closure=None)


def _convictions(before: AgentState, after: AgentState) -> Iterator[float]:
    """For each new conviction, the seconds since its first failing look."""
    for case in after.cases:
        known = before.case(case.check, case.subject)
        if case.convicted_at is not None and (known is None or known.convicted_at != case.convicted_at):
            yield max(case.convicted_at - case.opened_at, 0.0)


def _began(attempt: RepairAttempt, status: NodeStatus) -> float:
    """When an attempt began that is seen for the first time, to a second.

    The play is asked for at once and runs a second later. Only an agent that starts during the validation has to go by
    wall time, and believes it no more than the play may have taken.
    """
    if attempt_steps.step_of(attempt) is not AttemptStep.VALIDATING:
        return attempt.step_since
    by_wall = status.at - (status.round_time - attempt.wall)
    return min(max(by_wall, attempt.step_since - attempt.deadline), attempt.step_since)


def _was_repaired(agent_state: AgentState, since: float) -> bool:
    """Whether a remedy ran in this boot since then, whatever came of it."""
    return any(
        one.boot_id == agent_state.boot_id and one.at >= since and one.outcome != AttemptOutcome.REFUSED
        for one in agent_state.attempts
    )


def _closure(agent_state: AgentState) -> GateClosure:
    return GateClosure(
        agent_state.since,
        ClosurePhase.BOOTSTRAP if agent_state.state is NodeState.BOOTSTRAP else ClosurePhase.UNHEALTHY,
    )


def _counted(
    closed: tuple[tuple[ClosurePhase, Histogram], ...], phase: ClosurePhase, seconds: float
) -> tuple[tuple[ClosurePhase, Histogram], ...]:
    return tuple((one, found.with_value(max(seconds, 0.0)) if one is phase else found) for one, found in closed)
