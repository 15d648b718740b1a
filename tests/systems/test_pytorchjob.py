"""A PyTorchJob that talks TCP over shared ENIs, with Prometheus and Alertmanager beside it; one node routes wrongly.

Real: training-operator 1.8, kubelets, policy rules, the shipped agent with the profile tcp-shared-eni, Prometheus,
Alertmanager, the shipped rules and boards. What stands for Terway is said in tests/rigs/terway_node.py. Debian builds
Prometheus without the discovery of Kubernetes, so a file says what it would find. One story, told in order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from dashboards import scrape_config
from tests.dashboards import asked, servers, targets
from tests.dashboards.test_pages import EXAMPLE, FACTOR
from tests.kubernetes import shipped
from tests.kubernetes.shipped import UNHEALTHY
from tests.kubernetes.training import announced, running
from tests.rigs import prometheus_server, started
from tests.rigs.prometheus_server import Server
from tests.rigs.waiting import until
from tests.systems import job_pods, stage, terway_cluster
from tests.systems.job_pods import Object, placed
from tests.systems.outcomes import record
from tests.systems.preflighted import obstacles, preflight
from tests.systems.stage import PYTORCHJOB, RESIDENT
from tests.systems.terway_cluster import LONG, Fleet

pytestmark = pytest.mark.prove

NODES = ("n1", "n2", "n3")
BROKEN = "n3"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
ALL = 4  # pods: with two GPUs on each node they fill two nodes
MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/nodeprep/podmonitors"
ALERT = "NodeprepGateClosed"


@dataclass
class Story:
    fleet: Fleet
    directory: Path
    prometheus: Server
    alertmanager: str

    def asked(self, manifest: Object) -> tuple[int, str, Object]:
        return preflight(self.fleet.cluster, self.directory, manifest)

    def shown(self, title: str) -> prometheus_server.Vector:
        """What a panel of board Fleet shows."""
        (expression,) = asked.expressions(asked.panel("nodeprep-fleet", title))
        return self.prometheus.ask(expression)

    def counts(self, title: str, nodes: int) -> None:
        until(lambda: [value for _, value in self.shown(title)] == [nodes], f"{title}: {nodes}", LONG)

    def resident(self) -> str:
        """The address of the pod that lives on the node that breaks."""
        return str(self.fleet.cluster.call("GET", f"{PODS}/{RESIDENT}")[1]["status"].get("podIP", ""))

    def says(self, name: str) -> set[str]:
        return job_pods.true_of(self.fleet.cluster.call("GET", f"{JOBS}/{name}")[1])


def job(workers: int = ALL - 1) -> Object:
    made = stage.fitted("pytorchjob")
    made["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = workers
    return made


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Three nodes that are ready, on one of them a pod; and who scrapes and is told of alerts."""
    directory = tmp_path_factory.mktemp("pytorchjob")
    with ExitStack() as stack:
        fleet = stack.enter_context(started.or_absent(stage.pytorchjob(directory)))
        here = fleet.cluster.space.pid
        example = servers.shortened(EXAMPLE.read_text(), FACTOR)
        alertmanager = stack.enter_context(servers.alertmanager(directory, example, inside=here))
        configuration = scraping(fleet, directory, alertmanager)
        prometheus = stack.enter_context(prometheus_server.serving(directory, configuration, inside=here))
        yield Story(fleet, directory, prometheus, alertmanager)


