"""Rows of the fleet from the Nodes, Leases and pods of a cluster: objects of the API server in, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep.decide.conditions import NO_EFFECT
from nodeprep.decide.desired import REPEATS_ANNOTATION, TRAINING_READY, GatePolicy
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.jobs import quantities, scheduler_requests
from nodeprep.newer_python import StrEnum
from nodeprep.publish import agent_lease
from nodeprep.publish.agent_lease import AGENT
from nodeprep.publish.node_object import PROFILE, RELEASED, STATE, WrittenNode
from nodeprep.publish.node_patches import REFRESH_SECONDS
from nodeprep.values import Value

Object = Mapping[str, Any]

GPU = "/gpu"  # the end of names of resources that are whole GPUs: nvidia.com/gpu, amd.com/gpu

NO_AGENT, SILENT, RELEASED_STATE = "-", "Silent", "Released"
SILENT_CONDITION_SECONDS = (
    2.5 * REFRESH_SECONDS
)  # seconds after which a condition is old: a living agent renews it, or may not write it


class Readiness(StrEnum):
    """Whether a training pod may land on a Node. UNKNOWN: no living agent says so."""

    READY = "ready"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"


class FleetNode(Value):
    """The parts of a Node that a row is made of. `status` to `heartbeat` are those of TrainingReady.

    `since` and `heartbeat` are in seconds since 1970, None if the Node does not tell. `kubelet_lost`: the kubelet is
    not Ready. `is_new`: of ours it has only the bootstrap taint, with which it registered.
    """

    name: str
    state: str
    profiles: tuple[str, ...]
    status: str
    reason: str
    message: str
    since: float | None
    heartbeat: float | None
    taints: tuple[str, ...]
    gpus: int
    cordoned: bool
    kubelet_lost: bool
    released: bool
    repeats: str = ""
    is_new: bool = False


class FleetRow(Value):
    """A line of the fleet. `state` may also be `NO_AGENT`, `SILENT` or `RELEASED_STATE`, which no agent writes.

    Times are in seconds since 1970. `renewed` is when the agent last renewed its Lease. It is None if it never did, or
    if `leases_known` is false. `free` is None if pods could not be read.
    """

    name: str
    state: str
    readiness: Readiness
    profiles: tuple[str, ...]
    reason: str
    message: str
    since: float | None
    free: int | None
    gpus: int
    renewed: float | None
    leases_known: bool
    taints: tuple[str, ...]
    cordoned: bool
    repeats: str = ""


class FleetContext(Value):
    """What is known beside the Nodes, by Node: renewal of the Lease, and GPUs in use. None: it may not be read."""

    renewed: Mapping[str, float] | None
    used: Mapping[str, int] | None


def without_effect(rows: Iterable[FleetRow | FleetNode]) -> tuple[str, ...]:
    """The Nodes whose agent says that its mode sets no taint there."""
    return tuple(one.name for one in rows if NO_EFFECT in one.message)


def fleet_node(node: Object, names: GatePolicy) -> FleetNode:
    """A Node of the API server. Malformed parts count as missing."""
    seen = WrittenNode.of(node)
    conditions = {str(one.get("type")): one for one in seen.conditions}
    ready = conditions.get(TRAINING_READY, {})
    kubelet = conditions.get("Ready", {}).get("status", "True")
    ours = (names.unhealthy_taint, names.bootstrap_taint)
    state, taints = seen.labels.get(STATE, ""), [one for one in seen.taints if one.get("key") in ours]
    bare = [one.get("key") for one in taints] == [names.bootstrap_taint]
    return FleetNode(
        name=seen.name,
        state=state,
        profiles=tuple(sorted(key.removeprefix(PROFILE) for key in seen.labels if key.startswith(PROFILE))),
        status=str(ready.get("status", "")),
        reason=str(ready.get("reason", "")),
        message=str(ready.get("message", "")),
        since=cluster_objects.moment(ready.get("lastTransitionTime")),
        heartbeat=cluster_objects.moment(ready.get("lastHeartbeatTime")),
        taints=tuple(map(_taint, taints)),
        gpus=_gpus(part(node, "status", "allocatable")),
        cordoned=part(node, "spec").get("unschedulable") is True,
        kubelet_lost=kubelet != "True",
        released=RELEASED in seen.annotations,
        repeats=seen.annotations.get(REPEATS_ANNOTATION, ""),
        is_new=bare and not state and not ready,
    )


def renewal(lease: Object) -> tuple[str, float] | None:
    """The Node of an agent's Lease, and when it was renewed. None for any other Lease."""
    name = str(part(lease, "metadata").get("name", ""))
    at = cluster_objects.moment(part(lease, "spec").get("renewTime"))
    return (name.removeprefix(AGENT), at) if name.startswith(AGENT) and at is not None else None


