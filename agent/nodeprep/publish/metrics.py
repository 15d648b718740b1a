"""The newest NodeStatus in Prometheus' text format, rendered when asked.

The registry is our own, and nothing is kept beside the status. So a device that is gone leaves no series behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from nodeprep import __version__
from nodeprep.decide.gate_readiness import Mode
from nodeprep.publish import series
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.series import Series
from nodeprep.publish.transition_totals import ClosurePhase, Histogram, TransitionTotals

DETECTION_METRIC = "nodeprep_detection_seconds", "From the first failing look at a fault to its conviction"
CLOSED_METRIC = (
    "nodeprep_gate_closed_seconds",
    "How long the gate was closed, counted when it opens, by why it had closed",
)
RUNS_METRIC = "nodeprep_repair_runs_total", "Attempts of the agent at a remedy that are over, by how they came out"
REPAIR_METRIC = "nodeprep_repair_seconds", "How long attempts took, from the ledger to the judgement"
BUILD_METRIC = "nodeprep_build_info", "1, labelled with the version that runs"
# Address space and the limit of open files: neither grows with what an agent does.
USELESS_FAMILIES = frozenset({"process_virtual_memory_bytes", "process_max_fds"})


class MetricsPage(Collector):
    """What `/metrics` serves. The loop calls `show`, and any thread calls `page`."""

    def __init__(self) -> None:
        self._shown: tuple[NodeStatus | None, TransitionTotals] = (None, TransitionTotals())
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._registry.register(ProcessFamilies())

    def show(self, status: NodeStatus) -> None:
        """Serve this round from now on."""
        before, totals = self._shown
        self._shown = status, totals.observe(before, status)

    def page(self) -> tuple[str, bytes]:
        """The content type and the text."""
        return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The families of one status, for the registry."""
        status, totals = self._shown
        build = GaugeMetricFamily(*BUILD_METRIC, labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        if status is None:
            return
        yield from (family(one, status) for one in series.ALL)
        yield runs_family(totals)
        yield histogram_family(DETECTION_METRIC, [(None, totals.detection)])
        repairs = status.mode is Mode.REPAIR  # from the first round on, so that the first repair is an increase
        closed = [
            (phase.value, found)
            for phase, found in totals.closed
            if repairs or found.has_values or phase is not ClosurePhase.REPAIR
        ]
        yield histogram_family(CLOSED_METRIC, closed, "phase")
        yield histogram_family(REPAIR_METRIC, [(None, totals.repairs)] if repairs or totals.repairs.has_values else [])


class ProcessFamilies(Collector):
    """What Prometheus' clients say of their process, without what tells nothing of this one."""

    def __init__(self) -> None:
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        yield from (one for one in self._process.collect() if one.name not in USELESS_FAMILIES)


def runs_family(totals: TransitionTotals) -> Metric:
    found = CounterMetricFamily(*RUNS_METRIC, labels=["remedy", "outcome"])
    for (remedy, outcome), times in totals.runs.items():
        found.add_metric([series.label_value(remedy), outcome], times)
    return found


def histogram_family(
    metric: tuple[str, str], histograms: Iterable[tuple[str | None, Histogram]], label: str = ""
) -> Metric:
    """A family of histograms, each with its value of the label; None where there is no label."""
    found = HistogramMetricFamily(*metric, labels=[label] if label else [])
    for value, one in histograms:
        found.add_metric([] if value is None else [value], one.buckets(), one.total)
    return found


def family(one: Series, status: NodeStatus) -> Metric:
    kind = CounterMetricFamily if one.name.endswith("_total") else GaugeMetricFamily
    found = kind(one.name, one.about, labels=one.labels)
    for labels, value in one.of(status).items():
        found.add_metric(labels, value)
    return found
