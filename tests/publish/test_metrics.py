"""What a scrape says of a node: names, labels and values, as Prometheus' own tool and parser take them."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from docs import metrics as page
from nodeprep import check_round
from nodeprep.agent_state import NodeState
from nodeprep.checks import CHECKS
from nodeprep.checks.counter import physical, transport
from nodeprep.checks.port.flap import LINK_DOWNED
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.repair_approach import ApproachStep
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.doors.events.listener import EventSourceState
from nodeprep.doors.node_host import Host
from nodeprep.facts import ALL as FACTS
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.kubernetes.kubelet import Kubelet
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Profile
from nodeprep.model import Status, Unreadable, Why, guarded
from nodeprep.observer import Observer
from nodeprep.publish import series
from nodeprep.publish.metrics import MetricsPage
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.repair_status import RepairStatus
from nodeprep.values import replace
from tests.agent_state_values import WAIVED, attempt, case, finding, past
from tests.cluster_values import cluster, node_object, pod_eni
from tests.cni_values import terway
from tests.eni_values import DENIED, SILENT, erdma, eth0, eth1, eth2, kernel, known, recorded
from tests.gpu_values import bus, uuids
from tests.imds_values import imds, instance, interface, shared
from tests.kubelet_values import GPU as GPU_RESOURCE
from tests.kubelet_values import allocatable, holding, kubelet
from tests.rigs import full_node, prometheus_server, trees
from tests.status_values import report, standing, status
from tests.values import device, port, rdma

MOST_SERIES = 300  # design 6, on a node with 8 NICs and 8 GPUs
BLIND = Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/ports/1/state", 5)
OK, WARN, FAIL, ABSENT, UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.ABSENT, Status.UNKNOWN


def scrape(*rounds: NodeStatus) -> str:
    metrics = MetricsPage()
    for one in rounds:
        metrics.show(one)
    kind, text = metrics.page()
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    return text.decode()


def said(text: str, name: str) -> list[str]:
    """The series of a metric, without its name and in order."""
    lines = (line for line in text.splitlines() if re.match(rf"{name}[ {{]", line))
    return sorted(line.removeprefix(name) for line in lines)


def told(name: str, **different: Any) -> list[str]:
    return said(scrape(status(**different)), name)


def counters(*ports: PortCounters) -> Counters:
    return Counters(0.0, ports)


def counted(*unread: str, **values: int) -> PortCounters:
    here = "/sys/class/infiniband/mlx5_3/ports/1"
    blind = tuple(Unreadable(Why.IO_ERROR, f"{here}/{name}", 5) for name in unread)
    return PortCounters("mlx5_3", 1, "0000:5c:00.0", tuple(values.items()), blind)


HANDS_OUT = node_object(capacity={"cpu": "64", "rdma/hca": "1k"}, allocatable={"rdma/hca": "8", "a/b": "1.5"})
HANDS_OUT_CLUSTER = cluster(node=HANDS_OUT)
VF = device(name="mlx5_9", virtual_function=True)
FACT_NAMES = ("links", "rdma", "routes")
WAITS = Suppression(SuppressionReason.IDLE, "port.mtu", "mtu", "pod x/a holds the device")
ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    # metric                 different                                              series
    ("check_status", {}, []),
    ("check_status", {"report": report(finding("a.b", OK))}, ['{check="a.b",status="ok"} 1.0']),
    ("check_status", {"report": report(finding("a.b", ABSENT))}, []),
    ("check_status", {"report": report(finding("a.b", OK), finding("a.b", WARN))}, ['{check="a.b",status="warn"} 1.0']),
    (
        "check_status",
        {"report": report(finding("a.b", WARN), finding("a.b", UNKNOWN), finding("c.d", ABSENT))},
        ['{check="a.b",status="unknown"} 1.0'],
    ),
    (
        "check_status",
        {"report": report(finding("a.b", UNKNOWN), finding("a.b", FAIL), finding("c.d", OK))},
        ['{check="a.b",status="fail"} 1.0', '{check="c.d",status="ok"} 1.0'],
    ),
    (
        "check_status",
        {"report": report(finding("a.b", FAIL, root="c.d"), finding("a.b", OK, port=2), finding("c.d", FAIL))},
        ['{check="a.b",status="ok"} 1.0', '{check="c.d",status="fail"} 1.0'],
    ),
    ("check_status", {"report": report(finding("a.b", FAIL, waived=WAIVED))}, []),
    (
        "ready",
        {"profiles": (standing(), standing(name="base", ready=False))},
        ['{profile="base"} 0.0', '{profile="rdma-roce"} 1.0'],
    ),
    ("gate_reason", {"profiles": (standing(),)}, []),
    (
        "gate_reason",
        {"profiles": (standing(ready=False, check="port.state", reason="NoSignal"), standing(name="base"))},
        ['{check="port.state",drill="",profile="rdma-roce",reason="NoSignal"} 1.0'],
    ),
    (
        "gate_reason",
        {"profiles": (standing(ready=False, check="port.state", reason="NoSignal", drill="link-down"),)},
        ['{check="port.state",drill="link-down",profile="rdma-roce",reason="NoSignal"} 1.0'],
    ),
    ("drill", {}, []),
    (
        "drill",
        {"drill": DrillNotice("link-down", "eth1", ("eth1",), "b1", 10.0, 20.0)},
        ['{device="eth1",drill="link-down"} 1.0'],
    ),
    (
        "gate_reason",
        {
            "profiles": (
                standing(ready=False, reason="Bootstrap"),
                standing(name="base", ready=False, reason="Bootstrap"),
            )
        },
        [
            '{check="",drill="",profile="base",reason="Bootstrap"} 1.0',
            '{check="",drill="",profile="rdma-roce",reason="Bootstrap"} 1.0',
        ],
    ),
    ("fact_seconds", {"fact_seconds": {"kernel-log": 0.0123, "imds": 0.0009}}, ['{fact="kernel-log"} 0.0123']),
    (
        "fact_seconds",  # the slowest three
        {"fact_seconds": {"z": 0.01, "pci": 0.01, "links": 0.02, "routes": 0.03, "rdma": 0.4, "a": 0.001, "b": 0.01}},
        [f'{{fact="{fact}"}} {took}' for fact, took in zip(FACT_NAMES, (0.02, 0.4, 0.03), strict=True)],
    ),
    ("last_round_timestamp_seconds", {}, [" 1.75e+09"]),
    ("rounds_total", {}, [" 7.0"]),
    ("port_up", {"facts": {Rdma: BLIND}}, []),
    ("port_up", {"facts": {Rdma: rdma(port())}}, ['{device="mlx5_3",port="1"} 1.0']),
    ("port_up", {"facts": {Rdma: rdma(port(state="2: INIT"))}}, ['{device="mlx5_3",port="1"} 0.0']),
    (
        "port_up",
        {"facts": {Rdma: rdma(port(state=guarded(BLIND)), port(number=2))}},
        ['{device="mlx5_3",port="2"} 1.0'],
    ),
    (
        "port_up",
        {"facts": {Rdma: rdma(port(), port(device="mlx5_9"), devices=(device(), VF))}},
        ['{device="mlx5_3",port="1"} 1.0'],
    ),
    (
        "port_up",
        {"facts": {Rdma: rdma(port(), devices=(device(virtual_function=guarded(BLIND)),))}},
        ['{device="mlx5_3",port="1"} 1.0'],
    ),
    ("port_rate_bytes", {"facts": {Rdma: rdma(port())}}, ['{device="mlx5_3",port="1"} 5e+10']),
    ("port_rate_bytes", {"facts": {Rdma: rdma(port(rate=guarded(BLIND)))}}, []),
    ("port_errors_total", {"facts": {Rdma: rdma(port()), Counters: BLIND}}, []),
    (
        "port_errors_total",
        {"facts": {Rdma: rdma(port()), Counters: counters(counted(link_downed=2, link_error_recovery=3, tx_pkts=9))}},
        ['{device="mlx5_3",kind="link-lost",port="1"} 5.0'],
    ),
    (
        "port_errors_total",
        {"facts": {Rdma: rdma(port()), Counters: counters(counted("counters/link_downed", link_error_recovery=3))}},
        [],
    ),
    (
        "port_errors_total",
        {"facts": {Rdma: rdma(port()), Counters: counters(counted("counters/symbol_error", link_downed=0))}},
        ['{device="mlx5_3",kind="link-lost",port="1"} 0.0'],
    ),
    ("port_errors_total", {"facts": {Rdma: rdma(port()), Counters: counters(counted("counters", link_downed=1))}}, []),
    (
        "port_errors_total",
        {"facts": {Rdma: rdma(port()), Counters: counters(counted("hw_counters", link_downed=1))}},
        [],
    ),
    ("port_errors_total", {"facts": {Rdma: rdma(), Counters: counters(counted(link_downed=1))}}, []),
    ("port_errors_total", {"facts": {Counters: counters(counted(link_downed=1))}}, []),
    ("resource", {"facts": {Cluster: DENIED}}, []),
    (
        "resource",
        {
            "facts": {
                Cluster: cluster(
                    node=node_object(
                        capacity={"cpu": "64", "rdma/hca": "1k"}, allocatable={"rdma/hca": "8", "a/b": "1.5"}
                    )
                )
            }
        },
        ['{book="allocatable",resource="rdma/hca"} 8.0', '{book="capacity",resource="rdma/hca"} 1000.0'],
    ),
    ("resource", {"facts": {Cluster: cluster(node=guarded(DENIED))}}, []),
    (
        "resource",
        {
            "facts": {
                Kubelet: kubelet(pods=(holding("x/a", GPU_RESOURCE, *uuids(3)),)),
                AllocatableDevices: allocatable({GPU_RESOURCE: uuids(7)}),
                Cluster: cluster(
                    node=node_object(capacity={GPU_RESOURCE: "8"}, allocatable={GPU_RESOURCE: "7"}), pods=()
                ),
                Pci: bus(8),
            }
        },
        [
            f'{{book="{book}",resource="nvidia.com/gpu"}} {count}'
            for book, count in (("allocatable", 7.0), ("capacity", 8.0), ("hardware", 8.0), ("in_use", 3.0))
        ],
    ),
    (
        "resource",  # who holds what is not known, and is not 0
        {"facts": {Kubelet: kubelet(pods=guarded(DENIED)), Cluster: HANDS_OUT_CLUSTER}},
        ['{book="allocatable",resource="rdma/hca"} 8.0', '{book="capacity",resource="rdma/hca"} 1000.0'],
    ),
    ("resource", {"facts": {Kubelet: DENIED}}, []),
    ("repair_suppressed_total", {"repair": RepairStatus(suppressed={"mode": 3})}, ['{reason="mode"} 3.0']),
    ("repair_suppressed_now", {"repair": RepairStatus(suppressed={"mode": 3})}, []),
    (
        "repair_suppressed_now",
        {"repair": RepairStatus(suppressions=(WAITS, replace(WAITS, check="eni.mtu", remedy="eri_mtu"), WAITS))},
        [
            '{check="eni.mtu",reason="idle",remedy="eri_mtu"} 1.0',
            '{check="port.mtu",reason="idle",remedy="mtu"} 1.0',
        ],
    ),
    (
        "repair_tries_left",
        {"repair": RepairStatus(tries_left={("port.mtu", "mtu"): 0})},
        ['{check="port.mtu",remedy="mtu"} 0.0'],
    ),
    ("repair_step", {}, []),
    (
        "repair_step",
        {"repair": RepairStatus(remedy="mtu", check="port.mtu", step=ApproachStep.SETTLING)},
        ['{check="port.mtu",remedy="mtu",step="settling"} 1.0'],
    ),
    ("api_requests_total", {"api_requests": {("PATCH", "409"): 2}}, ['{code="409",verb="PATCH"} 2.0']),
    ("config_ok", {}, [" 1.0"]),
    ("config_ok", {"config_trouble": "c.yaml:3: bad"}, [" 0.0"]),
    ("state_file_ok", {}, [" 1.0"]),
    ("state_file_ok", {"store_trouble": "no space"}, [" 0.0"]),
    ("gate_files_ok", {}, [" 1.0"]),
    ("gate_files_ok", {"gate_trouble": "/run/nodeprep/mine.ready cannot be removed"}, [" 0.0"]),
    ("mounts_ok", {}, [" 1.0"]),
    ("mounts_ok", {"exposed": ("/host/opt/cni/bin",)}, [" 0.0"]),
    ("waivers", {"waivers": 2}, [" 2.0"]),
    ("upgrade_deferred_checks", {"rule_disagreements": ("port.mtu", "pci.link")}, [" 2.0"]),
    (
        "event_source_up",
        {
            "event_sources": {
                "link": EventSourceState(True),
                "rdma": EventSourceState(False, 1),
                "none": EventSourceState(False, absent=True),
            }
        },
        ['{event_source="link"} 1.0', '{event_source="rdma"} 0.0'],
    ),
    (
        "event_source_restarts_total",
        {"event_sources": {"link": EventSourceState(True, 4), "rdma": EventSourceState(True)}},
        ['{event_source="link"} 4.0'],
    ),
    ("build_info", {}, ['{version="0.1.0"} 1.0']),
]


@pytest.mark.parametrize(("metric", "different", "says"), ROWS)
def test_a_metric(metric: str, different: dict[str, Any], says: list[str]) -> None:
    assert told(f"nodeprep_{metric}", **different) == says


def test_exactly_one_state_is_there() -> None:
    for state in NodeState:
        assert told("nodeprep_state", state=state) == [f'{{state="{state}"}} 1.0']


INSTANCE: dict[type, object] = {Links: kernel(), Imds: imds()}
ENIS: list[tuple[dict[type, object], str]] = [
    # facts                                                                              ENIs by state
    ({}, ""),
    ({Links: kernel()}, ""),
    ({Imds: imds()}, ""),
    (INSTANCE | {Imds: SILENT}, ""),
    (INSTANCE | {Imds: imds(guarded(SILENT))}, ""),
    (INSTANCE | {Links: BLIND}, ""),
    (INSTANCE, "free 1 primary 1"),
    (INSTANCE | {Terway: terway()}, "primary 1 shared 1"),
    (INSTANCE | {Links: kernel(eth0())}, "missing 1 primary 1"),
    (INSTANCE | {Imds: imds(instance(interface()))}, "ghost 1 primary 1"),
    (INSTANCE | {Imds: imds(instance(interface())), Links: kernel(eth0(), eth1(mac="b8:ce:f6:00:00:01"))}, "primary 1"),
    (INSTANCE | {Cluster: recorded(pod_enis=(pod_eni(mac=shared().mac),))}, "pod 1 primary 1"),
    (INSTANCE | {Links: kernel(eth0()), Cluster: recorded(pod_enis=(pod_eni(mac=shared().mac),))}, "pod 1 primary 1"),
    (INSTANCE | {Cluster: recorded(known(traffic_mode="HighPerformance"))}, "primary 1 rdma 1"),
    (INSTANCE | {Cluster: cluster(terway=guarded(DENIED))}, "primary 1 unknown 1"),
    (
        {
            Imds: imds(instance(interface(), shared(mac=eth2().mac))),
            Links: kernel(eth0(), eth2()),
            Rdma: rdma(devices=(erdma(),)),
        },
        "primary 1 rdma 1",
    ),
]


@pytest.mark.parametrize(("facts", "says"), ENIS)
def test_enis(facts: dict[type, object], says: str) -> None:
    lines = told("nodeprep_eni", facts=facts)
    assert len(lines) == (len(series.ENI_STATES) if says else 0)
    counts = [re.fullmatch(r'\{state="(\w+)"\} (\d+)\.0', line) for line in lines]
    assert " ".join(f"{one[1]} {one[2]}" for one in counts if one and one[2] != "0") == says


def test_every_counter_that_a_check_judges_is_in_one_kind() -> None:
    judged = {one.counter for one in physical.limits(physical.Want(), 10.0)} | {LINK_DOWNED}
    judged |= {one.counter for one in transport.limits(transport.Want())}
    times = Counter(name for names in series.KINDS.values() for name in names)
    assert set(times) == judged - {"retrans_bytes"}
    assert set(times.values()) == {1}


def histogram(text: str, name: str, labels: str = "") -> dict[str, float]:
    family = next(one for one in text_string_to_metric_families(text) if one.name == name)
    mine = [one for one in family.samples if labels in one.labels.values() or not labels]
    return {one.labels.get("le", one.name.rpartition("_")[2]): one.value for one in mine}


def test_histograms_are_there_from_the_first_round_and_count_what_happens() -> None:
    first = status(state=NodeState.BOOTSTRAP, since=10.0)
    text = scrape(first)
    assert histogram(text, "nodeprep_detection_seconds")["count"] == 0
    assert histogram(text, "nodeprep_gate_closed_seconds", "unhealthy")["count"] == 0
    sick = status(state=NodeState.UNHEALTHY, since=100.0, cases=(case(opened_at=99.3, convicted_at=100.0),))
    text = scrape(first, status(since=55.0), sick, status(since=5000.0))
    seen = histogram(text, "nodeprep_detection_seconds")
    assert (seen["0.6"], seen["0.8"], seen["+Inf"], seen["count"]) == (0, 1, 1, 1)
    assert seen["sum"] == pytest.approx(0.7)
    assert histogram(text, "nodeprep_gate_closed_seconds", "bootstrap")["120.0"] == 1
    seen = histogram(text, "nodeprep_gate_closed_seconds", "unhealthy")
    assert (seen["1800.0"], seen["14400.0"], seen["sum"]) == (0, 1, 4900)


def test_histograms_of_repairs_are_there_from_the_first_round_in_mode_repair_and_then_stay() -> None:
    """Rare as repairs are, most nodes' first one would be no increase: a series that begins with 1 has none."""
    assert "repair" not in "".join(said(scrape(status()), "nodeprep_gate_closed_seconds_count"))
    assert said(scrape(status()), "nodeprep_repair_seconds_count") == []
    on = status(mode=Mode.REPAIR)
    assert histogram(scrape(on), "nodeprep_repair_seconds")["count"] == 0
    assert histogram(scrape(on), "nodeprep_gate_closed_seconds", "repair")["count"] == 0
    sick = {"state": NodeState.VALIDATING, "since": 100.0}
    before = status(mode=Mode.REPAIR, attempt=attempt("asked", id="7", boot_id="boot"), **sick)
    over = past("released", id="7", boot_id="boot", at=150.0)
    text = scrape(before, status(attempts=(over,), **sick), status(attempts=(over,), since=180.0))
    seen = histogram(text, "nodeprep_repair_seconds")
    assert (seen["45.0"], seen["90.0"], seen["sum"]) == (1, 1, 40)
    assert histogram(text, "nodeprep_gate_closed_seconds", "repair")["sum"] == 80
    assert said(text, "nodeprep_repair_runs_total") == ['{outcome="released",remedy="link_up"} 1.0']


