"""What Prometheus would have stored of a fleet: every series of every agent, minute by minute, as OpenMetrics.

Each node's series are those of a real page of an agent (tests/rigs/full_node.py). A story says what differs, so that
every panel has something to show. Samples of one series stand together, as promtool wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from nodeprep.publish.metrics import MetricsPage
from tests.rigs import full_node

STEP_SECONDS = 60
BEGIN = 1_795_000_200  # a whole minute in November 2026, in seconds since 1970
ZONES, POOLS, TYPE = ("cn-wulanchabu-a", "cn-wulanchabu-b", "cn-wulanchabu-c"), 4, "ecs.ebmgn8v.48xlarge"
SILENT_EVERY, SWITCH_POOL, ALONE_EVERY = (
    20,
    1,
    17,
)  # one node in so many is silent; a pool behind a switch; single faults
ALONE_PROFILE = "rdma-roce"
COUNTED = ("_total", "_bucket", "_count", "_sum")
FIRST_RAIL = "mlx5_0"
SPENT_EVERY = 20  # of the nodes behind the switch one in five had its tries before
# What repairs make of a fault: behind the switch nothing, for three nodes have it; the single ones are mended.
SWITCH_REMEDY, ALONE_REMEDY = ("port.state", "link_up"), ("pci.driver-bound", "driver_bind")

Series = tuple[str, Mapping[str, str], float]  # name, labels, value


def page(root: Path) -> list[Series]:
    """The series of one agent of a node that has everything."""
    metrics = MetricsPage()
    for one in full_node.rounds(root):
        metrics.show(one)
    families = text_string_to_metric_families(metrics.page()[1].decode())
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


class Node:
    """One node of the fleet, by its number: where it is, and what its story is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pool = number % POOLS
        self.silent = number % SILENT_EVERY == SILENT_EVERY - 1
        self.alone = number % ALONE_EVERY == ALONE_EVERY - 2
        self.spent = number % SPENT_EVERY == 5 and self.pool == SWITCH_POOL
        self.labels = {
            "job": "nodeprep",
            "instance": f"10.{number >> 8 & 255}.{number & 255}.9:9842",
            "node": f"gpu-{number:04d}",
            "pool": f"np-{self.pool}",
            "zone": ZONES[number % len(ZONES)],
            "instance_type": TYPE,
            "cluster": "prod",
        }

    def answers(self, share: float) -> bool:
        """Whether its agent answers after this share of the time."""
        return not (self.silent and share > 0.5)

    def fault(self, share: float) -> tuple[str, str] | None:
        """The check and the reason of what closes its gate."""
        if self.pool == SWITCH_POOL and share > 0.7:
            return "port.state", "NoSignal"
        return ("pci.driver-bound", "Unbound") if self.alone and share > 0.3 else None

    def closes(self, profile: str, share: float) -> bool:
        """Whether its fault closes the gate of a profile: a fault of one node alone closes one of its two."""
        fault = self.fault(share)
        return fault is not None and (fault[0] == "port.state" or profile == ALONE_PROFILE)


Story = Callable[[Node, Mapping[str, str], float, int], float | None]


def _check(node: Node, labels: Mapping[str, str], share: float, _: int) -> float | None:
    fails = node.fault(share) is not None
    if labels["status"] == "fail":
        return 1.0 if fails else None
    return None if fails and labels["check"] == "port.state" else 1.0


def _last_round(node: Node, _: Mapping[str, str], share: float, moment: int) -> float:
    hangs = node.number % 50 == 7 and share > 0.9
    return moment - (600.0 if hangs else 2.0)


def _state(node: Node, labels: Mapping[str, str], share: float, _: int) -> float | None:
    return 1.0 if (labels["state"] == "Ready") is (node.fault(share) is None) else None


def _while_faulty(node: Node, _: Mapping[str, str], share: float, __: int) -> float | None:
    return 1.0 if node.fault(share) else None


def _suppressed(node: Node, labels: Mapping[str, str], share: float, _: int) -> float | None:
    return 1.0 if node.fault(share) and (labels["reason"] != "budget" or node.spent) else None


