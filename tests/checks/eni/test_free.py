"""eni.free: what the instance type can give to pods, and what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.free import CHECK, Want
from tests.cluster_values import node_object, pod_eni
from tests.eni_values import DENIED, SILENT, recorded
from tests.imds_values import NOT_ECS, imds
from tests.values import say, verdicts

EXCLUSIVE = {"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"}
TRUNK = {"k8s.aliyun.com/trunk-on": "eni-trunk"}
UNTOLD = {"alibabacloud.com/instance-type-info": "{}"}


def node(held: int, labels: dict[str, str], annotations: dict[str, str] | None = None, **different: Any) -> object:
    pods = tuple(pod_eni(mac=f"00:16:3e:00:01:{number:02x}", **different) for number in range(held))
    return recorded(node=node_object(labels=labels, annotations=annotations or {}), pod_enis=pods)


MEMBER = {"type": "Member", "trunk": "eni-trunk"}
ROWS = [
    (node(0, EXCLUSIVE), "ok Free"),
    (node(6, EXCLUSIVE), "ok Free"),
    (node(7, EXCLUSIVE), "warn NoneFree"),
    (node(9, EXCLUSIVE), "warn NoneFree"),
    (node(7, EXCLUSIVE, phase="Unbind"), "warn NoneFree"),
    (node(7, EXCLUSIVE, UNTOLD), "absent Nothing"),
    (node(7, {}), "absent Nothing"),
    (node(7, {}, TRUNK), "ok Free"),
    (node(11, {}, TRUNK, **MEMBER), "ok Free"),
    (node(12, {}, TRUNK, **MEMBER), "warn NoneFree"),
    (node(12, EXCLUSIVE, TRUNK, **MEMBER), "ok Free; warn NoneFree"),
    (node(12, {}, TRUNK | UNTOLD, **MEMBER), "absent Nothing"),
    (recorded(node=node_object(labels=EXCLUSIVE), pod_enis=DENIED), "unknown CannotLook"),
    (recorded(pod_enis=DENIED), "absent Nothing"),
]


@pytest.mark.parametrize(("kubernetes", "says"), ROWS)
def test_says(kubernetes: object, says: str) -> None:
    assert say(CHECK, imds(), kubernetes) == says


def test_one_eni_in_two_records_is_one() -> None:
    both = tuple(pod_eni(record=record, mac=f"00:16:3e:00:01:{n:02x}") for record in ("a/b", "eni-x") for n in range(6))
    assert say(CHECK, imds(), recorded(node=node_object(labels=EXCLUSIVE), pod_enis=both)) == "ok Free"


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, node(7, EXCLUSIVE)) == "absent Nothing"
    assert say(CHECK, imds(SILENT), node(7, EXCLUSIVE)) == "unknown CannotLook"


def test_an_operator_may_want_more() -> None:
    (found,) = verdicts(CHECK, imds(), node(6, EXCLUSIVE), want=Want(at_least=2))
    assert (found.reason, found.observed, found.expected) == ("NoneFree", "1", "at least 2")
    assert found.message == (
        "aliyun/eni: pods hold 6 of the 7 ENIs that this instance type can give them; 1 left, 2 wanted by profile "
        "site (at-least): the next pod waits; see kubectl get podenis,networkinterfaces -A"
    )
