"""Who is called: a real Prometheus with the shipped rules, and a real Alertmanager with the shipped example.

Both run the shipped files. Only durations are shorter: an hour of the rules is a minute here, one of Alertmanager two,
so that nothing is said twice before the test ends. The targets are found by a file that says what Kubernetes' service
discovery would (Debian builds Prometheus without it), and scraped through a proxy that answers for each node.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.dashboards import servers, targets
from tests.dashboards.targets import Document
from tests.rigs import prometheus_server
from tests.rigs.waiting import until

FACTOR, ALERTMANAGER_FACTOR = 60, 30
EXAMPLE = targets.ROOT / "dashboards/alertmanager.yaml"
SECONDS = 180.0  # for a page; a fifth of it on a machine that does nothing else
RECEIVER = "127.0.0.1:9095"
SCRAPE = "1s"  # twice the shipped 30 s: 208 targets each half second would take a processor
# What is said where scrapes come late. Of a fleet that is said after 5 minutes, here after 5 s of a busy machine.
LATE = {"NodeprepGone", "NodeprepCrashLoops", "NodeprepNowhere"}
DEGRADED_BY_LATE = "NodeprepFleetDegraded", "np-2"  # a few late ones of its eight nodes are enough


@dataclass
class Fleet:
    """The metrics of many nodes. `/metrics` of a node is asked by its address, through us as a proxy."""

    pools: dict[str, str]  # by node
    closed: dict[str, str] = field(default_factory=dict)  # reasons by node
    scraped: set[str] = field(default_factory=set)

    def told(self, path: str, _body: bytes) -> bytes | None:
        node, _, page = path.removeprefix("http://").partition(":9842")
        if page != "/metrics" or node not in self.pools:
            return None
        self.scraped.add(node)
        reason = self.closed.get(node)
        lines = [f'nodeprep_ready{{profile="rdma-roce"}} {0 if reason else 1}']
        lines += [f"nodeprep_last_round_timestamp_seconds {time.time()}"]
        if reason:
            lines += [f'nodeprep_gate_reason{{profile="rdma-roce",check="port.state",reason="{reason}"}} 1']
        return "\n".join((*lines, "")).encode()


@dataclass
class Pager:
    """A webhook. `pages` are the messages that say of something firing."""

    messages: list[tuple[str, Document]] = field(default_factory=list)

    def told(self, path: str, body: bytes) -> bytes:
        self.messages.append((path, json.loads(body)))
        return b""

    @property
    def pages(self) -> list[Document]:
        return self._of("/pages")

    @property
    def tickets(self) -> list[Document]:
        return self._of("/tickets")

    def _of(self, receiver: str) -> list[Document]:
        return [one for path, one in self.messages if path == receiver and one["status"] == "firing"]


@contextmanager
def called(directory: Path, factor: float = ALERTMANAGER_FACTOR) -> Iterator[tuple[str, Pager]]:
    """Alertmanager with the shipped example, and the pager that it calls."""
    pager = Pager()
    shipped = EXAMPLE.read_text()
    assert shipped.count(RECEIVER) == 2
    with servers.http_server(pager.told) as port:
        text = servers.shortened(shipped.replace(RECEIVER, f"127.0.0.1:{port}"), factor)
        with servers.alertmanager(directory, text) as url:
            yield url, pager


def configuration(directory: Path, fleet: Fleet, proxy: int, alertmanager: str) -> Document:
    """The scrape configuration of the shipped PodMonitor, but for how targets are found and reached."""
    found = {**targets.shipped_scrape_config()}
    del found["kubernetes_sd_configs"]
    pods = [(node, targets.discovered(node, pool, f"{node}:9842")) for node, pool in fleet.pools.items()]
    listed = [{"targets": [pod.pop("__address__")], "labels": pod} for _, pod in pods]
    (directory / "targets.json").write_text(json.dumps(listed))
    found["file_sd_configs"] = [{"files": [str(directory / "targets.json")]}]
    found["proxy_url"] = f"http://127.0.0.1:{proxy}"
    found["scrape_interval"] = found["scrape_timeout"] = SCRAPE
    rules = directory / "rules.yaml"
    rules.write_text(json.dumps(servers.short_rules(FACTOR)))
    return {
        "global": {"evaluation_interval": "500ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [found],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]},
    }


def test_two_hundred_nodes_by_one_switch_are_one_page_and_a_nic_elsewhere_is_a_second(tmp_path: Path) -> None:
    fleet = Fleet({f"gpu-{index}": "np-1" for index in range(200)} | {f"other-{index}": "np-2" for index in range(8)})
    with (
        servers.http_server(fleet.told) as proxy,
        called(tmp_path) as (alertmanager, pager),
        prometheus_server.serving(tmp_path, configuration(tmp_path, fleet, proxy, alertmanager)) as prometheus,
    ):
        until(lambda: fleet.scraped == set(fleet.pools), "each node is scraped")
        fleet.closed |= {node: "NoSignal" for node, pool in fleet.pools.items() if pool == "np-1"}
        until(lambda: pager.pages, "a page")
        until(lambda: len(servers.named(alertmanager, "NodeprepGateClosed")) == 200, "each node's alert")
        fleet.closed["other-3"] = "Missing"
        until(lambda: "Missing" in reasons(first_pages(pager)), "a second page", 2 * SECONDS)
        (degraded,) = until(lambda: degraded_in(alertmanager, "np-1"), "the pool is degraded")
        until(lambda: not prometheus.ask('ALERTS{alertstate="pending"}'), "nothing is still to come")
        first, second = first_pages(pager)
    assert first["groupLabels"] == {"alertname": "NodeprepGateClosed", "pool": "np-1", "reason": "NoSignal"}
    assert second["groupLabels"] == {"alertname": "NodeprepGateClosed", "pool": "np-2", "reason": "Missing"}
    assert [one["labels"]["node"] for one in second["alerts"]] == ["other-3"]
    assert len(degraded["status"]["inhibitedBy"]) > 0


def reasons(pages: list[Document]) -> set[str]:
    return {page["groupLabels"].get("reason", "") for page in pages}


def degraded_in(alertmanager: str, pool: str) -> list[Document]:
    return [one for one in servers.named(alertmanager, "NodeprepFleetDegraded") if one["labels"]["pool"] == pool]


def first_pages(pager: Pager) -> list[Document]:
    """The first page of each group, without those that only a busy machine makes.

    On a busy machine some nodes come after the page. Then the same page is told again, with its groupKey.
    """
    told: dict[str, Document] = {}
    for page in pager.pages:
        of = page["groupLabels"]
        if of["alertname"] not in LATE and (of["alertname"], of.get("pool")) != DEGRADED_BY_LATE:
            told.setdefault(page["groupKey"], page)
    return list(told.values())


CLOSED = {"alertname": "NodeprepGateClosed", "severity": "critical", "profile": "rdma-roce", "reason": "NoSignal"}
ON_A = {"instance": "a:9842", "node": "a", "pool": "np-1"}
ON_B = {"instance": "b:9842", "node": "b", "pool": "np-1"}
ON_C = {"instance": "c:9842", "node": "c", "pool": "np-2"}
GONE = {"alertname": "NodeprepGone", "severity": "critical"}
FLAPS = {"alertname": "NodeprepGateFlaps", "severity": "critical", "profile": "rdma-roce"}
LOOPS = {"alertname": "NodeprepCrashLoops", "severity": "critical"}
HANGS = {"alertname": "NodeprepHangs", "severity": "critical"}
DEGRADED = {"alertname": "NodeprepFleetDegraded", "severity": "critical", "pool": "np-1"}
TOLD = [
    # alerts that fire at once; the pages, each by its alert, reason and pool
    ([{**CLOSED, **ON_A}, {**CLOSED, **ON_B}], {("NodeprepGateClosed", "NoSignal", "np-1")}),
    (
        [{**CLOSED, **ON_A}, {**CLOSED, **ON_C}],
        {("NodeprepGateClosed", "NoSignal", "np-1"), ("NodeprepGateClosed", "NoSignal", "np-2")},
    ),
    (
        [{**CLOSED, **ON_A}, {**CLOSED, **ON_B, "reason": "Missing"}],
        {("NodeprepGateClosed", "NoSignal", "np-1"), ("NodeprepGateClosed", "Missing", "np-1")},
    ),
    ([{**GONE, **ON_A}, {**CLOSED, **ON_A}, {**HANGS, **ON_A}], {("NodeprepGone", "", "np-1")}),
    (
        [{**GONE, **ON_A}, {**CLOSED, **ON_B}],
        {("NodeprepGone", "", "np-1"), ("NodeprepGateClosed", "NoSignal", "np-1")},
    ),
    ([{**FLAPS, **ON_A}, {**CLOSED, **ON_A}], {("NodeprepGateFlaps", "", "np-1")}),
    # The gate had yet to pass, and then a fault was found.
    ([{**CLOSED, **ON_A, "reason": "Bootstrap"}, {**CLOSED, **ON_A}], {("NodeprepGateClosed", "NoSignal", "np-1")}),
    (
        [{**CLOSED, **ON_A, "reason": "Bootstrap"}, {**CLOSED, **ON_B}],
        {("NodeprepGateClosed", "Bootstrap", "np-1"), ("NodeprepGateClosed", "NoSignal", "np-1")},
    ),
    ([{**LOOPS, **ON_A}, DEGRADED], {("NodeprepCrashLoops", "", "np-1")}),
    ([{**GONE, **ON_A}, DEGRADED], {("NodeprepGone", "", "np-1")}),
    ([{**GONE, **ON_C}, DEGRADED], {("NodeprepGone", "", "np-2"), ("NodeprepFleetDegraded", "", "np-1")}),
    # A plain scrape: no node, no pool.
    (
        [{**GONE, "instance": "a:9842"}, {**CLOSED, "instance": "b:9842"}],
        {("NodeprepGone", "", ""), ("NodeprepGateClosed", "NoSignal", "")},
    ),
    ([{**HANGS, **ON_A, "severity": "warning"}, {**HANGS, **ON_B, "severity": "info"}], set()),
]


@pytest.mark.parametrize(("firing", "pages"), TOLD)
def test_who_is_called_of_what(firing: list[dict[str, str]], pages: set[tuple[str, str, str]], tmp_path: Path) -> None:
    with called(tmp_path, factor=120) as (url, pager):
        servers.asked(f"{url}/api/v2/alerts", [{"labels": one} for one in firing])
        last = {"alertname": "NodeprepNowhere", "severity": "critical", "reason": "last"}
        until(lambda: len(servers.alerts(url)) == len(firing), "all are there")
        until(lambda: {key(one) for one in pager.pages} >= pages, "the pages", SECONDS)
        # Alerts that come later wait as long: when this one is told, nothing of before is still to come.
        servers.asked(f"{url}/api/v2/alerts", [{"labels": last}])
        until(lambda: ("NodeprepNowhere", "last", "") in {key(one) for one in pager.pages}, "the last page", SECONDS)
    told = [key(one) for one in pager.pages if key(one)[1] != "last"]
    assert sorted(told) == sorted(pages)


def warns(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": "warning", **labels}


SPENT = warns("NodeprepRepairBudgetSpent", reason="budget", remedy="link_up")
HUMAN = warns("NodeprepAwaitsHuman")
FAILS, HOLD = warns("NodeprepRepairFails", remedy="link_up"), warns("NodeprepRepairHeld", remedy="link_up")
CANNOT = warns("NodeprepRepairCannotRun", remedy="link_up", reason="taint")
NO_REMEDIATOR = {**CANNOT, "reason": "remediator"}
WITHHELD = warns("NodeprepTaintWithheld")
TICKETS = [
    # alerts that fire at once; the tickets, each by its alert, reason and pool
    ([{**NO_REMEDIATOR, **ON_A}, {**NO_REMEDIATOR, **ON_B}], {("NodeprepRepairCannotRun", "remediator", "np-1")}),
    ([{**SPENT, **ON_A}, {**HUMAN, **ON_A}], {("NodeprepRepairBudgetSpent", "budget", "np-1")}),
    (
        [{**SPENT, **ON_A}, {**HUMAN, **ON_C}],
        {("NodeprepRepairBudgetSpent", "budget", "np-1"), ("NodeprepAwaitsHuman", "", "np-2")},
    ),
    ([FAILS, HOLD], {("NodeprepRepairHeld", "", "")}),
    ([{**FAILS, "remedy": "mtu"}, HOLD], {("NodeprepRepairHeld", "", ""), ("NodeprepRepairFails", "", "")}),
    ([{**CANNOT, **ON_A}, {**WITHHELD, **ON_A}], {("NodeprepTaintWithheld", "", "np-1")}),
    (
        [{**NO_REMEDIATOR, **ON_A}, {**WITHHELD, **ON_A}],
        {("NodeprepTaintWithheld", "", "np-1"), ("NodeprepRepairCannotRun", "remediator", "np-1")},
    ),
    ([{**CANNOT, **ON_A}, {**GONE, **ON_A}], set()),
]


@pytest.mark.parametrize(("firing", "tickets"), TICKETS)
def test_what_repairs_warn_of_is_one_ticket_and_never_a_page(
    firing: list[dict[str, str]], tickets: set[tuple[str, str, str]], tmp_path: Path
) -> None:
    """A ticket waits ten minutes for others like it, which are a second here."""
    with called(tmp_path, factor=600) as (url, pager):
        servers.asked(f"{url}/api/v2/alerts", [{"labels": one} for one in firing])
        until(lambda: len(servers.alerts(url)) == len(firing), "all are there")
        until(lambda: {key(one) for one in pager.tickets} >= tickets, "the tickets", SECONDS)
        servers.asked(f"{url}/api/v2/alerts", [{"labels": warns("NodeprepConfigurationBad", reason="last")}])
        until(lambda: "last" in {key(one)[1] for one in pager.tickets}, "the last ticket", SECONDS)
    told = [key(one) for one in pager.tickets if key(one)[1] != "last"]
    assert sorted(told) == sorted(tickets)
    assert not [one for one in pager.pages if one["groupLabels"]["alertname"].startswith("NodeprepRepair")]


def test_a_rollout_that_waits_is_told_before_its_gates_close() -> None:
    """They close ten minutes after the first word (docs/upgrade.md); the rule has taken one of them."""
    (own,) = (one for one in yaml.safe_load(EXAMPLE.read_text())["route"]["routes"] if "Rollout" in one["matchers"][0])
    assert own["matchers"] == ['alertname="NodeprepRolloutWaits"']
    assert own["group_wait"] == "30s"


def key(page: Document) -> tuple[str, str, str]:
    labels = page["groupLabels"]
    return labels["alertname"], labels.get("reason", ""), labels.get("pool", "")
