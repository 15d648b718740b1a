"""What readers of all kinds of jobs share: who the job is, its gang by labels, and fields that a CRD would drop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodeprep import typed_yaml
from nodeprep.jobs.job_model import JobGang, JobLint, JobRole
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value

DROPPED = "DroppedField"
# PodSpec of core/v1, Kubernetes 1.36 (k8s.io/api/core/v1/types.go).
POD_FIELDS = frozenset(
    """activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
    resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup
    securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef""".split()  # noqa: SIM905 - a list of that many words
)
# The CRDs of Kubeflow's operators and of Volcano 1.10.0 are made from Kubernetes 0.29 to 0.31: these came later.
LATER_FIELDS = ("resources", "schedulingGroup", "workloadRef", "hostnameOverride")
POD_TEMPLATE_FIELDS = ("metadata", "spec")
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"  # the Volcano PodGroup of a pod
GROUP_NAME = ("pod-group.scheduling.sigs.k8s.io/name", "scheduling.x-k8s.io/pod-group")
COUNT_DIGITS = 10  # of a number of pods, which is an int32
GROUP_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


class JobPart(Value):
    """One object of a manifest: its whole, its place in the stream, its group and version, and its kind."""

    whole: ManifestPart
    document: int
    api: str
    kind: str
    namespace: str

    @property
    def name(self) -> str:
        """Its name; with generateName alone, that and a star."""
        metadata = self.whole.part("metadata")
        generated = metadata.text("generateName")
        return metadata.text("name") or (f"{generated}*" if generated else "(no name)")

    @property
    def spec(self) -> ManifestPart:
        return self.whole.part("spec")


def dropped(
    part: ManifestPart,
    known: Iterable[str],
    whose: str,
    moved: Mapping[str, str] | None = None,
    later: tuple[str, ...] = (),
) -> Iterator[JobLint]:
    """The fields that `whose` definition does not have. The API server drops them, and only Strict says so.

    `moved` has the place where a field counts, by its name. `later` are fields that a newer definition has.
    """
    names = tuple(known)
    for key in part.value:
        if key in names:
            continue
        place = (moved or {}).get(key) or typed_yaml.similar(key, names).removeprefix("nearest: ")
        near = f"; wanted {place}" if place else ""
        if key in later:
            near = ": its definition is of an older Kubernetes"
        text = f"{key}: {whose} has no such field, so the API server drops it{near}"
        yield JobLint(DROPPED, (*part.keys, key), text)


def dropped_of_pod(template: ManifestPart, whose: str, drops: tuple[str, ...] = ()) -> Iterator[JobLint]:
    """The fields of a pod template that are dropped. `drops` are those that a CRD of an older Kubernetes lacks."""
    yield from dropped(template, POD_TEMPLATE_FIELDS, "a pod template")
    pod = f"the pod of {whose}" if drops else "a pod"
    yield from dropped(template.part("spec"), POD_FIELDS - set(drops), pod, later=drops)


def gang_by_labels(roles: Iterable[JobRole]) -> JobGang | None:
    """The gang that the pods' own labels ask for (scheduler-plugins' coscheduling). Raises InvalidValueError."""
    for role in roles:
        minimum = role.pod.labels.get(GROUP_MINIMUM, "")
        name = next((role.pod.labels[key] for key in GROUP_NAME if key in role.pod.labels), "")
        if name and minimum:
            if not minimum.isdecimal() or len(minimum) > COUNT_DIGITS:
                keys = (*role.pod.keys[:-1], "metadata", "labels", GROUP_MINIMUM)
                raise InvalidValueError(keys, minimum, "a whole number of pods")
            return JobGang(int(minimum), f"label {GROUP_MINIMUM}", group=name)
    return None