def scraping(fleet: Fleet, directory: Path, alertmanager: str) -> Object:
    """What prometheus-operator would make of the PodMonitor that the cluster has, and our rules sixty times as fast."""
    monitor = fleet.cluster.call("GET", f"{MONITORS}/nodeprep")[1]
    (derived,) = scrape_config.scrape_configs(monitor)
    config = {**derived, "scrape_interval": "1s", "scrape_timeout": "1s"}
    del config["kubernetes_sd_configs"]
    listed = []
    for name, pod in shipped.agents(fleet.cluster).items():
        found = targets.target(pod, fleet.nodes[name].node.object(), f"{fleet.nodes[name].node.address}:9842")
        listed.append({"targets": [found.pop("__address__")], "labels": found})
    (directory / "targets.json").write_text(json.dumps(listed))
    config["file_sd_configs"] = [{"files": [str(directory / "targets.json")]}]
    (directory / "rules.yaml").write_text(json.dumps(servers.short_rules(FACTOR)))
    told = [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
    return {
        "global": {"evaluation_interval": "500ms"},
        "rule_files": [str(directory / "rules.yaml")],
        "scrape_configs": [config],
        "alerting": {"alertmanagers": told},
    }


def test_prometheus_scrapes_all_nodes_by_the_shipped_pod_monitor(story: Story) -> None:
    story.counts("Can take a job", len(NODES))
    story.counts("Cannot", 0)
    found = {labels["node"]: labels["pool"] for labels, _ in story.prometheus.ask("up == 1")}
    assert found == dict.fromkeys(NODES, "np-rig")


def test_a_node_whose_policy_route_is_broken_gets_no_job(story: Story) -> None:
    fleet, node = story.fleet, story.fleet.nodes[BROKEN]
    until(story.resident, "the pod that lives there has an address", LONG)
    address = story.resident()
    assert any("2048" in rule for rule in node.rules(address))
    began = time.monotonic()
    node.node.run("ip", "rule", "del", "pref", "2048", "from", address)
    until(lambda: UNHEALTHY in shipped.taints(node.node.object()), "its agent closes it", LONG)
    record("pytorchjob", "policy rule deleted, taint set", time.monotonic() - began)
    # First it is seen that the pod's packets leave by eth0; the next look at Kubernetes' pods tells the cause.
    until(lambda: "route.rules RuleMissing" in fleet.reason(BROKEN), "it names the rule", LONG)
    until(lambda: shipped.taints(node.node.object())[UNHEALTHY] == "RuleMissing", "the taint names it", LONG)

    code, page, answer = story.asked(job())
    assert code == 0
    assert answer["pods"] == {"total": ALL, "needed": ALL, "fit": ALL}
    assert answer["lints"] == []
    kept = obstacles(answer, "Worker")
    assert set(kept) == {BROKEN}
    assert any(f"taint {UNHEALTHY}=RuleMissing:NoSchedule" in one and address in one for one in kept[BROKEN])
    record("pytorchjob", "preflight, one of three nodes gated", None, page.partition(" ROLE ")[0])
    more, page, _ = story.asked(job(ALL))
    assert more == 1
    record("pytorchjob", "preflight of one worker more", None, page.partition(" ROLE ")[0])

    with announced(fleet.cluster, PODS, labels="training.kubeflow.org/job-name=ddp") as pods:
        began = time.monotonic()
        fleet.cluster.create(JOBS, job())
        job_pods.whole(pods, running, "all pods of the job run", count=ALL)
        found = placed(pods)
        record("pytorchjob", "submitted, all pods bound", max(at for at, _ in found.values()) - began)
        until(lambda: "Running" in story.says("ddp"), "the job says that it runs", LONG)
        assert {one["spec"]["nodeName"] for _, one in found.values()} == set(NODES) - {BROKEN}
        for name, pod in job_pods.states(pods).items():
            is_on_an_eni(story, name, pod)
            fleet.cluster.kubectl("exec", name, "--", *job_pods.ENOUGH)
    until(lambda: "Succeeded" in story.says("ddp"), "the job succeeds", LONG)
    record("pytorchjob", "submitted, job Succeeded", time.monotonic() - began)


def is_on_an_eni(story: Story, name: str, pod: Object) -> None:
    """It has an address of its node's shared ENI, both of Terway's rules, and the interface that NCCL is to take."""
    node, address = pod["spec"]["nodeName"], pod["status"]["podIP"]
    assert address in story.fleet.nodes[node].instance.addresses(1)
    assert len(story.fleet.nodes[node].rules(address)) == 2
    assert job_pods.said(story.fleet.cluster, name, "-c", "pytorch").rstrip().endswith("of 4 by eth0: up")


def test_the_fleet_board_and_the_alert_name_the_node_and_the_reason(story: Story) -> None:
    story.counts("Can take a job", len(NODES) - 1)
    story.counts("Cannot", 1)
    ((row, _),) = story.shown("Nodes that cannot take a job")
    assert (row["node"], row["pool"], row["reason"]) == (BROKEN, "np-rig", "RuleMissing")
    record("pytorchjob", "board Fleet, nodes that cannot take a job", None, f"{row['node']}: {row['reason']}")
    # Here ten minutes are ten seconds, so the reason of the first look has an alert of its own for a while.
    (alert,) = until(lambda: told(story, "RuleMissing"), "the alert reaches Alertmanager", LONG)
    assert {one["labels"]["node"] for one in servers.named(story.alertmanager, ALERT)} == {BROKEN}
    record("pytorchjob", "Alertmanager", None, alert["annotations"]["summary"])


def told(story: Story, reason: str) -> list[Object]:
    """The alerts of closed gates for this reason."""
    return [one for one in servers.named(story.alertmanager, ALERT) if one["labels"]["reason"] == reason]


def test_once_the_rule_is_back_the_node_takes_jobs_again(story: Story) -> None:
    node, began = story.fleet.nodes[BROKEN].node, time.monotonic()
    table = 1000 + int(node.run("cat", "/sys/class/net/eth1/ifindex"))
    node.run("ip", "rule", "add", "pref", "2048", "from", story.resident(), "lookup", str(table))
    terway_cluster.ready(story.fleet, PYTORCHJOB, BROKEN)
    record("pytorchjob", "policy rule back, node open", time.monotonic() - began)
    assert story.asked(job(ALL + 1))[0] == 0
    story.counts("Can take a job", len(NODES))
