"""A training pod of the RDMA world: a real device plugin, a real RoCE port, the shipped manifests in mode gate.

One story, told in order: each test goes on where the one before it left the node. `make test` tells its first half, and
`make prove-training` all of it. What the second half shows of an emulated node, tests on native nodes show too: the
reboot test_wait_ready.py, the release and why a pod ended test_rollout.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kubernetes import training
from tests.kubernetes.asked import why
from tests.kubernetes.rollout import first_replaced, halted
from tests.kubernetes.shipped import (
    ASK,
    BOOTSTRAP,
    PORT,
    UNHEALTHY,
    Object,
    agents,
    condition,
    container,
    kill_agent,
    overlay,
    rolled_out,
    set_image,
    taints,
)
from tests.kubernetes.training import (
    LONG,
    PODS,
    TOLERATES_GATE,
    Announced,
    advertised,
    announced,
    bound,
    gated,
    labelled,
    open_to_training,
    refused,
    running,
    training_pod,
    trains,
)
from tests.rigs import rdma_plugin
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_tools import BASE
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL
from tests.rigs.waiting import until

NAME = "guest"
PAUSE = {"name": "main", "image": BASE, "imagePullPolicy": "Never"}
SOON = 60.0  # seconds; what no change brings back, the scheduler tries again after 5 minutes
GATES = {"rdma-roce.device", "rdma-roce.ready"}
# What convicts stands at its default. What proves and releases is short, and so are the periods of what nobody
# announces: pods, and the PCI counters of which two readings are wanted.
CONFIGURATION = """\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: rdma-roce
confirmation: {passes: 2, pass-span: 2, pass-every: 1, flap-count: 100}
every: {cluster: 15, pci: 5}
"""


@dataclass
class Story:
    guest: Guest
    node: Announced
    directory: Path
    stack: ExitStack

    @property
    def cluster(self) -> Cluster:
        return self.guest.cluster

    def pod(self, name: str) -> Announced:
        """A new training pod."""
        said = self.stack.enter_context(announced(self.cluster, PODS, name))
        training_pod(self.cluster, name)
        return said

    def is_bound_soon_after(self, ready: float, pod: Announced) -> None:
        at = pod.when(bound, "the pod is bound")
        print(f"TrainingReady True -> PodScheduled True: {at - ready:.2f} s")
        assert self.node.revision(ready) < pod.revision(at)
        assert at - ready <= SOON, "by the change of the Node"

    def trainer(self, name: str, pod: Announced) -> str:
        """The name of a pod that runs: of this one, or where the kubelet refuses it of one in its place.

        It refuses those that come as the plugin registers; who makes pods of a job makes others.
        """
        end = time.monotonic() + LONG
        while True:
            pod.when(lambda told: running(told) or not_admitted(told), "the pod runs, or the kubelet refuses it")
            if running(told := pod.seen[-1][1]):
                return name
            assert time.monotonic() < end, told["status"]
            print(f"{name} is refused: {told['status'].get('message')}")
            time.sleep(1)
            name = f"{name}-again"
            pod = self.pod(name)

    def runs(self, name: str) -> bool:
        return running(self.cluster.call("GET", f"{PODS}/{name}")[1])


@pytest.fixture(scope="module")
def story(new_guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A node that just registered. The plugin tolerates nothing, and no agent runs yet."""
    print(f"configuration:\n{CONFIGURATION}")
    with ExitStack() as stack:
        node = stack.enter_context(announced(new_guest.cluster, "/api/v1/nodes", NAME))
        yield Story(new_guest, node, tmp_path_factory.mktemp("story"), stack)


def test_a_new_node_takes_no_pod_before_it_is_ready(story: Story) -> None:
    """The plugin tolerates no taint, so it is not there either: readiness does not wait for it."""
    cluster, node = story.cluster, story.node

    def keys() -> list[str]:
        return [taint["key"] for taint in story.guest.object()["spec"]["taints"]]

    # On a busy machine the emulated node is late with its heartbeat, and Kubernetes taints it for a moment.
    until(lambda: keys() == [BOOTSTRAP], "the taint of the registration alone")
    cluster.apply(training.plugin(story.directory / "upstream"))
    first = story.pod("first")
    first.when(lambda pod: "untolerated taint" in refused(pod), "the scheduler says why")
    print(f"Pending: {refused(first.seen[-1][1])}")
    assert training.plugins_wanted(cluster) == 0

    began = time.monotonic()
    cluster.apply(overlay(story.directory / "agent", {"config.yaml": CONFIGURATION}))
    closed = node.when(lambda told: UNHEALTHY in taints(told), "the agent's own taint")
    ready = node.when(trains, "TrainingReady")
    opened = node.when(open_to_training, "both taints are gone, and the label is there")
    assert closed < ready <= opened
    plugged = node.when(plugged_in, "the plugin advertises the port")
    at = first.when(bound, "the pod is bound")
    assert node.revision(opened) < first.revision(at)
    print(f"agent applied -> tainted {closed - began:.1f} s, ready {ready - began:.1f} s")
    print(f"ready -> open {opened - ready:.2f} s, plugin {plugged - ready:.1f} s, bound {at - ready:.1f} s")
    first.when(running, "the pod runs")
    assert training.port_of(cluster, "first") == "PORT_ACTIVE"


