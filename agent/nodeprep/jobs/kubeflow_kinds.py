"""Kubeflow's kinds: of training-operator 1.8.1 and mpi-operator 0.6.0, and MPIJob v1alpha1 as Arena writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.jobs import job_shape, kubernetes_kinds, pod_template
from nodeprep.jobs.job_model import Job, JobGang, JobLint, JobRole
from nodeprep.jobs.job_shape import JobPart
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.jobs.pod_template import Object
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, replace

RUN_POLICY = "runPolicy"
V2BETA1 = "kubeflow.org/v2beta1"
RUN_POLICY_FIELDS = (
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
    "schedulingPolicy",
    "suspend",
)
MANAGED_BY = "managedBy"  # of mpi-operator's runPolicy alone
SCHEDULING_FIELDS = ("minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds")
# Where what users and charts write at spec level belongs.
MOVED = {name: f"spec.runPolicy.{name}" for name in RUN_POLICY_FIELDS}
MOVED["schedulerName"] = "schedulerName of each replica's template"
REPLICA_FIELDS = ("replicas", "template", "restartPolicy")
GANG_BY = "runPolicy.schedulingPolicy, where the operator runs with a gang scheduler"
V1ALPHA1_FIELDS = (
    "replicas",
    "template",
    "backoffLimit",
    "activeDeadlineSeconds",
    "cleanPodPolicy",
    "launcherResources",
    "mountsOnLauncher",
    "launcherOnMaster",
    "slotsPerWorker",
    "gpus",
    "gpusPerNode",
    "processingUnits",
    "processingUnitsPerNode",
    "processingResourceType",
    "mainContainer",
)


class ReplicaShape(Value):
    """A kind whose spec has a mapping of replica specs. `roles` are its names there, `fields` those of its spec.

    Its operator refuses a job without the role `required`, and without a container of the name `container`.
    """

    key: str
    roles: tuple[str, ...]
    fields: tuple[str, ...]
    container: str = ""
    required: str = ""


SHAPES: Mapping[tuple[str, str], ReplicaShape] = {
    ("kubeflow.org/v1", "TFJob"): ReplicaShape(
        "tfReplicaSpecs",
        ("Chief", "Master", "PS", "Worker", "Evaluator"),
        ("successPolicy", "enableDynamicWorker"),
        "tensorflow",
    ),
    ("kubeflow.org/v1", "PyTorchJob"): ReplicaShape(
        "pytorchReplicaSpecs", ("Master", "Worker"), ("elasticPolicy", "nprocPerNode"), "pytorch"
    ),
    ("kubeflow.org/v1", "MPIJob"): ReplicaShape(
        "mpiReplicaSpecs", ("Launcher", "Worker"), ("slotsPerWorker", "cleanPodPolicy", "mainContainer"), "", "Launcher"
    ),
    (V2BETA1, "MPIJob"): ReplicaShape(
        "mpiReplicaSpecs",
        ("Launcher", "Worker"),
        ("slotsPerWorker", "runLauncherAsWorker", "sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation"),
        "",
        "Launcher",
    ),
    ("kubeflow.org/v1", "XGBoostJob"): ReplicaShape("xgbReplicaSpecs", ("Master", "Worker"), (), "xgboost", "Master"),
    ("kubeflow.org/v1", "PaddleJob"): ReplicaShape(
        "paddleReplicaSpecs", ("Master", "Worker"), ("elasticPolicy",), "paddle"
    ),
    ("kubeflow.org/v1", "JAXJob"): ReplicaShape("jaxReplicaSpecs", ("Worker",), (), "jax"),
}
# What operators add to the pods of a role: init containers, with their requests.
LAUNCHER_INIT: Object = {
    "name": "kubectl-delivery",
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}},
}
WORKER_INIT: Object = {"name": "init-pytorch", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}


def replicas(part: JobPart) -> Job:
    """A job of replica specs."""
    shape = SHAPES[part.api, part.kind]
    specs = part.spec.named(shape.key)
    if not specs:
        wanted = f"replica specs of {', '.join(shape.roles)}"
        raise InvalidValueError((*part.spec.keys, shape.key), part.spec.value.get(shape.key), wanted)
    names = {name.lower(): name for name in shape.roles}
    roles = tuple(_role(part, name, one, {names.get(key.lower(), key) for key, _ in specs}) for name, one in specs)
    for name, one in specs:
        if name.lower() not in names:
            raise InvalidValueError(one.keys, name, f"one of {', '.join(shape.roles)}")
    if shape.required and all(name.lower() != shape.required.lower() for name, _ in specs):
        raise InvalidValueError(
            (*part.spec.keys, shape.key, shape.required), None, "that role: its operator refuses a job without it"
        )
    lints = tuple(_lints(part, shape, tuple(one for _, one in specs)))
    policy = part.spec.part(RUN_POLICY)
    held = (kubernetes_kinds.SUSPENDED,) if policy.truth("suspend") else ()
    job = kubernetes_kinds.made(part, roles, lints, held)
    gang = _gang(part, policy.part("schedulingPolicy"), job)
    return job if gang is None else replace(job, gang=gang)


def flat_mpi(part: JobPart) -> Job:
    """MPIJob v1alpha1: one template for launcher and workers, and a number of workers."""
    template = part.spec.part("template")
    worker = JobRole(
        "Worker", part.spec.count("replicas", 1), pod_template.read(template, drops=job_shape.LATER_FIELDS)
    )
    launcher = JobRole(
        "Launcher",
        1,
        pod_template.read(
            _with_resources(template, part.spec.part("launcherResources").value), drops=job_shape.LATER_FIELDS
        ),
        adds=("the workers' template, with spec.launcherResources in its first container",),
    )
    whose = "MPIJob v1alpha1"
    lints = (
        *job_shape.dropped(part.spec, V1ALPHA1_FIELDS, whose),
        *job_shape.dropped_of_pod(template, whose, job_shape.LATER_FIELDS),
    )
    return kubernetes_kinds.made(part, (launcher, worker), tuple(lints))


def _with_resources(template: ManifestPart, resources: Object) -> ManifestPart:
    """The template with other resources of its first container."""
    spec = template.value.get("spec")
    found = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(found, list | tuple) or not isinstance(found[0], Mapping):
        return template
    first = {**found[0], "resources": resources}
    return replace(template, value={**template.value, "spec": {**spec, "containers": (first, *found[1:])}})


def _role(part: JobPart, name: str, one: ManifestPart, there: set[str]) -> JobRole:
    init, adds = _added(part, name.lower(), there)
    pod = pod_template.read(one.part("template"), drops=job_shape.LATER_FIELDS, more_init=init)
    # mpi-operator 0.6.0 has no worker where none is stated (pkg/apis/kubeflow/v2beta1/default.go).
    count = 0 if (part.api, name.lower()) == (V2BETA1, "worker") else 1
    return JobRole(name, one.count("replicas", count), pod, adds=adds)


def _added(part: JobPart, role: str, there: set[str]) -> tuple[tuple[Object, ...], tuple[str, ...]]:
    """The init containers that training-operator adds to a role."""
    if (part.api, part.kind, role) == ("kubeflow.org/v1", "MPIJob", "launcher"):
        return (LAUNCHER_INIT,), ("an init container of 100m cpu, 512Mi memory, 5Gi ephemeral-storage",)
    if (part.kind, role) == ("PyTorchJob", "worker") and "Master" in there:
        return (WORKER_INIT,), ("an init container of 50m cpu, 10Mi memory",)
    return (), ()


def _gang(part: JobPart, policy: ManifestPart, job: Job) -> JobGang | None:
    """The gang that the operator asks of a gang scheduler: the stated minimum, else all pods.

    Without one, an elastic job starts with the least number of replicas that it states.
    """
    elastic = part.spec.part("elasticPolicy")
    group = "" if job.gang is None else job.gang.group
    if policy.value or _volcano(job):
        return JobGang(policy.count("minAvailable", job.pods), GANG_BY, policy.text("queue"), group)
    if "minReplicas" in elastic:
        workers = sum(role.replicas for role in job.roles if role.name.lower() == "worker")
        least = job.pods - workers + min(elastic.count("minReplicas", 1), workers)
        return JobGang(least, "elasticPolicy.minReplicas", "", group)
    return None


def _volcano(job: Job) -> bool:
    return any(role.pod.scheduler == pod_template.VOLCANO for role in job.roles)


def _lints(part: JobPart, shape: ReplicaShape, specs: tuple[ManifestPart, ...]) -> Iterator[JobLint]:
    whose = f"{part.kind} {part.api.rpartition('/')[2]}"
    policy = part.spec.part(RUN_POLICY)
    yield from job_shape.dropped(part.spec, (shape.key, RUN_POLICY, *shape.fields), whose, MOVED)
    fields = (*RUN_POLICY_FIELDS, MANAGED_BY) if part.api == V2BETA1 else RUN_POLICY_FIELDS
    yield from job_shape.dropped(policy, fields, f"runPolicy of {whose}")
    yield from job_shape.dropped(policy.part("schedulingPolicy"), SCHEDULING_FIELDS, f"schedulingPolicy of {whose}")
    for one in specs:
        yield from job_shape.dropped(one, REPLICA_FIELDS, f"a replica spec of {whose}")
        yield from job_shape.dropped_of_pod(one.part("template"), whose, job_shape.LATER_FIELDS)
        containers = one.part("template", "spec").parts("containers")
        if shape.container and all(box.text("name") != shape.container for box in containers):
            text = f"no container is called {shape.container}: training-operator refuses the {part.kind}"
            yield JobLint("ContainerName", (*one.keys, "template", "spec", "containers"), text)
