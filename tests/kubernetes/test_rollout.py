"""The shipped manifests with their defaults on real kubelets: normal life, good and bad releases, and the way out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.program import nodeprep
from tests.kubernetes import shipped
from tests.kubernetes.asked import check, debug, nodes, why
from tests.kubernetes.rollout import first_replaced, halted, settling
from tests.kubernetes.shipped import (
    DAEMONSET,
    LEASES,
    LOOKS,
    QUICK,
    STATE,
    TRAINING_READY,
    UNHEALTHY,
    Object,
    agents,
    broken,
    condition,
    configuration,
    container,
    gates,
    is_ready,
    kill_agent,
    memory,
    metrics,
    ours,
    overlay,
    page,
    rolled_out,
    set_image,
    taints,
    watched,
)
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE, tools
from tests.rigs.images import REPOSITORY
from tests.rigs.repeating import repeating
from tests.rigs.waiting import until

# Of a pod without privileges, see daemonset/README.md; each only where the node has what it is about.
UNSEEN = {"pci.acs-iommu", "sysctl.forward-policy"}
OPEN = {"base.device", "base.ready"}
WELL = ("admission_policy_ok", "node_ok", "config_ok", "state_file_ok", "gate_files_ok")
LIMIT = 60 << 20  # bytes of the agent's memory, by design 7
POD = 128 << 20  # of its container's, as shipped
CORDON = "node.kubernetes.io/unschedulable"
JOBS = "jobs"  # a namespace
AGENT = "system:serviceaccount:nodeprep:nodeprep-agent"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return overlay(tmp_path_factory.mktemp("manifests") / "own", {"config.yaml": configuration(LOOKS)})


@pytest.fixture(scope="module")
def installed(cluster: Cluster, manifests: Path, image: Callable[[str], Path]) -> Cluster:
    """All agents are Ready, and every Node has proven itself for as long as the defaults want it."""
    shipped.install(cluster, manifests, image("good"))
    began = time.monotonic()
    until(lambda: all(map(is_ready, cluster.nodes.values())), "TrainingReady of all Nodes")
    print(f"TrainingReady {time.monotonic() - began:.1f} s after the rollout was done")
    until(lambda: all(map(is_well, cluster.nodes.values())), "all well in all agents' metrics")
    print(f"all agents well {time.monotonic() - began:.1f} s after the rollout was done")
    until(lambda: all(gates(node) == OPEN for node in cluster.nodes.values()), "gate files on all nodes")
    return cluster


def is_well(node: Node) -> bool:
    """Whether its agent says so. Its first tests may come before the API server enforces what was applied with it."""
    measured = metrics(node)
    return all(measured.get(f"nodeprep_{name}") == 1.0 for name in WELL)


@pytest.fixture
def node(installed: Cluster) -> Node:
    return installed.nodes["n1"]


def images(cluster: Cluster) -> set[str]:
    return {pod["spec"]["containers"][0]["image"].partition(":")[2] for pod in agents(cluster).values()}


def test_normal_life(installed: Cluster) -> None:
    """Every agent says what it should, its token is bound to its own Node, and nothing that it asks for is denied."""
    for node in installed.nodes.values():
        told = node.object()
        assert taints(told) == {}
        assert told["metadata"]["labels"][STATE] == "Ready"
        assert told["metadata"]["labels"]["nodeprep.io/profile.base"] == "ready"
        assert condition(told, "nodeprep.io/NetworkReady")["status"] == "True"
        assert gates(node) == OPEN
        lease = installed.call("GET", f"{LEASES}/agent-{node.name}")[1]
        assert lease["spec"]["holderIdentity"] == node.name
        assert lease["metadata"]["ownerReferences"][0]["uid"] == told["metadata"]["uid"]
        assert page(node, "/readyz")[0] == 200
        measured = metrics(node)
        for name in WELL:
            assert measured[f"nodeprep_{name}"] == 1.0, name
        resident = measured["process_resident_memory_bytes"]
        print(f"{node.name}: {resident / 2**20:.1f} MiB resident after {page(node, '/readyz')[1].strip()}")
        assert resident < LIMIT
    asked = installed.requests(AGENT)
    assert not [one for one in asked if one.startswith(("list /api/v1/events", "watch"))]


def test_why_pods_of_a_job_ended(installed: Cluster) -> None:
    """A fault on the node of two of three pods. One ends by itself, one is deleted, and the third shows nothing.

    It comes first: for 15 minutes after a fault `why` tells of it.
    """
    node = installed.nodes["n2"]
    installed.create("/api/v1/namespaces", {"metadata": {"name": JOBS}})
    for name, host in (("train-0", "n2"), ("train-1", "n1"), ("train-2", "n2")):
        installed.create(f"/api/v1/namespaces/{JOBS}/pods", worker(name, host))
    for name in ("train-0", "train-1", "train-2"):
        until(lambda: phase(installed, name) == "Running", f"{name} runs")  # noqa: B023 - it is called at once
    began = time.monotonic()
    with broken(node):
        until(lambda: UNHEALTHY in taints(node.object()), "the taint")
        installed.kubectl("-n", JOBS, "exec", "train-0", "--", "touch", "/over")
        until(lambda: phase(installed, "train-0") == "Failed", "it ended")
        installed.kubectl("-n", JOBS, "delete", "pod", "train-2")
    took = time.monotonic() - began
    said = why(installed, "job/train", "-n", JOBS)
    assert (said["quiet"], said["unknown"]) == (["n1"], {})
    assert coincides(said, took) == {"train-0", "train-2"}
    gone = why(installed, "train-2", "-n", JOBS)
    assert gone["pods"][0]["is_gone"]
    assert coincides(gone, took) == {"train-2"}

    installed.kubectl("-n", JOBS, "delete", "pod", "train-0")
    said = why(installed, "train-0", "-n", JOBS, code=3)
    (pod,) = said["pods"]
    assert (pod["node"], pod["is_gone"], pod["ended"]) == ("n2", True, None)
    assert [(one["seconds"], one["words"]) for one in said["found"]] == [(None, "cni.binaries Missing ptp")]
    installed.kubectl("delete", "namespace", JOBS)
    until(lambda: is_ready(node), "an open gate")


def worker(name: str, host: str) -> Object:
    """A pod of the job `train` that ends with 1 once there is a file in it.

    It has the host's network: the fault takes a CNI plugin away, without which the kubelet ends no other.
    """
    script = "until test -e /over; do sleep 0.2; done; exit 1"
    main = {"name": "main", "image": BASE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    spec = {"nodeName": host, "hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name, "labels": {"job-name": "train"}}, "spec": spec | {"containers": [main]}}


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.call("GET", f"/api/v1/namespaces/{JOBS}/pods/{name}")[1]["status"].get("phase"))


def coincides(said: Object, took: float) -> set[str]:
    """The pods of which it names the fault of their node, no further from their end than the fault took."""
    found = [one for one in said["found"] if one["words"].startswith("cni.binaries Missing")]
    assert all(one["node"] == "n2" and abs(one["seconds"]) <= took + 1 for one in found), found
    return {one["pod"] for one in found}


def test_exec(installed: Cluster, node: Node) -> None:
    """README's second command. A pod without privileges sees all that the gates need."""
    pod = agents(installed)["n1"]["metadata"]["name"]
    code, text = check(installed, pod)
    assert code == 0, text
    assert text.startswith("READY")
    assert node.boot_id in text
    assert re.search(r"agent +Ready for ", text)

    def looked() -> Object:
        """Where this machine is busy, an answer may come too late for one look."""
        told: Object = json.loads(check(installed, pod, "-o", "json")[1])
        return told if {one["check"] for one in told["findings"] if one["status"] == "unknown"} <= UNSEEN else {}

    report = until(looked, "a look that misses nothing")
    assert {one["check"] for one in report["findings"] if one["status"] == "fail"} == set()
    assert (report["profile"], report["agent"]) == ("base", "Ready")
    most, limit = memory(installed, node)
    print(f"agent and nodeprep check in its container: {most / 2**20:.1f} of {limit / 2**20:.0f} MiB at most")
    assert limit == POD
    assert most < 0.75 * limit  # that it was never short of any: its page cache is counted too, and would be let go


