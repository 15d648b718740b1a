"""Jobs that start whole or not at all: the TFJob of docs/jobs/tfjob.yaml for the rig's nodes, and its pods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import yaml

from nodeprep.jobs import quantities
from tests.kubernetes.training import Announced
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_tools import BASE
from tests.rigs.waiting import until
from tests.systems import manifests

Object = dict[str, Any]

SEED = manifests.DIRECTORY / "tfjob.yaml"
NAMESPACE, ACCOUNT = "kubeflow", "default-editor"  # of the seed
JOBS = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOB_LABEL = "training.kubeflow.org/job-name"
REPLICAS = "tfReplicaSpecs"
GANG = 4  # its pods: a Ps, a Chief and two Workers
PART = 3  # of them have room on one node
DAEMONSETS = 100  # thousandths of a processor on each node that are not the job's; the agent wants 20
# The Chief trains until it is enough and succeeds, and with it the job. The others serve until the operator ends them.
TRAINS = {"Chief": "echo $TF_CONFIG; until test -e /tmp/enough; do sleep 0.2; done"}
SERVES = "echo $TF_CONFIG; exec sleep 2147483647"
ENOUGH = ("touch", "/tmp/enough")


def tfjob(cluster: Cluster, name: str, **pod: object) -> Object:
    """The seed's TFJob with an image that is here, and wants of which three have room on a node and the fourth not.

    `pod` are fields of each of its pods.
    """
    job: Object = yaml.safe_load(SEED.read_text())
    job["metadata"]["name"] = name
    share = (least_processor(cluster) - DAEMONSETS) // PART
    for role, replica in job["spec"][REPLICAS].items():
        replica["template"] = copy.deepcopy(replica["template"])  # by its anchor Ps and Chief share one
        spec = replica["template"]["spec"]
        spec.update(terminationGracePeriodSeconds=0, **pod)
        (container,) = spec["containers"]
        container.update(image=BASE, imagePullPolicy="Never", resources={"limits": {"cpu": f"{share}m"}})
        container["command"] = ["sh", "-c", TRAINS.get(role, SERVES)]
    return job


def least_processor(cluster: Cluster) -> int:
    """Thousandths of a processor that pods may have on each node."""
    stated = (quantities.nanos(node.object()["status"]["allocatable"]["cpu"]) for node in cluster.nodes.values())
    return min(nanos or 0 for nanos in stated) // quantities.MILLI


def labels(name: str) -> str:
    """What its pods have, for a list or a watch."""
    return f"{JOB_LABEL}={name}"


def is_placed(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def placed(pods: Announced) -> dict[str, tuple[float, Object]]:
    """By name: when we heard first that a pod has a node, and the pod as it was then."""
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


def whole(pods: Announced, holds: Callable[[Object], bool], what: str, count: int = GANG) -> None:
    """Waits until it holds of all pods of the gang, of which there are so many."""

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
