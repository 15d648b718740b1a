"""Every kind that preflight reads: its roles, its gang, what its operator adds and what its CRD drops."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.jobs import job_manifest
from nodeprep.jobs.job_manifest import KNOWN, DocumentError
from nodeprep.typed_yaml import dotted
from tests.jobs.job_values import container, job, kubeflow, pod, template, wanting

Object = dict[str, Any]

GPU = wanting(limits={"nvidia.com/gpu": "1"})


def whole(api: str, kind: str, **spec: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "j"}, "spec": spec}


def replica(count: int | None = None, *containers: Object, **spec: Any) -> Object:
    return {**({} if count is None else {"replicas": count}), "template": template(*containers, **spec)}


def batch(**spec: Any) -> Object:
    return {"spec": {**spec, "template": template(GPU)}}


TASK = {"name": "work", "replicas": 4, "template": template(GPU)}
HEAD = {"template": template()}
WORKERS = [{"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": template(GPU)}]
ONE_AND_TWO, ONE_AND_THREE = {"Launcher": 1, "Worker": 2}, {"Master": 1, "Worker": 3}
ROLES = [
    (pod(), {"pod": 1}),
    (whole("batch/v1", "Job", template=template()), {"pod": 1}),
    (whole("batch/v1", "Job", parallelism=4, template=template()), {"pod": 4}),
    (whole("batch/v1", "Job", parallelism=4, completions=3, template=template()), {"pod": 3}),
    (whole("batch/v1", "Job", completions=3, template=template()), {"pod": 1}),
    (whole("apps/v1", "Deployment", template=template()), {"pod": 1}),
    (whole("apps/v1", "ReplicaSet", replicas=2, template=template()), {"pod": 2}),
    (whole("apps/v1", "StatefulSet", replicas=3, template=template()), {"pod": 3}),
    (kubeflow("TFJob", "tfReplicaSpecs", {"Ps": replica(2), "Chief": replica()}), {"Ps": 2, "Chief": 1}),
    (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Master": replica(1), "Worker": replica(3)}),
        {"Master": 1, "Worker": 3},
    ),
    (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": replica(1), "Worker": replica(2)}),
        {"Launcher": 1, "Worker": 2},
    ),
    (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": replica(1), "Worker": replica(2)}, "kubeflow.org/v2beta1"),
        ONE_AND_TWO,
    ),
    (whole("kubeflow.org/v1alpha1", "MPIJob", replicas=2, template=template(GPU)), ONE_AND_TWO),
    (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", {"Master": replica(1), "Worker": replica(2)}),
        {"Master": 1, "Worker": 2},
    ),
    (kubeflow("PaddleJob", "paddleReplicaSpecs", {"Worker": replica(2)}), {"Worker": 2}),
    (kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": replica(2)}), {"Worker": 2}),
    (
        whole(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            replicatedJobs=[
                {"name": "driver", "template": batch()},
                {"name": "workers", "replicas": 2, "template": batch(parallelism=4, completions=4)},
            ],
        ),
        {"driver": 1, "workers": 8},
    ),
    (whole("batch.volcano.sh/v1alpha1", "Job", tasks=[TASK]), {"work": 4}),
    (
        whole("ray.io/v1", "RayJob", rayClusterSpec={"headGroupSpec": HEAD, "workerGroupSpecs": WORKERS}),
        {"head": 1, "gpu": 4, "submitter": 1},
    ),
    (
        whole("ray.io/v1", "RayJob", submissionMode="HTTPMode", rayClusterSpec={"headGroupSpec": HEAD}),
        {"head": 1},
    ),
    (whole("ray.io/v1", "RayJob", clusterSelector={"a": "b"}), {}),
]


@pytest.mark.parametrize(("manifest", "roles"), ROLES, ids=lambda one: one.get("kind", "") if "kind" in one else "")
def test_the_roles_of_a_kind(manifest: Object, roles: dict[str, int]) -> None:
    assert {role.name: role.replicas for role in job(manifest).roles} == roles


def test_each_known_kind_is_among_them() -> None:
    there = {f"{manifest['kind']} {manifest['apiVersion']}" for manifest, _ in ROLES}
    others = {"PodGroup scheduling.volcano.sh/v1beta1", "TrainJob trainer.kubeflow.org/v1alpha1"}
    assert there | others | {"RayJob ray.io/v1alpha1"} == set(KNOWN)


ADDED = [
    (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": replica(1)}),
        {"cpu": 100, "memory": 512 << 20, "ephemeral-storage": 5 << 30},
    ),
    (kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": replica(1)}, "kubeflow.org/v2beta1"), {}),
    (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": replica(1), "Master": replica(1)}),
        {"cpu": 50, "memory": 10 << 20},
    ),
    (kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": replica(1)}), {}),
    (
        whole("ray.io/v1", "RayJob", rayClusterSpec={"headGroupSpec": HEAD, "enableInTreeAutoscaling": True}),
        {"cpu": 500, "memory": 512 << 20},
    ),
]


@pytest.mark.parametrize(("manifest", "requests"), ADDED)
def test_what_an_operator_adds(manifest: Object, requests: dict[str, int]) -> None:
    role = job(manifest).roles[0]
    assert role.pod.demand.requests == requests
    assert bool(role.adds) == bool(requests)


def test_the_pod_that_submits_to_ray_wants_room_too() -> None:
    manifest = whole("ray.io/v1", "RayJob", rayClusterSpec={"headGroupSpec": HEAD})
    assert job(manifest).roles[-1].pod.demand.requests == {"cpu": 500, "memory": 200 << 20}


def test_a_launcher_of_v1alpha1_has_its_own_resources() -> None:
    manifest = whole(
        "kubeflow.org/v1alpha1",
        "MPIJob",
        replicas=2,
        launcherResources={"requests": {"cpu": "1"}},
        template=template(wanting(limits={"cpu": "50"}), initContainers=[wanting(limits={"cpu": "4"})]),
    )
    launcher, worker = job(manifest).roles
    assert (launcher.pod.demand.requests, worker.pod.demand.requests) == ({"cpu": 4000}, {"cpu": 50_000})


def worker_gang(**spec: Any) -> Object:
    return kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": replica(4)}, **spec)


GROUP = "pod-group.scheduling.sigs.k8s.io"
GANGS = [
    (worker_gang(), None, 4),
    (worker_gang(runPolicy={"schedulingPolicy": {"minAvailable": 3, "queue": "q"}}), "q", 3),
    (worker_gang(runPolicy={"schedulingPolicy": {"queue": "q"}}), "q", 4),
    (worker_gang(elasticPolicy={"minReplicas": 2, "maxReplicas": 8}), "", 2),
    (
        kubeflow(
            "PyTorchJob",
            "pytorchReplicaSpecs",
            {"Master": replica(1), "Worker": replica(4)},
            elasticPolicy={"minReplicas": 2},
        ),
        "",
        3,
    ),
    (worker_gang(elasticPolicy={"minReplicas": 2}, runPolicy={"schedulingPolicy": {"queue": "q"}}), "q", 4),
    (kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": replica(4, schedulerName="volcano")}), "", 4),
    (whole("batch.volcano.sh/v1alpha1", "Job", tasks=[TASK]), "default", 4),
    (whole("batch.volcano.sh/v1alpha1", "Job", tasks=[TASK], minAvailable=2, queue="q"), "q", 2),
    (
        pod(
            labels={"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}
        ),
        "",
        3,
    ),
]


@pytest.mark.parametrize(("manifest", "queue", "minimum"), GANGS)
def test_the_gang_of_a_job(manifest: Object, queue: str | None, minimum: int) -> None:
    found = job(manifest)
    assert found.minimum == minimum
    assert (None if found.gang is None else found.gang.queue) == queue


def test_a_pod_group_in_the_file_is_the_gang_of_the_pods_that_name_it() -> None:
    group = whole("scheduling.volcano.sh/v1beta1", "PodGroup", minMember=2, queue="q")
    manifest = whole(
        "apps/v1", "Deployment", replicas=3, template=template(annotations={"scheduling.k8s.io/group-name": "j"})
    )
    (found,) = job_manifest.read([group, manifest]).jobs
    assert found.gang is not None
    assert (found.kind, found.gang.minimum, found.gang.queue, found.gang.group) == ("Deployment", 2, "q", "j")
    (alone,) = job_manifest.read([group]).jobs
    assert [one.words for one in alone.unclaimed] == ["its pods are not in the file"]


def runtime(kind: str = "ClusterTrainingRuntime") -> Object:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {
        "name": "node",
        "template": {"metadata": {"labels": labels}, "spec": {"template": template(container("node"))}},
    }
    return whole(
        "trainer.kubeflow.org/v1alpha1", kind, mlPolicy={"numNodes": 2}, template={"spec": {"replicatedJobs": [node]}}
    )


def test_a_train_job_has_the_pods_of_its_runtime() -> None:
    resources = {"limits": {"nvidia.com/gpu": 8}}
    trainer = {"numNodes": 4, "resourcesPerNode": resources}
    manifest = whole("trainer.kubeflow.org/v1alpha1", "TrainJob", runtimeRef={"name": "j"}, trainer=trainer)
    (found,) = job_manifest.read([manifest, runtime()]).jobs
    assert [(one.name, one.replicas, one.pod.demand.requests) for one in found.roles] == [
        ("node", 4, {"nvidia.com/gpu": 8})
    ]
    (without,) = job_manifest.read([manifest]).jobs
    assert [one.words for one in without.unclaimed] == [
        "ClusterTrainingRuntime j is not in the file: put it there to have its pods judged"
    ]
    assert all(one.may_allow for one in without.unclaimed)


DROPPED = [
    (kubeflow("TFJob", "tfReplicaSpecs", {"PS": replica(1)}, schedulerName="volcano"), "spec.schedulerName"),
    (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Master": replica(1)}, cleanPodPolicy="All"),
        "spec.cleanPodPolicy",
    ),
    (whole("batch/v1", "Job", paralelism=4, template=template()), "spec.paralelism"),
    (pod(nodeSelectors={"a": "b"}), "spec.nodeSelectors"),
    (whole("batch.volcano.sh/v1alpha1", "Job", tasks=[TASK | {"minAvailble": 1}]), "spec.tasks[0].minAvailble"),
]


def test_a_kind_has_no_remark_without_a_reason() -> None:
    assert job(whole("batch/v1", "Job", template=template())).lints == ()


@pytest.mark.parametrize(("manifest", "key"), DROPPED)
def test_what_a_definition_drops_is_a_lint(manifest: Object, key: str) -> None:
    assert key in [dotted(one.keys) for one in job(manifest).lints if one.word == "DroppedField"]


def test_what_training_operators_crd_drops_is_not_counted() -> None:
    pods = {"Worker": replica(1, container("jax"), resources={"requests": {"cpu": "8"}})}
    found = job(kubeflow("JAXJob", "jaxReplicaSpecs", pods))
    assert found.roles[0].pod.demand.requests == {}
    (dropped,) = found.lints
    assert dropped.word == "DroppedField"
    assert dropped.text.endswith("so the API server drops it: its definition is of an older Kubernetes")


def test_a_field_in_the_wrong_place_is_not_of_a_newer_kubernetes() -> None:
    worker = {**replica(1, container("jax")), "resources": {"limits": {"nvidia.com/gpu": 1}}}
    (dropped,) = job(kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": worker})).lints
    assert "older Kubernetes" not in dropped.text
    assert dropped.text.startswith("resources: ")


WRONG = [
    ({"kind": "Job"}, "apiVersion: found nothing, wanted that of a Kubernetes object"),
    ([], "the file: found a list, wanted keys with values"),
    (whole("example.com/v1", "Thing"), "kind: found 'Thing example.com/v1', wanted one of Pod v1, Job batch/v1"),
    (whole("kubeflow.org/v1beta2", "TFJob"), "found 'TFJob kubeflow.org/v1beta2', wanted one of"),
    (whole("batch/v1", "Job"), "spec.template.spec.containers: found nothing, wanted a list of containers"),
    (
        whole("batch/v1", "Job", parallelism="4", template=template()),
        "spec.parallelism: found '4', wanted a whole",
    ),
    (kubeflow("TFJob", "tfReplicaSpecs", {}), "spec.tfReplicaSpecs: found keys with values, wanted replica specs of"),
    (
        kubeflow("TFJob", "tfReplicaSpecs", {"Wrker": replica()}),
        "spec.tfReplicaSpecs.Wrker: found 'Wrker'",
    ),
    (pod(wanting(limits={"cpu": "two"})), "spec.containers[0].resources.limits.cpu: found 'two', wanted a quantity"),
    (pod(nodeSelector={"a": True}), "spec.nodeSelector.a: found true, wanted text (quote it"),
    (pod(hostNetwork="yes"), "spec.hostNetwork: found 'yes', wanted true or false"),
    (whole("batch.volcano.sh/v1alpha1", "Job"), "spec.tasks: found nothing, wanted a list of tasks"),
]


@pytest.mark.parametrize(("manifest", "says"), WRONG)
def test_a_wrong_manifest_names_key_found_and_wanted(manifest: object, says: str) -> None:
    with pytest.raises(DocumentError, match="wanted") as caught:
        job_manifest.read([None, manifest])
    assert says in str(caught.value)
    assert caught.value.document == 1


def test_a_list_is_its_items_and_what_makes_no_pods_is_passed_over() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    found = job_manifest.read([{"apiVersion": "v1", "kind": "List", "items": [service, pod(), pod(name="q")]}])
    assert [one.title for one in found.jobs] == ["Pod default/p", "Pod default/q"]
    assert found.passed_over == ("Service s",)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
UNCLAIMED = [
    ({"schedulerName": "yunikorn"}, "scheduler yunikorn"),
    ({"resourceClaims": [{"name": "gpu"}]}, "resource claim gpu"),
    ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}, "volume data"),
    (
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
        "required pod affinity",
    ),
    (
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
            }
        },
        "required pod anti-affinity",
    ),
    ({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]}, "topology spread over zone"),
    ({"schedulingGates": [{"name": "g"}]}, "scheduling gate g"),
    ({"runtimeClassName": "kata"}, "runtime class kata"),
    ({"schedulerName": "volcano", "resources": {"limits": {"cpu": "1"}}}, "resources of the whole pod"),
    ({"schedulingGroup": {"podGroupName": "g"}}, "gang of kube-scheduler itself"),
    ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}, "toleration of a with operator Gt"),
]


@pytest.mark.parametrize(("spec", "says"), UNCLAIMED, ids=[says for _, says in UNCLAIMED])
def test_what_is_not_claimed_is_told(spec: Object, says: str) -> None:
    (told,) = job(pod(**spec)).roles[0].pod.unclaimed
    assert told.words.startswith(says)


def test_what_only_prefers_is_no_obstacle() -> None:
    spread = [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
    prefers = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    assert job(pod(topologySpreadConstraints=spread, affinity=prefers)).roles[0].pod.unclaimed == ()