def test_debug(installed: Cluster, node: Node) -> None:
    """It finds the host at /host and there the agent's memory, and says what the agent says."""
    code, text = debug(installed, node)
    assert code == 0, text
    assert text.lstrip().startswith("READY") or "\nREADY" in text
    assert node.boot_id in text
    assert "root      /host (live)" in text
    assert re.search(r"agent +Ready for ", text)
    assert "according to the agent" in text


def test_containerd_alone(node: Node) -> None:
    """The command of docs/hosts.md, with the image of the rig: a container without Kubernetes judges its host.

    A node of the rig has a boot id of its own, by a mount. This container sees the kernel's, so it takes the checks of
    files for those of another boot, and says so. Links and routes are the node's.
    """
    page_text = (Path(__file__).resolve().parents[2] / "docs/hosts.md").read_text()
    (command,) = (line for line in page_text.splitlines() if line.startswith("ctr run "))
    ctr = f"{tools() / 'root/usr/bin/ctr'} -n k8s.io"
    words = command.replace("ctr run", f"{ctr} run", 1).replace("IMAGE:TAG", f"{REPOSITORY}:dev")
    said = node.run("sh", "-c", f"{words} --only cni.parse; echo exit $?")
    assert "root      /host (live)" in said, said
    assert "agent     Ready for" in said, said  # the state file of the node's agent is there too
    assert said.rstrip().endswith("exit 3"), said


