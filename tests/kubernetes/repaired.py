"""Nodes in mode repair from the shipped manifests, faults that a remedy mends there, and what was said and done.

The nodes are native: they have no RDMA device. So their profile asks for what Terway needs, of which a node can lose
much, and a remedy of class S1 brings each back.
"""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes import remediated, shipped
from tests.kubernetes.remediated import REPAIR
from tests.kubernetes.shipped import LEASES, Object
from tests.rigs.cluster import Cluster, Node
from tests.rigs.cluster_tools import BASE
from tests.rigs.guest import Guest

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
RECORDS = "/var/lib/cni/terway"  # without it terway.directories fails, and terway_dirs makes it
PROFILE = """apiVersion: nodeprep.io/v1
kind: Profile
name: terway-node
gates: [terway.directories, terway.bpffs]
"""
# Terway's own numbers are those of a node that boots; here a look each second is to tell, and one is enough.
CONFIGURATION = """apiVersion: nodeprep.io/v1
kind: Config
mode: repair
default: terway-node.yaml
gate: {profiles: [terway-node]}
every: {terway: 1, cni: 2, links: 1}
repair: {deadline: {safe: 600}}  # on a busy machine a play of seconds takes minutes
"""
QUICK = """confirmation: {passes: 2, pass-span: 2, pass-every: 1, slow: {fails: 1, of: 1, apart: 0, span: 0}}
"""


def manifests(directory: Path, more: str = QUICK, *components: str) -> Path:
    """A user's own kustomization: both DaemonSets in mode repair, with the profile of these nodes."""
    files = {"config.yaml": CONFIGURATION + more, "terway-node.yaml": PROFILE}
    return shipped.overlay(directory, files, "terway", REPAIR, *components)


def whole(node: Node) -> None:
    """The node has what Terway needs, and a link of its data path."""
    node.run("mkdir", "-p", "-m", "0700", RECORDS, "/run/eni")
    node.run("sh", "-c", "printf 'datapath = datapathv2\\n' >/run/eni/node_capabilities")
    node.run("sh", "-c", "mountpoint -q /sys/fs/bpf || mount -t bpf bpffs /sys/fs/bpf")
    node.run("sh", "-c", "ip link show cilium_net >/dev/null 2>&1 || ip link add cilium_net type bridge")


def lose_records(node: Node) -> None:
    node.run("rm", "-r", RECORDS)


def waiting_pod(cluster: Cluster, name: str) -> None:
    """A job's pod that tolerates nothing: it is bound where no gate is closed."""
    spec = {
        "containers": [{"name": "trainer", "image": BASE, "imagePullPolicy": "Never"}],
        "terminationGracePeriodSeconds": 0,
    }
    cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.call("GET", f"{PODS}/{name}")[1]["status"]["phase"])


def state(node: Node) -> str:
    return str(node.object()["metadata"].get("labels", {}).get(shipped.STATE, ""))


def told(cluster: Cluster, node: str) -> list[tuple[str, str]]:
    """Reason and message of the Events about repairs of a Node, oldest first."""
    items = cluster.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name%3D{node}")[1]["items"]
    ours = [one for one in items if one["reason"].startswith("Repair")]
    ours.sort(key=lambda one: (one["firstTimestamp"], int(one["metadata"]["resourceVersion"])))
    return [(one["reason"], one["message"]) for one in ours]


def has_helped(cluster: Cluster, node: str, times: int = 1) -> bool:
    """Whether its Events say so: they are posted after the gate is open."""
    return [reason for reason, _ in told(cluster, node)].count("RepairHelped") == times


def lease(cluster: Cluster, name: str) -> Object:
    return dict(cluster.call("GET", f"{LEASES}/{name}")[1])


def holder(cluster: Cluster, slot: str) -> str:
    return str((lease(cluster, slot).get("spec") or {}).get("holderIdentity") or "")


def runs(node: Node | Guest) -> list[tuple[str, str]]:
    """Remedy and end of what the remediator's ledger says was done, in its order."""
    return [(one["remedy"], one["state"]) for one in remediated.records(node) if one["state"] != "began"]
