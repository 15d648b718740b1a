"""eni.up: a link that is down, by whom it carries."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.up import CHECK
from tests.cni_values import terway
from tests.eni_values import DENIED, SILENT, erdma, eth0, eth1, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds
from tests.route_values import routes
from tests.values import rdma, say, verdicts

OFF: dict[str, Any] = {"operstate": "down", "up": False, "carrier": False}
SET_UP = "link_up(interface=eth1)"

STATES: list[tuple[dict[str, Any], str]] = [
    ({}, "ok Up"),
    ({"operstate": "unknown"}, "ok Up"),
    (OFF, f"fail AdministrativelyDown {SET_UP}"),
    ({"operstate": "down", "carrier": False}, "fail NoCarrier"),
    ({"operstate": "down", "carrier": None}, "fail NoCarrier"),
    ({"operstate": "up", "carrier": None}, "ok Up"),
    ({"operstate": "down", "carrier": True}, "ok Up"),  # the state follows the carrier a moment later
    ({"operstate": "up", "carrier": False}, "fail NoCarrier"),
    ({"operstate": "up", "up": False}, f"fail AdministrativelyDown {SET_UP}"),
    ({"operstate": "lowerlayerdown"}, "fail NoCarrier"),
    ({"operstate": DENIED}, "unknown CannotLook"),
    ({"operstate": "down", "carrier": None, "up": DENIED}, "fail NoCarrier"),  # nobody is accused
    ({"operstate": "down", "carrier": False, "up": DENIED}, "fail NoCarrier"),
    ({"up": DENIED}, "unknown CannotLook"),
]


@pytest.mark.parametrize(("link", "says"), STATES)
def test_says_by_state(link: dict[str, Any], says: str) -> None:
    assert say(CHECK, imds(), kernel(eth0(), eth1(**link)), terway(), routes()) == f"ok Up; {says}"


IDLE = "ok NotInUse"
CARRIES = [
    # what else is seen                                        says of eth1, which is set down
    ((routes(),), f"fail AdministrativelyDown {SET_UP}"),
    ((routes(rules=()),), IDLE),
    ((), IDLE),
    ((routes(rules=()), recorded()), f"fail AdministrativelyDown {SET_UP}"),  # its rules are gone too
    ((recorded(known(addresses=())),), IDLE),
    ((routes(), recorded(terway=DENIED)), f"fail AdministrativelyDown {SET_UP}"),
    ((recorded(terway=DENIED),), "unknown CannotLook"),
    ((recorded(known(mac="00:16:3e:aa:bb:99")),), ""),  # not Terway's
    ((rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),)),), ""),  # an ERI is port.netdev's
    ((rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),)), routes()), f"fail AdministrativelyDown {SET_UP}"),
]


@pytest.mark.parametrize(("others", "says"), CARRIES)
def test_says_by_whom_it_carries(others: tuple[object, ...], says: str) -> None:
    found = say(CHECK, imds(), kernel(eth0(), eth1(**OFF)), terway(), *others)
    assert found == "; ".join(("ok Up", says) if says else ("ok Up",))


def test_the_primary_carries_the_node() -> None:
    primary = kernel(eth0(**OFF), eth1())
    assert say(CHECK, imds(), primary, terway()) == "fail AdministrativelyDown link_up(interface=eth0); ok Up"


def test_an_eni_that_came_back_from_a_pod_is_down() -> None:
    assert say(CHECK, imds(), kernel(eth0(), eth1(name="veth0123abcd", **OFF)), terway()) == "ok Up"


def test_elsewhere_and_blind() -> None:
    down = kernel(eth0(**OFF))
    assert say(CHECK, NOT_ECS, down, terway()) == "absent Nothing"
    assert say(CHECK, imds(), down, terway(present=False)) == "absent Nothing"
    # An API server out of reach says nothing about a link.
    assert say(CHECK, imds(), kernel(), terway(), recorded(terway=DENIED, erdma=DENIED)) == "ok Up; ok Up"
    assert say(CHECK, imds(SILENT), down, terway()) == "unknown CannotLook"


def test_messages() -> None:
    _, off = verdicts(CHECK, imds(), kernel(eth0(), eth1(**OFF)), terway(), routes())
    assert off.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0 is down and carries 1 pod address (192.168.0.134/32); "
        "it was set down here: ip link set eth1 up"
    )
    assert off.subject.place == SHARED_MAC
    _, dark = verdicts(CHECK, imds(), kernel(eth0(), eth1(operstate="down", carrier=False)), terway(), routes())
    assert dark.message.endswith(
        "it is set up and has no carrier: ethtool eth1, dmesg, then the attachment in the cloud"
    )