def test_a_killed_agent(installed: Cluster, node: Node) -> None:
    with watched(installed, [node]) as seen:
        kill_agent(installed, node)
        until(lambda: container(agents(installed)["n1"])["restartCount"] == 1, "started again")
        until(lambda: container(agents(installed)["n1"])["ready"], "Ready")
    assert seen.missing == set()
    assert seen.tainted() == set()
    assert is_ready(node)


WRONG = "want: {fs.mounts: {mounts: [/nobody-mounts-this]}}"


def test_a_wrong_configuration_is_tried_before_it_is_applied(installed: Cluster, tmp_path: Path) -> None:
    """By exec in each agent's container, as whoever asks; files that it names are on its way too."""
    (tmp_path / "right.yaml").write_text(configuration(LOOKS))
    code, text = tried(installed, tmp_path / "right.yaml")
    assert (code, text) == (0, "2 of 2 nodes answered; 0 would change, 0 would close\n")
    (tmp_path / "wrong.yaml").write_text(configuration("assign: [{use: [own.yaml]}]"))
    (tmp_path / "own.yaml").write_text(
        f"apiVersion: nodeprep.io/v1\nkind: Profile\nname: own\nextends: base\n{WRONG}\n"
    )
    code, text = tried(installed, tmp_path / "wrong.yaml")
    assert code == 1, text
    rows = text.splitlines()
    assert rows[-1] == "2 of 2 nodes answered; 2 would change, 2 would close"
    assert [row.split()[:3] for row in rows[1:3]] == [[name, "ready", "not-ready"] for name in ("n1", "n2")]
    assert all("fs.mounts NotMounted /nobody-mounts-this" in row for row in rows[1:3])
    (told,) = json.loads(tried(installed, tmp_path / "wrong.yaml", "n2", "-o", "json")[1])["nodes"]
    assert (told["node"], told["now"], told["then"], told["silent"]) == ("n2", "ready", "not-ready", "")


def tried(cluster: Cluster, file: Path, *words: str) -> tuple[int, str]:
    """Exit code and words of `nodeprep config try`."""
    done = nodeprep("config", "try", str(file), *words, KUBECONFIG=str(cluster.kubeconfig()))
    return done.returncode, done.stdout + done.stderr


def stopped_by(cluster: Cluster, before: dict[str, Object], reason: str, check: str) -> Node:
    """The one node that a rollout came to, which stays Ready and says by which check the rollout waits."""
    name = first_replaced(cluster, before)
    bad = cluster.nodes[name]
    until(lambda: condition(bad.object())["reason"] == reason, "it says so")
    for _ in halted(cluster, before, name):
        code, why = page(bad, "/readyz")
        assert (code, reason in why, check in why) == (503, True, True), why
        told = condition(bad.object())
        assert (told["status"], told["reason"]) == ("True", reason)
    return bad


