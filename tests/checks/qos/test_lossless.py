"""qos.lossless by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.qos.lossless import CHECK, Want
from nodeprep.facts.rdma.qos import NetdevQos, QosSettings
from nodeprep.model import Unreadable, Why
from tests.values import BDF, device, link, links, port, rdma, say, verdicts, wanted

BROKEN = Unreadable(Why.IO_ERROR, "netlink dcb eth2", 5)
ROCE: dict[str, Any] = {"trust": "dscp", "pfc": (3,), "ecn": (3,), "dscp": ((26, 3),)}
HIDDEN: dict[str, Any] = {"trust": None, "pfc": None, "ecn": None, "dscp": None}
ALL = Want(pfc=(3,), ecn=(3,), trust="dscp", dscp={26: 3})


def qos(netdev: str = "eth2", **different: Any) -> NetdevQos:
    return NetdevQos(netdev=netdev, bdf=BDF, **(ROCE | different))


def settings(*netdevs: NetdevQos, asked: bool = True) -> QosSettings:
    return QosSettings(0.0, asked, netdevs)


ROWS = [
    # shown                          wanted                       says
    ({}, Want(), "ok NothingWanted"),
    (HIDDEN, Want(), "ok NothingWanted"),
    ({"pfc": BROKEN}, Want(), "ok NothingWanted"),
    ({}, Want(strict=True), "ok NothingWanted"),
    ({}, ALL, "ok AsWanted"),
    ({"pfc": ()}, Want(pfc=(3,)), "warn OtherSettings"),
    ({"pfc": (3, 4)}, Want(pfc=(3,)), "warn OtherSettings"),
    ({"pfc": (4, 3)}, Want(pfc=(3, 4)), "ok AsWanted"),
    ({"pfc": (3,)}, Want(pfc=()), "warn OtherSettings"),
    ({"pfc": ()}, Want(pfc=()), "ok AsWanted"),
    ({"ecn": ()}, Want(ecn=(3,)), "warn OtherSettings"),
    ({"ecn": (3, 5)}, Want(ecn=(3,)), "warn OtherSettings"),
    ({"ecn": ()}, Want(pfc=(3,)), "ok AsWanted"),
    ({"trust": "pcp"}, Want(trust="dscp"), "warn OtherSettings"),
    ({"trust": "dscp"}, Want(trust="pcp"), "warn OtherSettings"),
    ({"dscp": ()}, Want(dscp={26: 3}), "warn OtherSettings"),
    ({"dscp": ((26, 4),)}, Want(dscp={26: 3}), "warn OtherSettings"),
    ({"dscp": ((26, 3), (48, 6))}, Want(dscp={26: 3}), "ok AsWanted"),
    ({"dscp": ((26, 3), (48, 5))}, Want(dscp={26: 3, 48: 6}), "warn OtherSettings"),
    ({"pfc": ()}, Want(pfc=(3,), strict=True), "fail OtherSettings"),
    ({"trust": "pcp"}, Want(trust="dscp", strict=True), "fail OtherSettings"),
    (HIDDEN, Want(pfc=(3,)), "unknown CannotLook"),
    (HIDDEN, Want(ecn=(3,)), "unknown CannotLook"),
    (HIDDEN, Want(trust="dscp"), "unknown CannotLook"),
    (HIDDEN, Want(dscp={26: 3}), "unknown CannotLook"),
    ({"trust": None}, ALL, "unknown CannotLook"),
    ({"trust": None, "pfc": ()}, ALL, "warn OtherSettings"),
    ({"pfc": BROKEN}, Want(pfc=(3,)), "unknown CannotLook"),
]


@pytest.mark.parametrize(("shown", "want", "says"), ROWS)
def test_says(shown: dict[str, Any], want: Want, says: str) -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"), settings(qos(**shown)))
    assert say(CHECK, *facts, want=want) == says


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (HIDDEN, "absent Nothing"),
        ({"pfc": None}, "absent Nothing"),
        ({"pfc": None, "trust": "pcp"}, "warn OtherSettings"),
    ],
)
def test_a_dead_tree_is_not_unknown_for_what_only_a_driver_tells(shown: dict[str, Any], says: str) -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"), settings(qos(**shown), asked=False))
    assert say(CHECK, *facts, want=ALL) == says


@pytest.mark.parametrize(
    ("layer", "node_type", "by", "says"),
    [
        ("Ethernet", "1: CA", "profile", "warn OtherSettings"),
        ("Ethernet", "1: CA", None, "absent Nothing"),
        ("InfiniBand", "1: CA", "profile", "absent Nothing"),
        ("Ethernet", "4: RNIC", "profile", "absent Nothing"),
        ("Ethernet", None, "profile", "warn OtherSettings"),
        (BROKEN, "1: CA", "profile", "unknown CannotLook"),
    ],
)
def test_only_roce_ports_that_somebody_wants(layer: object, node_type: str | None, by: str | None, says: str) -> None:
    seen = port(layer=layer)
    facts = (rdma(seen, devices=(device(node_type=node_type),)), wanted(seen, by), settings(qos(pfc=())))
    assert say(CHECK, *facts, want=ALL) == says


def test_a_port_whose_netdev_is_elsewhere() -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"))
    assert say(CHECK, *facts, settings(), want=ALL) == "absent Nothing"
    assert say(CHECK, *facts, settings(qos("eth9", pfc=())), want=ALL) == "absent Nothing"


def test_a_port_without_netdev_has_no_legs() -> None:
    seen = port(netdev=None)
    facts = (rdma(seen, devices=(device(),)), wanted(seen, "profile"), links(link(name="eth2")))
    assert say(CHECK, *facts, settings(qos(pfc=())), want=ALL) == "absent Nothing"


def test_a_port_whose_device_is_not_listed_is_judged() -> None:
    facts = (rdma(port()), wanted(port(), "profile"), settings(qos(pfc=())))
    assert say(CHECK, *facts, want=ALL) == "warn OtherSettings"


def test_both_legs_of_a_bond_count() -> None:
    seen = port(netdev="bond0")
    bonded = links(link(name="p0", master="bond0"), link(name="p1", master="bond0"), link(name="bond0"))
    facts = (rdma(seen, devices=(device(),)), wanted(seen, "profile"), bonded)
    bare = qos("bond0", **HIDDEN)
    assert say(CHECK, *facts, settings(bare, qos("p0"), qos("p1")), want=ALL) == "ok AsWanted"
    (verdict,) = verdicts(CHECK, *facts, settings(bare, qos("p0"), qos("p1", trust="pcp")), want=ALL)
    assert verdict.reason == "OtherSettings"
    assert "p1 has trust pcp; dscp is wanted by profile site (trust)" in verdict.message
    assert "p0" not in verdict.message


def test_message_names_every_setting_that_differs() -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"))
    shown = qos(trust="pcp", pfc=(), ecn=(5, 4), dscp=((26, 4), (26, 5)))
    (verdict,) = verdicts(CHECK, *facts, settings(shown), want=ALL)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: eth2 has PFC off; on 3 is wanted by profile site (pfc); eth2 has ECN on 4,5; on 3 "
        "is wanted by profile site (ecn); eth2 has trust pcp; dscp is wanted by profile site (trust); eth2 has DSCP "
        "26 to 4 and 5; priority 3 is wanted by profile site (dscp); the switches must have it too"
    )
    (verdict,) = verdicts(CHECK, *facts, settings(qos(dscp=())), want=ALL)
    assert "eth2 has DSCP 26 to no priority; priority 3 is wanted" in verdict.message


def test_what_is_shown_is_told_when_nothing_is_wanted() -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"))
    (verdict,) = verdicts(CHECK, *facts, settings(qos()))
    assert "eth2: PFC on 3, ECN on 3, trust dscp, DSCP 26 to 3; no profile" in verdict.message
    (verdict,) = verdicts(CHECK, *facts, settings(qos(**HIDDEN)))
    assert "eth2: its driver shows no settings" in verdict.message


def test_message_of_hidden_settings_names_them() -> None:
    facts = (rdma(port(), devices=(device(),)), wanted(port(), "profile"))
    (verdict,) = verdicts(CHECK, *facts, settings(qos(trust=None, ecn=None)), want=ALL)
    assert "eth2 ECN, eth2 trust" in verdict.message