def test_no_taint_is_set_that_the_plugin_would_not_bear(story: Story) -> None:
    """The label goes all the same, and with its affinity the next pod waits."""
    guest, node = story.guest, story.node
    until(lambda: training.agent_says(guest, TOLERATES_GATE) == "NotTolerated", "the agent saw the plugin's pod", LONG)
    began = time.monotonic()
    guest.lab.set_link(RAIL.id, up=False)  # the cable: an interface that is set down the plugin would set up again
    gone = node.when(lambda told: not labelled(told), "the label is gone", began)
    print(f"cable out -> label gone {gone - began:.2f} s")
    second = story.pod("second")
    second.when(lambda pod: "node affinity" in refused(pod), "the scheduler says why")
    print(f"Pending: {refused(second.seen[-1][1])}")
    time.sleep(2.5 * rdma_plugin.INTERVAL)
    assert condition(node.seen[-1][1])["reason"] == "NoSignal"
    assert not any(map(taints, node.since(began)))
    assert all(map(plugged_in, node.since(began)))
    assert not any(map(bound, second.since(0.0)))
    assert story.runs("first")


def test_what_the_check_says_to_paste_lets_the_taint_be_set(story: Story) -> None:
    words = training.to_paste(story.cluster)
    print(f"to paste: kubectl {' '.join(words)}")
    assert words[:5] == ["-n", "kube-system", "patch", "daemonset", training.PLUGIN]
    assert taints(story.node.seen[-1][1]) == {}
    began = time.monotonic()
    story.cluster.kubectl(*words)
    tainted = story.node.when(lambda told: UNHEALTHY in taints(told), "the taint", began)
    print(f"pasted -> tainted {tainted - began:.1f} s")

    def made_anew() -> bool:
        pods = training.plugin_pods(story.cluster)
        return len(pods) == 1 and running(pods[0]) and pods[0]["spec"]["tolerations"][0]["key"] == UNHEALTHY

    until(made_anew, "the plugin's pod made anew, on the tainted node", LONG)
    until(lambda: plugged_in(story.guest.object()), "the plugin advertises the port again", LONG)


def test_a_pod_is_bound_as_soon_as_the_node_is_ready(story: Story) -> None:
    node = story.node
    second = story.stack.enter_context(announced(story.cluster, PODS, "second"))
    second.when(lambda pod: "untolerated taint" in refused(pod), "the scheduler says why")
    print(f"Pending: {refused(second.seen[-1][1])}")
    began = time.monotonic()
    story.guest.lab.set_link(RAIL.id, up=True)
    ready = node.when(trains, "TrainingReady", began)
    node.when(open_to_training, "the taint is gone, and the label is there", ready)
    story.is_bound_soon_after(ready, second)
    second.when(running, "the pod runs")
    assert training.port_of(story.cluster, "second") == "PORT_ACTIVE"


def test_a_link_that_is_down_keeps_pods_away_that_the_plugin_would_let_in(story: Story) -> None:
    guest, node = story.guest, story.node
    assert open_to_training(node.seen[-1][1])
    began = time.monotonic()
    guest.run("ip", "link", "set", RAIL.netdev, "down")
    done = time.monotonic()
    closed = node.when(lambda told: UNHEALTHY in taints(told) and not labelled(told), "taint set, label gone", began)
    print(f"ip link set down -> tainted {closed - done:.2f} s after it ended, {closed - began:.2f} s after it began")
    third = story.pod("third")
    third.when(lambda pod: "untolerated taint" in refused(pod), "the scheduler says why")
    print(f"Pending: {refused(third.seen[-1][1])}")
    time.sleep(2.5 * rdma_plugin.INTERVAL)
    assert all(map(plugged_in, node.since(began)))
    assert all(map(gated, node.since(closed)[1:]))
    assert not any(map(bound, third.since(0.0)))
    assert [story.runs(name) for name in ("first", "second")] == [True, True]
    assert training.port_of(story.cluster, "first") == "PORT_DOWN"

    began = time.monotonic()
    guest.run("ip", "link", "set", RAIL.netdev, "up")
    ready = node.when(trains, "TrainingReady", began)
    opened = node.when(open_to_training, "taint gone, label back", ready)
    print(f"ip link set up -> open {opened - began:.2f} s")
    story.is_bound_soon_after(ready, third)
    third.when(running, "the pod runs")
    assert training.port_of(story.cluster, "third") == "PORT_ACTIVE"


