"""A fleet as its agents leave it on a real API server, and `nodeprep nodes` for it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

from tests.cli.program import nodeprep
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/nodeprep/leases"
POOL = "test-nodes"  # the label of the Nodes here: others' tests leave theirs in the same cluster
SLACK = 120.0  # seconds that a busy machine may take
TAINT = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}


RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
]


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def condition(status: str, reason: str) -> dict[str, Any]:
    times = {"lastTransitionTime": ago(300)[:19] + "Z", "lastHeartbeatTime": ago(30)[:19] + "Z"}
    return {"type": "nodeprep.io/TrainingReady", "status": status, "reason": reason, "message": "as said", **times}


def node(cluster: Cluster, name: str, state: str = "Ready", *, renewed: float | None = 10, gpus: str = "8") -> None:
    """A Node as its agent leaves it, with the agent's Lease; None: without one."""
    if renewed is not None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 180, "renewTime": ago(renewed)}
        cluster.create(LEASES, {"metadata": {"name": f"agent-{name}"}, "spec": spec})
    ready = state == "Ready"
    profile = {"nodeprep.io/profile.rdma-roce": "ready"} if ready else {}
    own = condition("True", "Ready") if ready else condition("False", "NoSignal")
    conditions = [{"type": "Ready", "status": "True", "reason": "a", "message": "b"}, own]
    cluster.create(
        NODES,
        {
            "metadata": {"name": name, "labels": {"pool": POOL, "nodeprep.io/state": state, **profile}},
            "spec": {} if ready else {"taints": [TAINT]},
            "status": {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": conditions},
        },
    )


def say(cluster: Cluster, name: str, status: str, reason: str) -> None:
    """What an agent would write of its Node."""
    code, told = cluster.call("GET", f"{NODES}/{name}")
    assert code == 200
    others = [one for one in told["status"]["conditions"] if not one["type"].startswith("nodeprep.io/")]
    patch = {"status": {"conditions": [*others, condition(status, reason)]}}
    code, told = cluster.call("PATCH", f"{NODES}/{name}/status", patch)
    assert code == 200, told


@contextmanager
def few_nodes(cluster: Cluster) -> Iterator[None]:
    """One ready, one not, one whose agent fell silent, one without an agent; three GPUs of the first are in use."""
    cluster.namespace("nodeprep")
    node(cluster, "fleet-1")
    node(cluster, "fleet-2", "Unhealthy")
    node(cluster, "fleet-3", renewed=603)
    cluster.create(NODES, {"metadata": {"name": "fleet-4", "labels": {"pool": POOL}}})
    for name, count, phase in (("a", 1, "Running"), ("b", 2, "Pending"), ("done", 4, "Succeeded")):
        one = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        spec = {"nodeName": "fleet-1", "containers": [one]}
        pod = {"metadata": {"name": f"fleet-{name}"}, "spec": spec, "status": {"phase": phase}}
        cluster.create("/api/v1/namespaces/default/pods", pod)
    try:
        yield
    finally:
        clear(cluster)


def clear(cluster: Cluster) -> None:
    for path in (f"{NODES}?labelSelector=pool%3D{POOL}", LEASES):
        assert cluster.call("DELETE", path)[0] == 200
    for name in ("a", "b", "done"):
        cluster.call("DELETE", f"/api/v1/namespaces/default/pods/fleet-{name}?gracePeriodSeconds=0")


def nodes(cluster: Cluster, *words: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
    return nodeprep("nodes", *words, KUBECONFIG=str(file or cluster.kubeconfig()), HOME="/nonexistent")


def cells(text: str) -> list[list[str]]:
    """Of each line but the header: name, state, profiles, reason, free GPUs."""
    lines = [line.split() for line in text.splitlines()[1:]]
    return [[*line[:4], line[5]] for line in lines]


def asked(cluster: Cluster, name: str, before: str = "") -> str:
    """What stands there as the wish of a human, once it is another than `before`."""

    def wish() -> str:
        annotations = cluster.call("GET", f"{NODES}/{name}")[1]["metadata"].get("annotations", {})
        found = str(annotations.get("nodeprep.io/reset", ""))
        return found if found != before else ""

    return until(wish, f"a reset of {name} is asked for")


def later(act: Callable[[], object], seconds: float = 2.0) -> Thread:
    """Do it in a while, as a node of the cluster would."""

    def wait_and_act() -> None:
        signal.sigtimedwait((), seconds)
        act()

    thread = Thread(target=wait_and_act)
    thread.start()
    return thread
