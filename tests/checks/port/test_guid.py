"""port.guid: identities of devices, addresses of InfiniBand ports."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.guid import CHECK
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Unreadable, Why
from tests.values import beside, by_kind, device, port, rdma, say, verdicts, wanted

ZERO, ONE, TWO = "0000:0000:0000:0000", "5054:00ff:fe12:3456", "5054:00ff:fe12:3457"
CUT = Unreadable(Why.MALFORMED, "/sys/class/infiniband/mlx5_3/node_guid")
VIRTUAL = {"virtual_function": True}

GUIDS = [
    # device                       wanted by  says
    ({}, "profile", "ok Guid"),
    ({}, None, "ok Guid"),
    ({"node_guid": ZERO}, "profile", "fail ZeroGuid"),
    ({"node_guid": ZERO}, None, "fail ZeroGuid"),
    ({"node_guid": ZERO} | VIRTUAL, "profile", "fail ZeroGuid"),
    ({"node_guid": ZERO} | VIRTUAL, None, "absent Nothing"),
    ({"node_guid": None}, "profile", "absent Nothing"),
    ({"node_guid": CUT}, "profile", "unknown CannotLook"),
    ({"node_guid": CUT}, None, "absent Nothing"),
]


@pytest.mark.parametrize(("what", "by", "says"), GUIDS)
def test_says_of_a_device(what: dict[str, Any], by: str | None, says: str) -> None:
    seen = rdma(port(), devices=(device(**what),))
    assert say(CHECK, seen, wanted(port(), by)) == says


def two(first: object, second: object, **of_second: Any) -> Rdma:
    other = device(name="mlx5_4", bdf="0000:5d:00.0", node_guid=second, **of_second)
    return rdma(port(), devices=(device(node_guid=first), other))


PAIRS = [
    (two(ONE, TWO), "ok Guid; ok Guid"),
    (two(ONE, ONE), "fail SharedGuid; fail SharedGuid"),
    (two(ONE, ONE, virtual_function=True), "fail SharedGuid"),
    (two(ONE, TWO, system_guid=ONE), "ok Guid; ok Guid"),
    (two(None, None), "absent Nothing"),
    (two(CUT, ONE), "unknown CannotLook; ok Guid"),
]


@pytest.mark.parametrize(("seen", "says"), PAIRS)
def test_says_of_two(seen: Rdma, says: str) -> None:
    assert say(CHECK, seen, wanted(port(), "profile")) == says


IB = {"layer": "InfiniBand", "lid": "0x1f", "sm_lid": "0x1"}
LIDS = [
    (IB, "profile", "ok Lid"),
    (IB | {"lid": "0x0"}, "profile", "fail NoLid"),
    (IB | {"lid": "0x0000"}, "profile", "fail NoLid"),
    (IB | {"sm_lid": "0x0"}, "profile", "fail NoSubnetManager"),
    (IB | {"sm_lid": None}, "profile", "ok Lid"),
    (IB | {"lid": None, "sm_lid": "0x0"}, "profile", "fail NoSubnetManager"),
    (IB | {"lid": None, "sm_lid": None}, "profile", "absent Nothing"),
    (IB | {"lid": "0x0"}, None, "absent Nothing"),
    (IB | {"lid": "0x0", "state": "2: INIT"}, "profile", "absent Nothing"),
    (IB | {"lid": CUT}, "profile", "unknown CannotLook"),
    ({"layer": "Ethernet"}, "profile", "absent Nothing"),
]


@pytest.mark.parametrize(("what", "by", "says"), LIDS)
def test_says_of_a_port(what: dict[str, Any], by: str | None, says: str) -> None:
    assert say(CHECK, rdma(port(**what)), wanted(port(), by)) == says


def test_messages() -> None:
    (zero,) = verdicts(CHECK, rdma(port(), devices=(device(node_guid=ZERO),)), wanted(port(), "profile rails"))
    assert zero.subject.key == "0000:5c:00.0"
    assert zero.message == (
        "mlx5_3 at 0000:5c:00.0 has no node GUID (all zeros): firmware or hypervisor did not set it up; "
        "wanted by profile rails"
    )
    shared, _ = verdicts(CHECK, two(ONE, ONE), wanted(port(), None))
    assert shared.message == (
        f"mlx5_3 at 0000:5c:00.0 has the node GUID {ONE}, as has another device of this node: mlxconfig, mstflint"
    )
    (lid,) = verdicts(CHECK, rdma(port(**(IB | {"sm_lid": "0x0"}))), wanted(port(), "7 of 8 alike"))
    assert lid.message == (
        "mlx5_3/1 at 0000:5c:00.0 is ACTIVE without a LID of a subnet manager (0x0); wanted by 7 of 8 alike: "
        "see the SM (sminfo, ibstat)"
    )


SECOND = [
    # second port and device of a card whose first is good   says of them
    ({}, {"node_guid": ZERO}, "warn ZeroGuid"),
    ({}, {"node_guid": ONE}, "warn SharedGuid"),
    (IB | {"sm_lid": "0x0"}, {"node_guid": TWO}, "warn NoSubnetManager"),
    (IB | {"lid": "0x0"}, {"node_guid": TWO}, "warn NoLid"),
]


@pytest.mark.parametrize(("what", "of_device", "says"), SECOND)
def test_the_other_port_of_the_card_stands_in(what: dict[str, Any], of_device: dict[str, Any], says: str) -> None:
    layer = {"layer": what.get("layer", "Ethernet"), "lid": "0x1", "sm_lid": "0x1"}
    other = device(name="mlx5_4", bdf="0000:5c:00.1", **of_device)
    twin = what or {"state": "1: DOWN"}
    seen = rdma(port(**layer), beside(**twin), devices=(device(), other))
    assert says in say(CHECK, seen, by_kind(seen)).split("; ")
