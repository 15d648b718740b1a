"""nodeprep as its users install it, on the rig's nodes: the shipped manifests and the image that is built here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, Any

import yaml

from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import tools
from tests.rigs.ending import ending
from tests.rigs.guest import Guest
from tests.rigs.images import REPOSITORY
from tests.rigs.repeating import repeating
from tests.rigs.waiting import SECONDS, until

Object = dict[str, Any]

DAEMONSET = Path(__file__).resolve().parents[2] / "daemonset"
LAB = DAEMONSET / "overlays/lab"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"
PODS = "/api/v1/namespaces/nodeprep/pods"
UNHEALTHY, BOOTSTRAP = "nodeprep.io/unhealthy", "nodeprep.io/bootstrap"
STATE, TRAINING_READY = "nodeprep.io/state", "nodeprep.io/TrainingReady"
PORT = 9842
# The default asks for passes over 30 s; a test that is about something else should not wait for them.
QUICK = "confirmation: {passes: 2, pass-span: 2, pass-every: 1}"
# A plugin of the pods' network: without it nothing here breaks at once, and cni.binaries fails.
PROGRAM = "/opt/cni/bin/ptp"
LOOKS = "every: {cni: 2}"  # nothing tells of a program that goes, and the default is to look each 30 s
# Seconds for which a rollout wants an agent Ready; the second where a test is not about how long it waits.
MIN_READY = int(yaml.safe_load((DAEMONSET / "base/daemonset.yaml").read_text())["spec"]["minReadySeconds"])
SETTLE = 5
# The agent gives a client 5 s. Where both stood still for as long it drops it unanswered, so it is asked again.
ASK = """import http.client, sys, urllib.error, urllib.request
for last in (False, False, True):
    try:
        answer = urllib.request.urlopen(sys.argv[1], timeout=10)
    except urllib.error.HTTPError as error:
        answer = error
    except (ConnectionError, http.client.HTTPException):
        if last:
            raise
        continue
    print(answer.status, answer.read().decode())
    break
