"""Where pods ran and when they ended, from objects as the API server has them."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.history import job_pods
from nodeprep.history.job_pods import PodEnd
from nodeprep.values import replace

T = 1795144800.0  # 2026-11-20T03:20:00Z
ENDED = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-20T03:20:10Z"}


def pod(phase: str = "Running", node: str = "gpu-17", **status: Any) -> dict[str, Any]:
    metadata = {"name": "worker-3"} | status.pop("metadata", {})
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}


def container(state: str, ended: dict[str, Any] = ENDED, name: str = "main") -> dict[str, Any]:
    return {"name": name, state: {"terminated": ended}}


PODS: list[tuple[str, dict[str, Any], PodEnd]] = [
    (
        "failed",
        pod("Failed", containerStatuses=[container("state")]),
        PodEnd("worker-3", "gpu-17", T + 10, "main Error, exit 1"),
    ),
    (
        "the last of two containers",
        pod(
            "Failed",
            containerStatuses=[
                container("state", name="side"),
                container("state", ENDED | {"finishedAt": "2026-11-20T03:20:12Z", "exitCode": 137}),
            ],
        ),
        PodEnd("worker-3", "gpu-17", T + 12, "main Error, exit 137"),
    ),
    ("runs", pod(), PodEnd("worker-3", "gpu-17", None, "Running", runs=True)),
    ("never bound", pod("Pending", node=""), PodEnd("worker-3", "", None, "Pending", runs=True)),
    (
        "restarted in place",
        pod(containerStatuses=[container("lastState")]),
        PodEnd("worker-3", "gpu-17", T + 10, "restarted: main Error, exit 1", runs=True),
    ),
    (
        "evicted: no container says when",
        pod(
            "Failed",
            reason="Evicted",
            conditions=[{"type": "Ready", "lastTransitionTime": "2026-11-20T03:20:05Z"}],
        ),
        PodEnd("worker-3", "gpu-17", T + 5, "Evicted"),
    ),
    (
        "told to end",
        pod(metadata={"deletionTimestamp": "2026-11-20T03:20:07Z"}),
        PodEnd("worker-3", "gpu-17", T + 7, "is told to end", runs=True),
    ),
    (
        "nonsense",
        {"metadata": {"name": "worker-3"}, "status": {"phase": "Failed", "containerStatuses": [{}, {}]}},
        PodEnd("worker-3", "", None, "Failed"),
    ),
]


@pytest.mark.parametrize("case", PODS, ids=[one[0] for one in PODS])
def test_where_and_when_a_pod_ended(case: tuple[str, dict[str, Any], PodEnd]) -> None:
    assert replace(job_pods.of_pod(case[1]), uid="") == case[2]


def event(reason: str, name: str = "worker-3", at: str = "2026-11-20T03:20:10Z", **more: Any) -> dict[str, Any]:
    return {"reason": reason, "involvedObject": {"kind": "Pod", "name": name}, "lastTimestamp": at, **more}


ASSIGNED = event("Scheduled", message="Successfully assigned jobs/worker-3 to gpu-17", lastTimestamp=None)
BOUND = ASSIGNED | {"lastTimestamp": "2026-11-20T03:19:40Z"}
KUBELET = {"component": "kubelet", "host": "gpu-17"}
PULLED = event("Pulled", at="2026-11-20T03:19:50Z", source=KUBELET)
KILLED = event("Killing", message="Stopping container main", source=KUBELET)


@pytest.mark.parametrize(
    ("events", "node", "ended"),
    [
        ([ASSIGNED, KILLED], "gpu-17", T + 10),
        ([KILLED, ASSIGNED], "gpu-17", T + 10),
        ([KILLED], "gpu-17", T + 10),
        ([ASSIGNED], "gpu-17", None),
        ([KILLED, event("Killing", at="2026-11-20T03:20:20Z")], "gpu-17", T + 20),
        ([event("Killing", at="yesterday")], "", None),
        ([event("Scheduled", message="Successfully assigned by hand")], "", None),
    ],
)
def test_a_pod_that_is_gone_is_told_by_its_events(events: list[dict[str, Any]], node: str, ended: float | None) -> None:
    (found,) = job_pods.of_events(events, ()).values()
    assert (found.name, found.node, found.ended, found.is_gone) == ("worker-3", node, ended, True)


@pytest.mark.parametrize(
    ("events", "began"),
    [
        ([BOUND, PULLED, KILLED], T - 20),
        ([PULLED, BOUND], T - 20),
        ([PULLED, KILLED], T - 10),
        ([KILLED], None),
        ([event("FailedScheduling", at="2026-11-20T03:19:00Z"), PULLED], T - 10),
    ],
)
def test_it_began_when_it_was_bound_or_the_kubelet_first_told_of_it(
    events: list[dict[str, Any]], began: float | None
) -> None:
    (found,) = job_pods.of_events(events, ()).values()
    assert found.began == began


def test_events_of_pods_that_are_there_and_of_other_things_are_passed_over() -> None:
    node = {"reason": "Killing", "involvedObject": {"kind": "Node", "name": "gpu-17"}}
    assert job_pods.of_events([KILLED, node, {}], ["worker-3"]) == {}


def test_two_pods_of_one_name_are_two() -> None:
    """One made in place of the other, as a StatefulSet and training-operator do."""

    def of(uid: str, node: str, at: str) -> list[dict[str, Any]]:
        about = {"kind": "Pod", "name": "worker-3", "uid": uid}
        assigned = {**ASSIGNED, "involvedObject": about, "message": f"Successfully assigned jobs/worker-3 to {node}"}
        return [assigned, {**KILLED, "involvedObject": about, "lastTimestamp": at, "source": {}}]

    events = [*of("a", "gpu-1", "2026-11-20T03:20:10Z"), *of("b", "gpu-2", "2026-11-20T03:20:40Z")]
    assert [(one.node, one.ended) for one in job_pods.of_events(events, ()).values()] == [
        ("gpu-1", T + 10),
        ("gpu-2", T + 40),
    ]
    assert [one.node for one in job_pods.of_events(events, ["b"]).values()] == ["gpu-1"]


@pytest.mark.parametrize("label", job_pods.JOB_LABELS)
def test_a_job_is_known_by_the_labels_of_operators(label: str) -> None:
    assert job_pods.is_of_job({"metadata": {"labels": {label: "train"}}}, "train")
    assert not job_pods.is_of_job({"metadata": {"labels": {label: "training"}}}, "train")


def test_and_by_the_owner() -> None:
    owned = {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "train"}, None]}}
    assert job_pods.is_of_job(owned, "train")
    assert not job_pods.is_of_job({"metadata": {}}, "train")