@pytest.mark.prove
def test_after_a_reboot_the_plugin_waits_for_the_port(story: Story) -> None:
    """Until our taint is back the Node says what it said before; the plugin that waits lets no pod in meanwhile."""
    guest, node, cluster = story.guest, story.node, story.cluster
    cluster.apply(training.plugin(story.directory / "held", "tolerations", "wait-ready"))
    cluster.kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{training.PLUGIN}", f"--timeout={LONG:g}s")
    until(lambda: plugged_in(guest.object()), "the plugin advertises the port again", LONG)
    assert open_to_training(node.seen[-1][1])

    agent, before, boot = agents(cluster)[NAME], guest.object(), guest.boot_id
    guest.run("sh", "-c", "echo kept > /var/lib/nodeprep/kept; echo lost > /run/nodeprep/lost")
    guest.reboot()
    guest.lab.set_link(RAIL.id, up=False)
    guest.wait_ready()
    assert guest.object()["metadata"]["uid"] == before["metadata"]["uid"]
    assert guest.boot_id != boot == before["status"]["nodeInfo"]["bootID"]
    assert guest.run("cat", "/var/lib/nodeprep/kept") == "kept\n"
    assert "lost" not in guest.run("ls", "/run/nodeprep")
    fourth = story.pod("fourth")

    def booted(told: Object) -> bool:
        same = bool(told["status"]["nodeInfo"]["bootID"] == guest.boot_id)
        return same and condition(told, "Ready")["status"] == "True"

    back = node.when(booted, "Ready in this boot")
    tainted = node.when(lambda told: UNHEALTHY in taints(told), "the taint", back)
    print(f"reboot: kubelet Ready -> our taint {tainted - back:.1f} s")
    node.when(lambda told: condition(told)["reason"] == "NoSignal", "the agent sees that there is no signal", back)
    same = agents(cluster)[NAME]
    assert same["metadata"]["uid"] == agent["metadata"]["uid"]
    assert container(same)["restartCount"] > container(agent)["restartCount"]
    until(lambda: waits(cluster), "the plugin's pod waits", LONG)
    time.sleep(2.5 * rdma_plugin.INTERVAL)
    assert waits(cluster)
    assert {advertised(told) for told in node.since(back)[1:]} == {"0"}

    began = time.monotonic()
    guest.lab.set_link(RAIL.id, up=True)
    ready = node.when(trains, "TrainingReady", began)
    plugged = node.when(plugged_in, "the plugin advertises", began)
    at = fourth.when(bound, "the pod is bound")
    print(f"cable in -> ready {ready - began:.1f} s, plugin {plugged - began:.1f} s, bound {at - began:.1f} s")
    # The gate waits for the plugin once it no longer waits for the gate: plugin.allocatable.
    assert max(node.revision(ready), node.revision(plugged)) < fourth.revision(at)
    assert training.port_of(cluster, story.trainer("fourth", fourth)) == "PORT_ACTIVE"


@pytest.mark.prove
def test_a_release_whose_port_state_always_fails(story: Story, image: Callable[[str], Path]) -> None:
    """Nobody is kept away, and the rollout ends at the node whose verdict changed; another node waits for its turn."""
    cluster, guest = story.cluster, story.guest
    # It joins for the agent once it has the images, as nothing else could bring them.
    beside = cluster.add_node("beside", labels={"type": "virtual-kubelet"})
    for kind in ("good", "failing"):
        beside.import_image(image(kind))
    cluster.kubectl("label", "node", "beside", "type-")
    until(lambda: len(agents(cluster)) == 2, "an agent beside it", LONG)
    rolled_out(cluster, LONG)
    assert open_to_training(guest.object())
    began = time.monotonic()

    kill_agent(cluster, guest)  # rollouts begin where an agent is not ready
    until(lambda: not container(agents(cluster)[NAME])["ready"], "its agent is not ready", LONG)
    before = agents(cluster)
    set_image(cluster, "failing")
    assert first_replaced(cluster, before, LONG) == NAME
    story.node.when(lambda told: condition(told)["reason"] == "VerdictChangedByUpgrade", "it says so", began)
    until(lambda: not container(agents(cluster)[NAME])["ready"], "the rollout has to wait", LONG)
    for _ in halted(cluster, before, NAME):
        why = guest.run("python3", "-c", ASK, f"http://127.0.0.1:{PORT}/readyz")
        assert why.startswith("503")
        assert "port.state" in why
        assert gate_files(guest) == GATES
    cluster.kubectl("-n", "nodeprep", "rollout", "undo", "daemonset/nodeprep")
    until(lambda: condition(guest.object())["reason"] == "Ready", "the former version finds no fault", LONG)
    rolled_out(cluster, LONG)
    seen = story.node.since(began)
    assert all(labelled(told) and UNHEALTHY not in taints(told) for told in seen)
    assert {condition(told)["status"] for told in seen} == {"True"}
    assert gate_files(guest) == GATES


