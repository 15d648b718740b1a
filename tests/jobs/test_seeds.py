"""The manifests of four users, as they submit them, against a small cluster."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nodeprep.jobs import job_lints, placement
from nodeprep.jobs.job_cluster import JobCluster
from nodeprep.jobs.placement import JobAnswer
from tests.jobs import job_values
from tests.jobs.job_values import cluster, node, seed
from tests.jobs.test_job_lints import GATE

RDMA = "feature.node.kubernetes.io/network-rdma.capable"
TAINT = {"key": "nodeprep.io/unhealthy", "value": "NoSignal", "effect": "NoSchedule"}


def there() -> JobCluster:
    """gpu-1 is closed, gpu-2 is open to RDMA, gpu-3 to all else."""
    return cluster(
        node("gpu-1", {"kubernetes.io/hostname": "gpu-1"}, [TAINT]),
        node("gpu-2", {"kubernetes.io/hostname": "gpu-2", RDMA: "true"}),
        node("gpu-3", {"kubernetes.io/hostname": "gpu-3"}),
    )


def answer(number: int) -> JobAnswer:
    (one,) = placement.ask(seed(number).jobs, there())
    return one


def why(found: JobAnswer, role: str, name: str) -> list[str]:
    (one,) = [each for each in found.roles if each.role.name == role]
    return [str(obstacle) for obstacle in one.refused.get(name, ())]


def lints(number: int) -> list[str]:
    return [one.word for one in job_lints.lints(seed(number).jobs[0], there(), GATE)]


@pytest.mark.parametrize("name", ["mpijob", "rdma-pod", "pytorchjob", "tfjob-volcano"])
def test_a_manifest_that_we_show_has_nothing_to_remark(name: str) -> None:
    """docs/jobs.md runs them on real clusters; here their nodes are ready for them."""
    manifest = yaml.safe_load((job_values.MANIFESTS / f"{name}.yaml").read_text())
    ready = {
        RDMA: "true",
        "nodeprep.io/profile.mpijob-exclusive-eni": "ready",
        "nodeprep.io/profile.tcp-shared-eni": "ready",
    }
    found = job_values.job(manifest)
    assert found.lints == ()
    assert list(job_lints.lints(found, cluster(node("gpu-1", ready)), GATE)) == []


def test_seed_000_mpi_over_eni() -> None:
    found = answer(0)
    sizes: dict[str, Any] = {one.role.name: (one.role.replicas, one.role.pod.demand.requests) for one in found.roles}
    # The init container wants as much as the worker: the larger counts, not the sum.
    assert sizes["Worker"] == (2, {"cpu": 50_000, "memory": 200 << 30, "nvidia.com/gpu": 8})
    assert sizes["Launcher"] == (1, {"cpu": 50_000, "memory": 200 << 30})
    # Two nodes have 64 processors each: the launcher's 50 do not fit beside a worker.
    assert (found.starts, found.placed) == (False, 2)
    assert why(found, "Worker", "gpu-1") == ["taint nodeprep.io/unhealthy=NoSignal:NoSchedule"]
    assert lints(0) == ["IgnoredAnnotation"]


def test_seed_001_rdma_by_label_and_hostname() -> None:
    found = answer(1)
    assert found.starts is False
    assert why(found, "pod", "gpu-1") == [
        "taint nodeprep.io/unhealthy=NoSignal:NoSchedule",
        f"{RDMA}: found no such label, wanted In true",
    ]
    assert why(found, "pod", "gpu-2") == ["kubernetes.io/hostname: found 'gpu-2', wanted 'gpu-1'"]
    assert lints(1) == []


def test_seed_002_a_deployment_over_tcp() -> None:
    assert answer(2).starts is True
    assert seed(2).passed_over == ("Service pytorch",)
    assert lints(2) == ["NoSharedMemory"]


def test_seed_003_a_field_that_the_crd_drops() -> None:
    (job,) = seed(3).jobs
    assert {role.name: role.pod.scheduler for role in job.roles} == {
        "Ps": "default-scheduler",
        "Chief": "default-scheduler",
        "Worker": "default-scheduler",
    }
    assert (answer(3).starts, answer(3).placed) == (True, 4)
    assert lints(3) == ["DroppedField", "NoSharedMemory"]
    (dropped,) = [one for one in job.lints if one.word == "DroppedField"]
    assert dropped.keys == ("spec", "schedulerName")
