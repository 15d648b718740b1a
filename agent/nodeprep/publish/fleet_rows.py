"""What the Nodes, Leases and pods of a cluster say of its agents: objects of the API server in, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from nodeprep.decide.desired import TRAINING_READY, GatePolicy
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.publish import agent_lease
from nodeprep.publish.agent_lease import AGENT
from nodeprep.publish.node_object import PROFILE, RELEASED, STATE, WrittenNode
from nodeprep.publish.node_patches import REFRESH_SECONDS
from nodeprep.values import Value

Object = Mapping[str, Any]

GPU = "/gpu"  # how the names of resources end that are whole GPUs: nvidia.com/gpu, amd.com/gpu

NO_AGENT, SILENT, RELEASED_STATE = "-", "Silent", "Released"
SILENT_CONDITION_SECONDS = (
    2.5 * REFRESH_SECONDS
)  # seconds after which a condition is old: a living agent says it again, or may not write it


class Readiness(StrEnum):
    """Whether a training pod may land on a Node. UNKNOWN: nobody who is alive says so."""

    READY = "ready"
    NOT_READY = "not-ready"
    UNKNOWN = "unknown"


class FleetNode(Value):
    """The parts of a Node that a row is made of: `status` to `said` are TrainingReady's.

    `since` and `said` (last said again) are in seconds since 1970, None where that is not told. `kubelet_lost`: its
    kubelet is not Ready.
    """

    name: str
    state: str
    profiles: tuple[str, ...]
    status: str
    reason: str
    message: str
    since: float | None
    said: float | None
    taints: tuple[str, ...]
    gpus: int
    cordoned: bool
    kubelet_lost: bool
    released: bool


class FleetRow(Value):
    """A line of the fleet. `state` may be `NO_AGENT`, `SILENT` or `RELEASED_STATE` beside what agents write.

    Times are in seconds since 1970. `renewed` is when the agent last said that it lives, None where it never did or
    where `leases_known` is false. `free` is None where pods could not be read.
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


class FleetContext(Value):
    """What is known beside the Nodes: renewal of each agent's Lease and GPUs in use, by Node; None: may not be read."""

    renewed: Mapping[str, float] | None
    used: Mapping[str, int] | None


def fleet_node(told: Object, names: GatePolicy) -> FleetNode:
    """A Node of the API server; what is malformed is not there."""
    seen = WrittenNode.of(told)
    conditions = {str(one.get("type")): one for one in seen.conditions}
    ready = conditions.get(TRAINING_READY, {})
    kubelet = conditions.get("Ready", {}).get("status", "True")
    ours = (names.unhealthy_taint, names.bootstrap_taint)
    return FleetNode(
        name=seen.name,
        state=seen.labels.get(STATE, ""),
        profiles=tuple(sorted(key.removeprefix(PROFILE) for key in seen.labels if key.startswith(PROFILE))),
        status=str(ready.get("status", "")),
        reason=str(ready.get("reason", "")),
        message=str(ready.get("message", "")),
        since=cluster_objects.moment(ready.get("lastTransitionTime")),
        said=cluster_objects.moment(ready.get("lastHeartbeatTime")),
        taints=tuple(_taint(one) for one in seen.taints if one.get("key") in ours),
        gpus=_gpus(part(told, "status", "allocatable")),
        cordoned=part(told, "spec").get("unschedulable") is True,
        kubelet_lost=kubelet != "True",
        released=RELEASED in seen.annotations,
    )


def renewal(lease: Object) -> tuple[str, float] | None:
    """Of an agent's Lease: its Node and when it was renewed; None for any other."""
    name = str(part(lease, "metadata").get("name", ""))
    at = cluster_objects.moment(part(lease, "spec").get("renewTime"))
    return (name.removeprefix(AGENT), at) if name.startswith(AGENT) and at is not None else None


def gpus_used(pod: Object) -> tuple[str, int] | None:
    """The Node of a pod and the GPUs that it holds; None if none, or on no Node yet."""
    node = part(pod, "spec").get("nodeName")
    count = _requested(part(pod, "spec"))
    return (str(node), count) if node and count else None


