"""The one maker of Node patches: values in, the body of a PATCH out. It asks nobody.

The Node takes a merge patch. A patch of taints has the whole list and the resourceVersion that the list was read at. So
a lost race is a conflict (409), and no taint of others is lost. The status of the Node takes a strategic merge patch:
conditions merge by type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from nodeprep import newer_python
from nodeprep.decide.desired import AGENT_PREFIX, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.newer_python import UTC
from nodeprep.publish import node_object
from nodeprep.publish.node_object import OUR_CONDITIONS, RELEASED, Object, OwnedParts, WrittenNode

REFRESH_SECONDS = 600.0  # seconds after which conditions say again that the checks ran; design 3.5
REFRESH_SPREAD = 0.1  # share of it by which a node may be earlier or later, so that a fleet does not write at once

Patch = dict[str, Any]


def of_node(
    *,
    version: str = "",
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    taints: Sequence[Object] | None = None,
) -> Patch | None:
    """The merge patch of a Node. None if it changes nothing.

    A label or annotation that is None is removed. `taints` is the whole new list, None if the list stays. The server
    refuses the patch with 409 if the Node no longer has the resourceVersion `version`; "" takes any.
    """
    if not labels and not annotations and taints is None:
        return None
    metadata: Patch = {"resourceVersion": version} if version else {}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    patch: Patch = {"metadata": metadata} if metadata else {}
    if taints is not None:
        patch["spec"] = {"taints": list(taints)}
    return patch


def of_status(*, version: str = "", conditions: Iterable[Object] = (), removed: Iterable[str] = ()) -> Patch | None:
    """The strategic merge patch of a Node's status. None if it changes nothing.

    `removed` are types of conditions. `version` is that of `of_node`.
    """
    changes = [*conditions, *({"$patch": "delete", "type": kind} for kind in removed)]
    if not changes:
        return None
    metadata: Patch = {"metadata": {"resourceVersion": version}} if version else {}
    return metadata | {"status": {"conditions": changes}}


def desired_node(seen: WrittenNode, desired: Desired, names: GatePolicy) -> Patch | None:
    """The patch that makes labels, annotations and taints what they should be. None if they are."""
    taints = desired_taints(seen.taints, desired, names)
    return of_node(
        version=seen.version,
        labels=_changes(seen.labels, desired.labels, lambda key: node_object.is_our_label(key, names)),
        annotations=_changes(seen.annotations, desired.annotations, lambda key: key.startswith(f"{AGENT_PREFIX}/")),
        taints=None if taints == seen.taints else taints,
    )


def desired_taints(there: Sequence[Object], desired: Desired, names: GatePolicy) -> tuple[Object, ...]:
    """The whole list: all others as they are, ours as they should be. A taint that stays keeps its place."""
    missing = list(desired.taints)
    lasting: list[Object] = []
    for taint in there:
        key = taint.get("key")
        if key == names.bootstrap_taint and not desired.bootstrap_taint_may_stay:
            continue
        if key != names.unhealthy_taint:
            lasting.append(taint)
            continue
        same = next((one for one in missing if _is(one, taint)), None)
        if same is not None:
            missing.remove(same)
            lasting.append(taint)
    return (*lasting, *({"key": one.key, "value": one.value, "effect": one.effect} for one in missing))


def desired_status(
    seen: WrittenNode,
    desired: Desired,
    now: datetime,
    *,
    refresh_after: float = REFRESH_SECONDS,
    version: str = "",
) -> Patch | None:
    """The patch that makes our conditions what they should be. None if they are. `version` is that of `of_node`.

    `lastTransitionTime` changes only with the status: autoscalers and repair controllers use it as a timer. All our
    conditions share one heartbeat. It says that the checks ran. It is renewed after `refresh_after` seconds.
    """
    there = {str(one.get("type")): one for one in seen.conditions}
    changed = [one for one in desired.conditions if not _says(there.get(one.type), one)]
    gone = sorted((OUR_CONDITIONS & there.keys()) - {one.type for one in desired.conditions})
    stale = any(_age(there.get(one.type), now) >= refresh_after for one in desired.conditions)
    if not changed and not gone and not stale:
        return None
    conditions = [_condition(one, there.get(one.type), now) for one in desired.conditions]
    return of_status(version=version, conditions=conditions, removed=gone)


def removal_from_node(seen: WrittenNode, ours: OwnedParts, released: str | None) -> Patch | None:
    """The patch that removes `ours`. None if it changes nothing.

    `released` is the time since when the agent of the Node writes nothing; None for no such mark.
    """
    annotations: dict[str, str | None] = dict.fromkeys(ours.annotations)
    if released is not None and RELEASED not in seen.annotations:
        annotations[RELEASED] = released
    return of_node(
        version=seen.version,
        labels=dict.fromkeys(ours.labels),
        annotations=annotations,
        taints=[one for one in seen.taints if one.get("key") not in ours.taints] if ours.taints else None,
    )


def removal_from_status(ours: OwnedParts) -> Patch | None:
    """The patch that removes our conditions. None if there are none."""
    return of_status(removed=ours.conditions)


def refresh_after(share: float) -> float:
    """Seconds after which one node refreshes its conditions. `share` (0 to 1, by node) places it within the spread."""
    return REFRESH_SECONDS * (1 - REFRESH_SPREAD + 2 * REFRESH_SPREAD * share)


def stamp(at: datetime) -> str:
    """As metav1.Time is written: whole seconds of UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _changes(
    there: Mapping[str, str], desired: Mapping[str, str], is_ours: Callable[[str], bool]
) -> dict[str, str | None]:
    """What differs: a value, or None for a key of ours that is to be removed."""
    changes: dict[str, str | None] = {key: value for key, value in desired.items() if there.get(key) != value}
    gone = sorted(key for key in there.keys() - desired.keys() if is_ours(key))
    return changes | dict.fromkeys(gone, None)


def _is(one: Taint, taint: Object) -> bool:
    return (one.key, one.value, one.effect) == (taint.get("key"), taint.get("value", ""), taint.get("effect"))


def _says(there: Object | None, one: NodeCondition) -> bool:
    if there is None:
        return False
    return (there.get("status"), there.get("reason"), there.get("message")) == (one.status, one.reason, one.message)


def _condition(one: NodeCondition, there: Object | None, now: datetime) -> dict[str, str]:
    same = there is not None and there.get("status") == one.status
    since = there.get("lastTransitionTime") if same and there is not None else None
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": one.message,
        "lastHeartbeatTime": stamp(now),
        "lastTransitionTime": since if isinstance(since, str) else stamp(now),
    }


def _age(there: Object | None, now: datetime) -> float:
    """Seconds since the heartbeat. Infinite if it lies in the future: a clock was wrong, and it would last."""
    said = there.get("lastHeartbeatTime") if there is not None else None
    try:
        at = newer_python.moment(said) if isinstance(said, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at > now + timedelta(seconds=1):
        return float("inf")
    return (now - at).total_seconds()