"""


def configuration(*lines: str) -> str:
    """Mode gate, and base sets the taint: these nodes have no RDMA."""
    return "\n".join(("apiVersion: nodeprep.io/v1", "kind: Config", "mode: gate", "gate: {profiles: [base]}", *lines))


def overlay(directory: Path, files: dict[str, str], *components: str) -> Path:
    """A user's own kustomization on top of overlays/lab: the files of the configuration, and components by name.

    A rollout goes on to the next agent after SETTLE seconds.
    """
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(f"{text}\n")
    parts = (DAEMONSET / "components" / one for one in components)
    settings = {"name": "nodeprep-config", "namespace": "nodeprep", "behavior": "replace", "files": list(files)}
    patch = [{"op": "replace", "path": "/spec/minReadySeconds", "value": SETTLE}]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(LAB, directory.resolve())],
        "components": [os.path.relpath(one, directory.resolve()) for one in parts],
        "configMapGenerator": [settings],
        "patches": [{"target": {"kind": "DaemonSet", "name": "nodeprep"}, "patch": yaml.safe_dump(patch)}],
        "images": [
            {"name": "nodeprep", "newName": REPOSITORY, "newTag": "dev"},  # of components; overlays/lab has its own
            {"name": "nodeprep-repair", "newName": f"{REPOSITORY}-repair", "newTag": "dev"},
        ],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def install(cluster: Cluster, manifests: Path, image: Path) -> None:
    """Returns when the rollout is done, as a user would wait for it."""
    load(cluster, image)
    cluster.apply(manifests)
    rolled_out(cluster)


def load(cluster: Cluster, image: Path) -> None:
    for node in cluster.nodes.values():
        node.import_image(image)


def rolled_out(cluster: Cluster, seconds: float = SECONDS) -> None:
    """Returns once every node has the present agent, Ready for as long as a rollout wants.

    Raises:
        RuntimeError: not within these seconds; with what kubectl says of the agents, and what they said last.
    """
    ours = ("-n", "nodeprep")
    try:
        cluster.kubectl(*ours, "rollout", "status", "daemonset/nodeprep", f"--timeout={seconds:g}s")
    except RuntimeError as error:
        said = [cluster.kubectl(*ours, "describe", "pods"), cluster.kubectl("get", "nodes", "--output", "yaml")]
        for name, pod in agents(cluster).items():
            with suppress(RuntimeError):  # it does not run
                words = ("exec", pod["metadata"]["name"], "--", "python3", "-c", ASK, f"http://127.0.0.1:{PORT}/readyz")
                said += [name, cluster.kubectl(*ours, *words)]
            with suppress(RuntimeError):
                said += [cluster.kubectl(*ours, "logs", "--tail=60", pod["metadata"]["name"])]
        raise RuntimeError("\n".join((str(error), *said))) from None


def set_image(cluster: Cluster, kind: str) -> None:
    cluster.kubectl("-n", "nodeprep", "set", "image", "daemonset/nodeprep", f"agent={REPOSITORY}:{kind}")


def settle_for(cluster: Cluster, seconds: int) -> None:
    """From now on a rollout wants an agent to be Ready for so long before it goes on to the next."""
    words = ("patch", "daemonset", "nodeprep", "--patch", json.dumps({"spec": {"minReadySeconds": seconds}}))
    cluster.kubectl("-n", "nodeprep", *words)


def agents(cluster: Cluster, component: str = "agent") -> dict[str, Object]:
    """The agents' pods by node; one that is being deleted does not count, nor one that is not yet bound.

    With component "repair" they are the remediators'.
    """
    items = cluster.call("GET", f"{PODS}?labelSelector=app.kubernetes.io/component%3D{component}")[1]["items"]
    there = (one for one in items if "deletionTimestamp" not in one["metadata"])
    return {one["spec"]["nodeName"]: one for one in there if "nodeName" in one["spec"]}


def container(pod: Object) -> Object:
    """The status of its only container, {} while there is none."""
    return next(iter(pod["status"].get("containerStatuses", [])), {})


@contextmanager
def broken(node: Node) -> Iterator[None]:
    """A fault that a gate check of base finds."""
    node.run("mv", PROGRAM, f"{PROGRAM}.away")
    try:
        yield
    finally:
        node.run("mv", f"{PROGRAM}.away", PROGRAM)


def first_process(cluster: Cluster, node: Node | Guest, component: str = "agent") -> str:
    """The number of its agent's process on the node."""
    identity = container(agents(cluster, component)[node.name])["containerID"].removeprefix("containerd://")
    rows = node.run(str(tools() / "root/usr/bin/ctr"), "-n", "k8s.io", "tasks", "ls").splitlines()
    (pid,) = (row.split()[1] for row in rows if row.startswith(identity))
    return pid


def kill_agent(cluster: Cluster, node: Node | Guest, component: str = "agent") -> None:
    """SIGKILL to the first process of its container, as the kernel does where memory is short."""
    node.run("kill", "-KILL", first_process(cluster, node, component))


def memory(cluster: Cluster, node: Node | Guest) -> tuple[int, int]:
    """The most bytes that its agent's container has had, page cache and `kubectl exec` included, and its limit."""
    lines = node.run("cat", f"/proc/{first_process(cluster, node)}/cgroup").splitlines()
    paths = {kind: path for _, kinds, path in (line.split(":", 2) for line in lines) for kind in kinds.split(",")}
    if "memory" in paths:  # a hierarchy of version 1
        directory, files = f"/sys/fs/cgroup/memory{paths['memory']}", ("max_usage_in_bytes", "limit_in_bytes")
    else:
        directory, files = f"/sys/fs/cgroup{paths['']}", ("peak", "max")
    most, limit = (int(node.run("cat", f"{directory}/memory.{file}")) for file in files)
    return most, limit


def page(node: Node, path: str) -> tuple[int, str]:
    """What its agent serves on the node's loopback."""
    status, _, body = node.run(sys.executable, "-I", "-c", ASK, f"http://127.0.0.1:{PORT}{path}").partition(" ")
    return int(status), body


