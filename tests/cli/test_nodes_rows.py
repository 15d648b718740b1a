"""What is made of a Node, its agent's Lease and its pods: values in, rows out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodeprep.decide.desired import GatePolicy
from nodeprep.publish import fleet_rows
from nodeprep.publish.fleet_rows import FleetContext, FleetRow, Readiness
from nodeprep.values import replace

NOW = 1_800_000_000.0
NAMES = GatePolicy()
UNHEALTHY = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(
    state: str = "Ready", status: str = "True", reason: str = "Ready", *, gpus: str = "8", **spec: Any
) -> dict[str, Any]:
    labels = {"nodeprep.io/state": state, "nodeprep.io/profile.rdma-roce": "ready"} if state else {}
    ours = {"type": "nodeprep.io/TrainingReady", "status": status, "reason": reason, "message": "as said"}
    conditions = [{"type": "Ready", "status": "True"}]
    conditions += [{**ours, "lastTransitionTime": ago(90)}] if status else []
    return {
        "metadata": {"name": "n1", "labels": labels, "annotations": {}},
        "spec": spec,
        "status": {"conditions": conditions, "allocatable": {"nvidia.com/gpu": gpus, "cpu": "64"}},
    }


def told(
    one: dict[str, Any], renewed: float | None = 20.0, used: int | None = 0, names: GatePolicy = NAMES
) -> FleetRow:
    """The row of a Node whose agent renewed its Lease so many seconds ago; None: there is no Lease."""
    leases = {} if renewed is None else {"n1": NOW - renewed}
    return fleet_rows.row(
        fleet_rows.fleet_node(one, names), FleetContext(leases, None if used is None else {"n1": used}), NOW
    )


def test_a_new_node_has_nothing_that_an_agent_left_behind() -> None:
    taint = {"key": "nodeprep.io/bootstrap", "effect": "NoSchedule"}
    new = told(node("", "", taints=[taint]), None)
    assert (new.state, new.reason, new.readiness) == ("-", "NoAgent", Readiness.NOT_READY)
    assert new.message == "its bootstrap taint waits for one"
    assert told(node("", "", taints=[taint, UNHEALTHY]), None).message == "left behind: a taint"
    assert told(node(taints=[taint]), None).message == "left behind: Ready"


def test_a_ready_node() -> None:
    said = told(node(), used=6)
    assert (said.state, said.readiness, said.profiles) == ("Ready", Readiness.READY, ("rdma-roce",))
    assert (said.free, said.gpus, said.since, said.taints) == (2, 8, NOW - 90, ())


SAID = [
    # Node                                                   Lease   state        reason             readiness
    (node("Unhealthy", "False", "NoSignal"), 20.0, "Unhealthy", "NoSignal", "not-ready"),
    (node("Bootstrap", "Unknown", "CannotLook"), 20.0, "Bootstrap", "CannotLook", "unknown"),
    (node(taints=[UNHEALTHY]), 20.0, "Ready", "Ready", "not-ready"),
    (node(), 180.0, "Ready", "Ready", "ready"),
    (node(), 181.0, "Silent", "AgentSilent", "unknown"),
    (node("Unhealthy", "False", "NoSignal"), 999.0, "Silent", "AgentSilent", "unknown"),
    (node(), None, "-", "NoAgent", "unknown"),
    (node("", ""), None, "-", "", "unknown"),
    (node("", ""), 20.0, "-", "", "unknown"),
]


@pytest.mark.parametrize(("one", "renewed", "state", "reason", "readiness"), SAID)
def test_what_is_said(one: dict[str, Any], renewed: float | None, state: str, reason: str, readiness: str) -> None:
    said = told(one, renewed)
    assert (said.state, said.reason, said.readiness) == (state, reason, readiness)


@pytest.mark.parametrize(
    ("spec", "cordoned"), [({}, False), ({"unschedulable": True}, True), ({"unschedulable": False}, False)]
)
def test_a_cordon_is_shown_and_is_no_fault(spec: dict[str, Any], cordoned: bool) -> None:
    said = told(node(**spec))
    assert (said.cordoned, said.readiness) == (cordoned, Readiness.READY)


def test_a_silent_agent_is_silent_since_its_last_word() -> None:
    said = told(node("Unhealthy", "False", "NoSignal"), 999.0)
    assert said.since == NOW - 999
    assert said.message == "last said Unhealthy: as said"


@pytest.mark.parametrize(("beat", "readiness"), [(1500.0, Readiness.READY), (1501.0, Readiness.UNKNOWN)])
def test_what_a_living_agent_may_not_say_again_is_not_believed(beat: float, readiness: Readiness) -> None:
    one = node()
    one["status"]["conditions"][1]["lastHeartbeatTime"] = ago(beat)
    said = told(one)
    assert said.readiness is readiness
    assert (said.reason == "NotSaidAgain") is (readiness is Readiness.UNKNOWN)
    one["status"]["conditions"][1]["status"] = "False"
    assert told(one).readiness is (Readiness.NOT_READY if readiness is Readiness.READY else Readiness.UNKNOWN)


def test_a_lease_of_the_future_says_nothing_of_today() -> None:
    said = told(node(), -181.0)
    assert (said.state, said.readiness) == ("Silent", Readiness.UNKNOWN)
    assert said.message == "its Lease was renewed in the future: its clock is wrong; last said Ready: as said"
    assert told(node(), -180.0).readiness is Readiness.READY


def test_a_kubelet_that_is_not_ready_is_no_place_for_a_pod() -> None:
    one = node()
    one["status"]["conditions"][0]["status"] = "Unknown"
    said = told(one)
    assert (said.reason, said.readiness) == ("KubeletNotReady", Readiness.NOT_READY)


def test_a_released_node_is_nobodys_promise() -> None:
    one = node("", "")
    one["metadata"]["annotations"] = {"nodeprep.io/released": "2026-11-22T03:00:00Z"}
    for renewed in (20.0, None):
        assert (told(one, renewed).state, told(one, renewed).readiness) == ("Released", Readiness.UNKNOWN)


def test_without_leases_nothing_is_known_to_be_ready() -> None:
    said = fleet_rows.row(fleet_rows.fleet_node(node(), NAMES), FleetContext(None, None), NOW)
    assert (said.state, said.readiness, said.leases_known, said.free) == ("Ready", Readiness.UNKNOWN, False, None)


def test_our_taints_go_by_their_names_in_force() -> None:
    other = GatePolicy(unhealthy_taint="example.com/broken")
    one = node(taints=[UNHEALTHY, {"key": "example.com/broken", "effect": "NoSchedule"}, {"key": "a", "effect": "b"}])
    assert told(one).taints == ("nodeprep.io/unhealthy=NoSignal:NoSchedule",)
    assert told(one, names=other).taints == ("example.com/broken:NoSchedule",)


def test_what_is_malformed_is_not_there() -> None:
    one = {"metadata": {"name": "n1", "labels": None}, "spec": {"taints": "x"}, "status": {"conditions": [1]}}
    assert told(one).state == "-"
    time = node()
    time["status"]["conditions"][1]["lastTransitionTime"] = "yesterday"
    assert told(time).since is None


@pytest.mark.parametrize(
    ("words", "code"), [((), 0), (("ready",), 0), (("ready", "unknown"), 3), (("unknown", "not-ready"), 1)]
)
def test_what_a_fleet_comes_to(words: tuple[str, ...], code: int) -> None:
    assert fleet_rows.outcome([replace(told(node()), readiness=Readiness(word)) for word in words]) == code


def test_the_leases_of_agents_and_no_others() -> None:
    assert fleet_rows.renewal(lease("agent-n1", "2027-01-15T08:00:00.000001Z")) == ("n1", NOW + 1e-06)
    assert fleet_rows.renewal(lease("nodeprep-slot-0", "2027-01-15T08:00:00.000000Z")) is None
    assert fleet_rows.renewal({"metadata": {"name": "agent-n1"}, "spec": {}}) is None


def lease(name: str, renewed: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"renewTime": renewed}}


def container(count: int, **more: str) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": str(count), "cpu": "4"}}, **more}


GPUS = [
    # containers                          init containers                                          GPUs held
    ([container(2), container(1)], [], 3),
    ([container(2)], [container(4)], 4),
    ([container(2)], [container(1), container(2)], 2),
    ([container(2)], [container(1, restartPolicy="Always"), container(2)], 3),
    ([container(2)], [container(1, restartPolicy="Always"), container(4)], 5),
    ([{"resources": {"requests": {"amd.com/gpu": "2"}}}], [], 2),
]


@pytest.mark.parametrize(("containers", "init", "count"), GPUS)
def test_gpus_that_a_pod_holds(containers: list[Any], init: list[Any], count: int) -> None:
    spec = {"nodeName": "n1", "containers": containers, "initContainers": init}
    assert fleet_rows.gpus_used({"spec": spec}) == ("n1", count)


def test_a_pod_that_holds_none() -> None:
    assert fleet_rows.gpus_used({"spec": {"containers": [container(2)]}}) is None
    no_gpu = {"limits": {"cpu": "1", "nvidia.com/gpu.shared": "2"}}
    assert fleet_rows.gpus_used({"spec": {"nodeName": "n1", "containers": [{"resources": no_gpu}]}}) is None
