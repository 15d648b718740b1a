"""Where the pods of a job ran and when they ended, from their objects, and from Events for those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nodeprep import newer_python
from nodeprep.pattern import Pattern
from nodeprep.values import Value, replace

# Labels that hold a job's name: of Kubernetes, training-operator, mpi-operator, Volcano, JobSet, Trainer and KubeRay.
JOB_LABELS = (
    "batch.kubernetes.io/job-name",
    "job-name",
    "training.kubeflow.org/job-name",
    "mpi-job-name",
    "mpi_job_name",
    "tf-job-name",
    "pytorch-job-name",
    "volcano.sh/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "trainjob-name",
    "ray.io/cluster",
)
ASSIGNED = Pattern(r"Successfully assigned (?P<namespace>[^/ ]+)/(?P<pod>[^ ]+) to (?P<node>[^ ]+)")
SCHEDULED, KILLING = (
    "Scheduled",
    ("Killing", "Evicted", "Preempted", "Preempting", "TaintManagerEviction", "OOMKilling"),
)
HOW_CHARACTERS = 120
Object = Mapping[str, Any]


class PodEnd(Value):
    """A pod on a node. Times are wall time in seconds since 1970; `ended` is None while it runs, or if nobody knows.

    `began` is when it was bound, None if nobody knows.

    `how` says how it ended, for people. `is_gone`: its object is deleted, and Events say what is known. `runs`: it has
    not ended. A kubelet states whole seconds.
    """

    name: str
    node: str
    ended: float | None = None
    how: str = ""
    is_gone: bool = False
    runs: bool = False
    began: float | None = None
    uid: str = ""


def is_of_job(pod: Object, job: str) -> bool:
    """Whether a label or an owner of the pod names this job."""
    metadata = _part(pod, "metadata")
    owners = (one for one in metadata.get("ownerReferences") or () if isinstance(one, Mapping))
    labels = _part(pod, "metadata", "labels")
    return any(labels.get(label) == job for label in JOB_LABELS) or any(one.get("name") == job for one in owners)


def of_pod(pod: Object) -> PodEnd:
    """Where and how this pod ended, or that it runs. Its node is "" if it was never bound."""
    return replace(_of_pod(pod), uid=str(_part(pod, "metadata").get("uid") or _part(pod, "metadata").get("name")))


def _of_pod(pod: Object) -> PodEnd:
    metadata, status = _part(pod, "metadata"), _part(pod, "status")
    name, node = str(metadata.get("name")), str(_part(pod, "spec").get("nodeName") or "")
    ends = list(_terminations(status))
    deleted = _seconds(metadata.get("deletionTimestamp"))
    if status.get("phase") in ("Succeeded", "Failed") or (deleted is not None and ends):
        moment, how = max(ends, default=(deleted, str(status.get("reason") or status.get("phase"))), key=_moment)
        return PodEnd(name, node, moment if moment is not None else _last_transition(status), how)
    if deleted is not None:
        return PodEnd(name, node, deleted, "is told to end", runs=True)
    last = list(_terminations(status, before=True))
    if last:
        moment, how = max(last, key=_moment)
        return PodEnd(name, node, moment, f"restarted: {how}", runs=True)
    return PodEnd(name, node, None, str(status.get("reason") or status.get("phase") or "unknown"), runs=True)


def of_events(events: Iterable[Object], known: Iterable[str]) -> dict[str, PodEnd]:
    """The pods that Events tell of, by uid, without those whose uid is `known`: they are gone.

    The node and when the pod was bound are from the scheduler's Event, or from the first one of the kubelet. The end is
    from the kubelet's. A server keeps Events for an hour (--event-ttl). Two pods of one name, one made in place of the
    other, have two uids.
    """
    known_uids, found = frozenset(known), dict[str, PodEnd]()
    for event in events:
        about = _part(event, "involvedObject")
        name, uid = str(about.get("name") or ""), str(about.get("uid") or about.get("name") or "")
        if about.get("kind") != "Pod" or not name or uid in known_uids:
            continue
        former = found.get(uid, PodEnd(name, "", is_gone=True, how="its object is gone", uid=uid))
        found[uid] = _with_event(former, event)
    return found


def _with_event(pod: PodEnd, event: Object) -> PodEnd:
    reason, message = str(event.get("reason")), str(event.get("message") or "")
    assigned = ASSIGNED.match(message) if reason == SCHEDULED else None
    host = str(_part(event, "source").get("host") or "")
    node = pod.node or (assigned["node"] if assigned is not None else host)
    at = _event_time(event)
    # Who names the node himself asks no scheduler.
    has_begun = assigned is not None or (bool(host) and reason not in KILLING)
    begins = [one for one in (pod.began, at if has_begun else None) if one is not None]
    is_end = reason in KILLING and at is not None and (pod.ended is None or at > pod.ended)
    return replace(
        pod,
        node=node,
        ended=at if is_end else pod.ended,
        how=f"{reason}: {message}"[:HOW_CHARACTERS] if is_end else pod.how,
        began=min(begins, default=None),
    )


def _event_time(event: Object) -> float | None:
    names = ("lastTimestamp", "eventTime", "firstTimestamp")
    return next((at for at in (_seconds(event.get(name)) for name in names) if at is not None), None)


def _terminations(status: Object, *, before: bool = False) -> Iterator[tuple[float | None, str]]:
    """When and how each container ended; `before`: the run before this one."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(kind) or ():
            ended = _part(one, "lastState" if before else "state", "terminated")
            if ended:
                code = ended.get("exitCode")
                yield (
                    _seconds(ended.get("finishedAt")),
                    f"{one.get('name')} {ended.get('reason') or 'ended'}, exit {code}",
                )


def _last_transition(status: Object) -> float | None:
    times = [
        _seconds(one.get("lastTransitionTime")) for one in status.get("conditions") or () if isinstance(one, Mapping)
    ]
    return max((at for at in times if at is not None), default=None)


def _moment(one: tuple[float | None, str]) -> float:
    return one[0] or 0.0


def _seconds(text: object) -> float | None:
    """RFC 3339 as seconds since 1970; None if there is no time."""
    if not isinstance(text, str):
        return None
    try:
        return newer_python.moment(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _part(obj: object, *keys: str) -> Object:
    for key in keys:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}
