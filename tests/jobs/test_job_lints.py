"""What is legal in a manifest and will still hurt: each remark, and the manifest that has none."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.jobs import job_lints
from nodeprep.jobs.job_cluster import JobCluster
from nodeprep.jobs.job_lints import GateNames
from tests.jobs.job_values import cluster, container, job, node, pod, template, wanting

Object = dict[str, Any]

GATE = GateNames(("nodeprep.io/unhealthy", "nodeprep.io/bootstrap"))
SHM: Object = {
    "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
}
MOUNT: Object = {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}
LOCK: Object = {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
GROUP = "pod-group.scheduling.sigs.k8s.io"


def words(manifest: Object, where: JobCluster | None = None, terway: tuple[str, ...] = ()) -> list[str]:
    found = job_lints.lints(job(manifest), cluster(node()) if where is None else where, GATE, terway)
    return [one.word for one in found]


def env(value: str, **spec: Any) -> Object:
    return pod(container(env=[{"name": "NCCL_SOCKET_IFNAME", "value": value}]), **spec)


def annotated(key: str, value: str = "true", **spec: Any) -> Object:
    whole = pod(**spec)
    whole["metadata"]["annotations"] = {key: value}
    return whole


GPUS = {"nvidia.com/gpu": "8"}
SAID = [
    ("nothing", pod(), []),
    ("seed 000's annotation", annotated("k8s.aliyun.com/eni"), ["IgnoredAnnotation"]),
    ("its next spelling", annotated("k8s.aliyun.com/ENI"), ["IgnoredAnnotation"]),
    ("what Terway reads", annotated("k8s.aliyun.com/pod-eni"), []),
    ("an ENI on the host's network", annotated("k8s.aliyun.com/pod-eni", hostNetwork=True), ["HostNetworkWithEni"]),
    (
        "the same by its resource",
        pod(wanting(limits={"aliyun/eni": "1"}), hostNetwork=True),
        ["HostNetworkWithEni"],
    ),
    ("every taint tolerated", pod(tolerations=[{"operator": "Exists"}]), ["WalksThroughGate"]),
    (
        "ours tolerated",
        pod(tolerations=[{"key": "nodeprep.io/unhealthy", "operator": "Exists"}]),
        ["WalksThroughGate"],
    ),
    ("another's tolerated", pod(tolerations=[{"key": "team", "operator": "Exists"}]), []),
    ("a node by name", pod(nodeName="n1"), ["WalksThroughGate"]),
    ("RDMA without the lock", pod(wanting(limits={"rdma/hca": "1"})), ["NoIpcLock"]),
    ("RDMA with it", pod(wanting(limits={"rdma/hca": "1"}, **LOCK)), []),
    ("eRDMA", pod(wanting(limits={"aliyun/erdma": "1"})), ["NoIpcLock"]),
    (
        "a privileged container may lock",
        pod(wanting(limits={"rdma/hca": "1"}, securityContext={"privileged": True})),
        [],
    ),
    ("GPUs without /dev/shm", pod(wanting(limits=GPUS)), ["NoSharedMemory"]),
    ("GPUs with it", pod(wanting(limits=GPUS, **MOUNT), **SHM), []),
    ("a volume that is not mounted", pod(wanting(limits=GPUS), **SHM), ["NoSharedMemory"]),
    ("one GPU alone needs none", pod(wanting(limits={"nvidia.com/gpu": "1"})), []),
    ("eth0", env("eth0"), []),
    ("a prefix", env("eth"), []),
    ("no such interface", env("bond0"), ["NoSuchInterface"]),
    ("all but these", env("^docker0"), []),
    ("a whole name", env("=eth"), ["NoSuchInterface"]),
    ("one of two", env("bond0,eth0"), []),
    ("on the host's network it is not known", env("bond0", hostNetwork=True), []),
    ("in a command", pod(container(command=["mpirun -x NCCL_SOCKET_IFNAME=bond0 python"])), ["NoSuchInterface"]),
    ("a label that nobody sets", pod(nodeSelector={"pool": "a"}), ["LabelNobodySets"]),
]


@pytest.mark.parametrize(("manifest", "wanted"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_a_remark(manifest: Object, wanted: list[str]) -> None:
    assert words(manifest) == wanted


def test_a_label_with_another_value_is_somebodys() -> None:
    assert words(pod(nodeSelector={"pool": "a"}), cluster(node(labels={"pool": "b"}))) == []


def test_terway_is_named_with_its_version() -> None:
    manifest = annotated("k8s.aliyun.com/eni")
    (one,) = job_lints.lints(job(manifest), cluster(node()), GATE, ("v1.9.0",))
    assert "Terway v1.9.0 does not read it" in one.text


def gang(minimum: int, replicas: int = 4, scheduler: str = "volcano") -> Object:
    task = {"name": "w", "replicas": replicas, "template": template(wanting(limits=GPUS, **MOUNT), **SHM)}
    spec = {"minAvailable": minimum, "tasks": [task], "schedulerName": scheduler}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": spec}


def test_a_gang_above_its_pods_and_above_the_cluster() -> None:
    closed = node(taints=[{"key": "a", "value": "", "effect": "NoSchedule"}], unschedulable=True)
    assert words(gang(5)) == ["GangAbovePods"]
    assert words(gang(2)) == ["GangAboveCluster"]
    assert words(gang(1), cluster(closed)) == []  # it would fit once it is open


def test_a_gang_by_labels_alone_is_none_on_a_plain_scheduler() -> None:
    labels = {f"{GROUP}/name": "g", f"{GROUP}/min-available": "1"}
    assert words(pod(labels=labels)) == ["GangWithoutScheduler"]
    assert words(pod(labels=labels, schedulerName="volcano")) == []


WALKS = [
    ({"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}, True),
    ({"key": "nodeprep.io/unhealthy", "operator": "Exists"}, True),
    ({"operator": "Exists"}, True),
    ({"key": "nodeprep.io/unhealthy", "operator": "Equal", "value": "", "effect": "NoSchedule"}, False),
    ({"key": "nodeprep.io/unhealthy", "operator": "Exists", "effect": "PreferNoSchedule"}, False),
]


@pytest.mark.parametrize(("toleration", "walks"), WALKS, ids=range(len(WALKS)))
def test_a_toleration_walks_by_the_reason_of_the_day_or_by_any(toleration: Object, walks: bool) -> None:
    """The value of our taint is the reason, and never empty."""
    found = job_lints.lints(job(pod(tolerations=[toleration])), cluster(node()), GATE)
    assert ("WalksThroughGate" in [one.word for one in found]) is walks
