"""A Node as it was read: the parts that we write to, and which of them are ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.decide.desired import AGENT_PREFIX, AREAS, PREFIX, TRAINING_READY, Desired, GatePolicy
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.values import Value

Object = Mapping[str, Any]

OUR_CONDITIONS = frozenset({TRAINING_READY, *AREAS})
PROFILE = f"{PREFIX}/profile."
STATE = f"{PREFIX}/state"
# Annotations that humans write, and that the admission policy keeps the agent from. RESET: start over. RELEASED: write
# nothing more to this Node.
RESET = f"{PREFIX}/reset"
RELEASED = f"{PREFIX}/released"


class WrittenNode(Value):
    """The parts of a Node that we write to or heed, as they were read. Malformed parts count as missing."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Object, ...]
    conditions: tuple[Object, ...]
    unschedulable: bool = False
    deleting: bool = False
    created: float | None = None  # seconds since 1970

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
            unschedulable=spec.get("unschedulable") is True,
            deleting=metadata.get("deletionTimestamp") is not None,
            created=cluster_objects.moment(metadata.get("creationTimestamp")),
        )

    @property
    def for_repair(self) -> RepairNode:
        """What of it counts for repairs."""
        return RepairNode(
            uid=self.uid,
            taints=tuple((str(one.get("key", "")), str(one.get("effect", ""))) for one in self.taints),
            labels=self.labels,
            annotations=self.annotations,
            true_conditions=tuple(str(one.get("type", "")) for one in self.conditions if one.get("status") == "True"),
            unschedulable=self.unschedulable,
            deleting=self.deleting,
        )


def differ_only_in_messages(one: Desired, other: Desired) -> bool:
    """Whether both publish the same, apart from messages, which may have counts that change at each look."""
    return _without_messages(one) == _without_messages(other)


def _without_messages(desired: Desired) -> tuple[object, ...]:
    conditions = tuple((one.type, one.status, one.reason) for one in desired.conditions)
    metadata = desired.labels, desired.annotations
    return desired.state, conditions, metadata, desired.taints, desired.bootstrap_taint_may_stay


def closes_gate(seen: WrittenNode, desired: Desired, names: GatePolicy) -> bool:
    """Whether fewer pods may land here than before: our taint comes, or a label that says ready goes."""
    taints_before = {(taint.get("key"), taint.get("effect")) for taint in seen.taints}
    ready_labels = {key for key in seen.labels if key.startswith(PROFILE) or key == names.rdma_label}
    loses_label = not ready_labels <= desired.labels.keys()
    return loses_label or any((one.key, one.effect) not in taints_before for one in desired.taints)


def is_our_label(key: str, names: GatePolicy) -> bool:
    return key.startswith(PROFILE) or key in (STATE, names.rdma_label)


class OwnedParts(Value):
    """Names of what is ours on one Node."""

    taints: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.taints or self.labels or self.conditions or self.annotations)

    def __str__(self) -> str:
        kinds = {
            "taint": self.taints,
            "label": self.labels,
            "condition": self.conditions,
            "annotation": self.annotations,
        }
        return ", ".join(f"{kind} {' '.join(names)}" for kind, names in kinds.items() if names)


def owned_parts(seen: WrittenNode, names: GatePolicy, *, for_good: bool) -> OwnedParts:
    """What of ours is on this Node. `for_good`: also what humans wrote for us, because an agent would follow it."""
    human = tuple(key for key in seen.annotations if key.startswith(f"{PREFIX}/")) if for_good else (RESET,)
    return OwnedParts(
        taints=tuple(
            dict.fromkeys(
                str(one.get("key"))
                for one in seen.taints
                if one.get("key") in (names.unhealthy_taint, names.bootstrap_taint)
            )
        ),
        labels=tuple(sorted(key for key in seen.labels if is_our_label(key, names))),
        conditions=tuple(
            str(one.get("type")) for one in seen.conditions if str(one.get("type")).startswith(f"{PREFIX}/")
        ),
        annotations=tuple(
            sorted(key for key in seen.annotations if key.startswith(f"{AGENT_PREFIX}/") or key in human)
        ),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _objects(value: object) -> tuple[Object, ...]:
    return tuple(one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()
