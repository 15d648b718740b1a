"""rdma.sources-agree by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.rdma.sources_agree import CHECK
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.facts.rdma.rdma_netlink import NetlinkPort, RdmaNetlink
from nodeprep.model import Unreadable, Why
from tests.values import device, link, links, port, rdma, say, verdicts

BROKEN = Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/ports/1/state", 5)
GUID = "5054:00ff:fe12:3456"


def told(*ports: NetlinkPort, **different: Any) -> RdmaNetlink:
    usual: dict[str, Any] = {
        "at": 0.0,
        "offered": True,
        "devices": ("mlx5_3",),
        "protocols": (),
        "guids": (("mlx5_3", GUID),),
        "ports": ports,
        "contexts": (),
        "holders": (),
        "netns_mode": "shared",
        "denied": (),
    }
    return RdmaNetlink(**(usual | different))


def tells(**different: Any) -> NetlinkPort:
    usual: dict[str, Any] = {"device": "mlx5_3", "number": 1, "state": 4, "physical": 5, "netdev": "eth2"}
    return NetlinkPort(**(usual | different))


def shows(**different: Any) -> Rdma:
    return rdma(port(**different), devices=(device(),))


ROWS = [
    # sysfs                 netlink               says, of a single look and of two alike
    ({}, {}, "ok Agree", "ok Agree"),
    ({"state": "1: DOWN"}, {}, "ok Moving", "warn Disagree"),
    ({}, {"state": 1}, "ok Moving", "warn Disagree"),
    ({"physical": "2: Polling"}, {}, "ok Moving", "warn Disagree"),
    ({"netdev": "eth3"}, {}, "warn Disagree", "warn Disagree"),
    ({}, {"number": 2}, "warn Disagree", "warn Disagree"),
    ({}, {"netdev": None}, "ok Agree", "ok Agree"),  # it is in another network namespace
    ({"netdev": None}, {}, "ok Agree", "ok Agree"),
    ({}, {"state": None, "physical": None}, "ok Agree", "ok Agree"),
    ({"state": BROKEN}, {}, "ok Agree", "ok Agree"),  # port.state says so
]


@pytest.mark.parametrize(("shown", "said", "once", "twice"), ROWS)
def test_says(shown: dict[str, Any], said: dict[str, Any], once: str, twice: str) -> None:
    facts = (shows(**shown), told(tells(**said)))
    assert say(CHECK, *facts) == once
    assert say(CHECK, *facts, before=facts) == twice


def test_what_differed_in_one_of_two_looks_only_is_on_its_way() -> None:
    agreed = (shows(), told(tells()))
    for differs in ((shows(state="1: DOWN"), told(tells())), (shows(netdev="eth3"), told(tells()))):
        assert say(CHECK, *differs, before=agreed) == "ok Moving"
        assert say(CHECK, *agreed, before=differs) == "ok Agree"


def test_another_difference_than_before_is_a_new_one() -> None:
    state = (shows(state="1: DOWN"), told(tells()))
    physical = (shows(physical="2: Polling"), told(tells()))
    assert say(CHECK, *state, before=physical) == "ok Moving"


@pytest.mark.parametrize(
    ("shown", "said", "says"),
    [
        (shows(), told(devices=(), guids=()), "warn Disagree"),
        (rdma(), told(tells()), "warn Disagree"),
        (rdma(), told(devices=(), guids=()), "absent Nothing"),
        (shows(), told(devices=(), guids=(), denied=("GET",)), "ok Agree"),
    ],
)
def test_a_device_in_one_book_only(shown: Rdma, said: RdmaNetlink, says: str) -> None:
    assert say(CHECK, shown, said) == says
    assert say(CHECK, shown, said, before=(shown, said)) == says


def test_a_port_in_one_book_only() -> None:
    (verdict,) = verdicts(CHECK, shows(), told())
    assert (verdict.reason, verdict.message) == ("Disagree", "mlx5_3: sysfs shows port 1, netlink does not")
    (verdict,) = verdicts(CHECK, shows(), told(tells(), tells(number=2)))
    assert (verdict.reason, verdict.message) == ("Disagree", "mlx5_3: netlink shows port 2, sysfs does not")


@pytest.mark.parametrize(
    ("shown", "said", "says"),
    [
        (GUID, GUID, "ok Agree"),
        ("0000:0000:0000:0000", GUID, "warn Disagree"),
        (None, GUID, "ok Agree"),
        (BROKEN, GUID, "ok Agree"),
        (GUID, None, "ok Agree"),
    ],
)
def test_node_guid(shown: object, said: str | None, says: str) -> None:
    guids = () if said is None else (("mlx5_3", said),)
    assert say(CHECK, rdma(port(), devices=(device(node_guid=shown),)), told(tells(), guids=guids)) == says


def test_a_bond_and_its_leg_are_the_same() -> None:
    bonded = links(link(name="eth2", master="bond0"), link(name="bond0"), link(name="eth3"))
    assert say(CHECK, shows(netdev="bond0"), told(tells(netdev="eth2")), bonded) == "ok Agree"
    assert say(CHECK, shows(netdev="eth2"), told(tells(netdev="bond0")), bonded) == "ok Agree"
    assert say(CHECK, shows(netdev="bond0"), told(tells(netdev="eth3")), bonded) == "warn Disagree"
    assert say(CHECK, shows(netdev="eth3"), told(tells(netdev="bond0")), bonded) == "warn Disagree"


def test_a_kernel_without_rdma_netlink() -> None:
    nothing = told(offered=False, devices=(), guids=())
    assert say(CHECK, shows(), nothing) == "warn NoNetlink"
    assert say(CHECK, rdma(), nothing) == "absent Nothing"


def test_each_device_by_its_place_and_one_that_only_netlink_knows_by_name() -> None:
    said = told(tells(), devices=("mlx5_3", "mlx5_9"))
    found = verdicts(CHECK, shows(), said)
    assert [(one.subject.key, one.status) for one in found] == [("0000:5c:00.0", "ok"), ("mlx5_9", "warn")]


def test_message_names_both_books_and_what_was_denied() -> None:
    facts = (shows(state="1: DOWN"), told(tells(), denied=("STAT_GET",)))
    (verdict,) = verdicts(CHECK, *facts, before=facts)
    assert verdict.message == (
        "mlx5_3: port 1 state '1: DOWN' in sysfs, 4 by netlink; netlink denies this user STAT_GET"
    )
    (moving,) = verdicts(CHECK, *facts)
    assert moving.message.endswith("; another look will tell; netlink denies this user STAT_GET")
    (agreed,) = verdicts(CHECK, shows(), told(tells(), denied=("STAT_GET",)))
    assert agreed.message.endswith("netlink denies this user STAT_GET")
    (alone,) = verdicts(CHECK, rdma(), told(tells()))
    assert alone.message == "mlx5_3: netlink shows it, sysfs does not"
