"""What of ours stands on a Node and what takes it off; whom our taints lock out."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.plugin.tolerates_gate import Want
from nodeprep.cli.nodes import lint
from nodeprep.decide.desired import GatePolicy
from nodeprep.publish import node_object, node_patches
from nodeprep.publish.node_object import WrittenNode

NAMES = GatePolicy()
THEIRS = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
OURS = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}
BOOTSTRAP = {"key": "nodeprep.io/bootstrap", "effect": "NoSchedule"}


def node() -> WrittenNode:
    told: dict[str, Any] = {
        "metadata": {
            "name": "n1",
            "resourceVersion": "42",
            "labels": {
                "nodeprep.io/state": "Unhealthy",
                "nodeprep.io/profile.base": "ready",
                "nodeprep.io/pool": "a human's",
                "feature.node.kubernetes.io/network-rdma.capable": "true",
                "pool": "a100",
            },
            "annotations": {
                "agent.nodeprep.io/profiles": "rdma-roce",
                "nodeprep.io/reset": "1",
                "nodeprep.io/pause": "us",
                "a": "b",
            },
        },
        "spec": {"unschedulable": True, "taints": [THEIRS, OURS, BOOTSTRAP, {**OURS, "effect": "PreferNoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready"}, {"type": "nodeprep.io/TrainingReady"}, {"type": "nodeprep.io/OfOld"}]
        },
    }
    return WrittenNode.of(told)


def test_all_of_ours_goes_and_nothing_of_others() -> None:
    found = node_object.owned_parts(node(), NAMES, for_good=True)
    assert found.taints == ("nodeprep.io/unhealthy", "nodeprep.io/bootstrap")
    assert "nodeprep.io/pool" not in found.labels
    assert node_patches.removal_from_node(node(), found, None) == {
        "metadata": {
            "resourceVersion": "42",
            "annotations": {"agent.nodeprep.io/profiles": None, "nodeprep.io/pause": None, "nodeprep.io/reset": None},
            "labels": {
                "feature.node.kubernetes.io/network-rdma.capable": None,
                "nodeprep.io/profile.base": None,
                "nodeprep.io/state": None,
            },
        },
        "spec": {"taints": [THEIRS]},
    }
    patch = node_patches.removal_from_status(found)
    assert patch == {
        "status": {
            "conditions": [
                {"$patch": "delete", "type": "nodeprep.io/TrainingReady"},
                {"$patch": "delete", "type": "nodeprep.io/OfOld"},
            ]
        }
    }


def test_for_a_time_a_humans_pause_stays_and_the_agent_is_told() -> None:
    found = node_object.owned_parts(node(), NAMES, for_good=False)
    patch = node_patches.removal_from_node(node(), found, "now")
    assert patch is not None
    assert patch["metadata"]["annotations"] == {
        "agent.nodeprep.io/profiles": None,
        "nodeprep.io/reset": None,
        "nodeprep.io/released": "now",
    }


def test_what_was_released_before_keeps_its_time() -> None:
    seen = WrittenNode.of({"metadata": {"annotations": {"nodeprep.io/released": "before"}}})
    found = node_object.owned_parts(seen, NAMES, for_good=False)
    assert node_patches.removal_from_node(seen, found, "now") is None
    assert node_object.owned_parts(seen, NAMES, for_good=True).annotations == ("nodeprep.io/released",)


def test_a_node_without_us_is_not_written_to() -> None:
    seen = WrittenNode.of({"metadata": {"labels": {"pool": "a"}}, "spec": {"taints": [THEIRS]}})
    found = node_object.owned_parts(seen, NAMES, for_good=True)
    assert not found
    assert node_patches.removal_from_node(seen, found, None) is None
    assert node_patches.removal_from_status(found) is None


def test_other_names_are_other_keys() -> None:
    names = GatePolicy(unhealthy_taint="example.com/broken", rdma_label="example.com/rdma")
    found = node_object.owned_parts(node(), names, for_good=True)
    assert found.taints == ("nodeprep.io/bootstrap",)
    assert found.labels == ("nodeprep.io/profile.base", "nodeprep.io/state")


def daemon_set(path: str = "/var/lib/kubelet/device-plugins", tolerations: list[Any] | None = None) -> dict[str, Any]:
    mount = {"name": "c", "volumeMounts": [{"name": "host", "mountPath": "/x"}]}
    spec: dict[str, Any] = {"containers": [mount], "volumes": [{"name": "host", "hostPath": {"path": path}}]}
    if tolerations is not None:
        spec["tolerations"] = tolerations
    return {
        "metadata": {"namespace": "kube-system", "name": "rdma-shared-dp-ds"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}},
    }


TOLERATED = [
    [{"operator": "Exists"}],
    [{"operator": "Exists", "effect": "NoSchedule"}],
    [{"key": key, "operator": "Exists"} for key in ("nodeprep.io/unhealthy", "nodeprep.io/bootstrap")],
]


@pytest.mark.parametrize("tolerations", TOLERATED)
def test_who_tolerates_both_is_not_locked_out(tolerations: list[Any]) -> None:
    assert lint.intolerant_daemon_set(daemon_set(tolerations=tolerations), Want()) is None


def test_who_tolerates_neither() -> None:
    found = lint.intolerant_daemon_set(daemon_set(), Want())
    assert found is not None
    assert (found.where, found.serves) == ("kube-system/rdma-shared-dp-ds", "/var/lib/kubelet/device-plugins")
    assert found.lifts_taint
    assert found.taints == ("nodeprep.io/unhealthy:NoSchedule", "nodeprep.io/bootstrap:NoSchedule")
    assert found.tolerations == (
        "tolerations: [{key: nodeprep.io/unhealthy, operator: Exists}, {key: nodeprep.io/bootstrap, operator: Exists}]"
    )
    assert found.command.startswith("kubectl -n kube-system patch daemonset rdma-shared-dp-ds --type json -p '[{")


def test_one_value_of_a_taint_that_has_many_is_not_enough() -> None:
    equal = [
        {"key": "nodeprep.io/unhealthy", "operator": "Equal", "value": "NoSignal"},
        {"key": "nodeprep.io/bootstrap", "operator": "Exists"},
    ]
    found = lint.intolerant_daemon_set(daemon_set(tolerations=equal), Want())
    assert found is not None
    assert found.taints == ("nodeprep.io/unhealthy:NoSchedule",)
    assert "/tolerations/-" in found.command


def test_a_log_collector_serves_neither_devices_nor_the_network() -> None:
    found = lint.intolerant_daemon_set(daemon_set("/var/log"), Want())
    assert found is not None
    assert (found.serves, found.lifts_taint) == ("", False)


def test_who_lacks_the_bootstrap_taint_alone_keeps_ours_from_nobody() -> None:
    found = lint.intolerant_daemon_set(
        daemon_set(tolerations=[{"key": "nodeprep.io/unhealthy", "operator": "Exists"}]), Want()
    )
    assert found is not None
    assert found.taints == ("nodeprep.io/bootstrap:NoSchedule",)
    assert (found.serves, found.lifts_taint) == ("/var/lib/kubelet/device-plugins", False)


def test_a_soft_taint_keeps_nobody_away() -> None:
    found = lint.intolerant_daemon_set(daemon_set(), Want(effect="PreferNoSchedule"))
    assert found is not None
    assert not found.lifts_taint
    assert found.taints == ("nodeprep.io/bootstrap:NoSchedule",)
