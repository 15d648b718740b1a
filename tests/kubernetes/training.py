"""Training pods that want an RDMA port of the guest, the plugin that gives them one, and what is said of both."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import yaml

from tests.kubernetes.shipped import DAEMONSET, TRAINING_READY, Object, condition, taints
from tests.rigs import images, rdma_plugin
from tests.rigs.cluster import Cluster
from tests.rigs.guest import Guest
from tests.rigs.waiting import until

MANIFEST = Path(__file__).resolve().parents[2] / "docs/jobs/rdma-pod.yaml"
RDMA_LABEL = "feature.node.kubernetes.io/network-rdma.capable"
SLEEPS = "exec sleep 2147483647"
PODS = "/api/v1/namespaces/default/pods"
PLUGIN = "rdma-shared-dp-ds"
PLUGINS = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{PLUGIN}"
TOLERATES_GATE = "plugin.tolerates-gate"
LONG = 600.0  # seconds; the guest is emulated, beside whatever else this machine does
REPORT = (
    "from nodeprep.cli.daemon.agent_socket import ask; "
    'print(ask("/run/nodeprep-agent/agent.sock", "GET", "/report").text)'
)


@dataclass
class Announced:
    """What a watch of the API server said, oldest first: the monotonic time when we heard of it, and the object."""

    seen: list[tuple[float, Object]] = field(default_factory=list)
    over: bool = False  # nobody tells us any more

    def when(self, holds: Callable[[Object], bool], what: str, since: float = 0.0, seconds: float = LONG) -> float:
        """When it was first said, at `since` or later, that something holds; it is waited for.

        Raises:
            TimeoutError: it was not said in time; with what was said last.
        """

        def found() -> float:
            return next((at for at, one in list(self.seen) if at >= since and holds(one)), 0.0)

        try:
            return until(found, what, seconds)
        except TimeoutError as error:
            last = [(one["spec"], one["status"]) for _, one in self.seen[-1:]]
            raise TimeoutError(f"{error}, but {last}") from None

    def since(self, at: float) -> list[Object]:
        """What stood at a time, and every change of it from then on."""
        before = [one for then, one in list(self.seen) if then < at]
        return [*before[-1:], *(one for then, one in list(self.seen) if then >= at)]

    def revision(self, at: float) -> int:
        """Of the store, for what was heard at a time: it tells which of two objects changed first.

        When we heard of them does not: each is followed by a thread of its own.
        """
        return next(int(one["metadata"]["resourceVersion"]) for then, one in list(self.seen) if then == at)


@contextmanager
def announced(cluster: Cluster, path: str, name: str = "", labels: str = "") -> Iterator[Announced]:
    """Follows one object of a list by its name, or several by "key=value", from now on, for a day at most."""
    said, link = Announced(), cluster.link()
    link.timeout = None
    fields = f"metadata.name={name}" if name else ""
    chosen = urlencode({"fieldSelector": fields, "labelSelector": labels})
    # Left to itself, the server ends a watch after half an hour or more.
    link.request("GET", f"{path}?watch=1&timeoutSeconds=86400&{chosen}")
    answer = link.getresponse()

    def follow() -> None:
        # The other thread ends the connection where we read.
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            for line in answer:
                said.seen.append((time.monotonic(), json.loads(line)["object"]))
        said.over = True

    thread = Thread(target=follow)
    thread.start()
    try:
        yield said
    finally:
        if link.sock is not None:
            link.sock.shutdown(2)
        thread.join()
        link.close()


def trains(node: Object) -> bool:
    return bool(condition(node, TRAINING_READY)["status"] == "True")


def labelled(node: Object) -> bool:
    return bool(node["metadata"]["labels"].get(RDMA_LABEL) == "true")


def advertised(node: Object) -> str:
    """How many of its RDMA ports pods may have."""
    return str(node["status"].get("allocatable", {}).get(rdma_plugin.RESOURCE, ""))


def gated(node: Object) -> bool:
    return bool(taints(node)) and not labelled(node)


def open_to_training(node: Object) -> bool:
    return trains(node) and labelled(node) and not taints(node)


def bound(pod: Object) -> bool:
    return any(one["type"] == "PodScheduled" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def refused(pod: Object) -> str:
    """What the scheduler says of a pod that fits nowhere, "" if it says nothing."""
    told = (one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled")
    return next((str(one["message"]) for one in told if one.get("reason") == "Unschedulable"), "")


def running(pod: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def training_pod(
    cluster: Cluster, name: str, labels: Mapping[str, str] | None = None, script: str = SLEEPS, again: str = "Always"
) -> None:
    """Creates the pod of `pod_manifest`."""
    cluster.create(PODS, pod_manifest(name, labels, script, again))


def pod_manifest(
    name: str, labels: Mapping[str, str] | None = None, script: str = SLEEPS, again: str = "Always"
) -> Object:
    """The pod of docs/jobs/rdma-pod.yaml, which asks for a node that is capable of RDMA and for a port; it runs this.

    `again` is its restartPolicy.
    """
    made: Object = yaml.safe_load(MANIFEST.read_text())
    made["metadata"] = {"name": name, "labels": dict(labels or {})}
    made["spec"] |= {"terminationGracePeriodSeconds": 0, "restartPolicy": again}
    (container,) = made["spec"]["containers"]
    container |= {"image": rdma_plugin.IMAGE, "command": ["sh", "-c", script]}
    return made


def port_of(cluster: Cluster, pod: str) -> str:
    """The state of the port as the pod's own libibverbs has it, such as "PORT_ACTIVE"."""
    lines = (line.split() for line in cluster.kubectl("exec", pod, "--", "ibv_devinfo").splitlines())
    return next(words[1] for words in lines if words[:1] == ["state:"])


