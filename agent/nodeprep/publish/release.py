"""What of ours stands on a Node, and the patches that take it off: everybody else's keys stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep.decide.desired import AGENT_PREFIX, PREFIX, GatePolicy
from nodeprep.publish import node_object
from nodeprep.publish.node_object import RELEASED, RESET, WrittenNode
from nodeprep.values import Value

Object = Mapping[str, Any]


class Leftovers(Value):
    """What of ours a Node bears: names of taints, labels, conditions and annotations."""

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


def left(node: Object, names: GatePolicy, *, for_good: bool) -> Leftovers:
    """What of ours stands there. `for_good`: also what humans wrote for us, which an agent would go by again."""
    seen = WrittenNode.of(node)
    human = tuple(key for key in seen.annotations if key.startswith(f"{PREFIX}/")) if for_good else (RESET,)
    return Leftovers(
        taints=tuple(
            dict.fromkeys(
                str(one.get("key"))
                for one in seen.taints
                if one.get("key") in (names.unhealthy_taint, names.bootstrap_taint)
            )
        ),
        labels=tuple(sorted(key for key in seen.labels if node_object.is_our_label(key, names))),
        conditions=tuple(
            str(one.get("type")) for one in seen.conditions if str(one.get("type")).startswith(f"{PREFIX}/")
        ),
        annotations=tuple(
            sorted(key for key in seen.annotations if key.startswith(f"{AGENT_PREFIX}/") or key in human)
        ),
    )


def node_patch(node: Object, there: Leftovers, released: str | None) -> dict[str, Any] | None:
    """The merge patch that takes it off the Node and, with `released`, tells its agent so; None if there is nothing.

    It holds the whole list of taints and the version that it was read at: a lost race is a conflict, and nobody's taint
    is lost.
    """
    seen = WrittenNode.of(node)
    annotations: dict[str, str | None] = dict.fromkeys(there.annotations)
    if released is not None and RELEASED not in seen.annotations:
        annotations[RELEASED] = released
    if not (annotations or there.labels or there.taints):
        return None
    metadata: dict[str, Any] = {"resourceVersion": seen.version}
    if annotations:
        metadata["annotations"] = annotations
    if there.labels:
        metadata["labels"] = dict.fromkeys(there.labels)
    patch: dict[str, Any] = {"metadata": metadata}
    if there.taints:
        patch["spec"] = {"taints": [one for one in seen.taints if one.get("key") not in there.taints]}
    return patch


def status_patch(there: Leftovers) -> dict[str, Any] | None:
    """The strategic merge patch that takes our conditions away; None if there are none."""
    if not there.conditions:
        return None
    return {"status": {"conditions": [{"$patch": "delete", "type": kind} for kind in there.conditions]}}
