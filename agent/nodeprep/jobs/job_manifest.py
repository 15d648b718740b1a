"""Documents of a manifest to jobs: every kind that preflight reads, and those that make no pods and are passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from nodeprep.jobs import job_shape, kubeflow_kinds, kubernetes_kinds, other_kinds
from nodeprep.jobs.job_model import Job, JobGang
from nodeprep.jobs.job_shape import JobPart
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, replace

BATCH, APPS, RAY = "batch/v1", "apps/v1", ("ray.io/v1", "ray.io/v1alpha1")
READERS: Mapping[tuple[str, str], Callable[[JobPart], Job]] = {
    ("v1", "Pod"): kubernetes_kinds.pod,
    (BATCH, "Job"): kubernetes_kinds.batch_job,
    (APPS, "Deployment"): kubernetes_kinds.workload,
    (APPS, "ReplicaSet"): kubernetes_kinds.workload,
    (APPS, "StatefulSet"): kubernetes_kinds.workload,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): kubernetes_kinds.job_set,
    **dict.fromkeys(kubeflow_kinds.SHAPES, kubeflow_kinds.replicas),
    ("kubeflow.org/v1alpha1", "MPIJob"): kubeflow_kinds.flat_mpi,
    ("batch.volcano.sh/v1alpha1", "Job"): other_kinds.volcano_job,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): other_kinds.pod_group,
    **dict.fromkeys(((one, "RayJob") for one in RAY), other_kinds.ray_job),
}
TRAINER = "trainer.kubeflow.org/"
KNOWN = (*(f"{kind} {api}" for api, kind in READERS), f"TrainJob {TRAINER}v1alpha1")
# They make no pods that a job waits for. A DaemonSet's pods run beside the job's and are the cluster's.
PASSED_OVER = frozenset(
    """ClusterRole ClusterRoleBinding ClusterTrainingRuntime ConfigMap CronJob CustomResourceDefinition DaemonSet
    Endpoints EndpointSlice HorizontalPodAutoscaler Ingress LimitRange MutatingWebhookConfiguration Namespace
    NetworkPolicy PersistentVolume PersistentVolumeClaim PodDisruptionBudget PodMonitor PriorityClass PrometheusRule
    Queue ResourceQuota Role RoleBinding RuntimeClass Secret Service ServiceAccount ServiceMonitor StorageClass
    TrainingRuntime ValidatingWebhookConfiguration""".split()  # noqa: SIM905 - a list of that many words
)


class JobManifest(Value):
    """The jobs of a manifest, in its order. `passed_over` names the objects that make no pods of a job."""

    jobs: tuple[Job, ...]
    passed_over: tuple[str, ...] = ()


class DocumentError(Exception):
    """A document of a manifest that cannot be read: its place in the stream, from 0, and what is wrong there."""

    def __init__(self, document: int, error: InvalidValueError) -> None:
        self.document = document
        self.error = error
        super().__init__(str(error))


def read(documents: Iterable[object], namespace: str = "default") -> JobManifest:
    """The jobs of plain documents; an empty document counts for nothing. `namespace` is where one names none.

    Raises:
        DocumentError: a document is no object of Kubernetes, of an unknown kind, or a field has the wrong kind.
    """
    parts = [one for place, value in enumerate(documents) for one in _guarded(place, value, namespace)]
    runtimes = {(one.kind, one.name): one.whole for one in parts if one.kind in other_kinds.RUNTIMES}
    jobs = [_job(one, runtimes) for one in parts if one.kind not in PASSED_OVER]
    groups = {(one.namespace, one.name): one.gang for one in jobs if one.kind == "PodGroup"}
    made = [_finished(one, groups) for one in jobs]
    joined = {(one.namespace, one.gang.group) for one in made if one.roles and one.gang}
    kept = tuple(one for one in made if one.kind != "PodGroup" or (one.namespace, one.name) not in joined)
    kept = tuple(replace(one, lints=(*one.lints, *other_kinds.lint_of_gang(one))) for one in _together(kept))
    passed = tuple(f"{one.kind} {one.name}" for one in parts if one.kind in PASSED_OVER)
    return JobManifest(kept, passed)


def _guarded(place: int, value: object, namespace: str) -> tuple[JobPart, ...]:
    if value is None:
        return ()
    try:
        return tuple(_objects(ManifestPart.of(value), place, namespace))
    except InvalidValueError as error:
        raise DocumentError(place, error) from error


def _objects(whole: ManifestPart, place: int, namespace: str) -> Iterator[JobPart]:
    """The object, or those of a list."""
    kind, api = whole.text("kind"), whole.text("apiVersion")
    if not kind or not api:
        missing = "kind" if not kind else "apiVersion"
        raise InvalidValueError((*whole.keys, missing), None, "that of a Kubernetes object")
    if kind == "List":
        for one in whole.parts("items"):
            yield from _objects(one, place, namespace)
        return
    part = JobPart(whole, place, api, kind, whole.part("metadata").text("namespace") or namespace)
    is_known = (api, kind) in READERS or kind in PASSED_OVER or (kind == "TrainJob" and api.startswith(TRAINER))
    if not is_known:
        raise InvalidValueError((*whole.keys, "kind"), f"{kind} {api}", f"one of {', '.join(KNOWN)}")
    _ = part.name  # it is read here, where an error has its place
    yield part


def _job(part: JobPart, runtimes: Mapping[tuple[str, str], ManifestPart]) -> Job:
    try:
        if part.kind == "TrainJob":
            return other_kinds.train_job(part, runtimes)
        return READERS[part.api, part.kind](part)
    except InvalidValueError as error:
        raise DocumentError(part.document, error) from error


def _finished(job: Job, groups: Mapping[tuple[str, str], JobGang | None]) -> Job:
    """The job with the gang of the PodGroup in the file that its pods name."""
    named = (role.pod.annotations.get(job_shape.GROUP_ANNOTATION, "") for role in job.roles)
    name = next(filter(None, named), "")
    gang = groups.get((job.namespace, name)) if name else None
    if gang is None and name and job.gang is not None:
        gang = replace(job.gang, group=name)
    return job if gang is None else replace(job, gang=gang)


def _together(jobs: tuple[Job, ...]) -> Iterator[Job]:
    """The jobs, and those of one gang as one: their pods start together or not at all."""
    gangs: dict[tuple[str, str], list[Job]] = {}
    for one in jobs:
        if one.roles and one.gang is not None and one.gang.group:
            gangs.setdefault((one.namespace, one.gang.group), []).append(one)
    for one in jobs:
        key = (one.namespace, one.gang.group) if one.roles and one.gang is not None else ("", "")
        members = gangs.get(key, [one])
        if one is members[0]:
            yield one if len(members) == 1 else _joined(members)


def _joined(members: list[Job]) -> Job:
    """One job of all members of a gang, with the name of the first."""
    first = members[0]
    roles = [replace(role, name=f"{one.name}/{role.name}") for one in members for role in one.roles]
    return replace(
        first,
        name=f"{first.name} and {len(members) - 1} more of gang {first.gang.group if first.gang else ''}",
        roles=tuple(roles),
        lints=tuple(lint for one in members for lint in one.lints),
        unclaimed=tuple(dict.fromkeys(what for one in members for what in one.unclaimed)),
    )
