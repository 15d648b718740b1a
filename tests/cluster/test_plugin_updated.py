"""A device plugin that was updated since the agent last looked at the node's pods, and bears the taint no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nodeprep.decide.conditions import TRAINING_READY
from nodeprep.decide.look_schedule import RECORD_VALIDITY_SECONDS
from tests.cluster.published_node import BUSY, DOWN, UNHEALTHY, UP, published, seconds
from tests.rigs.cluster import Cluster
from tests.rigs.netns_check import Checked, checked
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

PLUGIN = Path(__file__).resolve().parents[1] / "daemonset/upstream/rdma-shared-dp-ds.yaml"


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked(Shape(enis=1, pods=1)) as one:
        yield one


def plugin(cluster: Cluster, node: str, *, tolerant: bool) -> str:
    """The path of a pod as its controller would make it on this node."""
    template = yaml.safe_load(PLUGIN.read_text())["spec"]["template"]
    tolerations = [{"operator": "Exists"}] if tolerant else []
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "rdma-shared-dp-ds", "uid": "1", "controller": True}
    pods = "/api/v1/namespaces/kube-system/pods"
    name = f"rdma-shared-dp-ds-{'new' if tolerant else 'old'}"
    pod = {
        "metadata": {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": [owner]},
        "spec": {**template["spec"], "nodeName": node, "tolerations": tolerations},
    }
    cluster.create(pods, pod)
    return f"{pods}/{name}"


def test_the_taint_goes_and_comes_within_a_minute(cluster: Cluster, here: Checked, tmp_path: Path) -> None:
    """By the defaults the pods are looked at every 10 minutes, which is as old as what a taint rests on may be."""
    with published(cluster, here.node, tmp_path, "plugin-updated") as one:
        one.ready()
        old = plugin(cluster, one.name, tolerant=False)
        with here.fault(DOWN, UP):
            begun = time.monotonic()
            one.closed()
            until(lambda: UNHEALTHY not in one.taints(), "withdrawn taint", RECORD_VALIDITY_SECONDS + BUSY)
            print(f"intolerant: the taint was gone {seconds(begun):.1f} s after the fault")
            assert one.says().startswith("False "), "the gate stays closed"
            assert "kube-system/rdma-shared-dp-ds does not tolerate it" in one.conditions()[TRAINING_READY]["message"]
            assert not one.agent.gates()
            begun = time.monotonic()
            assert cluster.call("DELETE", f"{old}?gracePeriodSeconds=0")[0] == 200
            plugin(cluster, one.name, tolerant=True)
            until(lambda: UNHEALTHY in one.taints(), "taint, now that it is borne", RECORD_VALIDITY_SECONDS + BUSY)
            print(f"tolerant: the taint was there {seconds(begun):.1f} s later")
        one.ready()
