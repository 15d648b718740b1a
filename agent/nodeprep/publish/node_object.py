"""What is to be written so that the Node says what it should: values in, patches out, nobody is asked.

The Node itself takes a merge patch with its whole list of taints and the resourceVersion that they were read at, so
that a lost race is a conflict (409) and nobody's taint is lost. Its status takes a strategic merge patch: conditions
merge by type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeprep.decide.desired import (
    AGENT_PREFIX,
    AREAS,
    PREFIX,
    TRAINING_READY,
    Desired,
    GatePolicy,
    NodeCondition,
    Taint,
)
from nodeprep.values import Value

Object = Mapping[str, Any]

REFRESH_SECONDS = 600.0  # seconds after which conditions say again that the checks ran; design 3.5
REFRESH_SPREAD = 0.1  # and by how much of it a node may be earlier or later, so that a fleet does not write at once
OUR_CONDITIONS = frozenset({TRAINING_READY, *AREAS})
PROFILE = f"{PREFIX}/profile."
STATE = f"{PREFIX}/state"
# Written by humans, and out of the agent's reach (the admission policy): start over; write nothing more, this node is
# given back.
RESET = f"{PREFIX}/reset"
RELEASED = f"{PREFIX}/released"


class WrittenNode(Value):
    """The parts of a Node that we write to, as they were read. Raises nothing: what is malformed is not there."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Object, ...]
    conditions: tuple[Object, ...]

    @classmethod
    def of(cls, node: Object) -> WrittenNode:
        metadata, spec, status = (_mapping(node.get(part)) for part in ("metadata", "spec", "status"))
        return cls(
            name=str(metadata.get("name", "")),
            uid=str(metadata.get("uid", "")),
            version=str(metadata.get("resourceVersion", "")),
            labels={key: str(value) for key, value in _mapping(metadata.get("labels")).items()},
            annotations={key: str(value) for key, value in _mapping(metadata.get("annotations")).items()},
            taints=_objects(spec.get("taints")),
            conditions=_objects(status.get("conditions")),
        )


def says_the_same(one: Desired, other: Desired) -> bool:
    """Whether both publish the same but for messages, which may hold counts that change at each look."""
    return _gist(one) == _gist(other)


def _gist(desired: Desired) -> tuple[object, ...]:
    conditions = tuple((one.type, one.status, one.reason) for one in desired.conditions)
    metadata = desired.labels, desired.annotations
    return desired.state, conditions, metadata, desired.taints, desired.bootstrap_taint_may_stay


def node_patch(seen: WrittenNode, desired: Desired, names: GatePolicy) -> dict[str, Any] | None:
    """The merge patch that makes labels, annotations and taints what they should be; None if they are."""
    labels = _differing(seen.labels, desired.labels, lambda key: is_our_label(key, names))
    annotations = _differing(seen.annotations, desired.annotations, lambda key: key.startswith(f"{AGENT_PREFIX}/"))
    taints = wanted_taints(seen.taints, desired, names)
    if not labels and not annotations and taints == seen.taints:
        return None
    metadata: dict[str, Any] = {"resourceVersion": seen.version}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    patch: dict[str, Any] = {"metadata": metadata}
    if taints != seen.taints:
        patch["spec"] = {"taints": list(taints)}
    return patch


def closes(seen: WrittenNode, desired: Desired, names: GatePolicy) -> bool:
    """Whether less may land here than before: our taint comes, or a label goes that says ready."""
    had = {(taint.get("key"), taint.get("effect")) for taint in seen.taints}
    promises = {key for key in seen.labels if key.startswith(PROFILE) or key == names.rdma_label}
    loses = not promises <= desired.labels.keys()
    return loses or any((one.key, one.effect) not in had for one in desired.taints)


def wanted_taints(there: Sequence[Object], desired: Desired, names: GatePolicy) -> tuple[Object, ...]:
    """The whole list: everybody else's as they stand, ours as they should be, those that stay in their place."""
    missing = list(desired.taints)
    kept: list[Object] = []
    for taint in there:
        key = taint.get("key")
        if key == names.bootstrap_taint and not desired.bootstrap_taint_may_stay:
            continue
        if key != names.unhealthy_taint:
            kept.append(taint)
            continue
        same = next((one for one in missing if _is(one, taint)), None)
        if same is not None:
            missing.remove(same)
            kept.append(taint)
    return (*kept, *({"key": one.key, "value": one.value, "effect": one.effect} for one in missing))


def status_patch(
    seen: WrittenNode, desired: Desired, now: datetime, *, refresh_after: float = REFRESH_SECONDS
) -> dict[str, Any] | None:
    """The strategic merge patch that makes our conditions what they should be; None if they are.

    `lastTransitionTime` moves only when a status does: autoscalers and repair controllers use it as a timer. All our
    conditions share one heartbeat, which says that the checks ran, `refresh_after` seconds after the last.
    """
    there = {str(one.get("type")): one for one in seen.conditions}
    changed = [one for one in desired.conditions if not _says(there.get(one.type), one)]
    gone = sorted((OUR_CONDITIONS & there.keys()) - {one.type for one in desired.conditions})
    stale = any(_age(there.get(one.type), now) >= refresh_after for one in desired.conditions)
    if not changed and not gone and not stale:
        return None
    conditions = [_condition(one, there.get(one.type), now) for one in desired.conditions]
    return {"status": {"conditions": [*conditions, *({"$patch": "delete", "type": kind} for kind in gone)]}}


def refresh_after(share: float) -> float:
    """The refresh of one node: `share` (0 to 1, another for each node) places it within the spread."""
    return REFRESH_SECONDS * (1 - REFRESH_SPREAD + 2 * REFRESH_SPREAD * share)


def _differing(
    there: Mapping[str, str], wanted: Mapping[str, str], is_ours: Callable[[str], bool]
) -> dict[str, str | None]:
    """What differs: a value, or None for a key of ours that is to go."""
    differ: dict[str, str | None] = {key: value for key, value in wanted.items() if there.get(key) != value}
    gone = sorted(key for key in there.keys() - wanted.keys() if is_ours(key))
    return differ | dict.fromkeys(gone, None)


def is_our_label(key: str, names: GatePolicy) -> bool:
    return key.startswith(PROFILE) or key in (STATE, names.rdma_label)


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
    """Seconds since the heartbeat; one of the future is as old as can be: a clock was wrong, and it would last."""
    said = there.get("lastHeartbeatTime") if there is not None else None
    try:
        at = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at > now + timedelta(seconds=1):
        return float("inf")
    return (now - at).total_seconds()


def stamp(at: datetime) -> str:
    """As metav1.Time is written: whole seconds of UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> tuple[Object, ...]:
    return tuple(one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()
