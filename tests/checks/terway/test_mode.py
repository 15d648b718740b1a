"""terway.mode: label, capabilities and record say the same."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.mode import CHECK, Want
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, node_object, terway_node
from tests.cni_values import terway
from tests.values import say, verdicts

KEY = "k8s.aliyun.com/exclusive-mode-eni-type"
ENI_ONLY, LOWER, SHARED = {KEY: "eniOnly"}, {KEY: "enionly"}, {KEY: "default"}
DENIED = Unreadable(Why.DENIED, "nodes.network.alibabacloud.com n1")
ROWS: list[tuple[Any, Any, Any, str]] = [
    # label    capability  record              says
    ({}, "default", None, "ok Mode"),
    ({}, "default", terway_node(), "ok Mode"),
    ({}, None, None, "ok Mode"),
    (SHARED, "default", terway_node(labels=SHARED), "ok Mode"),
    (ENI_ONLY, "eniOnly", terway_node(labels=ENI_ONLY), "ok Mode"),
    (LOWER, "eniOnly", terway_node(labels=ENI_ONLY), "ok Mode"),
    (ENI_ONLY, "default", None, "fail ModeMismatch"),
    ({}, "eniOnly", None, "fail ModeMismatch"),
    (ENI_ONLY, None, terway_node(labels=SHARED), "fail ModeMismatch"),
    ({}, "default", terway_node(labels=ENI_ONLY), "fail ModeMismatch"),
    (ENI_ONLY, "eniOnly", terway_node(labels={"other": "label"}), "fail ModeMismatch"),
    (ENI_ONLY, "eniOnly", terway_node(labels={}), "ok Mode"),
    ({}, "default", DENIED, "unknown CannotLook"),
    ({"k8s.aliyun.com/ignore-by-terway": "true"}, "eniOnly", None, "absent Nothing"),
]


@pytest.mark.parametrize(("labels", "capability", "record", "says"), ROWS)
def test_says(labels: dict[str, str], capability: str | None, record: Any, says: str) -> None:
    node = terway(capabilities=None if capability is None else {"cni_exclusive_eni": capability})
    assert say(CHECK, node, cluster(node=node_object(labels=labels), terway=record)) == says


WANTED = [
    ({}, "shared", "ok Mode"),
    (ENI_ONLY, "exclusive", "ok Mode"),
    ({}, "exclusive", "fail OtherMode"),
    (ENI_ONLY, "shared", "fail OtherMode"),
]


@pytest.mark.parametrize(("labels", "wanted", "says"), WANTED)
def test_a_profile_may_want_one_mode(labels: dict[str, str], wanted: Any, says: str) -> None:
    node = terway(capabilities={"cni_exclusive_eni": labels.get(KEY, "default")})
    seen = cluster(node=node_object(labels=labels), terway=None)
    assert say(CHECK, node, seen, want=Want(mode=wanted)) == says


def test_without_terway_nothing() -> None:
    different = cluster(node=node_object(labels=ENI_ONLY))
    assert say(CHECK, terway(present=False), different) == "absent Nothing"


def test_capabilities_that_say_nothing_of_it_mean_shared() -> None:
    assert say(CHECK, terway(capabilities={"datapath": "veth"}), cluster()) == "ok Mode"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, terway(), cluster(node=node_object(labels=ENI_ONLY)))
    assert verdict.message == (
        "the label of Node cn-hangzhou.192.168.0.117 says eniOnly, /var/run/eni/node_capabilities says default: the "
        "mode is fixed when a node is made, and terway-init refuses another. Put the label back (kubectl label node "
        f"cn-hangzhou.192.168.0.117 --overwrite {KEY}=...) or make the node anew"
    )
    assert (verdict.observed, verdict.expected) == ("eniOnly", "default")


def test_a_node_without_terway_is_not_of_the_wanted_mode() -> None:
    assert say(CHECK, terway(present=False), cluster(), want=Want(mode="exclusive")) == "fail NoTerway"
