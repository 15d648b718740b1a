"""What only a sequence of rounds tells: how long convictions took, and how long gates stayed closed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.publish.node_status import NodeStatus
from nodeprep.values import Value, field, replace

# Seconds. The class latched convicts at once, fast 0.5 s after the first look (the goal is 0.8 s, with the API 1 s),
# records after 15 s, and slow after 60 s. A bucket ends shortly after each. The last buckets show what is late.
DETECTION_BOUNDS_SECONDS = (0.1, 0.6, 0.8, 1.0, 2.0, 5.0, 17.0, 65.0, 120.0, 300.0)
# Seconds. No gate opens before 30 s of passes. Links train for a minute after a boot. A playbook takes minutes, a human
# hours. After 60 min, a node that never came up is handed to a human.
CLOSED_BOUNDS_SECONDS = (35.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0)


class ClosurePhase(StrEnum):
    """Why a gate was closed: since the start of a boot, or because something failed."""

    BOOTSTRAP = "bootstrap"
    UNHEALTHY = "unhealthy"


class Histogram(Value):
    """How many values are at or below each bound and above the one before. The last count is above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float = 0.0

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


class TransitionTotals(Value):
    """What was counted since this start. `observe` returns the next value.

    `detection` is from the first failing look to the conviction. `closed` is how long a gate was closed. It is counted
    when the gate opens, by the phase in which it closed. `closure` is the current closure.
    """

    detection: Histogram = field(default_factory=lambda: empty_histogram(DETECTION_BOUNDS_SECONDS))
    closed: tuple[tuple[ClosurePhase, Histogram], ...] = tuple(
        (phase, empty_histogram(CLOSED_BOUNDS_SECONDS)) for phase in ClosurePhase
    )
    closure: GateClosure | None = None

    def observe(self, before: NodeStatus | None, after: NodeStatus) -> TransitionTotals:
        """The totals after a round. `before` is None in the first round, which only shows what was there already."""
        detection = self.detection
        for seconds in _convictions(before.agent_state, after.agent_state) if before is not None else ():
            detection = detection.with_value(seconds)
        agent_state = after.agent_state
        if agent_state.state is not NodeState.READY:
            return replace(self, detection=detection, closure=self.closure or _closure(agent_state))
        closed = self.closed
        if self.closure is not None:
            closed = _counted(closed, self.closure.phase, agent_state.since - self.closure.since)
        return replace(self, detection=detection, closed=closed, closure=None)


def _convictions(before: AgentState, after: AgentState) -> Iterator[float]:
    """For each new conviction, the seconds since its first failing look."""
    for case in after.cases:
        known = before.case(case.check, case.subject)
        if case.convicted_at is not None and (known is None or known.convicted_at != case.convicted_at):
            yield max(case.convicted_at - case.opened_at, 0.0)


def _closure(agent_state: AgentState) -> GateClosure:
    return GateClosure(
        agent_state.since,
        ClosurePhase.BOOTSTRAP if agent_state.state is NodeState.BOOTSTRAP else ClosurePhase.UNHEALTHY,
    )


def _counted(
    closed: tuple[tuple[ClosurePhase, Histogram], ...], phase: ClosurePhase, seconds: float
) -> tuple[tuple[ClosurePhase, Histogram], ...]:
    return tuple((one, found.with_value(max(seconds, 0.0)) if one is phase else found) for one, found in closed)