def test_a_wrong_configuration(installed: Cluster, manifests: Path) -> None:
    """It closes no gate, and stops at the first node, as a wrong release does."""
    before = agents(installed)
    with watched(installed, list(installed.nodes.values())) as seen:
        installed.apply(overlay(manifests, {"config.yaml": configuration(LOOKS, WRONG)}))
        bad = stopped_by(installed, before, "VerdictChangedByConfiguration", "fs.mounts")
        installed.apply(overlay(manifests, {"config.yaml": configuration(LOOKS)}))
        rolled_out(installed)
    assert seen.missing == set()
    assert seen.tainted() == set()
    until(lambda: condition(bad.object())["reason"] == "Ready", "no word of it any more")


def test_what_opens_holds_at_once_and_the_rest_waits(installed: Cluster, node: Node) -> None:
    """Somebody edits the ConfigMap of running agents at 3 a.m."""
    pod = agents(installed)["n1"]
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    path = f"/api/v1/namespaces/nodeprep/configmaps/{volumes['config']['configMap']['name']}"
    written = installed.call("GET", path)[1]["data"]["config.yaml"]
    with broken(node):
        until(lambda: UNHEALTHY in taints(node.object()), "the taint")
        changed = f"{written.replace('mode: gate', 'mode: observe')}{WRONG}\n"
        assert installed.call("PATCH", path, {"data": {"config.yaml": changed}})[0] == 200
        until(lambda: not taints(node.object()), "no taint in mode observe", 150)  # the kubelet syncs each minute
    until(lambda: metrics(node)["nodeprep_config_ok"] == 0.0, "it says what waits")
    assert "want: {} ->" in condition(node.object())["message"]
    assert installed.call("PATCH", path, {"data": {"config.yaml": written}})[0] == 200
    until(lambda: "mode: " in condition(node.object())["message"], "a higher mode waits too", 150)
    assert agents(installed)["n1"]["metadata"]["uid"] == pod["metadata"]["uid"]
    installed.kubectl("-n", "nodeprep", "rollout", "restart", "daemonset/nodeprep")
    rolled_out(installed)
    assert metrics(node)["nodeprep_config_ok"] == 1.0
    assert (
        json.loads(check(installed, agents(installed)["n1"]["metadata"]["name"], "-o", "json")[1])["agent"] == "Ready"
    )


def test_a_good_release(installed: Cluster, manifests: Path, image: Callable[[str], Path]) -> None:
    """Agents change one after the other, and nobody else notices."""
    shipped.load(installed, image("next"))
    overlay(manifests, {"config.yaml": configuration(LOOKS, QUICK)})
    installed.apply(manifests)  # for the agents of the releases: from here on, what is mended is believed at once
    with watched(installed, list(installed.nodes.values())) as seen:
        set_image(installed, "next")
        rolled_out(installed)
    assert images(installed) == {"next"}
    first, last = sorted(
        datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in agents(installed).values()
    )
    print(f"the second agent was made {(last - first).total_seconds():.0f} s after the first")
    assert (last - first).total_seconds() >= settling(installed)
    assert seen.missing == set()
    assert seen.tainted() == set()
    assert {condition(told)["status"] for _, told in seen.nodes} == {"True"}


def test_a_release_that_crashes(installed: Cluster, image: Callable[[str], Path]) -> None:
    """It takes one node's agent away, not its gate; the rest keep theirs."""
    shipped.load(installed, image("crashing"))
    before, released = agents(installed), images(installed)
    with watched(installed, list(installed.nodes.values())) as seen:
        set_image(installed, "crashing")
        name = first_replaced(installed, before)
        for _ in halted(installed, before, name):
            pass
        assert images(installed) == released | {"crashing"}
        assert container(agents(installed)[name])["restartCount"] >= 1
        installed.kubectl("-n", "nodeprep", "rollout", "undo", "daemonset/nodeprep")
        rolled_out(installed)
    assert images(installed) == released
    assert seen.missing == set()
    assert seen.tainted() == set()
    assert all(map(is_ready, installed.nodes.values()))


