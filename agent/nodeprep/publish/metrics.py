"""The newest NodeStatus in Prometheus' text format, rendered when asked.

The registry is our own, and nothing is kept beside the status. So a device that is gone leaves no series behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from nodeprep import __version__
from nodeprep.publish import series
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.series import Series
from nodeprep.publish.transition_totals import TransitionTotals

DETECTION_METRIC = "nodeprep_detection_seconds", "From the first failing look at a fault to its conviction"
CLOSED_METRIC = (
    "nodeprep_gate_closed_seconds",
    "How long the gate was closed, counted when it opens, by why it had closed",
)
BUILD_METRIC = "nodeprep_build_info", "1, labelled with the version that runs"


class MetricsPage(Collector):
    """What `/metrics` serves. The loop calls `show`, and any thread calls `page`."""

    def __init__(self) -> None:
        self._shown: tuple[NodeStatus | None, TransitionTotals] = (None, TransitionTotals())
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

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
        detection = HistogramMetricFamily(*DETECTION_METRIC, labels=[])
        detection.add_metric([], totals.detection.buckets(), totals.detection.total)
        yield detection
        closed = HistogramMetricFamily(*CLOSED_METRIC, labels=["phase"])
        for phase, found in totals.closed:
            closed.add_metric([phase], found.buckets(), found.total)
        yield closed


def family(one: Series, status: NodeStatus) -> Metric:
    kind = CounterMetricFamily if one.name.endswith("_total") else GaugeMetricFamily
    found = kind(one.name, one.about, labels=one.labels)
    for labels, value in one.of(status).items():
        found.add_metric(labels, value)
    return found