def cleared(guest: Guest) -> None:
    """Take away what the module before had: our namespace, the plugin, the pods of jobs, and other nodes."""
    cluster = guest.cluster
    for words in (("namespace", "nodeprep"), ("-n", "kube-system", "daemonset", PLUGIN), ("pods", "--all")):
        cluster.kubectl("delete", "--ignore-not-found", f"--timeout={LONG:g}s", *words)
    # Else what this plugin advertised would be taken for the word of the next one.
    until(lambda: advertised(guest.object()) in {"", "0"}, "the kubelet saw the plugin end", LONG)
    for other in [name for name in cluster.nodes if name != guest.name]:
        cluster.nodes.pop(other).kill()
        cluster.kubectl("delete", "node", other)


def plugins_wanted(cluster: Cluster) -> int:
    """On how many nodes the DaemonSet controller wants the plugin, as soon as it has looked."""
    status = until(lambda: observed(cluster.call("GET", PLUGINS)[1]), "the controller saw the plugin's DaemonSet", LONG)
    return int(status["desiredNumberScheduled"])


def observed(daemonset: Object) -> Object:
    """Its status, {} before the controller looked at it."""
    status: Object = daemonset.get("status", {})
    return status if "observedGeneration" in status else {}


def plugin_pods(cluster: Cluster) -> list[Object]:
    return list(cluster.call("GET", f"/api/v1/namespaces/kube-system/pods?labelSelector=name%3D{PLUGIN}")[1]["items"])


def plugin(directory: Path, *components: str) -> Path:
    """The plugin as upstream ships it, with components of ours: the kustomization of one who runs both."""
    directory.mkdir(exist_ok=True)
    (directory / "plugin.yaml").write_text(rdma_plugin.manifest())
    parts = (DAEMONSET / "components" / one for one in components)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["plugin.yaml"],
        "components": [os.path.relpath(one, directory.resolve()) for one in parts],
        "images": [{"name": "nodeprep", "newName": images.REPOSITORY, "newTag": "dev"}],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def agent_says(guest: Guest, check: str) -> str:
    """The reason of a check's finding in the agent's last report, "" where it has none.

    Nor where there is no answer: an emulated agent that is busy may need more than the 5 s that a request has.
    """
    told = json.loads(guest.run("python", "-c", REPORT, check=False) or "{}").get("report")
    return next((str(one["reason"]) for one in (told or {}).get("findings", []) if one["check"] == check), "")


def to_paste(cluster: Cluster) -> Sequence[str]:
    """The words of the kubectl command that `kubectl exec DAEMONSET -- nodeprep check` gives for the plugin.

    Raises:
        TimeoutError: it gives none. An emulated API client may miss its deadline of 5 s, so it is asked again.
    """
    words = ("exec", "daemonset/nodeprep", "--", "nodeprep", "check", "-o", "json")
    command = (cluster.directory / "bin/kubectl", "-n", "nodeprep", *words)
    environment = {**os.environ, **cluster.environment()}

    def found() -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        findings = json.loads(done.stdout or '{"findings": []}')["findings"]
        message = next((str(one["message"]) for one in findings if one["check"] == TOLERATES_GATE), "")
        return message.partition(": kubectl ")[2]

    return shlex.split(until(found, f"nodeprep check says what to paste for {TOLERATES_GATE}", LONG))