def gpus_used(pod: Object) -> tuple[str, int] | None:
    """The Node of a pod and the number of its GPUs. None without GPUs or without a Node."""
    node = part(pod, "spec").get("nodeName")
    wanted = quantities.counted(scheduler_requests.requests(part(pod, "spec")))
    count = sum(number for name, number in wanted.items() if name.endswith(GPU))
    return (str(node), count) if node and count else None


def row(node: FleetNode, context: FleetContext, now: float) -> FleetRow:
    """The row of a Node at `now`. What a dead agent wrote is not shown as if it were true."""
    renewed = None if context.renewed is None else context.renewed.get(node.name)
    state, reason, message, since = _state_words(node, context, renewed, now)
    return FleetRow(
        name=node.name,
        state=state,
        readiness=_readiness(node, context, now),
        profiles=node.profiles,
        reason=reason,
        message=message,
        since=since,
        free=None if context.used is None else node.gpus - context.used.get(node.name, 0),
        gpus=node.gpus,
        renewed=renewed,
        leases_known=context.renewed is not None,
        taints=node.taints,
        cordoned=node.cordoned,
        repeats=node.repeats,
    )


def is_alive(name: str, context: FleetContext, now: float) -> bool:
    """Whether the agent of a Node is known to live."""
    renewed = (context.renewed or {}).get(name)
    return renewed is not None and agent_lease.is_fresh(renewed, now)


def outcome(rows: Iterable[FleetRow]) -> int:
    """The exit code of design 5: 0 if all are ready, 1 if one is not, 3 if none is known not to be, but not all are."""
    words = {one.readiness for one in rows}
    if Readiness.NOT_READY in words:
        return 1
    return 3 if Readiness.UNKNOWN in words else 0


def _state_words(
    node: FleetNode, context: FleetContext, renewed: float | None, now: float
) -> tuple[str, str, str, float | None]:
    """State, reason, message and since when."""
    ours = bool(node.state or node.status or node.taints)
    if context.renewed is not None and renewed is None:
        if node.released:
            return RELEASED_STATE, "", "", None
        leftover = f"left behind: {node.state or node.reason or 'a taint'}" if ours else ""
        message = "its bootstrap taint waits for one" if node.is_new else leftover
        return NO_AGENT, "NoAgent" if ours else "", message, None
    if renewed is not None and not agent_lease.is_fresh(renewed, now):
        why = "its Lease was renewed in the future: its clock is wrong; " if renewed > now else ""
        return SILENT, "AgentSilent", f"{why}last said {node.state or 'nothing'}: {node.message}", renewed
    if node.released:
        return RELEASED_STATE, "", "", None
    if _is_stale(node, now):
        why = "its agent lives and has not said this again, so it may not write the Node: see the agent's log; "
        return node.state or NO_AGENT, "NotSaidAgain", f"{why}last said: {node.message}", node.heartbeat
    if node.status == "True" and node.kubelet_lost:
        return node.state, "KubeletNotReady", "the kubelet's own condition Ready is not True", node.since
    return node.state or NO_AGENT, node.reason, node.message, node.since


def _readiness(node: FleetNode, context: FleetContext, now: float) -> Readiness:
    if node.kubelet_lost or node.taints:
        return Readiness.NOT_READY
    if not is_alive(node.name, context, now) or node.released or _is_stale(node, now):
        return Readiness.UNKNOWN
    return {"True": Readiness.READY, "False": Readiness.NOT_READY}.get(node.status, Readiness.UNKNOWN)


def _is_stale(node: FleetNode, now: float) -> bool:
    return node.heartbeat is not None and now - node.heartbeat > SILENT_CONDITION_SECONDS


def _gpus(resources: Object) -> int:
    return sum(cluster_objects.whole(str(count)) or 0 for name, count in resources.items() if str(name).endswith(GPU))


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def part(obj: object, *keys: str) -> Object:
    """The mapping at `keys`. An empty one if there is none."""
    for key in keys:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}
