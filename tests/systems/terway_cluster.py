"""A cluster of Terway nodes with the shipped agent in mode gate, for jobs that ask for a profile's label.

Each node registers with nodeprep's bootstrap taint, as a node pool of ACK is told to. In the place of Terway's pod
stands one of the same name and label, for Terway itself cannot be had here (tests/rigs/terway_node.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.kubernetes import shipped
from tests.kubernetes.shipped import BOOTSTRAP, Object
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_tools import BASE
from tests.rigs.terway_node import KINDS, Instance, TerwayNode
from tests.rigs.waiting import until

PROFILE = "nodeprep.io/profile."
COMPONENTS = ("alibaba", "terway")
# What convicts stands at its default. What proves and releases is short, and so are the periods of what nobody
# announces: pods, and the metadata service.
CONFIGURATION = """\
apiVersion: nodeprep.io/v1
kind: Config
mode: gate
default: {profile}
gate: {{profiles: [{profile}]}}
confirmation: {{passes: 2, pass-span: 2, pass-every: 1}}
every: {{cluster: 15, imds: 15, routes: 5, terway: 5}}
"""
TERWAY = "terway-eniip"
LONG = 300.0  # seconds


@dataclass
class Fleet:
    """A running cluster whose nodes are of Terway, by name."""

    cluster: Cluster
    nodes: dict[str, TerwayNode]

    def reason(self, name: str) -> str:
        """Why a node may not train, by its condition; "" if it may, or if no agent has spoken."""
        found = shipped.condition(self.nodes[name].node.object())
        return "" if found["status"] in ("True", "") else f"{found['reason']}: {found['message']}"

    def has(self, name: str, profile: str) -> bool:
        """Whether its label says that it is ready for this profile, and no taint of ours keeps pods away."""
        node = self.nodes[name].node.object()
        return node["metadata"]["labels"].get(PROFILE + profile) == "ready" and not shipped.taints(node)


@contextmanager
def fleet(instances: Mapping[str, Instance]) -> Iterator[Fleet]:
    """Nodes that registered, tainted, without an agent. Each has the pod that stands for Terway's.

    Raises:
        CannotStart: a program that it needs cannot be had here.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(controllers=True))
        for name, instance in instances.items():
            taints = [f"{BOOTSTRAP}=:NoSchedule"]
            cluster.add_node(name, taints, instance.labels(), flags=instance.flags(), wait=False)
        for node in cluster.nodes.values():
            node.wait_ready()
        nodes = {
            name: stack.enter_context(TerwayNode(cluster.nodes[name], instance)) for name, instance in instances.items()
        }
        cluster.create("/apis/apps/v1/namespaces/kube-system/daemonsets", terway())
        yield Fleet(cluster, nodes)


def terway() -> Object:
    labels = {"app": TERWAY}
    container = {"name": "terway", "image": BASE, "imagePullPolicy": "Never"}
    spec = {"hostNetwork": True, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": TERWAY}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def manifests(directory: Path, profile: str, *components: str) -> Path:
    """A user's own kustomization of the agent, which takes this rig's interfaces for NICs."""
    files = {"config.yaml": CONFIGURATION.format(profile=profile)}
    made = shipped.overlay(directory, files, *COMPONENTS, *components)
    kustomization = yaml.safe_load((made / "kustomization.yaml").read_text())
    kinds = {"name": "NODEPREP_PHYSICAL_KINDS", "value": KINDS}
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": kinds}]
    kustomization["patches"].append({"target": {"kind": "DaemonSet", "name": "nodeprep"}, "patch": json.dumps(patch)})
    (made / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return made


def ready(found: Fleet, profile: str, *names: str) -> None:
    """Returns when all of these nodes may take jobs of the profile."""
    until(lambda: all(found.has(name, profile) for name in names), f"{names} are ready for {profile}", LONG)