def test_before_the_first_round_there_is_the_process_and_the_version() -> None:
    text = scrape()
    assert said(text, "nodeprep_build_info")
    assert said(text, "process_resident_memory_bytes")
    assert not said(text, "nodeprep_ready")


def test_what_has_gone_leaves_no_series() -> None:
    there = status(facts={Rdma: rdma(port())}, report=report(finding("a.b", FAIL)))
    text = scrape(there, status(report=report(finding("a.b", OK))))
    assert said(text, "nodeprep_port_up") == []
    assert said(text, "nodeprep_check_status") == ['{check="a.b",status="ok"} 1.0']


NASTY = ["a" * 5000, 'a"b\\c\nd', "\udcff\x00", "", "ü" * 200]


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_text_and_short_whatever_it_is(name: str) -> None:
    text = scrape(status(facts={Rdma: rdma(port(device=name), port(device=name + "x"))}))
    (family,) = (one for one in text_string_to_metric_families(text) if one.name == "nodeprep_port_up")
    names = [one.labels["device"] for one in family.samples]
    assert len(set(names)) == len(names) > 0, "two series of one name would spoil the whole scrape"
    assert all(len(one) <= 120 for one in names)


def samples(text: str) -> int:
    return sum(not line.startswith("#") for line in text.splitlines())