def _tries(node: Node, labels: Mapping[str, str], share: float, _: int) -> float | None:
    spent = node.spent and labels["remedy"] == "driver_bind"
    return (0.0 if spent else 3.0) if node.fault(share) else None


def _runs(node: Node, labels: Mapping[str, str], share: float, _: int) -> float | None:
    """What ran before, on one node in five: a series begins with its first run. Most of them helped at once."""
    if node.number % 5 or (labels["outcome"] != "released" and not (node.spent or node.number % 15 == 0)):
        return None
    return float(share * 20 // (2 + node.number % 3)) or None


# Which share of closures, of attempts and of convictions ends within a bound.
CLOSED_WITHIN: Mapping[str, Mapping[str, float]] = {
    "bootstrap": {"35.0": 0, "120.0": 0.8, "300.0": 0.9},
    "unhealthy": {"35.0": 0.1, "120.0": 0.2, "300.0": 0.3, "1800.0": 0.6, "14400.0": 0.9},
    "repair": {"35.0": 0, "120.0": 0.5, "300.0": 0.8, "1800.0": 0.95},
}
MEANS_SECONDS = {"bootstrap": 110.0, "unhealthy": 4200.0, "repair": 240.0}
TRIED_WITHIN = {"35.0": 0, "45.0": 0.6, "90.0": 0.8, "160.0": 0.9}
CONVICTED_WITHIN = {"0.6": 0.8, "0.8": 0.95, "2.0": 0.95, "17.0": 0.98}
ENDS = 120  # of a node in the whole time: more than a node has, so that few nodes draw a line


def _closures(_: Node, labels: Mapping[str, str], share: float, __: int) -> float:
    return share * ENDS * CLOSED_WITHIN[labels["phase"]].get(labels["le"], 1.0)


def _closed_for(_: Node, labels: Mapping[str, str], share: float, __: int) -> float:
    return share * ENDS * MEANS_SECONDS[labels["phase"]]


def _closed_times(_: Node, __: Mapping[str, str], share: float, ___: int) -> float:
    return share * ENDS


def _attempts(_: Node, labels: Mapping[str, str], share: float, __: int) -> float:
    return share * ENDS * TRIED_WITHIN.get(labels["le"], 1.0)


def _convictions(_: Node, labels: Mapping[str, str], share: float, __: int) -> float:
    return share * ENDS * CONVICTED_WITHIN.get(labels["le"], 1.0)


def _rate(node: Node, labels: Mapping[str, str], share: float, _: int) -> float:
    return 1.25e9 if labels["device"] == FIRST_RAIL and node.fault(share) else 50e9


def _errors(node: Node, labels: Mapping[str, str], share: float, _: int) -> float:
    """A rail counts errors from the beginning of its fault on."""
    counts = labels["device"] == FIRST_RAIL and labels["kind"] in {"link-lost", "bits"} and node.fault(share)
    return round(share * 1e4) if counts else 0.0


# The value of a series after a share of the time and at a moment, None where it has none.
STORIES: Mapping[str, Story] = {
    "nodeprep_check_status": _check,
    "nodeprep_last_round_timestamp_seconds": _last_round,
    "nodeprep_ready": lambda node, labels, share, _: float(not node.closes(labels["profile"], share)),
    "nodeprep_gate_reason": lambda node, labels, share, _: 1.0 if node.closes(labels["profile"], share) else None,
    "nodeprep_state": _state,
    "nodeprep_repair_step": _while_faulty,
    "nodeprep_repair_suppressed_now": _suppressed,
    "nodeprep_repair_tries_left": _tries,
    "nodeprep_repair_runs_total": _runs,
    "nodeprep_gate_closed_seconds_bucket": _closures,
    "nodeprep_gate_closed_seconds_sum": _closed_for,
    "nodeprep_gate_closed_seconds_count": _closed_times,
    "nodeprep_repair_seconds_bucket": _attempts,
    "nodeprep_detection_seconds_bucket": _convictions,
    "nodeprep_port_up": lambda node, labels, share, _: float(
        labels["device"] != FIRST_RAIL or node.fault(share) is None
    ),
    "nodeprep_port_rate_bytes": _rate,
    "nodeprep_port_errors_total": _errors,
    "nodeprep_upgrade_deferred_checks": lambda node, *_: float(node.number % 11 == 3),
    **dict.fromkeys(
        ("nodeprep_config_ok", "nodeprep_admission_policy_ok", "nodeprep_event_source_up"),
        lambda node, *_: float(node.number % 13 != 5),
    ),
}


def samples(node: Node, series: Series, moments: range, begin: int, end: int) -> Iterator[tuple[int, float]]:
    """The moments at which a series of a node has a value, and the value."""
    name, labels, usual = series
    story = STORIES.get(name)
    grows = name.endswith(COUNTED) and story is None
    for moment in moments:
        share = (moment - begin) / (end - begin)
        if not node.answers(share):
            continue
        value = story(node, labels, share, moment) if story else usual
        if value is not None:
            yield moment, value + (1 + node.number % 3) * ((moment - begin) // STEP_SECONDS) * grows


def lines(fleet: int, series: list[Series], begin: int, minutes: range, whole_minutes: int) -> Iterator[str]:
    """The text of some minutes of the history of `whole_minutes` that begins at `begin`."""
    end = begin + whole_minutes * STEP_SECONDS
    moments = range(begin + minutes.start * STEP_SECONDS, begin + minutes.stop * STEP_SECONDS, STEP_SECONDS)
    for node in map(Node, range(fleet)):
        place = ",".join(f'{name}="{value}"' for name, value in node.labels.items())
        for moment in moments:
            yield f"up{{{place}}} {int(node.answers((moment - begin) / (end - begin)))} {moment}\n"
        for one in (*series, *extra(node)):
            name, labels, _ = one
            own = "".join(f',{label}="{value}"' for label, value in told(node, name, labels).items())
            for moment, value in samples(node, one, moments, begin, end):
                yield (
                    f"{name}{{{place}{own}}} {value:g} {moment}\n"
                    if value < 1e6
                    else (f"{name}{{{place}{own}}} {value:.0f} {moment}\n")
                )
    yield "# EOF\n"


def told(node: Node, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """A series' labels on this node: its own fault, and its own version."""
    if name == "nodeprep_gate_reason":
        check, reason = node.fault(1.0) or ("", "Bootstrap")
        return {**labels, "check": check, "reason": reason}
    if name == "nodeprep_build_info":
        return {"version": "0.2.0" if node.number % 4 == 0 else "0.1.0"}
    return _repairs(node, name, labels)


def _repairs(node: Node, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels of what repairs do about its fault."""
    alone = (node.fault(1.0) or ("",))[0] == ALONE_REMEDY[0]
    check, remedy = ALONE_REMEDY if alone else SWITCH_REMEDY
    if name == "nodeprep_state" and labels["state"] != "Ready":
        return {"state": "AwaitingHuman" if node.spent else "Repairing" if alone else "Unhealthy"}
    if name == "nodeprep_repair_step":
        return {"check": check, "remedy": remedy, "step": "running" if alone else "fleet"}
    if name == "nodeprep_repair_suppressed_now" and labels["reason"] == "busy" and not alone:
        return {"check": check, "remedy": remedy, "reason": "correlated"}
    return labels


def extra(node: Node) -> list[Series]:
    """What the page does not have: it is that of a node on which something is wrong, and that check is fine."""
    fault = node.fault(1.0)
    ready: Series = "nodeprep_state", {"state": "Ready"}, 1.0
    return [ready, ("nodeprep_check_status", {"check": fault[0], "status": "fail"}, 1.0)] if fault else [ready]


def write(file: Path, fleet: int, series: list[Series], minutes: range, whole_minutes: int) -> int:
    """Some minutes of a history into a file; how many samples it has."""
    count = -1
    with file.open("w", encoding="utf-8") as out:
        for line in lines(fleet, series, BEGIN, minutes, whole_minutes):
            out.write(line)
            count += 1
    return count
