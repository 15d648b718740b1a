"""imds.identity: the Node's providerID and labels against the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nodeprep.checks.imds.identity import CHECK
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, node_object
from tests.imds_values import NOT_ECS, imds, instance
from tests.values import changed, say, verdicts

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
LABELS = {TYPE: "ecs.g8i.4xlarge", ZONE: "cn-hangzhou-j"}
OWN = "cn-hangzhou.i-bp1exemplar"
NONE: Mapping[str, str] = {}
LATE = Unreadable(Why.TIMEOUT, "http://100.100.100.200/latest/api/token")
DOWN = Unreadable(Why.TIMEOUT, "https://10.0.0.1:6443/api/v1/nodes/x")


def labelled(provider_id: str, labels: dict[str, str]) -> Cluster:
    return cluster(node=changed(node_object(provider_id=provider_id, name="worker-1"), labels=labels))


def node(provider_id: str = OWN, labels: Mapping[str, str] = NONE) -> Cluster:
    """The node of `instance()`, with other labels beside its own or over them."""
    return labelled(provider_id, LABELS | dict(labels))


ROWS = [
    # Kubernetes                                            says
    (node(), "ok SameInstance"),
    (node(f"alicloud://{OWN}"), "ok SameInstance"),
    (node("cn-hangzhou.i-bp1other"), "fail OtherInstance"),
    (node("cn-shanghai.i-bp1exemplar"), "fail OtherInstance"),
    (node(OWN, {TYPE: "ecs.g8i.16xlarge"}), "warn OtherType"),
    (node(OWN, {ZONE: "cn-hangzhou-k"}), "warn OtherZone"),
    (
        node("cn-hangzhou.i-bp1other", {TYPE: "ecs.g7", ZONE: "cn-hangzhou-k"}),
        "fail OtherInstance; warn OtherType; warn OtherZone",
    ),
    (labelled("", {}), "absent Nothing"),
    (labelled("k3s://worker-1", {}), "absent Nothing"),
    (labelled("e01-ow037ccv4ux", {}), "absent Nothing"),
    (labelled("", {ZONE: "cn-hangzhou-j"}), "absent Nothing"),  # the cluster's own words
    (labelled("kubeadm://worker-1", {TYPE: "gpu-large", ZONE: "rack-1"}), "absent Nothing"),
    (labelled(OWN, {}), "ok SameInstance"),
    (node("cn-hangzhou.i-bp1other", {"alibabacloud.com/lingjun-worker": "true"}), "absent Nothing"),
]


@pytest.mark.parametrize(("said", "says"), ROWS)
def test_says(said: Cluster, says: str) -> None:
    assert say(CHECK, imds(), said) == says


BLIND = [
    # metadata                                     Kubernetes  says
    (NOT_ECS, node(), "absent Nothing"),
    (NOT_ECS, cluster(node=DOWN), "absent Nothing"),  # a user of another cloud sees no line of this one
    (imds(LATE, milliseconds=None), node(), "unknown CannotLook"),
    (imds(LATE, milliseconds=None), node(OWN, {"alibabacloud.com/lingjun-worker": "true"}), "absent Nothing"),
    (imds(), cluster(node=DOWN), "unknown CannotLook"),
    (imds(instance(zone=LATE)), node(), "unknown CannotLook"),
    (imds(instance(zone=LATE)), node("cn-hangzhou.i-bp1other"), "fail OtherInstance; unknown CannotLook"),
]


@pytest.mark.parametrize(("seen", "said", "says"), BLIND)
def test_says_where_one_book_is_missing(seen: Any, said: Cluster, says: str) -> None:
    assert say(CHECK, seen, said) == says


def test_messages() -> None:
    cloned, kind, zone = verdicts(
        CHECK, imds(), node("cn-hangzhou.i-bp1other", {TYPE: "ecs.g7", ZONE: "cn-hangzhou-k"})
    )
    assert cloned.message == (
        "the metadata says that this is cn-hangzhou.i-bp1exemplar, providerID of node worker-1 is "
        "'cn-hangzhou.i-bp1other': either --node (NODE_NAME) names another node (kubectl get nodes -o wide), or a disk "
        "image was cloned with another node's kubelet identity"
    )
    assert (cloned.observed, cloned.expected) == (OWN, "cn-hangzhou.i-bp1other")
    assert kind.message == (
        "the metadata says ecs.g8i.4xlarge, label node.kubernetes.io/instance-type of node worker-1 says 'ecs.g7': "
        "the instance was resized, or the label set by hand"
    )
    assert (zone.observed, zone.expected) == ("cn-hangzhou-j", "cn-hangzhou-k")
    (same,) = verdicts(CHECK, imds(), node())
    assert same.message == (
        "the metadata and Kubernetes agree: node worker-1 is i-bp1exemplar, ecs.g8i.4xlarge in cn-hangzhou-j"
    )
