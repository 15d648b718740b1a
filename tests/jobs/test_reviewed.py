"""What a hostile reviewer found to be wrong: gangs of several objects, minima, what operators add and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.jobs import job_manifest, placement
from nodeprep.jobs.job_manifest import DocumentError
from nodeprep.jobs.job_model import Job
from tests.jobs.job_values import ask, cluster, job, kubeflow, node, pod, template, wanting

Object = dict[str, Any]
GPU = {"nvidia.com/gpu": "1"}
NO_GPUS = {"nvidia.com/gpu": "0"}
GROUP = "pod-group.scheduling.sigs.k8s.io"
ONE_GPU = wanting(limits=GPU)


def refused(manifest: Object) -> str:
    """What is said of a manifest that is wrong."""
    with pytest.raises(DocumentError) as caught:
        job_manifest.read([manifest])
    error = caught.value.error
    return f"{error.keys[-1]}: found {error.found!r}, wanted {error.wanted}"


def jobs(*documents: Object) -> tuple[Job, ...]:
    return job_manifest.read(documents).jobs


def member(name: str, minimum: str = "3") -> Object:
    return pod(ONE_GPU, name=name, labels={f"{GROUP}/name": "g", f"{GROUP}/min-available": minimum})


def test_a_gang_of_several_objects_is_one_job() -> None:
    """Three Pods by labels, and three that name a PodGroup of Volcano in the file."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 3},
    }
    named = [pod(ONE_GPU, name=f"p{number}", schedulerName="volcano") for number in range(3)]
    for one in named:
        one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    for manifest in ([member(f"p{number}") for number in range(3)], [group, *named]):
        (found,) = jobs(*manifest)
        assert [role.name for role in found.roles] == ["p0/pod", "p1/pod", "p2/pod"]
        assert (found.minimum, [one.word for one in found.lints]) == (3, [])
        (answer,) = placement.ask([found], cluster(node("a", room={"nvidia.com/gpu": "2"}), node("b")))
        assert answer.starts is True
        (answer,) = placement.ask([found], cluster(node("a", room={"nvidia.com/gpu": "2"})))
        assert (answer.starts, answer.placed) == (False, 2)
    (two,) = jobs(member("p0"), member("p1"))
    assert "GangAbovePods" in [one.word for one in two.lints]


@pytest.mark.parametrize("minimum", ["three", "9" * 5000, "-1"])
def test_a_minimum_in_a_label_that_is_no_number(minimum: str) -> None:
    assert refused(member("p", minimum)).startswith("pod-group.scheduling.sigs.k8s.io/min-available: found ")


def test_a_number_as_the_name_of_an_object_that_is_passed_over() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": 2024}}
    assert refused(service) == "name: found 2024, wanted text (quote it if it looks like a number)"


def volcano(minimum: int | None, *tasks: tuple[str, int, int | None, Object]) -> Object:
    stated = [
        {
            "name": name,
            "replicas": count,
            "template": template(box),
            **({} if least is None else {"minAvailable": least}),
        }
        for name, count, least, box in tasks
    ]
    spec = {"tasks": stated} | ({} if minimum is None else {"minAvailable": minimum})
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


HUGE = wanting(limits={"nvidia.com/gpu": "100"})
ZEROS = [
    kubeflow(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        {"Worker": {"replicas": 4, "template": template(ONE_GPU)}},
        runPolicy={"schedulingPolicy": {"minAvailable": 0}},
    ),
    kubeflow(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        {"Worker": {"replicas": 4, "template": template(ONE_GPU)}},
        elasticPolicy={"minReplicas": 0},
    ),
    member("p", "0"),
]


@pytest.mark.parametrize("manifest", ZEROS, ids=range(len(ZEROS)))
def test_a_minimum_of_nothing_does_not_start_where_nothing_fits(manifest: Object) -> None:
    assert ask(manifest, cluster(node("a", room=NO_GPUS))).starts is False
    assert ask(manifest, cluster(node("a"))).starts is True


HEAD = ("head", 1, None, ONE_GPU)
TASKS = [
    ("a task of which no pod fits is needed", volcano(3, ("head", 1, None, HUGE), ("work", 5, 2, ONE_GPU)), False),
    ("below the sum of the tasks their minima are passed over", volcano(1, HEAD, ("work", 3, 2, HUGE)), True),
    ("without a minimum of its own it is their sum", volcano(None, HEAD, ("work", 3, 2, HUGE)), False),
]