def metrics(node: Node) -> dict[str, float]:
    """By the name with its labels, as it is written."""
    lines = (line.rpartition(" ") for line in page(node, "/metrics")[1].splitlines() if line and line[0] != "#")
    return {name: float(value) for name, _, value in lines}


def gates(node: Node) -> set[str]:
    """The files that open gates in its present boot."""
    found = set()
    for path in node.path("/run/nodeprep").glob("*.*"):
        if path.suffix in (".device", ".ready"):
            with suppress(FileNotFoundError):  # closed meanwhile
                found |= {path.name} if node.boot_id in path.read_text() else set()
    return found


def taints(node: Object) -> dict[str, str]:
    """Those of ours with their values."""
    found = node["spec"].get("taints", [])
    return {one["key"]: one.get("value", "") for one in found if one["key"] in (UNHEALTHY, BOOTSTRAP)}


def condition(node: Object, kind: str = TRAINING_READY) -> Object:
    found = (one for one in node.get("status", {}).get("conditions", []) if one["type"] == kind)
    return next(found, {"status": "", "reason": "", "message": ""})


def is_ready(node: Node) -> bool:
    found = node.object()
    return condition(found)["status"] == "True" and not taints(found)


def ours(node: Object) -> list[str]:
    """All names on it that are nodeprep's."""
    metadata = node["metadata"]
    names = [*metadata.get("labels", {}), *metadata.get("annotations", {})]
    names += [one["key"] for one in node["spec"].get("taints", [])]
    names += [one["type"] for one in node["status"].get("conditions", [])]
    return sorted(name for name in names if "nodeprep" in name or "rdma" in name)


@dataclass
class Watched:
    """What happened while we looked: each change of a Node and when we heard of it, gate files that were not there.

    Times are `time.time()`.
    """

    nodes: list[tuple[float, Object]] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def tainted(self) -> set[str]:
        return {node["metadata"]["name"] for _, node in self.nodes if UNHEALTHY in taints(node)}

    def is_up_to(self, versions: Mapping[str, int]) -> bool:
        """Whether each of these Nodes was seen with this resource version or a newer one."""
        newest = {one["metadata"]["name"]: _version(one) for _, one in self.nodes}
        return all(newest.get(name, -1) >= version for name, version in versions.items())


def _version(one: Object) -> int:
    return int(one["metadata"]["resourceVersion"])


def _versions(cluster: Cluster) -> dict[str, int]:
    nodes = json.loads(cluster.kubectl("get", "nodes", "--output", "json"))["items"]
    return {node["metadata"]["name"]: _version(node) for node in nodes}


@contextmanager
def watched(cluster: Cluster, nodes: Sequence[Node] = ()) -> Iterator[Watched]:
    """Watches all Nodes, every change of them, and fifty times a second the gates of `nodes` that are open now.

    At its end the watch has shown each Node as it is then.
    """
    seen = Watched()
    words = ("get", "nodes", "--watch", "--output", "json")
    command = (cluster.directory / "bin/kubectl", *words)
    environment = {**os.environ, **cluster.environment()}
    wanted = [node.path(f"/run/nodeprep/{name}") for node in nodes for name in gates(node)]

    def look() -> None:
        seen.missing |= {str(path) for path in wanted if not path.exists()}

    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)) as watch:
        assert watch.stdout is not None
        following = Thread(target=_follow, args=(watch.stdout, seen))
        following.start()
        try:
            with repeating(look, 0.02):
                until(partial(seen.is_up_to, _versions(cluster)), "the watch shows every Node")
                yield seen
                # On a busy machine it tells late what a GET has shown long ago.
                until(partial(seen.is_up_to, _versions(cluster)), "the watch shows every Node as it is now")
        finally:
            watch.kill()
            following.join()


def _follow(stream: IO[str], seen: Watched) -> None:
    """Each object that kubectl writes, which ends with a brace at the start of a line."""
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line == "}\n":
            seen.nodes.append((time.time(), json.loads("".join(lines))))
            lines.clear()