def test_a_node_with_eight_rails_and_eight_gpus_stays_within_300_series(tmp_path: Path) -> None:
    text = scrape(*full_node.rounds(tmp_path / "node"))
    assert len(said(text, "nodeprep_port_errors_total")) == 8 * len(series.KINDS)
    assert len(said(text, "nodeprep_check_status")) > 90
    assert len(said(text, "nodeprep_repair_runs_total")) == len(full_node.RUNS)
    assert 200 < samples(text) <= MOST_SERIES


def test_so_does_it_while_all_is_provisioned_at_once(tmp_path: Path) -> None:
    text = scrape(full_node.a_new_node(tmp_path / "node"))
    assert len(said(text, "nodeprep_repair_suppressed_now")) == len(full_node.NEW_NODE) - 1
    assert len(said(text, "nodeprep_repair_tries_left")) == len(full_node.NEW_NODE)
    assert samples(text) <= MOST_SERIES


def test_so_does_its_tree_with_the_front_end_ports_as_it_is(tmp_path: Path) -> None:
    host = Host(str(trees.build("h100-roce", tmp_path / "node")), live=False)
    look = Observer(host).look(FACTS)
    found = check_round.judge(CHECKS.values(), look, None, Profile("base"), {}).findings
    text = scrape(status(facts=look.facts, report=report(*found)))
    assert len(said(text, "nodeprep_port_up")) == 12
    assert said(text, "nodeprep_check_status")
    assert samples(text) <= MOST_SERIES


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    prometheus_server.needed(prometheus_server.TOOL)
    text = scrape(*full_node.rounds(tmp_path / "node"))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_parser_of_the_library_reads_every_family_once_with_its_type(tmp_path: Path) -> None:
    families = list(text_string_to_metric_families(scrape(*full_node.rounds(tmp_path / "node"))))
    names = [one.name for one in families]
    assert len(set(names)) == len(names)
    kinds = {one.name: one.type for one in families}
    for one in series.ALL:
        counts = one.name.endswith("_total")
        assert kinds[one.name.removesuffix("_total")] == ("counter" if counts else "gauge"), one.name


def test_metrics_md_is_current_and_names_all_that_is_served(tmp_path: Path) -> None:
    text = page.TARGET.read_text()
    assert text == page.page(), "run `make docs`"
    for one in text_string_to_metric_families(scrape(*full_node.rounds(tmp_path / "node"))):
        name = "process_*" if one.name.startswith("process_") else one.name
        assert re.search(rf"^\| `{re.escape(name)}(_total)?` \|", text, re.MULTILINE), name
