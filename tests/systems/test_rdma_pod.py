"""A pod with an RDMA device on a node whose link goes down: nodeprep keeps the next pod away, mends it, and tells it.

All of nodeprep is switched on: both DaemonSets in mode repair, preflight with its shipped rights, the history. The
machine has a kernel, a kubelet and a RoCE device of its own, and the plugin is upstream's. One story, told in order:
each test goes on where the one before it left the node. Nobody but the agent touches the link after it was set down.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from tests.cli.program import nodeprep
from tests.kubernetes import rdma_node, remediated, repaired, training
from tests.kubernetes.shipped import STATE, UNHEALTHY, Object, condition, taints
from tests.kubernetes.training import (
    LONG,
    PODS,
    RDMA_LABEL,
    Announced,
    advertised,
    announced,
    bound,
    gated,
    labelled,
    open_to_training,
    refused,
    running,
)
from tests.rigs import rdma_plugin
from tests.rigs.cluster import Cluster
from tests.rigs.guest import Guest
from tests.rigs.lab import RAIL
from tests.rigs.waiting import until
from tests.systems import outcomes, preflighted

DOCS = Path(__file__).parents[2] / "docs"
EXPECTED = f"  resources: {{{rdma_plugin.RESOURCE}: {rdma_plugin.COUNT}}}\n"
FAULT = "AdministrativelyDown"
NEAR = 60.0  # seconds; both are told by the guest's clock, and a busy emulated guest convicts seconds after the fault
# A worker that ends as NCCL's watchdog does: once its port is not ACTIVE any more.
WATCHDOG = "until ! ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.2; done; echo the port is gone; exit 1"
RIGHTS = (
    ("clusterrolebinding", "--clusterrole=nodeprep-preflight"),
    ("rolebinding", "--role=nodeprep-preflight", "-n", "nodeprep"),
)
pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]


@dataclass
class Moments:
    """When something was so: on the monotonic clock, 0 before it was."""

    down: float = 0.0  # the link was set down
    closed: float = 0.0  # we heard that the gate is closed
    opened: float = 0.0  # and that it is open again


@dataclass
class Story:
    """The node, what the API server says of it and of each pod, and moments by the clock that people read."""

    guest: Guest
    node: Announced
    directory: Path
    stack: ExitStack
    at: Moments
    submitter: Path  # a kubeconfig of somebody who has preflight's rights and no others
    pods: dict[str, Announced]
    clock: dict[str, str]

    @property
    def cluster(self) -> Cluster:
        return self.guest.cluster

    def pod(self, manifest: Object) -> Announced:
        """A new pod."""
        name = manifest["metadata"]["name"]
        self.pods[name] = self.stack.enter_context(announced(self.cluster, PODS, name))
        self.cluster.create(PODS, manifest)
        return self.pods[name]

    def preflight(self, manifest: Object, code: int) -> Object:
        """What preflight says of a pod that is not there yet, by its schema."""
        name, began = manifest["metadata"]["name"], time.monotonic()
        found, page, said = preflighted.preflight(self.cluster, self.directory, manifest, self.submitter)
        took = (time.monotonic() - began) / 2  # it is asked twice, for a person and for a program
        assert found == code
        keeps = [words for all_of_it in preflighted.obstacles(said, "pod").values() for words in all_of_it]
        self.tell(f"preflight of the {name} pod", took, "; ".join((page.partition(" ROLE ")[0], *keeps)))
        return said

    def tell(self, what: str, seconds: float, words: str = "") -> None:
        outcomes.record("rdma", what, seconds, words)


@pytest.fixture(scope="module")
def story(new_guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A healthy machine that just registered as a node: no plugin, no agent."""
    training.cleared(new_guest)
    assert new_guest.lab.restore() == ()
    new_guest.run("ip", "link", "set", RAIL.netdev, "mtu", str(rdma_node.MTU))
    cluster, directory = new_guest.cluster, tmp_path_factory.mktemp("story")
    cluster.kubectl("create", "serviceaccount", "submitter")
    submitter = cluster.kubeconfig({"token": cluster.token("default", "submitter")})
    with ExitStack() as stack:
        node = stack.enter_context(announced(cluster, "/api/v1/nodes", new_guest.name))
        yield Story(new_guest, node, directory, stack, Moments(), submitter, {}, {})


