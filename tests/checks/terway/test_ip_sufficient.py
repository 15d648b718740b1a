"""terway.ip-sufficient: what Terway's condition says, and how old it is."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.ip_sufficient import CHECK, Want
from nodeprep.facts.kubernetes.cluster import StatedCondition
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, condition, node_object
from tests.cni_values import terway
from tests.values import say, verdicts

NO = {"status": "False", "reason": "InsufficientIP", "message": "node has insufficient IP"}
READY = condition(type="Ready")
ROWS: list[tuple[tuple[StatedCondition, ...], str]] = [
    ((READY, condition()), "ok SufficientIP"),
    ((condition(age=900.0),), "ok SufficientIP"),
    ((condition(age=901.0),), "warn Stale"),
    ((condition(age=None),), "ok SufficientIP"),
    ((condition(**NO),), "fail InsufficientIP"),
    ((condition(**NO, age=901.0),), "warn Stale"),
    ((condition(status="Unknown"),), "warn NotKnown"),
    ((READY,), "absent Nothing"),
    ((), "absent Nothing"),
]


@pytest.mark.parametrize(("conditions", "says"), ROWS)
def test_says(conditions: Any, says: str) -> None:
    assert say(CHECK, terway(), cluster(node=node_object(conditions=conditions))) == says


def test_the_bound_is_the_operators() -> None:
    assert say(CHECK, terway(), cluster(), want=Want(heartbeat=60.0)) == "warn Stale"


def test_without_terway_nothing() -> None:
    short = cluster(node=node_object(conditions=(condition(**NO),)))
    assert say(CHECK, terway(present=False), short) == "absent Nothing"


def test_a_node_that_may_not_be_read() -> None:
    assert say(CHECK, terway(), cluster(node=Unreadable(Why.DENIED, "nodes n1"))) == "unknown CannotLook"


def test_messages() -> None:
    (short,) = verdicts(CHECK, terway(), cluster(node=node_object(conditions=(condition(**NO),))))
    assert short.message == (
        "InsufficientIP: node has insufficient IP (2 min ago): new pods here get no address. "
        "Add a vSwitch with free addresses to eni-config"
    )
    (stale,) = verdicts(CHECK, terway(), cluster(node=node_object(conditions=(condition(age=3600.0),))))
    assert stale.message == (
        "Terway said True (SufficientIP: node has sufficient IP) 60 min ago and nothing since; a word within 15 min is "
        "wanted by default (heartbeat): see whether its pod runs (terway.pod)"
    )
