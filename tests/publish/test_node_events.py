"""Events: one for a transition, none while nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy, NodeCondition
from nodeprep.publish import node_events
from nodeprep.publish.node_events import NodeEvent
from nodeprep.publish.node_object import WrittenNode

NAMES = GatePolicy()
NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
BOOTSTRAP = {"key": NAMES.bootstrap_taint, "effect": "NoSchedule"}


def node(status: str | None = None, reason: str = "", taints: tuple[Any, ...] = ()) -> WrittenNode:
    said = [] if status is None else [{"type": TRAINING_READY, "status": status, "reason": reason, "message": "old"}]
    metadata = {"name": "n1", "uid": "u1", "resourceVersion": "1"}
    return WrittenNode.of({"metadata": metadata, "spec": {"taints": list(taints)}, "status": {"conditions": said}})


def wants(status: str, reason: str, *, may_stay: bool = True, fix: str = "") -> Desired:
    conditions = (NodeCondition(TRAINING_READY, status, reason, "what it is"),)
    return Desired(NodeState.READY, conditions=conditions, bootstrap_taint_may_stay=may_stay, fix=fix)


DOWN = NodeEvent("PortDown", "TrainingReady is False: what it is", warning=True)
ROWS = [
    pytest.param(node("True", "Ready"), wants("True", "Ready"), (), id="nothing new"),
    pytest.param(node("True", "Ready"), wants("False", "PortDown"), (DOWN,), id="closed"),
    pytest.param(
        node("True", "Ready"),
        wants("False", "PortDown", fix="ip link set eth2 up"),
        (NodeEvent("PortDown", "TrainingReady is False: what it is. Fix: ip link set eth2 up", warning=True),),
        id="closed, and what to do",
    ),
    pytest.param(node("False", "DriverGone"), wants("False", "PortDown"), (DOWN,), id="another reason"),
    pytest.param(node("False", "PortDown"), wants("False", "PortDown"), (), id="another message is no transition"),
    pytest.param(
        node("False", "PortDown"),
        wants("True", "Ready"),
        (NodeEvent("Ready", "TrainingReady is True: what it is"),),
        id="opened",
    ),
    pytest.param(
        node("True", "Ready"),
        wants("True", "VerdictChangedByConfiguration"),
        (NodeEvent("VerdictChangedByConfiguration", "TrainingReady is True: what it is", warning=True),),
        id="the gate stays open, and a human has ten minutes",
    ),
    pytest.param(
        node("True", "Ready"),
        wants("True", "GatesToPass"),
        (NodeEvent("GatesToPass", "TrainingReady is True: what it is"),),
        id="a new gate passes by itself",
    ),
    pytest.param(
        node(),
        wants("False", "Bootstrap"),
        (NodeEvent("Bootstrap", "TrainingReady is False: what it is"),),
        id="a start is no alarm",
    ),
    pytest.param(
        node("False", "PortDown", (BOOTSTRAP,)),
        wants("False", "PortDown", may_stay=False),
        (
            NodeEvent(
                "BootstrapTaintIgnored",
                "nodeprep.io/bootstrap is removed though the node is not ready: mode observe sets and keeps no taint",
                warning=True,
            ),
        ),
        id="observe lets a node in that is not ready",
    ),
    pytest.param(
        node("True", "Ready", (BOOTSTRAP,)), wants("True", "Ready", may_stay=False), (), id="a ready node is let in"
    ),
    pytest.param(node("False", "PortDown", (BOOTSTRAP,)), wants("False", "PortDown"), (), id="the taint stays"),
]


@pytest.mark.parametrize(("seen", "desired", "expected"), ROWS)
def test_what_others_should_hear_of(seen: WrittenNode, desired: Desired, expected: tuple[NodeEvent, ...]) -> None:
    assert node_events.node_events(seen, desired, NAMES) == expected


def test_what_was_sent_and_lost_is_there_once() -> None:
    made = node_events.event(node(), DOWN, NOW)
    assert made == node_events.event(node(), DOWN, NOW)
    assert (
        made["metadata"]["name"] != node_events.event(node(), DOWN, NOW + timedelta(microseconds=1))["metadata"]["name"]
    )
    assert made["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert (made["type"], made["reason"], made["metadata"]["namespace"]) == ("Warning", "PortDown", "default")
    assert node_events.event(node(), NodeEvent("Ready", "m" * 5000), NOW)["type"] == "Normal"
    assert len(node_events.event(node(), NodeEvent("Ready", "m" * 5000), NOW)["message"]) == 1024
