"""A pod as a template describes it: what kube-scheduler asks of a Node for it, and what we do not claim to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.jobs import node_terms, quantities, scheduler_requests
from nodeprep.jobs.manifest_part import ManifestPart
from nodeprep.jobs.node_terms import TOLERATION_OPERATORS, HostPort, NodeTerm, PodToleration
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field, replace

DEFAULT_SCHEDULER, VOLCANO = "default-scheduler", "volcano"
CLAIMED_SCHEDULERS = (DEFAULT_SCHEDULER, VOLCANO)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Each pod gets them from the API server's admission (DefaultTolerationSeconds, on by default).
ADDED_TOLERATIONS = tuple(
    PodToleration(key, "Exists", "", "NoExecute")
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
# Volumes that may bind a pod to a zone, or be attached once.
BOUND_VOLUMES = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "rbd",
    "iscsi",
)
IPC_LOCK, EVERYTHING = "IPC_LOCK", "ALL"
SHM = "/dev/shm"  # noqa: S108 - a path in the container
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
NATIVE_PREFIX = "kubernetes.io/"  # resources under it are Kubernetes' own
RESOURCES = ("requests", "limits")

Object = Mapping[str, Any]


class Unclaimed(Value):
    """What preflight does not claim to judge, in words. `may_allow`: it may open Nodes that seem closed."""

    words: str
    may_allow: bool = False


class PodDemand(Value):
    """What the scheduler holds against a Node for one pod.

    `requests` are thousandths of processors, and whole units of other resources. `terms` is None without a required
    node affinity. With a `node_name`, the pod does not meet the scheduler. `heeds_overcommitment`: its scheduler leaves
    a Node alone on which more processors or memory are taken than there are, though the pod asks for none of them.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[PodToleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    node_name: str = ""
    heeds_overcommitment: bool = False


class PodTemplate(Value):
    """A pod of a role. `unclaimed` says in words what of it preflight does not claim to judge.

    `environment` has the variables that the template states as text, by name, of all containers. `locks_memory`: a
    container has IPC_LOCK or is privileged. `shared_memory`: /dev/shm of a container is a volume in memory.
    `volcano_group` is the PodGroup that an annotation names.
    """

    demand: PodDemand
    scheduler: str = DEFAULT_SCHEDULER
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    locks_memory: bool = False
    shared_memory: bool = False
    priority_class: str = ""
    commands: tuple[str, ...] = ()
    unclaimed: tuple[Unclaimed, ...] = ()
    keys: Keys = ()


def read(template: ManifestPart, *, drops: tuple[str, ...] = (), more_init: tuple[Object, ...] = ()) -> PodTemplate:
    """The pod of a template. Raises InvalidValueError.

    `drops` are fields of its spec that the kind's CRD drops. `more_init` are init containers that an operator adds.
    """
    spec = template.part("spec")
    spec = replace(spec, value={key: value for key, value in spec.value.items() if key not in drops})
    _require_containers(spec)
    _require_quantities(spec)
    metadata = template.part("metadata")
    scheduler = spec.text("schedulerName") or DEFAULT_SCHEDULER
    plain = {**spec.value, "initContainers": (*_plain(spec, "initContainers"), *more_init)}
    found = PodTemplate(
        demand=PodDemand(
            requests=quantities.counted(scheduler_requests.requests(plain)),
            selector=spec.texts("nodeSelector"),
            terms=node_terms.terms(spec.part("affinity")),
            tolerations=(*node_terms.tolerations(spec), *ADDED_TOLERATIONS),
            ports=node_terms.host_ports(spec.value),
            node_name=spec.text("nodeName"),
            heeds_overcommitment=scheduler == VOLCANO,
        ),
        scheduler=scheduler,
        labels=metadata.texts("labels"),
        annotations=metadata.texts("annotations"),
        environment=dict(_environment(spec)),
        host_network=spec.truth("hostNetwork"),
        locks_memory=any(map(_locks_memory, spec.parts("containers"))),
        shared_memory=_shared_memory(spec),
        priority_class=spec.text("priorityClassName"),
        commands=tuple(_commands(spec)),
        keys=spec.keys,
    )
    return replace(found, unclaimed=tuple(_unclaimed(spec, found)))


def unclaimed_scheduler(name: str) -> tuple[Unclaimed, ...]:
    """Why nothing is claimed of a scheduler; nothing for those that are claimed."""
    if name in CLAIMED_SCHEDULERS:
        return ()
    words = f"scheduler {name}: only kube-scheduler ({DEFAULT_SCHEDULER}) and {VOLCANO} are claimed"
    return (Unclaimed(words, may_allow=True),)


def of_kueue(queue: str) -> Unclaimed:
    """What Kueue decides of a job in its queue."""
    return Unclaimed(f"Kueue's queue {queue}: its quota, and what its flavors add", may_allow=True)


def _unclaimed(spec: ManifestPart, template: PodTemplate) -> Iterator[Unclaimed]:
    yield from unclaimed_scheduler(template.scheduler)
    yield from map(Unclaimed, _unclaimed_places(spec))
    for gate in spec.parts("schedulingGates"):
        yield Unclaimed(f"scheduling gate {gate.text('name')}: somebody has to remove it")
    if "runtimeClassName" in spec:
        words = f"runtime class {spec.text('runtimeClassName')}: its overhead, selector and tolerations are not read"
        yield Unclaimed(words, may_allow=True)
    if "schedulingGroup" in spec or "workloadRef" in spec:
        yield Unclaimed("gang of kube-scheduler itself (alpha): its minimum is in another object")
    if template.scheduler == VOLCANO and "resources" in spec:
        yield Unclaimed(f"resources of the whole pod: {VOLCANO} counts those of its containers", may_allow=True)
    if QUEUE_LABEL in template.labels:
        yield of_kueue(template.labels[QUEUE_LABEL])
    for one in template.demand.tolerations:
        if one.operator not in TOLERATION_OPERATORS:
            yield Unclaimed(f"toleration of {one.key} with operator {one.operator} (alpha)", may_allow=True)


def _unclaimed_places(spec: ManifestPart) -> Iterator[str]:
    """What depends on devices, volumes and other pods."""
    for claim in spec.parts("resourceClaims"):
        yield f"resource claim {claim.text('name')}: devices of dynamic resource allocation (DRA)"
    for volume in spec.parts("volumes"):
        for kind in filter(volume.__contains__, BOUND_VOLUMES):
            yield f"volume {volume.text('name')} ({kind}): where it may be attached"
    for key, what in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        if spec.part("affinity", key).parts(REQUIRED):
            yield f"required {what}: which pods already run where"
    for spread in spec.parts("topologySpreadConstraints"):
        if spread.text("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            yield f"topology spread over {spread.text('topologyKey')}: which pods already run where"


def _require_containers(spec: ManifestPart) -> None:
    if not spec.parts("containers"):
        raise InvalidValueError((*spec.keys, "containers"), spec.value.get("containers"), "a list of containers")
    spec.truth("hostNetwork")
    for one in (*spec.parts("initContainers"), *spec.parts("containers")):
        one.text("restartPolicy")
        for port in one.parts("ports"):
            port.count("hostPort", 0)
            port.count("containerPort", 0)


def _require_quantities(spec: ManifestPart) -> None:
    """Raise InvalidValueError for a quantity that the API server would not take."""
    holders = (spec, *spec.parts("initContainers"), *spec.parts("containers"))
    stated = [holder.part("resources", key) for holder in holders for key in RESOURCES]
    for one in (*stated, spec.part("overhead")):
        for name, value in one.value.items():
            if quantities.nanos(value) is None:
                raise InvalidValueError((*one.keys, name), value, quantities.QUANTITY_WORDS)
    for holder in holders:
        _require_limits(holder.part("resources"))


def _require_limits(resources: ManifestPart) -> None:
    """Raise InvalidValueError where the API server refuses a request beside its limit.

    No request is above its limit. Of an extended resource both are the same whole number (validation.go).
    """
    requests, limits = resources.part("requests"), resources.part("limits")
    for name, value in (*requests.value.items(), *limits.value.items()):
        is_extended = "/" in name and not name.startswith(NATIVE_PREFIX)
        if is_extended and (quantities.nanos(value) or 0) % 10**9:
            raise InvalidValueError((*resources.keys, "limits", name), value, "a whole number of a device")
    for name, value in requests.value.items():
        limit, asked = quantities.nanos(limits.value.get(name)), quantities.nanos(value) or 0
        is_extended = "/" in name and not name.startswith(NATIVE_PREFIX)
        if is_extended and limit != asked:
            raise InvalidValueError((*requests.keys, name), value, "the same number as its limit, as of each device")
        if limit is not None and asked > limit:
            raise InvalidValueError((*requests.keys, name), value, f"at most its limit, {limits.value[name]}")


def _plain(spec: ManifestPart, key: str) -> tuple[Object, ...]:
    return tuple(one.value for one in spec.parts(key))


def _environment(spec: ManifestPart) -> Iterator[tuple[str, str]]:
    for container in spec.parts("containers"):
        for one in container.parts("env"):
            value = one.value.get("value")
            if value is not None and not isinstance(value, str):
                raise InvalidValueError((*one.keys, "value"), value, "text (quote it if it looks like a number)")
            if value is not None:
                yield one.text("name"), value


def _commands(spec: ManifestPart) -> Iterator[str]:
    for container in spec.parts("containers"):
        words = (*container.words("command"), *container.words("args"))
        if words:
            yield " ".join(words)


def _locks_memory(container: ManifestPart) -> bool:
    security = container.part("securityContext")
    added = security.part("capabilities").words("add")
    return security.truth("privileged") or any(one.removeprefix("CAP_") in (IPC_LOCK, EVERYTHING) for one in added)


def _shared_memory(spec: ManifestPart) -> bool:
    """A pod on the host's IPC has the host's /dev/shm."""
    memory = {one.text("name") for one in spec.parts("volumes") if one.part("emptyDir").text("medium") == "Memory"}
    host = {one.text("name") for one in spec.parts("volumes") if one.part("hostPath").text("path").rstrip("/") == SHM}
    mounts = [mount for one in spec.parts("containers") for mount in one.parts("volumeMounts")]
    mounted = any(one.text("mountPath").rstrip("/") == SHM and one.text("name") in memory | host for one in mounts)
    return mounted or spec.truth("hostIPC")
