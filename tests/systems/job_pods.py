"""The pods of a job of Kubeflow: which there are, what the scheduler says of them, and what becomes of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kubernetes.training import Announced
from tests.rigs.cluster import Cluster
from tests.rigs.waiting import until

Object = dict[str, Any]

JOB_LABEL = "training.kubeflow.org/job-name"
ENOUGH = ("touch", "/tmp/enough")  # by which a pod of ours knows that it has trained enough


def labels(name: str) -> str:
    """What its pods have, for a list or a watch."""
    return f"{JOB_LABEL}={name}"


def is_placed(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def placed(pods: Announced) -> dict[str, tuple[float, Object]]:
    """By name: when we heard first that a pod has a node, and the pod as it was then.

    Raises:
        RuntimeError: nobody tells us any more, so nothing follows from what was not heard.
    """
    if pods.over:
        raise RuntimeError("the watch of the pods has ended")
    found: dict[str, tuple[float, Object]] = {}
    for at, pod in list(pods.seen):
        if is_placed(pod):
            found.setdefault(pod["metadata"]["name"], (at, pod))
    return found


def states(pods: Announced) -> dict[str, Object]:
    """By name, each pod as it was last."""
    return {pod["metadata"]["name"]: pod for _, pod in list(pods.seen)}


def refusal(pod: Object) -> tuple[str, str]:
    """Reason and message of the scheduler that left it alone; empty texts if none said so."""
    told = (one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled")
    refused = (one for one in told if one["status"] == "False")
    return next(((str(one.get("reason", "")), str(one.get("message", ""))) for one in refused), ("", ""))


def whole(pods: Announced, holds: Callable[[Object], bool], what: str, count: int) -> None:
    """Waits until it holds of all pods of the job, of which there are so many."""

    def held() -> bool:
        there = states(pods).values()
        return len(there) == count and all(map(holds, there))

    try:
        until(held, what)
    except TimeoutError as error:
        raise TimeoutError(f"{error}, but {[(one['spec'], one['status']) for one in states(pods).values()]}") from None


def conditions(told: Object) -> dict[str, str]:
    """Status of each by its type, of a job or a PodGroup."""
    return {one["type"]: one["status"] for one in told.get("status", {}).get("conditions", [])}


def true_of(told: Object) -> set[str]:
    """The conditions that are true of a job."""
    return {kind for kind, status in conditions(told).items() if status == "True"}


def said(cluster: Cluster, pod: str, *words: str, lines: int = 1) -> str:
    """The log of a pod that has so many lines: a container that runs may have written none yet."""
    return until(
        lambda: text if (text := cluster.kubectl("logs", pod, *words)).count("\n") >= lines else "",
        f"{pod} says something",
    )