# A worker that ends as NCCL's watchdog does: once its port is not ACTIVE any more.
WORKER = "until ! ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.2; done; echo the port is gone; exit 1"
JOB = {"job-name": "train"}


@pytest.mark.prove
def test_why_a_pod_of_a_job_ended(story: Story) -> None:
    """A job of two pods: a link goes down on the node of one of them, and the other node shows nothing."""
    cluster = story.cluster
    training.training_pod(cluster, "worker-0", JOB, WORKER, "Never")
    beside = {"nodeName": "beside", "hostNetwork": True, "containers": [PAUSE]}
    cluster.create(PODS, {"metadata": {"name": "worker-1", "labels": JOB}, "spec": beside})
    for name in ("worker-0", "worker-1"):
        until(lambda: story.runs(name), f"{name} runs", LONG)  # noqa: B023 - it is called at once
    cable(story, up=False)
    until(lambda: ended(cluster, "worker-0"), "the worker ended", LONG)
    cable(story, up=True)
    assert coincides(why(cluster, "worker-0"), "worker-0") < SOON
    said = why(cluster, "job/train")
    assert coincides(said, "worker-0") < SOON
    assert (said["quiet"], said["unknown"]) == (["beside"], {})


@pytest.mark.prove
def test_why_a_pod_ended_that_is_gone(story: Story) -> None:
    """Events say on which node it was, and when a kubelet ended it; of one that ended by itself, not when."""
    cluster = story.cluster
    training.training_pod(cluster, "worker-2", JOB)
    until(lambda: story.runs("worker-2"), "it runs", LONG)
    cable(story, up=False)
    cluster.kubectl("delete", "pod", "worker-0", "worker-2", f"--timeout={LONG:g}s")
    cable(story, up=True)
    said = why(cluster, "worker-2")
    assert said["pods"][0]["is_gone"]
    assert coincides(said, "worker-2") < SOON
    said = why(cluster, "worker-0", code=3)
    (pod,) = said["pods"]
    assert (pod["node"], pod["is_gone"], pod["ended"]) == (NAME, True, None)
    assert said["found"][0]["seconds"] is None
    assert said["found"][0]["words"].startswith("port.state ")


def cable(story: Story, *, up: bool) -> None:
    """Set the rail's link, and wait until the node says so."""
    began = time.monotonic()
    story.guest.run("ip", "link", "set", RAIL.netdev, "up" if up else "down")
    story.node.when(open_to_training if up else lambda told: not labelled(told), "the Node says so", began)


def coincides(said: Object, pod: str) -> float:
    """The seconds between the fault of the rail and the end of this pod, the first thing that was found."""
    first = said["found"][0]
    assert (first["node"], first["pod"]) == (NAME, pod)
    assert re.fullmatch(r"port\.state AdministrativelyDown roce\w+/1", first["words"])
    return abs(float(first["seconds"]))


def ended(cluster: Cluster, name: str) -> bool:
    return bool(cluster.call("GET", f"{PODS}/{name}")[1]["status"]["phase"] == "Failed")


def gate_files(guest: Guest) -> set[str]:
    return {name for name in guest.run("ls", "/run/nodeprep").split() if name.endswith((".device", ".ready"))}


def not_admitted(pod: Object) -> bool:
    """Whether the kubelet did not admit it, such as for a device that it had not heard of yet."""
    return bool(pod["status"].get("phase") == "Failed" and "Admission" in pod["status"].get("reason", ""))


def plugged_in(node: Object) -> bool:
    return advertised(node) == str(rdma_plugin.COUNT)


def waits(cluster: Cluster) -> bool:
    """Whether the plugin's init container runs."""
    told = (one["status"].get("initContainerStatuses", [{}])[0] for one in training.plugin_pods(cluster))
    return ["running" in one.get("state", {}) for one in told] == [True]