def test_a_release_with_a_check_that_always_fails(installed: Cluster, image: Callable[[str], Path]) -> None:
    """What only the new version sees closes no gate, and stops the rollout at the first node, here as it is shipped."""
    shipped.load(installed, image("mistaken"))
    shipped.settle_for(installed, shipped.MIN_READY)
    rolled_out(installed)  # who is not Ready for so long yet would be replaced first
    before, released = agents(installed), images(installed)
    with watched(installed, list(installed.nodes.values())) as seen:
        set_image(installed, "mistaken")
        bad = stopped_by(installed, before, "VerdictChangedByUpgrade", "cni.parse")
        shipped.settle_for(installed, shipped.SETTLE)
        installed.kubectl("-n", "nodeprep", "rollout", "undo", "daemonset/nodeprep")
        rolled_out(installed)
    assert images(installed) == released
    changed = {told["metadata"]["name"] for _, told in seen.nodes if "Upgrade" in condition(told)["reason"]}
    assert changed == {bad.name}
    assert seen.missing == set()
    assert seen.tainted() == set()
    until(lambda: condition(bad.object())["reason"] == "Ready", "no word of it any more")


# Tells a process to end, and ends after it.
END = 'kill -TERM "$0" && while kill -0 "$0" 2>/dev/null; do sleep 0.1; done'
ENDS = 3  # of an agent until one shows what it does


def ended_by(cluster: Cluster, node: Node, how: str, says: Callable[[], bool] = lambda: True) -> None:
    """One end of the agent's process; returns once the next one is Ready.

    A signal comes after `says`, which is said again until the process has ended.
    """
    pod = agents(cluster)[node.name]
    path = f"/api/v1/namespaces/nodeprep/pods/{pod['metadata']['name']}"
    if how == "deletion":
        assert cluster.call("DELETE", path)[0] == 200
    elif how == "eviction":
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        assert cluster.call("POST", f"{path}/eviction", body)[0] == 201
    else:  # as a kubelet stops a container whose liveness probe fails
        process = shipped.first_process(cluster, node)
        until(says, "it is said")
        with repeating(says, 0.2):
            node.run("timeout", "240", "sh", "-c", END, process)

    def is_another() -> bool:
        now = agents(cluster).get(node.name)
        known = now is not None and container(now).get("ready") and container(now).get("containerID")
        return bool(known) and known != container(pod)["containerID"]

    until(is_another, f"the agent after its {how}")


@pytest.mark.parametrize("how", ["deletion", "eviction", "liveness"])
def test_the_end_of_an_agent_alone_closes_nothing(installed: Cluster, node: Node, how: str) -> None:
    with watched(installed, [node]) as seen:
        ended_by(installed, node, how)
    assert seen.missing == set()
    assert seen.tainted() == set()
    assert is_ready(node)


def test_a_node_that_says_that_it_shuts_down_is_closed(installed: Cluster, node: Node) -> None:
    """The words are those of a kubelet with shutdownGracePeriod; this one has no systemd, and takes them back.

    The machine stays, so the next agent opens at once. An agent that cannot ask within 2 s leaves its gates as they
    are: where this machine stood still for as long, another end shows it.
    """
    path = f"/api/v1/nodes/{node.name}"
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "node is shutting down"}

    def shuts_down() -> bool:
        """At its next look, each 10 s, the kubelet takes it back. What others wrote meanwhile stays (409)."""
        found = node.object()
        others = [one for one in found["status"]["conditions"] if one["type"] != "Ready"]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": version, "status": {"conditions": [*others, ready]}}
        return installed.call("PATCH", f"{path}/status", body)[0] == 200

    def said_by_taint() -> set[str | None]:
        with watched(installed) as seen:
            ended_by(installed, node, "liveness", shuts_down)
            until(lambda: is_ready(node) and gates(node) == OPEN, "open again")
        told = [one for _, one in seen.nodes if one["metadata"]["name"] == node.name]
        return {taints(one).get(UNHEALTHY) for one in told}

    said = [said_by_taint()]
    while len(said) < ENDS and said[-1] == {None}:
        said.append(said_by_taint())
    assert said[-1] == {None, "NodeShutdown"}, said


