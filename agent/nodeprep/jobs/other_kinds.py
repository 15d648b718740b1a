"""Volcano's Job and PodGroup, Ray's RayJob, and Kubeflow Trainer's TrainJob with the runtime that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.jobs import job_shape, kubernetes_kinds, pod_template
from nodeprep.jobs.job_model import Job, JobGang, JobLint, JobRole
from nodeprep.jobs.job_shape import JobPart
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.jobs.pod_template import VOLCANO, Object, Unclaimed
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import replace

DEFAULT_QUEUE = "default"
VOLCANO_FIELDS = (
    "schedulerName",
    "minAvailable",
    "volumes",
    "tasks",
    "policies",
    "plugins",
    "runningEstimate",
    "queue",
    "maxRetry",
    "ttlSecondsAfterFinished",
    "priorityClassName",
    "minSuccess",
)
TASK_FIELDS = ("name", "replicas", "minAvailable", "template", "policies", "topologyPolicy", "maxRetry", "dependsOn")
TRAINER_STEP, TRAINER_ROLE, TRAINER_CONTAINER = "trainer.kubeflow.org/trainjob-ancestor-step", "trainer", "node"
RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")
# KubeRay's own pod that submits, and the autoscaler beside the head (ray-operator/controllers/ray/common).
SUBMITTER: Object = {
    "spec": {"containers": ({"name": "submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}},)}
}
# Beside each worker, until the head answers (ray-operator/controllers/ray/common/pod.go).
WAIT_GCS: Object = {"name": "wait-gcs-ready", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
AUTOSCALER: Object = {
    "name": "autoscaler",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
}


def volcano_job(part: JobPart) -> Job:
    """A Volcano Job: its pods are a gang by nature."""
    roles = tuple(_task(part, one) for one in part.spec.parts("tasks"))
    if not roles:
        raise InvalidValueError((*part.spec.keys, "tasks"), part.spec.value.get("tasks"), "a list of tasks")
    lints = [*job_shape.dropped(part.spec, VOLCANO_FIELDS, "a Volcano Job")]
    for one in part.spec.parts("tasks"):
        lints += job_shape.dropped(one, TASK_FIELDS, "a task of a Volcano Job")
        lints += job_shape.dropped_of_pod(one.part("template"), "a Volcano Job", job_shape.LATER_FIELDS)
    of_tasks = sum(role.minimum or 0 for role in roles)
    minimum = part.spec.count("minAvailable", 0) or of_tasks
    if minimum < of_tasks:  # then the scheduler passes over those of the tasks (job_info.go, CheckTaskReady)
        roles = tuple(replace(role, minimum=None) for role in roles)
    job = kubernetes_kinds.made(part, roles, tuple(lints))
    gang = JobGang(minimum, "minAvailable of the Volcano Job", part.spec.text("queue") or DEFAULT_QUEUE)
    return replace(job, gang=gang)


def _task(part: JobPart, one: ManifestPart) -> JobRole:
    pod = pod_template.read(one.part("template"), drops=job_shape.LATER_FIELDS)
    scheduler = part.spec.text("schedulerName") or VOLCANO
    if "schedulerName" not in one.part("template", "spec"):
        trouble = pod_template.unclaimed_scheduler(scheduler)
        demand = replace(pod.demand, heeds_overcommitment=scheduler == VOLCANO)
        pod = replace(pod, demand=demand, scheduler=scheduler, unclaimed=(*trouble, *pod.unclaimed))
    replicas = one.count("replicas", 1)
    least = one.count("minAvailable", replicas)  # the webhook sets it to replicas where it is not stated
    return JobRole(one.text("name") or "task", replicas, pod, minimum=least)


def pod_group(part: JobPart) -> Job:
    """A PodGroup makes no pods: those that name it are its gang."""
    job = kubernetes_kinds.made(part, (), (), (Unclaimed("its pods are not in the file", may_allow=True),))
    queue = part.spec.text("queue") or DEFAULT_QUEUE
    return replace(job, gang=JobGang(part.spec.count("minMember", 1), "minMember of the PodGroup", queue, part.name))


def ray_job(part: JobPart) -> Job:
    """Head, workers and, in mode K8sJobMode, the pod that submits."""
    cluster = part.spec.part("rayClusterSpec")
    if not cluster.value and not part.spec.part("clusterSelector").value:
        wanted = "a Ray cluster of its own, or a clusterSelector"
        raise InvalidValueError((*part.spec.keys, "rayClusterSpec"), part.spec.value.get("rayClusterSpec"), wanted)
    if not cluster.value:
        unclaimed = (Unclaimed("clusterSelector: it runs on a Ray cluster that is there already", may_allow=True),)
        return kubernetes_kinds.made(part, (), (), unclaimed)
    head = cluster.part("headGroupSpec", "template")
    scales = cluster.truth("enableInTreeAutoscaling")
    stated = cluster.part("autoscalerOptions", "resources").value
    beside = {**AUTOSCALER, "resources": stated} if stated else AUTOSCALER
    told = "with its autoscalerOptions" if stated else "of 500m cpu, 512Mi memory"
    added = (f"an autoscaler {told}",) if scales else ()
    roles = [JobRole("head", 1, pod_template.read(head, more_init=(beside,) if scales else ()), adds=added)]
    lints = [*job_shape.dropped_of_pod(head, "a RayJob")]
    for one in cluster.parts("workerGroupSpecs"):
        count = max(one.count("replicas", 0), one.count("minReplicas", 0)) * one.count("numOfHosts", 1)
        count = 0 if one.truth("suspend") else count
        pod = pod_template.read(one.part("template"), more_init=(WAIT_GCS,))
        adds = ("an init container of 200m cpu, 256Mi memory",)
        roles.append(JobRole(one.text("groupName") or "worker", count, pod, adds=adds))
        lints += job_shape.dropped_of_pod(one.part("template"), "a RayJob")
    if part.spec.text("submissionMode", "K8sJobMode") == "K8sJobMode":
        roles.append(_submitter(part.spec))
    held = (kubernetes_kinds.SUSPENDED,) if part.spec.truth("suspend") else ()
    return kubernetes_kinds.made(part, tuple(roles), tuple(lints), held)


def _submitter(spec: ManifestPart) -> JobRole:
    if "submitterPodTemplate" in spec:
        return JobRole("submitter", 1, pod_template.read(spec.part("submitterPodTemplate")))
    pod = pod_template.read(ManifestPart.of(SUBMITTER, (*spec.keys, "submitterPodTemplate")))
    return JobRole("submitter", 1, pod, adds=("the whole pod: 500m cpu, 200Mi memory",))


def train_job(part: JobPart, runtimes: Mapping[tuple[str, str], ManifestPart]) -> Job:
    """A TrainJob with the runtime that it names. A runtime that is not in the file leaves its pods unknown."""
    named = part.spec.part("runtimeRef")
    kind, name = named.text("kind") or RUNTIMES[0], named.text("name")
    held = [kubernetes_kinds.SUSPENDED] if part.spec.truth("suspend") else []
    if any(key in part.spec for key in ("podSpecOverrides", "podTemplateOverrides", "runtimePatches")):
        held.append(Unclaimed("overrides of pods of the runtime are not read", may_allow=True))
    runtime = runtimes.get((kind, name))
    if runtime is None:
        words = f"{kind} {name or '(no name)'} is not in the file: put it there to have its pods judged"
        held.append(Unclaimed(words, may_allow=True))
        return kubernetes_kinds.made(part, (), (), tuple(held))
    if "mpi" in runtime.part("spec", "mlPolicy"):
        held.append(Unclaimed("an MPI runtime: how it splits launcher and nodes", may_allow=True))
    roles = tuple(_trained(part.spec.part("trainer"), runtime.part("spec")))
    if not roles:
        keys = (*runtime.part("spec", "template", "spec").keys, "replicatedJobs")
        raise InvalidValueError(keys, None, "a list of replicated jobs")
    return kubernetes_kinds.made(part, roles, (), tuple(held))


def _trained(trainer: ManifestPart, runtime: ManifestPart) -> Iterator[JobRole]:
    """The roles of a runtime's JobSet, the trainer's with the number of nodes and resources of the TrainJob."""
    nodes = trainer.count("numNodes", runtime.part("mlPolicy").count("numNodes", 1))
    for one in runtime.part("template", "spec").parts("replicatedJobs"):
        template = one.part("template")
        is_trainer = template.part("metadata").texts("labels").get(TRAINER_STEP) == TRAINER_ROLE
        if is_trainer and trainer.part("resourcesPerNode").value:
            template = _with_node_resources(template, trainer.part("resourcesPerNode").value)
        role, _ = kubernetes_kinds.indexed(template.part("spec"), one.text("name"))
        yield replace(role, replicas=nodes) if is_trainer else role


def _with_node_resources(template: ManifestPart, resources: Object) -> ManifestPart:
    """The Job template with other resources of its container `node`."""
    pod = template.part("spec", "template", "spec")
    boxes = tuple(
        {**one.value, "resources": resources} if one.text("name") == TRAINER_CONTAINER else one.value
        for one in pod.parts("containers")
    )
    job, inner = template.part("spec").value, template.part("spec", "template").value
    whole = {**job, "template": {**inner, "spec": {**pod.value, "containers": boxes}}}
    return replace(template, value={**template.value, "spec": whole})


def lint_of_gang(job: Job) -> tuple[JobLint, ...]:
    """A gang that wants more pods than the job has never starts."""
    if job.gang is None or not job.roles or job.gang.minimum <= job.pods:
        return ()
    text = f"the gang wants {job.gang.minimum} pods ({job.gang.by}) and the job has {job.pods}: it never starts"
    return (JobLint("GangAbovePods", ("spec",), text),)