def test_the_first_pod_runs_and_sees_its_port(story: Story) -> None:
    cluster, began = story.cluster, time.monotonic()
    cluster.apply(training.plugin(story.directory / "plugin", "tolerations"))
    cluster.apply(rdma_node.manifests(story.directory / "own", EXPECTED, "preflight"))
    for kind, *words in RIGHTS:
        cluster.kubectl("create", kind, "submitter", "--serviceaccount=default:submitter", *words)
    remediated.rolled_out(cluster, LONG)
    opened = story.node.when(open_to_training, "the node is open", began)
    story.tell("all applied -> the node is open", opened - began)

    first = training.pod_manifest("first")
    said = story.preflight(first, 0)
    assert preflighted.refused(said, "pod") == {}
    created = time.monotonic()
    pod = story.pod(first)
    story.tell("first pod created -> bound", pod.when(bound, "it is bound") - created)
    story.tell("first pod created -> running", pod.when(running, "it runs") - created)
    outcomes.record("rdma", "ibv_devinfo in the first pod", None, sees_its_port(cluster, "first"))
    story.clock["open"] = now(story.guest)


def test_with_the_link_down_the_next_pod_waits(story: Story) -> None:
    """The plugin goes on advertising the device: only the gate keeps the pod away."""
    guest, node, second = story.guest, story.node, training.pod_manifest("second")
    worker = story.pod(training.pod_manifest("worker", script=WATCHDOG, again="Never"))
    worker.when(running, "it runs")
    # Before the command, which takes a moment in emulation: each leg is at most so long.
    story.at.down = down = time.monotonic()
    guest.run("ip", "link", "set", RAIL.netdev, "down")
    legs: dict[str, Callable[[Object], bool]] = {
        "the condition": lambda one: condition(one)["reason"] == FAULT,
        "the label is gone": lambda one: not labelled(one),
        "the taint is set": lambda one: UNHEALTHY in taints(one),
    }
    for leg, holds in legs.items():
        story.tell(f"link down -> {leg}", node.when(holds, leg, down) - down)
    story.at.closed = node.when(gated, "the gate is closed", down)

    said = story.preflight(second, 1)
    (found,) = preflighted.refused(said, "pod").values()
    assert [(one["kind"], one["about"]) for one in found] == [("taint", UNHEALTHY), ("affinity", RDMA_LABEL)]
    for one in found:
        assert one["finding"]["reason"] == FAULT, one
        assert RAIL.netdev in one["finding"]["message"]
    pod = story.pod(second)
    pod.when(lambda one: "untolerated taint" in refused(one), "the scheduler says why")
    outcomes.record("rdma", "the scheduler of the second pod", None, refused(pod.seen[-1][1]))


def test_the_agent_mends_it_and_the_next_pod_runs(story: Story) -> None:
    """Nobody touches it. The first pod, which holds the device all the while, is left alone."""
    node, at, cluster, pod = story.node, story.at, story.cluster, story.pods["second"]
    held = identity(story.pods["first"])
    repairing = node.when(lambda one: one["metadata"]["labels"].get(STATE) == "Repairing", "a remedy runs", at.down)
    story.clock["closed"] = now(story.guest)
    story.tell("link down -> a remedy runs", repairing - at.down)
    at.opened = node.when(open_to_training, "the gate is open", at.closed)
    story.tell("link down -> the gate is open again", at.opened - at.down)
    is_bound = pod.when(bound, "it is bound")
    revision = node.revision(at.opened)
    assert revision < pod.revision(is_bound)
    story.tell("the gate is open -> second pod bound", is_bound - at.opened)
    story.tell("the gate is open -> second pod running", pod.when(running, "it runs") - at.opened)
    outcomes.record("rdma", "ibv_devinfo in the second pod", None, sees_its_port(cluster, "second"))

    (play,) = [one for one in remediated.records(story.guest) if one["state"] != "began"]
    assert (play["remedy"], play["state"]) == ("link_up", "done")
    story.tell("the play of link_up", play["seconds"])
    assert (identity(story.pods["first"]), held[1]) == (held, 0)
    assert all(map(running, story.pods["first"].since(at.down)))
    assert sees_its_port(cluster, "first")
    assert all(advertised(one) == str(rdma_plugin.COUNT) for one in node.since(at.down))
    meanwhile = [one for one in node.since(at.closed)[1:] if int(one["metadata"]["resourceVersion"]) < revision]
    assert all(UNHEALTHY in taints(one) or not labelled(one) for one in meanwhile)
    assert preflighted.refused(story.preflight(training.pod_manifest("third"), 0), "pod") == {}
    story.clock["open again"] = now(story.guest)


