"""Kubernetes' own kinds that make pods: Pod, Job, Deployment, ReplicaSet, StatefulSet; and JobSet, which makes Jobs."""

from __future__ import annotations

from nodeprep.jobs import job_shape, pod_template
from nodeprep.jobs.job_model import Job, JobLint, JobRole
from nodeprep.jobs.job_shape import JobPart
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.jobs.pod_template import Unclaimed
from nodeprep.typed_yaml import InvalidValueError

JOB_FIELDS = frozenset(
    """activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions manualSelector managedBy
    maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy scheduling selector successPolicy suspend
    template ttlSecondsAfterFinished""".split()  # noqa: SIM905 - a list of that many words
)
WORKLOAD_FIELDS = frozenset(
    """minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit selector strategy template
    updateStrategy podManagementPolicy serviceName volumeClaimTemplates persistentVolumeClaimRetentionPolicy
    ordinals""".split()  # noqa: SIM905 - a list of that many words
)
# jobset.x-k8s.io/v1alpha2, JobSet 0.10 (api/jobset/v1alpha2/jobset_types.go).
JOB_SET_FIELDS = (
    "replicatedJobs",
    "network",
    "successPolicy",
    "failurePolicy",
    "startupPolicy",
    "suspend",
    "coordinator",
    "managedBy",
    "ttlSecondsAfterFinished",
    "volumeClaimPolicies",
)
REPLICATED_FIELDS = ("name", "groupName", "template", "replicas", "dependsOn")
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PAUSED = Unclaimed("it is paused: a new Deployment makes no pods until somebody resumes it")
SUSPENDED = Unclaimed("it is suspended: its pods come when somebody resumes it")


def pod(part: JobPart) -> Job:
    """One pod."""
    role = JobRole("pod", 1, pod_template.read(part.whole))
    lints = job_shape.dropped(part.spec, job_shape.POD_FIELDS, "a pod")
    return made(part, (role,), tuple(lints))


def batch_job(part: JobPart) -> Job:
    """As many pods at a time as its parallelism says, and no more than it completes."""
    role, lints = indexed(part.spec, "pod")
    held = (SUSPENDED,) if part.spec.truth("suspend") else ()
    return made(part, (role,), lints, held)


def workload(part: JobPart) -> Job:
    """Deployment, ReplicaSet and StatefulSet."""
    template = part.spec.part("template")
    role = JobRole("pod", part.spec.count("replicas", 1), pod_template.read(template))
    lints = (
        *job_shape.dropped(part.spec, WORKLOAD_FIELDS, f"a {part.kind}"),
        *job_shape.dropped_of_pod(template, part.kind),
    )
    claims = tuple(
        Unclaimed(f"volume claim template {one.part('metadata').text('name')}: where its volume may be attached")
        for one in part.spec.parts("volumeClaimTemplates")
    )
    held = (PAUSED,) if part.kind == "Deployment" and part.spec.truth("paused") else ()
    return made(part, (role,), lints, (*claims, *held))


def job_set(part: JobPart) -> Job:
    """Each replicated job is so many Jobs, with the pods of one each."""
    roles, lints = replicated(part.spec)
    held = (SUSPENDED,) if part.spec.truth("suspend") else ()
    if not roles:
        raise InvalidValueError((*part.spec.keys, "replicatedJobs"), part.spec.value.get("replicatedJobs"), "a list")
    if EXCLUSIVE in part.whole.part("metadata").texts("annotations"):
        held = (*held, Unclaimed(f"{EXCLUSIVE}: its controller adds required pod affinity and anti-affinity"))
    return made(part, roles, (*job_shape.dropped(part.spec, JOB_SET_FIELDS, "a JobSet"), *lints), held)


def replicated(spec: ManifestPart) -> tuple[tuple[JobRole, ...], tuple[JobLint, ...]]:
    """The roles of a JobSet's spec. Raises InvalidValueError."""
    roles: list[JobRole] = []
    lints: list[JobLint] = []
    for one in spec.parts("replicatedJobs"):
        role, more = indexed(one.part("template", "spec"), one.text("name"))
        roles.append(JobRole(role.name, role.replicas * one.count("replicas", 1), role.pod))
        lints += [*job_shape.dropped(one, REPLICATED_FIELDS, "a replicated job of a JobSet"), *more]
    return tuple(roles), tuple(lints)


def indexed(spec: ManifestPart, name: str) -> tuple[JobRole, tuple[JobLint, ...]]:
    """The pods of a Job's spec that run at the same time."""
    template = spec.part("template")
    parallel = spec.count("parallelism", 1)
    together = min(parallel, spec.count("completions", parallel))
    role = JobRole(name, together, pod_template.read(template))
    return role, (*job_shape.dropped(spec, JOB_FIELDS, "a Job"), *job_shape.dropped_of_pod(template, "a Job"))


def made(
    part: JobPart,
    roles: tuple[JobRole, ...],
    lints: tuple[JobLint, ...] = (),
    unclaimed: tuple[Unclaimed, ...] = (),
) -> Job:
    """The job of these roles, with the gang that its pods' labels ask for."""
    gang = job_shape.gang_by_labels(roles)
    queue = part.whole.part("metadata").texts("labels").get(pod_template.QUEUE_LABEL)
    if queue is not None:
        unclaimed = (*unclaimed, pod_template.of_kueue(queue))
    return Job(
        document=part.document,
        api=part.api,
        kind=part.kind,
        namespace=part.namespace,
        name=part.name,
        roles=roles,
        gang=gang,
        lints=lints,
        unclaimed=unclaimed,
    )
