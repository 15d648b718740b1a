"""What is written to the Node: patches as values, and that applying them comes to rest and loses nobody's words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import AREAS, TRAINING_READY, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.model import Remedy
from nodeprep.publish import node_object, node_patches
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.node_patches import REFRESH_SECONDS
from nodeprep.values import replace

NAMES = GatePolicy()
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
BEFORE = node_patches.stamp(NOW - timedelta(seconds=60))
OURS = {"key": NAMES.unhealthy_taint, "value": "PortDown", "effect": "NoSchedule"}
BOOTSTRAP = {"key": NAMES.bootstrap_taint, "effect": "NoSchedule"}
THEIRS = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": BEFORE}
TAINT = Taint(NAMES.unhealthy_taint, "PortDown", "NoSchedule")
READY = NodeCondition(TRAINING_READY, "True", "Ready", "every gate check passes: rdma-roce")
NOT_READY = NodeCondition(TRAINING_READY, "False", "PortDown", "mlx5_0/1 is down")


def node(**parts: Any) -> WrittenNode:
    """A Node with these labels, taints and conditions."""
    metadata = {"name": "n1", "uid": "u1", "resourceVersion": "7", "labels": parts.get("labels", {})}
    status = {"conditions": parts.get("conditions", [])}
    return WrittenNode.of({"metadata": metadata, "spec": {"taints": parts.get("taints", [])}, "status": status})


def wants(*taints: Taint, labels: dict[str, str] | None = None, may_stay: bool = True) -> Desired:
    return Desired(NodeState.READY, labels=labels or {}, taints=taints, bootstrap_taint_may_stay=may_stay)


TAINT_ROWS = [
    pytest.param([], wants(TAINT), [OURS], id="set"),
    pytest.param([OURS], wants(TAINT), [OURS], id="it is there"),
    pytest.param([OURS | {"value": "Old"}], wants(TAINT), [OURS], id="another reason"),
    pytest.param([OURS | {"effect": "PreferNoSchedule"}], wants(TAINT), [OURS], id="another effect"),
    pytest.param([THEIRS, OURS], wants(), [THEIRS], id="removed"),
    pytest.param([OURS, THEIRS], wants(TAINT), [OURS, THEIRS], id="theirs stay in their place"),
    pytest.param([BOOTSTRAP, THEIRS], wants(), [BOOTSTRAP, THEIRS], id="the bootstrap taint stays"),
    pytest.param([BOOTSTRAP, THEIRS], wants(may_stay=False), [THEIRS], id="the bootstrap taint goes"),
    pytest.param([], wants(), [], id="we never set the bootstrap taint"),
    pytest.param([OURS, OURS | {"effect": "NoExecute"}], wants(TAINT), [OURS], id="ours with an effect we never use"),
]


@pytest.mark.parametrize(("there", "desired", "expected"), TAINT_ROWS)
def test_taints(there: list[dict[str, str]], desired: Desired, expected: list[dict[str, str]]) -> None:
    assert list(node_patches.desired_taints(there, desired, NAMES)) == expected
    patch = node_patches.desired_node(node(taints=there), desired, NAMES)
    if there == expected:
        assert patch is None
    else:
        assert patch == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": expected}}


LABEL_ROWS = [
    pytest.param({}, {"nodeprep.io/state": "Ready"}, {"nodeprep.io/state": "Ready"}, id="set"),
    pytest.param({"nodeprep.io/state": "Ready"}, {"nodeprep.io/state": "Ready"}, None, id="it is there"),
    pytest.param({NAMES.rdma_label: "false"}, {NAMES.rdma_label: "true"}, {NAMES.rdma_label: "true"}, id="forged"),
    pytest.param({NAMES.rdma_label: "true"}, {}, {NAMES.rdma_label: None}, id="removed, never false"),
    pytest.param({"nodeprep.io/profile.old": "ready"}, {}, {"nodeprep.io/profile.old": None}, id="a profile that went"),
    pytest.param({"nodeprep.io/pause": "true", "team": "a"}, {}, None, id="people's stay, ours or not"),
]


@pytest.mark.parametrize(("there", "wanted", "written"), LABEL_ROWS)
def test_labels(there: dict[str, str], wanted: dict[str, str], written: dict[str, str | None] | None) -> None:
    patch = node_patches.desired_node(node(labels=there), wants(labels=wanted), NAMES)
    assert patch == (None if written is None else {"metadata": {"resourceVersion": "7", "labels": written}})


def condition(of: NodeCondition, *, beat: str = BEFORE, since: str = BEFORE) -> dict[str, str]:
    said = {"type": of.type, "status": of.status, "reason": of.reason, "message": of.message}
    return said | {"lastHeartbeatTime": beat, "lastTransitionTime": since}


def written(there: list[dict[str, str]], *wanted: NodeCondition) -> list[dict[str, str]] | None:
    patch = node_patches.desired_status(node(conditions=there), Desired(NodeState.READY, conditions=wanted), NOW)
    return None if patch is None else patch["status"]["conditions"]


def test_a_condition_is_written_once() -> None:
    now = node_patches.stamp(NOW)
    assert written([], READY) == [condition(READY, beat=now, since=now)]
    assert written([condition(READY)], READY) is None


def test_its_transition_is_when_its_status_turned_and_not_when_its_words_did() -> None:
    now = node_patches.stamp(NOW)
    other = NodeCondition(TRAINING_READY, "True", "Ready", "another message")
    assert written([condition(READY)], other) == [condition(other, beat=now, since=BEFORE)]
    assert written([condition(READY)], NOT_READY) == [condition(NOT_READY, beat=now, since=now)]


def test_conditions_of_others_are_not_in_the_patch() -> None:
    kubelets = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    told = written([kubelets], READY)
    assert told is not None
    assert [one["type"] for one in told] == [TRAINING_READY]


def test_an_area_that_the_node_has_no_more_goes() -> None:
    area = NodeCondition(next(iter(AREAS)), "True", "Passed", "")
    told = written([condition(READY), condition(area)], READY)
    assert told is not None
    assert told[-1] == {"$patch": "delete", "type": area.type}


@pytest.mark.parametrize(
    ("beat", "refreshed"),
    [
        (node_patches.stamp(NOW - timedelta(seconds=REFRESH_SECONDS - 1)), False),
        (node_patches.stamp(NOW - timedelta(seconds=REFRESH_SECONDS)), True),
        (node_patches.stamp(NOW + timedelta(seconds=3600)), True),
        ("yesterday", True),
        ("2026-11-21T12:00:00", True),
    ],
)
def test_the_heartbeat(beat: str, refreshed: bool) -> None:
    told = written([condition(READY, beat=beat)], READY)
    assert (told is not None) is refreshed
    if told is not None:
        assert told == [condition(READY, beat=node_patches.stamp(NOW))]


def test_a_fleet_does_not_refresh_at_once() -> None:
    assert [node_patches.refresh_after(share) for share in (0.0, 0.5, 1.0)] == [540.0, 600.0, 660.0]


@pytest.mark.parametrize(
    "malformed",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"spec": {"taints": "x"}},
        {"status": {"conditions": [1, None]}},
    ],
)
def test_a_malformed_node_is_written_like_an_empty_one(malformed: dict[str, Any]) -> None:
    seen = WrittenNode.of(malformed)
    assert (seen.labels, seen.taints, seen.conditions) == ({}, (), ())


SAID = Desired(NodeState.READY, conditions=(READY,), labels={"a": "b"}, taints=(TAINT,))
SAYS_ROWS = [
    pytest.param({}, True, id="the same"),
    pytest.param({"conditions": (replace(READY, message="+37 in 10 s"),)}, True, id="other words"),
    pytest.param({"profiles": (), "planned_remedies": (("a", Remedy("b")),)}, True, id="nothing that is published"),
    pytest.param({"conditions": (replace(READY, reason="Other"),)}, False, id="another reason"),
    pytest.param({"conditions": (replace(READY, status="Unknown"),)}, False, id="another status"),
    pytest.param({"conditions": (READY, replace(READY, type="nodeprep.io/x"))}, False, id="another condition"),
    pytest.param({"state": NodeState.UNHEALTHY}, False, id="another state"),
    pytest.param({"labels": {}}, False, id="a label less"),
    pytest.param({"annotations": {"a": "b"}}, False, id="an annotation more"),
    pytest.param({"taints": ()}, False, id="a taint less"),
    pytest.param({"bootstrap_taint_may_stay": False}, False, id="the bootstrap taint goes"),
]


@pytest.mark.parametrize(("change", "same"), SAYS_ROWS)
def test_whether_there_is_more_to_say_than_other_words(change: dict[str, Any], same: bool) -> None:
    assert node_object.differ_only_in_messages(SAID, replace(SAID, **change)) is same


KEYS = st.sampled_from([NAMES.unhealthy_taint, NAMES.bootstrap_taint, "a.example/b", "c"])
TAINTS = st.lists(
    st.fixed_dictionaries({"key": KEYS, "value": st.sampled_from(["", "PortDown"])}).flatmap(
        lambda one: st.sampled_from(["NoSchedule", "NoExecute"]).map(lambda effect: one | {"effect": effect})
    ),
    max_size=6,
)


@given(there=TAINTS, tainted=st.booleans(), may_stay=st.booleans())
def test_what_is_written_stands_and_nothing_of_others_is_lost(
    there: list[dict[str, str]], tainted: bool, may_stay: bool
) -> None:
    desired = wants(*((TAINT,) if tainted else ()), may_stay=may_stay)
    after = node_patches.desired_taints(there, desired, NAMES)
    assert node_patches.desired_taints(after, desired, NAMES) == after
    foreign = (NAMES.unhealthy_taint, *(() if may_stay else (NAMES.bootstrap_taint,)))
    assert [one for one in after if one["key"] not in foreign] == [one for one in there if one["key"] not in foreign]
    assert [one for one in after if one["key"] == NAMES.unhealthy_taint] == ([OURS] if tainted else [])


def test_what_changes_nothing_is_not_sent() -> None:
    assert node_patches.of_node(version="7", labels={}, annotations={}) is None
    assert node_patches.of_status(version="7") is None


def test_a_patch_has_only_what_it_changes() -> None:
    changes: dict[str, str | None] = {"a": "1", "b": None}
    assert node_patches.of_node(annotations=changes) == {"metadata": {"annotations": changes}}
    assert node_patches.of_node(version="7", taints=[]) == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"taints": []},
    }


def test_a_status_may_be_for_one_version_only() -> None:
    removal = {"conditions": [{"$patch": "delete", "type": TRAINING_READY}]}
    assert node_patches.of_status(removed=[TRAINING_READY]) == {"status": removal}
    assert node_patches.of_status(version="7", removed=[TRAINING_READY]) == {
        "metadata": {"resourceVersion": "7"},
        "status": removal,
    }