def test_agents_that_are_gone_for_good(installed: Cluster, manifests: Path) -> None:
    """A DaemonSet deleted without a release: labels and gates stay, and the Lease says that nobody looks."""
    before = {node.name: ours(node.object()) for node in installed.nodes.values()}
    installed.kubectl("-n", "nodeprep", "delete", "daemonset", "nodeprep", "--cascade=foreground")
    until(lambda: not agents(installed), "no agent")
    old = (datetime.now(UTC) - timedelta(seconds=181)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for node in installed.nodes.values():
        lease = f"{LEASES}/agent-{node.name}"
        assert installed.call("PATCH", lease, {"spec": {"renewTime": old}})[0] == 200  # rather than wait for 3 minutes
        assert gates(node) == OPEN
        assert ours(node.object()) == before[node.name]
        assert TRAINING_READY in before[node.name]
    code, text = nodes(installed)
    assert code == 0, text
    assert [line.split()[1] for line in text.splitlines()[1:]] == ["Silent", "Silent"]
    installed.apply(manifests)
    rolled_out(installed)
    assert nodes(installed, "--wait", "30s")[0] == 0


def incarnation(cluster: Cluster) -> tuple[str, int]:
    pod = agents(cluster)["n1"]
    return pod["metadata"]["uid"], container(pod)["restartCount"]


def cordon(told: Object) -> tuple[bool, bool]:
    """What a human's cordon leaves on a Node."""
    keys = {one["key"] for one in told["spec"].get("taints", [])}
    return told["spec"].get("unschedulable", False), CORDON in keys


def test_a_drained_node_stays_so(installed: Cluster, node: Node) -> None:
    """A fault comes and goes on it: the human's cordon is as it was all the time, and so is the agent's pod."""
    before = incarnation(installed)
    installed.kubectl("drain", "n1", "--ignore-daemonsets", "--force", "--delete-emptydir-data")
    try:
        until(lambda: cordon(node.object()) == (True, True), "the taint of the cordon")
        with watched(installed) as seen:
            with broken(node):
                until(lambda: taints(node.object()) == {UNHEALTHY: "Missing"}, "our taint beside it")
                assert incarnation(installed) == before
            until(lambda: is_ready(node), "an open gate")
        told = [one for _, one in seen.nodes if one["metadata"]["name"] == "n1"]
        assert {UNHEALTHY in taints(one) for one in told} == {True, False}
        assert [one for one in told if cordon(one) != (True, True)] == []
        assert incarnation(installed) == before
    finally:
        installed.kubectl("uncordon", "n1")
    until(lambda: cordon(node.object()) == (False, False), "an end of the cordon")


def test_a_fault_is_what_everybody_says(installed: Cluster, node: Node) -> None:
    with broken(node):
        until(lambda: taints(node.object()) == {UNHEALTHY: "Missing"}, "the taint")
        assert gates(node) == set()
        code, text = check(installed, agents(installed)["n1"]["metadata"]["name"])
        assert code == 1, text
        assert text.startswith("NOT READY: 1 fault")
        assert "cni.binaries: Missing" in text
        code, text = debug(installed, node)
        assert code == 1, text
        assert "NOT READY: 1 fault" in text
        assert "cni.binaries: Missing" in text
        assert not taints(installed.nodes["n2"].object())


def test_nothing_is_left_after_release_and_delete(installed: Cluster) -> None:
    with broken(installed.nodes["n2"]):
        until(lambda: taints(installed.nodes["n2"].object()), "a taint that is to go")
        code, text = nodes(installed, "release", "--all")
        assert code == 0, text
        lab = str(DAEMONSET / "overlays/lab")
        installed.kubectl("delete", "-k", lab, "--ignore-not-found", "--wait", "--timeout=100s")
        for node in installed.nodes.values():
            assert ours(node.object()) == []
    listed = installed.kubectl("get", "leases,pods,configmaps,roles,validatingadmissionpolicies", "-A", "-o", "name")
    assert "nodeprep" not in listed