def test_the_history_tells_it(story: Story) -> None:
    until(lambda: repaired.has_helped(story.cluster, story.guest.name), "the Event that it helped", LONG)
    for reason, message in repaired.told(story.cluster, story.guest.name):
        print(reason, message)
    text = asked(story.cluster, 0, "history", story.guest.name)
    (told,) = [line for line in text.splitlines() if f"port.state {FAULT}" in line]
    outcomes.record("rdma", "history", None, told)
    parts = ("gate closed", "repair link_up runs", "passes", "repair link_up helped", "gate open")
    assert re.search(".* -> ".join(("", *parts)), told), told
    for moment, code in (("open", 0), ("closed", 1), ("open again", 0)):
        said = asked(story.cluster, code, "history", story.guest.name, "--at", story.clock[moment])
        told, _, _ = said.partition("in the 30 minutes before")
        outcomes.record("rdma", f"history --at, when it was {moment}: exit code {code}", None, told)
    past = valid(
        asked(story.cluster, 1, "history", story.guest.name, "--at", story.clock["closed"], "-o", "json"), "history"
    )
    assert ("port.state", FAULT) in [(one["check"], one["reason"]) for one in past["open"]]


def test_why_says_what_the_worker_ended_with(story: Story) -> None:
    ended = story.pods["worker"].when(lambda one: one["status"].get("phase") == "Failed", "the worker ended")
    story.tell("link down -> the worker ended", ended - story.at.down)
    outcomes.record("rdma", "why", None, asked(story.cluster, 0, "why", "worker"))
    said = valid(asked(story.cluster, 0, "why", "worker", "-o", "json"), "why")
    first = said["found"][0]
    assert (first["node"], first["pod"]) == (story.guest.name, "worker")
    assert re.fullmatch(rf"port\.state {FAULT} roce\w+/1", first["words"])
    story.tell("why: between the fault and the end of the worker", float(first["seconds"]), first["words"])
    assert abs(float(first["seconds"])) < NEAR


def sees_its_port(cluster: Cluster, pod: str) -> str:
    state = training.port_of(cluster, pod)
    assert state == "PORT_ACTIVE"
    return state


def identity(pod: Announced) -> tuple[str, int]:
    """The uid of a pod that runs, and how often its container was started again."""
    found = pod.seen[-1][1]
    assert running(found)
    return found["metadata"]["uid"], found["status"]["containerStatuses"][0]["restartCount"]


def now(guest: Guest) -> str:
    """By the clock of the machine whose history is asked."""
    return guest.run("date", "-u", "+%Y-%m-%dT%H:%M:%SZ").strip()


def asked(cluster: Cluster, code: int, *words: str) -> str:
    """What nodeprep prints for whoever administers the cluster."""
    done = nodeprep(*words, KUBECONFIG=str(cluster.kubeconfig()))
    print(f"nodeprep {' '.join(words)}\n{done.stdout}{done.stderr}")
    assert done.returncode == code
    return done.stdout


def valid(text: str, kind: str) -> Object:
    """A document, by its schema."""
    said: Object = json.loads(text)
    jsonschema.validate(
        said, json.loads((DOCS / f"{kind}.schema.json").read_text()), cls=jsonschema.Draft202012Validator
    )
    return said