def row(node: FleetNode, others: FleetContext, now: float) -> FleetRow:
    """What to say of a Node at `now`: a dead agent's word is not repeated as if it were true."""
    renewed = None if others.renewed is None else others.renewed.get(node.name)
    state, reason, message, since = _said(node, others, renewed, now)
    return FleetRow(
        name=node.name,
        state=state,
        readiness=_readiness(node, others, now),
        profiles=node.profiles,
        reason=reason,
        message=message,
        since=since,
        free=None if others.used is None else node.gpus - others.used.get(node.name, 0),
        gpus=node.gpus,
        renewed=renewed,
        leases_known=others.renewed is not None,
        taints=node.taints,
        cordoned=node.cordoned,
    )


def is_alive(name: str, others: FleetContext, now: float) -> bool:
    """Whether the agent of a Node is known to live."""
    renewed = (others.renewed or {}).get(name)
    return renewed is not None and agent_lease.is_fresh(renewed, now)


def outcome(rows: Iterable[FleetRow]) -> int:
    """The exit code of design 5: 0 all ready, 1 at least one is not, 3 none is known not to be, but not all are."""
    words = {one.readiness for one in rows}
    if Readiness.NOT_READY in words:
        return 1
    return 3 if Readiness.UNKNOWN in words else 0


def _said(
    node: FleetNode, others: FleetContext, renewed: float | None, now: float
) -> tuple[str, str, str, float | None]:
    """State, reason, message and since when."""
    ours = bool(node.state or node.status or node.taints)
    if others.renewed is not None and renewed is None:
        if node.released:
            return RELEASED_STATE, "", "", None
        left = f"left behind: {node.state or node.reason or 'a taint'}" if ours else ""
        return NO_AGENT, "NoAgent" if ours else "", left, None
    if renewed is not None and not agent_lease.is_fresh(renewed, now):
        why = "its Lease was renewed in the future: its clock is wrong; " if renewed > now else ""
        return SILENT, "AgentSilent", f"{why}last said {node.state or 'nothing'}: {node.message}", renewed
    if node.released:
        return RELEASED_STATE, "", "", None
    if _is_unsaid(node, now):
        why = "its agent lives and has not said this again, so it may not write the Node: see the agent's log; "
        return node.state or NO_AGENT, "NotSaidAgain", f"{why}last said: {node.message}", node.said
    if node.status == "True" and node.kubelet_lost:
        return node.state, "KubeletNotReady", "the kubelet's own condition Ready is not True", node.since
    return node.state or NO_AGENT, node.reason, node.message, node.since


def _readiness(node: FleetNode, others: FleetContext, now: float) -> Readiness:
    if node.kubelet_lost or node.taints:
        return Readiness.NOT_READY
    if not is_alive(node.name, others, now) or node.released or _is_unsaid(node, now):
        return Readiness.UNKNOWN
    return {"True": Readiness.READY, "False": Readiness.NOT_READY}.get(node.status, Readiness.UNKNOWN)


def _is_unsaid(node: FleetNode, now: float) -> bool:
    return node.said is not None and now - node.said > SILENT_CONDITION_SECONDS


def _requested(spec: Object) -> int:
    """As the scheduler counts: containers and sidecars together, or an init container that wants more by itself."""
    total, most = sum(_wanted(one) for one in _list(spec, "containers")), 0
    sidecars = 0
    for one in _list(spec, "initContainers"):
        if one.get("restartPolicy") == "Always":
            sidecars += _wanted(one)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + _wanted(one))
    return max(total + sidecars, most)


def _wanted(container: Object) -> int:
    """A container's GPUs: of extended resources the request is the limit."""
    limits, requests = (part(container, "resources", which) for which in ("limits", "requests"))
    return _gpus({**limits, **requests})


def _gpus(resources: Object) -> int:
    return sum(cluster_objects.whole(str(count)) or 0 for name, count in resources.items() if str(name).endswith(GPU))


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def part(told: object, *keys: str) -> Object:
    """The mapping at `keys`; an empty one where there is none."""
    for key in keys:
        told = told.get(key) if isinstance(told, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _list(told: Object, key: str) -> tuple[Object, ...]:
    found = told.get(key)
    return tuple(one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()
