"""Reads what preflight needs of the API server: Nodes and pods in pages, the agents' Leases, kinds, Volcano's queue."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.cli.nodes import names_in_force
from nodeprep.cli.nodes.fleet_reader import NODES, PODS, UNFINISHED, CannotSee, Fleet
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.jobs import job_cluster
from nodeprep.jobs.job_cluster import BoundPod, JobCluster
from nodeprep.jobs.job_model import Job
from nodeprep.jobs.pod_template import VOLCANO
from nodeprep.model import Unreadable
from nodeprep.publish import agent_lease, fleet_rows
from nodeprep.publish.fleet_rows import FleetContext, FleetRow
from nodeprep.values import Value

KUBEFLOW = "kubeflow.org/"
VOLCANO_GROUP, VOLCANO_JOBS = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
POD_GROUP, OPEN_QUEUE = "PodGroup", "Open"
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"  # of a pod that no Volcano Job made
CAPABILITY = "capability"  # of a queue: the most that its pods may have together
TERWAY_APPS = ("terway-eniip", "terway-eni", "terway")
SYSTEM_NAMESPACE = "kube-system"
POD_NAME, POD_NAMESPACE, HOSTNAME, IN_A_POD = "POD_NAME", "POD_NAMESPACE", "HOSTNAME", "KUBERNETES_SERVICE_HOST"


class VolcanoState(Value):
    """What Volcano says to a job: `hindrance` why it cannot start, "" for nothing; `unknown` what could not be read.

    `group` is a line about its PodGroup, "" where there is none.
    """

    hindrance: str = ""
    unknown: tuple[str, ...] = ()
    group: str = ""


class ClusterLook(Value):
    """A cluster as it was at `now`, in seconds since 1970 by the server's clock.

    `rows` are the Nodes as `nodeprep nodes` has them. `versions` are those of the lists of Nodes and of pods, None for
    pods that could not be read; `pods_trouble` says why. `unserved` are kinds of jobs that the server does not know, by
    job in the order of the manifest, "" for one that it knows. `own` is the pod that asks, which is not counted.
    """

    cluster: JobCluster
    rows: Mapping[str, FleetRow]
    policy: GatePolicy
    now: float
    versions: tuple[str, str | None]
    notes: tuple[str, ...] = ()
    pods_trouble: str = ""
    unserved: tuple[str, ...] = ()
    volcano: tuple[VolcanoState, ...] = ()
    terway: tuple[str, ...] = ()
    own: str = ""


def look(fleet: Fleet, jobs: Iterable[Job], environment: Mapping[str, str] = os.environ) -> ClusterLook:
    """One look at all that an answer needs. Raises CannotSee, UsageError."""
    with ApiLists(fleet.access) as api:
        names = names_in_force.names_in_force(api, fleet.config, fleet.namespace)
        nodes = api.listed(
            NODES,
            "nodes",
            lambda one: (job_cluster.node(one), fleet_rows.fleet_node(one, names.policy)),
            may="list nodes",
        )
        if isinstance(nodes, Unreadable):
            raise CannotSee(f"cannot look at the cluster: {nodes}", nodes)
        own = _own_pod(fleet, environment)
        keep = _PodKeeper(own)
        pods = api.listed(PODS, "pods", keep, may="list pods --all-namespaces", fieldSelector=UNFINISHED)
        leases = api.listed(
            agent_lease.path(fleet.namespace), "leases", fleet_rows.renewal, may=f"list leases -n {fleet.namespace}"
        )
        context = FleetContext(None if isinstance(leases, Unreadable) else dict(leases.items), None)
        notes = [names.read_error] if names.read_error else []
        if isinstance(leases, Unreadable):
            notes.append(f"cannot tell which agents are alive: {leases}")
        known = tuple(jobs)
        return ClusterLook(
            cluster=JobCluster.of(
                (one for one, _ in nodes.items), None if isinstance(pods, Unreadable) else pods.items
            ),
            rows={one.name: fleet_rows.row(one, context, api.now) for _, one in nodes.items},
            policy=names.policy,
            now=api.now,
            versions=(nodes.version, None if isinstance(pods, Unreadable) else pods.version),
            notes=tuple(notes),
            pods_trouble=str(pods) if isinstance(pods, Unreadable) else "",
            unserved=_unserved(api, known),
            volcano=tuple(_volcano(api, job) for job in known),
            terway=tuple(sorted(keep.terway)),
            own=f"{own[0]}/{own[1]}" if keep.own_seen else "",
        )


class _PodKeeper:
    """Keeps what counts of a pod of a list, but not of the pod that asks; notes which Terway is installed."""

    def __init__(self, own: tuple[str, str]) -> None:
        self.own = own
        self.own_seen = False
        self.terway: set[str] = set()

    def __call__(self, told: Object) -> BoundPod | None:
        pod = job_cluster.pod(told)
        if pod is None:
            return None
        if (pod.namespace, pod.name) == self.own:
            self.own_seen = True
            return None
        if pod.namespace == SYSTEM_NAMESPACE:
            self.terway.update(_terway(told))
        return pod


def _terway(told: Object) -> set[str]:
    """The versions of Terway of a pod: its image's tags. Empty for any other pod."""
    if fleet_rows.part(told, "metadata", "labels").get("app") not in TERWAY_APPS:
        return set()
    containers = fleet_rows.part(told, "spec").get("containers")
    images = [str(one.get("image", "")) for one in containers or () if isinstance(one, Mapping)]
    tags = (one.rpartition(":")[2] for one in images if "terway" in one.rpartition("/")[2])
    return {tag for tag in tags if tag}


