"""Events of a Node: one for each transition, none while nothing changes. Values in, objects out."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy
from nodeprep.decide.rule_change import RuleChange
from nodeprep.publish import node_patches
from nodeprep.publish.node_object import WrittenNode
from nodeprep.values import Value

PATH = "/api/v1/namespaces/default/events"  # where Events of objects without a namespace are
REPORTER = "nodeprep.io/agent"
VERDICT_CHANGED = frozenset(one.reason for one in RuleChange)  # the gate stays open, and a human decides
EVENT_MESSAGE_LIMIT_CHARACTERS = 1024  # characters of a message that the API server accepts


class NodeEvent(Value):
    """The content of an Event. A `warning` needs a human."""

    reason: str
    message: str
    warning: bool = False


def node_events(seen: WrittenNode, desired: Desired, names: GatePolicy) -> tuple[NodeEvent, ...]:
    """What differs from what the Node said before."""
    found: list[NodeEvent] = []
    known = next((one for one in seen.conditions if one.get("type") == TRAINING_READY), None)
    now = next((one for one in desired.conditions if one.type == TRAINING_READY), None)
    if now is not None and (known is None or (known.get("status"), known.get("reason")) != (now.status, now.reason)):
        stops_rollout = now.reason in VERDICT_CHANGED
        calm = (now.status == "True" or now.reason == NodeState.BOOTSTRAP) and not stops_rollout
        fix = f". Fix: {desired.fix}" if desired.fix else ""
        found.append(NodeEvent(now.reason, f"TrainingReady is {now.status}: {now.message}{fix}", warning=not calm))
    held = any(taint.get("key") == names.bootstrap_taint for taint in seen.taints)
    if held and not desired.bootstrap_taint_may_stay and _is_not_ready(desired):
        what = f"{names.bootstrap_taint} is removed though the node is not ready: mode observe sets and keeps no taint"
        found.append(NodeEvent("BootstrapTaintIgnored", what, warning=True))
    return tuple(found)


def _is_not_ready(desired: Desired) -> bool:
    return any(one.type == TRAINING_READY and one.status != "True" for one in desired.conditions)


def event(seen: WrittenNode, what: NodeEvent, now: datetime) -> dict[str, Any]:
    """The object. Its name contains the time, so that an Event that is sent twice exists only once."""
    key = uuid5(NAMESPACE_URL, f"{seen.uid} {what.reason} {what.message} {now.isoformat()}").hex[:16]
    about = {"apiVersion": "v1", "kind": "Node", "name": seen.name, "uid": seen.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{seen.name[:200]}.{key}", "namespace": "default"},
        "involvedObject": about,
        "reason": what.reason,
        "message": what.message[:EVENT_MESSAGE_LIMIT_CHARACTERS],
        "type": "Warning" if what.warning else "Normal",
        "source": {"component": "nodeprep", "host": seen.name},
        "reportingComponent": REPORTER,
        "reportingInstance": seen.name[:128],
        "action": "Judged",
        "firstTimestamp": node_patches.stamp(now),
        "lastTimestamp": node_patches.stamp(now),
        "count": 1,
    }