@pytest.mark.parametrize("case", TASKS, ids=[one[0] for one in TASKS])
def test_minima_of_tasks(case: tuple[str, Object, bool]) -> None:
    assert ask(case[1], cluster(node("a"))).starts is case[2]


def kueues(whole: Object) -> Object:
    whole["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    return whole


def kind(kind: str, spec: Object, api: str = "batch/v1", **metadata: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "j", **metadata}, "spec": spec}


def job_set(**metadata: Any) -> Object:
    inner = {"name": "w", "replicas": 1, "template": {"spec": {"template": template()}}}
    return kind("JobSet", {"replicatedJobs": [inner]}, "jobset.x-k8s.io/v1alpha2", **metadata)


RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "r"},
    "spec": {"mlPolicy": {"mpi": {}}, "template": {"spec": job_set()["spec"]}},
}
TRAIN = kind("TrainJob", {"runtimeRef": {"name": "r"}}, "trainer.kubeflow.org/v1alpha1")
UNCLAIMED = [
    ("Kueue's queue q", [kueues(kind("Job", {"template": template()}))]),
    ("Kueue's queue q", [kueues(job_set())]),
    (
        "exclusive-topology: its controller adds",
        [job_set(annotations={"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"})],
    ),
    ("it is paused", [kind("Deployment", {"paused": True, "template": template()}, "apps/v1")]),
    ("an MPI runtime", [RUNTIME, TRAIN]),
]


@pytest.mark.parametrize("case", UNCLAIMED, ids=[f"{one[0]} {index}" for index, one in enumerate(UNCLAIMED)])
def test_what_others_decide_is_not_claimed(case: tuple[str, list[Object]]) -> None:
    (found,) = jobs(*case[1])
    assert any(case[0] in one.words for one in found.unclaimed)


MPI = "mpiReplicaSpecs"
WRONG = [
    (kind("JobSet", {"replicatedJob": []}, "jobset.x-k8s.io/v1alpha2"), "replicatedJobs: found None, wanted a list"),
    (kind("RayJob", {"rayCluster": {}}, "ray.io/v1"), "rayClusterSpec: found None, wanted a Ray cluster of its own"),
    (
        kubeflow("MPIJob", MPI, {"Worker": {"template": template()}}, "kubeflow.org/v2beta1"),
        "Launcher: found None, wanted that role: its operator refuses",
    ),
    (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", {"Worker": {"template": template()}}),
        "Master: found ",
    ),
    (pod(wanting(limits={"cpu": "1"}, requests={"cpu": "2"})), "cpu: found '2', wanted at most its limit, 1"),
    (pod(wanting(limits={"nvidia.com/gpu": "0.5"})), "nvidia.com/gpu: found '0.5', wanted a whole number of a device"),
    (pod(wanting(requests=GPU)), "nvidia.com/gpu: found '1', wanted the same number as its limit"),
]


@pytest.mark.parametrize("case", WRONG, ids=range(len(WRONG)))
def test_what_server_or_operator_refuses_is_no_job(case: tuple[Object, str]) -> None:
    assert refused(case[0]).startswith(case[1])


def test_what_operators_add_and_leave_out() -> None:
    roles = {"Launcher": {"template": template()}, "Worker": {"template": template()}}
    assert [one.replicas for one in job(kubeflow("MPIJob", MPI, roles, "kubeflow.org/v2beta1")).roles] == [1, 0]
    workers = [
        {"groupName": "w", "replicas": 2, "template": template(ONE_GPU)},
        {"groupName": "held", "replicas": 2, "suspend": True, "template": template()},
    ]
    autoscaler = {"resources": {"requests": {"cpu": "8"}}}
    ray = {
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": workers,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": autoscaler,
    }
    head, work, held, _ = job(kind("RayJob", {"rayClusterSpec": ray}, "ray.io/v1")).roles
    assert head.pod.demand.requests["cpu"] == 8000
    assert work.pod.demand.requests["cpu"] == 200
    assert (work.replicas, held.replicas) == (2, 0)


def test_a_field_of_a_job_set_that_is_dropped() -> None:
    whole = job_set()
    whole["spec"]["replicatedJobs"][0]["replica"] = 5
    assert [(one.word, one.keys[-1]) for one in job(whole).lints] == [("DroppedField", "replica")]
