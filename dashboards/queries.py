"""PromQL for the boards. Only a metric and a label that the agent declares can be asked for.

Labels of a target come from the PodMonitor (daemonset/components/prometheus): node, pool, zone and instance_type. A
cluster's label comes from Prometheus or from nobody, so each filter also takes series without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.publish import metrics, series

JOB = "nodeprep"  # the PodMonitor's jobLabel
TARGET_LABELS = ("job", "instance", "node", "pool", "zone", "instance_type", "cluster")
SAMPLE_MINUTES = 2  # between two looks at the past of a node, where hours are counted
HANGS_SECONDS = 120  # an agent that has ended no round for so long is silent: as in the alert NodeprepHangs
BUCKET, SUM, COUNT = "_bucket", "_sum", "_count"


def _histogram(name: str, *labels: str) -> dict[str, frozenset[str]]:
    return {f"{name}{BUCKET}": frozenset((*labels, "le"))} | {f"{name}{one}": frozenset(labels) for one in (SUM, COUNT)}


# Every metric that a scrape of an agent can give, with its own labels.
KNOWN: Mapping[str, frozenset[str]] = {
    "up": frozenset(),
    "process_cpu_seconds_total": frozenset(),
    "process_resident_memory_bytes": frozenset(),
    metrics.BUILD_METRIC[0]: frozenset({"version"}),
    **{one.name: frozenset(one.labels) for one in series.ALL},
    **_histogram(metrics.DETECTION_METRIC[0]),
    **_histogram(metrics.CLOSED_METRIC[0], "phase"),
    **_histogram(metrics.REPAIR_METRIC[0]),
    metrics.RUNS_METRIC[0]: frozenset({"remedy", "outcome"}),
}


class Scope:
    """Which targets a board is about: matchers by label, in which Grafana puts its variables."""

    def __init__(self, **matchers: str) -> None:
        self._matchers = matchers

    def __call__(self, name: str, **labels: str) -> str:
        """A selector of a metric. A value that begins with `=`, `!` or `~` is a matcher, any other is equal to it.

        Raises:
            KeyError: the agent serves no such metric.
            ValueError: the metric has no such label.
        """
        unknown = set(labels) - KNOWN[name] - set(TARGET_LABELS)
        if unknown:
            raise ValueError(
                f"{name} has no label {', '.join(sorted(unknown))}: it has {', '.join(sorted(KNOWN[name]))}"
            )
        asked = {"job": JOB, **self._matchers, **labels}
        return f"{name}{{{', '.join(_matcher(label, value) for label, value in asked.items())}}}"


def _matcher(label: str, value: str) -> str:
    if value.startswith("~"):
        return f'{label}=~"{value[1:]}"'
    return f'{label}!="{value[1:]}"' if value.startswith("!") else f'{label}="{value}"'


FLEET = Scope(cluster="~$cluster", pool="~$pool", zone="~$zone")
NODE = Scope(cluster="~$cluster", node="$node")
REPAIRS = Scope(cluster="~$cluster", pool="~$pool", zone="~$zone", node="~$node")


TARGET = "cluster, job, instance"  # what a target is known by; a label that nobody gives is empty


def by_target(expression: str, condition: str) -> str:
    """The series whose target meets a condition too."""
    return f"{expression} and on ({TARGET}) {condition}"


def speaks(scope: Scope) -> str:
    """The targets whose agent has looked lately. One that hangs still serves what it saw last."""
    return f"(time() - {scope('nodeprep_last_round_timestamp_seconds')} <= {HANGS_SECONDS})"


def silent(scope: Scope) -> str:
    """The targets of which nothing is known: no answer, or an agent that has stopped looking."""
    return f"{scope('up')} unless on ({TARGET}) {speaks(scope)}"


def can_take_a_job(scope: Scope, profile: str, *more: str) -> str:
    """The nodes that are ready for all of their profiles that are asked for, by the word of an agent that speaks.

    One series for each node, with the labels of TARGET and `more`.
    """
    every = f"(min by ({', '.join((TARGET, *more))}) ({scope('nodeprep_ready', profile=profile)}) == 1)"
    return by_target(every, speaks(scope))


def cannot(scope: Scope, profile: str) -> str:
    """The nodes that are not ready for at least one, by such a word: each node with such a profile is here or there."""
    some = f"(min by ({TARGET}) ({scope('nodeprep_ready', profile=profile)}) == 0)"
    return by_target(some, speaks(scope))


def why_not(scope: Scope, **labels: str) -> str:
    """What keeps gates closed, by the word of agents that speak."""
    return by_target(scope("nodeprep_gate_reason", **labels), speaks(scope))


def or_zero(expression: str, scope: Scope) -> str:
    """A number also where nothing matches: 0 nodes. Without any target it is no number at all."""
    return f"({expression}) or count({scope('up')}) * 0"


def node_hours_lost(scope: Scope, profile: str) -> str:
    """Hours of nodes that could take no job, or of which nobody knew, in the time of the board."""
    fine = f"({speaks(scope)} unless on ({TARGET}) ({scope('nodeprep_ready', profile=profile)} == 0))"
    lost = f"({scope('up')} unless on ({TARGET}) {fine})"
    return or_zero(f"sum(count_over_time({lost}[$__range:{SAMPLE_MINUTES}m])) * {SAMPLE_MINUTES} / 60", scope)


def counted(counter: str, window: str) -> str:
    """How much a counter that is rarely counted grew within a time, by a selector of it.

    Its series begins with its first event, which increase() does not see: there the value itself is what came.
    """
    return f"(({counter} unless {counter} offset {window}) or increase({counter}[{window}]))"


def quantile(share: float, buckets: str) -> str:
    """The quantile of a histogram's buckets; nothing, and no NaN, where nothing was counted."""
    return f"histogram_quantile({share}, {buckets}) >= 0"
