"""What happens on nodes, scrape by scrape, as `promtool test rules` takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from tests.dashboards import targets

SCRAPE_SECONDS = 30
PROFILE = 'profile="rdma-roce"'
Value = float | None  # None: no sample; the series ends there if it had one
HEALTHY: dict[str, float] = {
    "up": 1,
    f"nodeprep_ready{{{PROFILE}}}": 1,
    'nodeprep_ready{profile="base"}': 1,
    'nodeprep_state{state="Ready"}': 1,
    'nodeprep_check_status{check="port.state", status="ok"}': 1,
    'nodeprep_event_source_up{event_source="links"}': 1,
    "nodeprep_state_file_ok": 1,
    "nodeprep_config_ok": 1,
    "nodeprep_gate_files_ok": 1,
    "nodeprep_node_ok": 1,
    "nodeprep_taint_ok": 1,
    "nodeprep_admission_policy_ok": 1,
    "nodeprep_mounts_ok": 1,
    "nodeprep_upgrade_deferred_checks": 0,
}
ROUND = "nodeprep_last_round_timestamp_seconds"


@dataclass
class Node:
    """A node and its series. Times are minutes; `until` is the first that is no more meant, None for the end."""

    name: str
    pool: str
    scrapes: int
    series: dict[str, list[Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in HEALTHY.items():
            self.series[name] = [value] * self.scrapes
        self.series[ROUND] = [float(index * SCRAPE_SECONDS) for index in range(self.scrapes)]

    @cached_property
    def labels(self) -> dict[str, str]:
        """Those of each of its series: from the shipped PodMonitor."""
        target = targets.discovered(self.name, self.pool, f"{self.name}:9842")
        found = targets.relabelled(target, targets.shipped_scrape_config())
        assert found is not None, "the shipped PodMonitor does not scrape the shipped DaemonSet"
        return found

    def says(self, name: str, value: Value, since: float = 0, until: float | None = None) -> None:
        values = self.series.setdefault(name, [None] * self.scrapes)
        first, last = self._index(since), self.scrapes if until is None else self._index(until)
        values[first:last] = [value] * (last - first)

    def closed(
        self, reason: str, since: float, until: float | None = None, check: str = "port.state", drill: str = ""
    ) -> None:
        """Its gate is closed for one reason, as the agent says it: exactly one reason of a closed profile."""
        for name in [name for name in self.series if name.startswith("nodeprep_gate_reason{")]:
            self.says(name, None, since, until)
        self.says(f"nodeprep_ready{{{PROFILE}}}", 0, since, until)
        made = f', drill="{drill}"' if drill else ""
        self.says(f'nodeprep_gate_reason{{{PROFILE}, check="{check}", reason="{reason}"{made}}}', 1, since, until)

    def dead(self, since: float, until: float | None = None) -> None:
        """Nobody answers: all series end at once but `up`."""
        for name in self.series:
            self.says(name, None, since, until)
        self.says("up", 0, since, until)

    def removed(self, since: float) -> None:
        """It is no target any more."""
        for name in self.series:
            self.says(name, None, since)

    def changes(self, name: str, minute: float, span: float) -> int:
        """What changes() says of a series at a minute, over so many minutes."""
        first = max(0, self._index(minute - span))
        values = [value for value in self.series[name][first : self._index(minute) + 1] if value is not None]
        return sum(one != other for one, other in pairwise(values))

    @staticmethod
    def _index(minute: float) -> int:
        return round(minute * 60 / SCRAPE_SECONDS)


@dataclass
class Firing:
    """An alert that fires, with the labels that are not those of its node."""

    alert: str
    node: Node | None = None
    value: str = ""
    labels: dict[str, str] = field(default_factory=dict)


class Story:
    """Nodes, and the alerts that fire at minutes. All alerts that are not named must be silent at these minutes."""

    def __init__(self, name: str, minutes: int = 60) -> None:
        self.name, self.minutes = name, minutes
        self.scrapes = minutes * 60 // SCRAPE_SECONDS + 1
        self.nodes: list[Node] = []
        self.others: dict[str, list[Value]] = {}
        self.expected: dict[int, list[Firing]] = {}

    def node(self, name: str, pool: str = "np-1") -> Node:
        self.nodes.append(Node(name, pool, self.scrapes))
        return self.nodes[-1]

    def fleet(self, count: int, pool: str = "np-1") -> list[Node]:
        return [self.node(f"{pool}-{index}", pool) for index in range(count)]

    def silent(self, since: int = 0, until: int | None = None) -> None:
        """From one minute to another, both included, no alert fires."""
        self.fires([], since, until)

    def fires(self, alerts: list[Firing], since: int, until: int | None = None) -> None:
        """From one minute to another, both included, just these fire."""
        for minute in range(since, (self.minutes if until is None else until) + 1):
            self.expected[minute] = alerts

    def fired(self) -> set[str]:
        return {one.alert for alerts in self.expected.values() for one in alerts}

    def test(self, rules: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """As promtool reads it; `rules` are those of the shipped file, by name."""
        inputs = [
            {"series": _series(name, node.labels), "values": _values(values)}
            for node in self.nodes
            for name, values in node.series.items()
        ]
        inputs += [{"series": name, "values": _values(values)} for name, values in self.others.items()]
        asked = [
            {
                "alertname": name,
                "eval_time": f"{minute}m",
                "exp_alerts": [_expected(one, rule) for one in alerts if one.alert == name],
            }
            for minute, alerts in sorted(self.expected.items())
            for name, rule in rules.items()
        ]
        return {
            "name": self.name,
            "interval": f"{SCRAPE_SECONDS}s",
            "input_series": inputs,
            "alert_rule_test": asked,
        }


def _series(name: str, labels: dict[str, str]) -> str:
    metric, _, own = name.partition("{")
    shown = [f'{key}="{value}"' for key, value in labels.items()]
    return f"{metric}{{{', '.join([*shown, own.removesuffix('}')] if own else shown)}}}"


def _values(values: list[Value]) -> str:
    """A series that ends is marked, as Prometheus does where a scrape lacks it; before it begins there is nothing."""
    words, there = [], False
    for value in values:
        words.append(f"{value:g}" if value is not None else "stale" if there else "_")
        there = value is not None
    return " ".join(words)


def _expected(one: Firing, rule: dict[str, Any]) -> dict[str, Any]:
    labels = {**(one.node.labels if one.node else {}), **one.labels}

    def filled(template: str) -> str:
        text = re.sub(r"\{\{ \$value[^}]*\}\}", one.value, template)
        text = text.replace("{{ or $labels.node $labels.instance }}", labels.get("node") or labels.get("instance", ""))
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text)

    annotations = {name: filled(text) for name, text in rule["annotations"].items()}
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": annotations}