def _own_pod(fleet: Fleet, environment: Mapping[str, str]) -> tuple[str, str]:
    """Namespace and name of the pod that we run in; empty texts outside a pod."""
    if not environment.get(IN_A_POD):
        return "", ""
    name = environment.get(POD_NAME) or environment.get(HOSTNAME, "")
    return environment.get(POD_NAMESPACE) or fleet.access.namespace, name


def _unserved(api: ApiLists, jobs: tuple[Job, ...]) -> tuple[str, ...]:
    """Of each job: why the server would refuse it, as far as its kind goes."""
    groups = {job.api for job in jobs if "." in job.api}
    served = {group: api.kinds(group) for group in sorted(groups)}
    return tuple(_unserved_kind(job, served.get(job.api, frozenset({job.kind}))) for job in jobs)


def _unserved_kind(job: Job, served: frozenset[str] | None | Unreadable) -> str:
    if isinstance(served, Unreadable) or (served is not None and job.kind in served):
        return ""  # what may not be asked is not held against it
    return f"this cluster has no kind {job.kind} of {job.api}: its operator's CRD is not installed"


def _volcano(api: ApiLists, job: Job) -> VolcanoState:
    """What Volcano's queue and PodGroup say; nothing of a job that another scheduler places."""
    stated = job.kind == POD_GROUP or any(role.pod.scheduler == VOLCANO for role in job.roles)
    # An operator may be told to leave its jobs to Volcano: then the manifest does not say so, and a PodGroup does.
    group = _group(api, job) if stated or job.api.startswith(KUBEFLOW) else None
    if not stated and group is None:
        return VolcanoState()
    line = "" if group is None else _group_line(group)
    annotated = next(filter(None, (role.pod.annotations.get(QUEUE_ANNOTATION) for role in job.roles)), "")
    grouped = "" if stated or group is None else str(fleet_rows.part(group, "spec").get("queue") or "")
    name = (job.gang.queue if job.gang is not None else "") or annotated or grouped or "default"
    queue = api.get(VOLCANO_GROUP, "queues", name)
    if isinstance(queue, Unreadable):
        return VolcanoState(unknown=(f"Volcano's queue {name}: {queue}",), group=line)
    if queue is None:
        return VolcanoState(f"no queue {name} of Volcano here; see kubectl get queues.scheduling.volcano.sh")
    state = str(fleet_rows.part(queue, "status").get("state") or OPEN_QUEUE)
    hindrance = "" if state == OPEN_QUEUE else f"Volcano's queue {name} is {state}, wanted {OPEN_QUEUE}"
    limits = fleet_rows.part(queue, "spec", CAPABILITY)
    unknown = (f"Volcano's queue {name} has a {CAPABILITY}: what it leaves",) if limits else ()
    return VolcanoState(hindrance, unknown, line)


def _group(api: ApiLists, job: Job) -> Object | None:
    """The job's PodGroup; None where there is none, or where it may not be read."""
    name = "" if job.gang is None else job.gang.group
    if not name and job.api == VOLCANO_JOBS:
        made = api.get(VOLCANO_JOBS, "jobs", job.name, job.namespace)
        uid = None if made is None or isinstance(made, Unreadable) else fleet_rows.part(made, "metadata").get("uid")
        name = f"{job.name}-{uid}" if uid else ""
    told = api.get(VOLCANO_GROUP, "podgroups", name or job.name, job.namespace)
    return None if isinstance(told, Unreadable) else told


def _group_line(group: Object) -> str:
    """Its phase, with its newest condition: older ones stay beside it."""
    metadata, status = fleet_rows.part(group, "metadata"), fleet_rows.part(group, "status")
    phase = str(status.get("phase") or "Pending")
    newest = max(_conditions(status), key=_transition, default={})
    words = ": ".join(str(newest[key]) for key in ("type", "reason", "message") if newest.get(key))
    named = f"{metadata.get('namespace')}/{metadata.get('name')}"
    return f"PodGroup {named} is {phase}" + (f" ({words})" if words else "")


def _conditions(status: Object) -> list[Mapping[str, Any]]:
    found = status.get("conditions")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _transition(condition: Object) -> float:
    return cluster_objects.moment(condition.get("lastTransitionTime")) or 0.0
