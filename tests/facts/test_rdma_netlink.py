"""RDMA netlink as a fact: what the door tells, by device; the door itself is tested against kernels (tests/lab)."""

from __future__ import annotations

import pytest

from nodeprep.door_values import RdmaHolder
from nodeprep.doors.netlink.nldev import NldevDevice, NldevPort, Resources
from nodeprep.doors.netlink.nldev import NldevTables as Told
from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import rdma_netlink as rdma_netlink_facts
from nodeprep.facts.rdma.rdma_netlink import FACT, NetlinkPort, RdmaNetlink
from nodeprep.model import Unreadable, Why

GUID = "5054:00ff:fe12:3456"


class Telling(Host):
    """A host whose RDMA netlink answers what a test has it answer."""

    def __init__(self, answer: Told | None | Unreadable) -> None:
        super().__init__()
        self.answer = answer

    def rdma_netlink(self) -> Told | None | Unreadable:
        return self.answer


def port(number: int, state: int | None = 4, netdev: str | None = None) -> NldevPort:
    return NldevPort(number, state, 5 if state else None, netdev, None, None, None, None)


def device(name: str, *ports: NldevPort, protocol: str | None = "roce", guid: str | None = GUID) -> NldevDevice:
    return NldevDevice(7, name, protocol, guid, guid, "28.41.1000", 1, ports)


TOLD = Told(
    devices=(
        device("mlx5_0", port(1, netdev="eth2"), port(2, state=1)),
        device("efa_0", port(1, state=None), protocol=None, guid=None),
    ),
    resources=(Resources("mlx5_0", (("pd", 2), ("ctx", 1))), Resources("efa_0", (("pd", 1),))),
    holders=(RdmaHolder("mlx5_0", "ctx", 4711, None), RdmaHolder("mlx5_0", "pd", None, "ib_core")),
    netns_mode="exclusive",
    denied=("STAT_GET",),
)


def test_what_the_kernel_tells_by_device() -> None:
    seen = rdma_netlink_facts.observe(Telling(TOLD))
    assert isinstance(seen, RdmaNetlink)
    assert seen.offered
    assert seen.devices == ("mlx5_0", "efa_0")
    assert seen.protocols == (("mlx5_0", "roce"),)
    assert seen.guids == (("mlx5_0", GUID),)
    assert seen.ports == (
        NetlinkPort("mlx5_0", 1, 4, 5, "eth2"),
        NetlinkPort("mlx5_0", 2, 1, 5, None),
        NetlinkPort("efa_0", 1, None, None, None),
    )
    assert seen.contexts == (("efa_0", 0), ("mlx5_0", 1))
    assert seen.holders == (RdmaHolder("mlx5_0", "ctx", 4711, None), RdmaHolder("mlx5_0", "pd", None, "ib_core"))
    assert (seen.netns_mode, seen.denied) == ("exclusive", ("STAT_GET",))


@pytest.mark.parametrize(("name", "used"), [("mlx5_0", True), ("efa_0", False), ("mlx5_9", False)])
def test_in_use(name: str, used: bool) -> None:
    seen = rdma_netlink_facts.observe(Telling(TOLD))
    assert isinstance(seen, RdmaNetlink)
    assert seen.in_use(name) is used


def test_a_kernel_without_rdma_netlink_and_one_that_refuses() -> None:
    nothing = rdma_netlink_facts.observe(Telling(None))
    assert isinstance(nothing, RdmaNetlink)
    assert (nothing.offered, nothing.devices, nothing.ports, nothing.netns_mode) == (False, (), (), None)
    refused = Unreadable(Why.IO_ERROR, "netlink rdma", 5)
    assert rdma_netlink_facts.observe(Telling(refused)) == refused


def test_only_a_live_node_has_it() -> None:
    assert FACT.live


def test_this_kernel_answers_or_has_none() -> None:
    seen = rdma_netlink_facts.observe(Host())
    assert isinstance(seen, RdmaNetlink)
    assert set(seen.devices) >= {port.device for port in seen.ports}
