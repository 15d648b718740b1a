"""Jobs that start whole or not at all: the TFJob of docs/jobs/tfjob.yaml for the rig's nodes."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from nodeprep.jobs import quantities
from tests.rigs.cluster import Cluster
from tests.rigs.cluster_tools import BASE
from tests.systems import manifests

Object = dict[str, Any]

SEED = manifests.DIRECTORY / "tfjob.yaml"
NAMESPACE, ACCOUNT = "kubeflow", "default-editor"  # of the seed
JOBS = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
REPLICAS = "tfReplicaSpecs"
GANG = 4  # its pods: a Ps, a Chief and two Workers
PART = 3  # of them have room on one node
DAEMONSETS = 100  # thousandths of a processor on each node that are not the job's; the agent wants 20
# The Chief trains until it is enough and succeeds, and with it the job. The others serve until the operator ends them.
TRAINS = {"Chief": "echo $TF_CONFIG; until test -e /tmp/enough; do sleep 0.2; done"}
SERVES = "echo $TF_CONFIG; exec sleep 2147483647"


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
