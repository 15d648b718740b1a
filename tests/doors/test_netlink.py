"""rtnetlink as it is: in a network namespace of our own, with `ip` as the other witness."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.netlink import dcbnl, interfaces
from nodeprep.doors.netlink.interfaces import AddressInfo, LinkInfo, NeighbourInfo, RouteNetlink
from nodeprep.values import asdict, field_names
from tests.doors.netlink_kernel import foreign, kernel, nest, nla, text, u8, u32
from tests.rigs.unshared import seen_in

AGENT = Path(interfaces.__file__).parents[3]
LOOK = f"""
import json, socket, subprocess, sys
sys.path.insert(0, {str(AGENT)!r})
from nodeprep.doors.netlink import dcbnl, interfaces
from nodeprep.values import asdict

def ip(*question):
    return json.loads(subprocess.run(("ip", "-json", *question), check=True, capture_output=True).stdout or "[]")

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.sendto(b"is anybody there?", ("10.1.0.99", 9))
print(json.dumps({{
    "ours": asdict(interfaces.read()) | {{"neighbours": [asdict(one) for one in interfaces.read_neighbours()]}},
    "dcb": dcbnl.dcb("rail0"),
    "links": ip("link", "show"),
    "addresses": ip("address", "show"),
    "neighbours": ip("neighbour", "show", "nud", "all"),
}}))
"""
SETUP = """set -e
ip link set lo up
ip link add rail0 mtu 4200 address 02:00:00:00:00:10 type veth peer name switch0
ip link property add dev rail0 altname the-first-rail altname rail-on-0000:5c:00.0
ip link add down0 type veth peer name down1
ip link add above0 type bridge
ip link set down0 master above0
ip link set rail0 up
ip link set switch0 up
ip link set switch0 down
ip link set switch0 up
ip address add 10.1.0.1/24 dev rail0
ip address add 10.1.0.7/32 peer 10.9.0.9 dev rail0
ip address add 10.1.0.2/24 dev rail0 valid_lft 3600 preferred_lft 1800
ip address add fd00::1/64 dev rail0 nodad
ip neighbour add 10.1.0.254 lladdr 02:00:00:00:00:fe dev rail0 nud permanent
ip neighbour add fd00::fe lladdr 02:00:00:00:00:fe dev rail0 nud stale
ip neighbour add 10.1.0.250 dev rail0 nud failed
until ip link show rail0 | grep -q 'state UP' && ip address show rail0 | grep -q fe80; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What we say and what ip says of the same namespace."""
    return seen_in(SETUP, LOOK)


def links(said: dict[str, Any]) -> dict[str, LinkInfo]:
    return {one["name"]: LinkInfo(**{**one, "altnames": tuple(one["altnames"])}) for one in said["ours"]["links"]}


def test_a_link_that_is_up(said: dict[str, Any]) -> None:
    rail = links(said)["rail0"]
    assert rail == LinkInfo(
        index=rail.index,
        name="rail0",
        kind="veth",
        admin_up=True,
        operstate="up",
        carrier=True,
        mtu=4200,
        max_mtu=65535,
        address="02:00:00:00:00:10",
        permanent_address=None,
        parent_dev=None,
        parent_bus=None,
        master=None,
        carrier_changes=4,
        carrier_up=2,
        carrier_down=2,
        altnames=("the-first-rail", "rail-on-0000:5c:00.0"),
    )


def test_a_link_that_was_set_down(said: dict[str, Any]) -> None:
    assert (links(said)["down1"].admin_up, links(said)["down1"].operstate) == (False, "down")
    assert links(said)["down1"].carrier is False


def test_a_link_under_a_bridge(said: dict[str, Any]) -> None:
    assert links(said)["down0"].master == links(said)["above0"].index
    assert links(said)["above0"].kind == "bridge"


def test_loopback_has_no_limit_and_no_kind(said: dict[str, Any]) -> None:
    assert (links(said)["lo"].max_mtu, links(said)["lo"].kind, links(said)["lo"].operstate) == (None, None, "unknown")


def test_ip_sees_the_same_links(said: dict[str, Any]) -> None:
    theirs = {
        one["ifname"]: (one["ifindex"], one["mtu"], one["operstate"].lower(), "UP" in one["flags"], one["address"])
        for one in said["links"]
    }
    assert len(theirs) >= 6
    assert theirs == {
        one.name: (one.index, one.mtu, one.operstate, one.admin_up, one.address) for one in links(said).values()
    }


def test_ip_sees_the_same_addresses(said: dict[str, Any]) -> None:
    theirs = [
        AddressInfo(
            link["ifindex"], one["family"], one["local"], one["prefixlen"], one["scope"], bool(one.get("dynamic"))
        )
        for link in said["addresses"]
        for one in link["addr_info"]
    ]
    ours = [AddressInfo(**one) for one in said["ours"]["addresses"]]
    assert len(ours) >= 6
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


def test_addresses_of_every_sort(said: dict[str, Any]) -> None:
    index = links(said)["rail0"].index
    ours = [AddressInfo(**one) for one in said["ours"]["addresses"] if one["index"] == index]
    assert AddressInfo(index, "inet", "10.1.0.1", 24, "global", dynamic=False) in ours
    assert AddressInfo(index, "inet", "10.1.0.2", 24, "global", dynamic=True) in ours
    assert AddressInfo(index, "inet", "10.1.0.7", 32, "global", dynamic=False) in ours, "our end, not the peer's"
    assert AddressInfo(index, "inet6", "fd00::1", 64, "global", dynamic=False) in ours
    assert AddressInfo(index, "inet6", "fe80::ff:fe00:10", 64, "link", dynamic=False) in ours


def test_ip_sees_the_same_neighbours(said: dict[str, Any]) -> None:
    index = {name: link.index for name, link in links(said).items()}
    theirs = {(index[one["dev"]], one["dst"], one.get("lladdr"), *one["state"]) for one in said["neighbours"]}
    ours = {tuple(one[name] for name in field_names(NeighbourInfo)) for one in said["ours"]["neighbours"]}
    # The kernel makes those of multicast groups when it pleases, so also between the two looks.
    ours, theirs = ({one for one in both if not one[1].startswith("ff02:")} for both in (ours, theirs))
    assert len(ours) >= 2
    assert ours == theirs


def test_neighbours_of_every_sort(said: dict[str, Any]) -> None:
    index = links(said)["rail0"].index
    ours = {one["address"]: NeighbourInfo(**one) for one in said["ours"]["neighbours"] if one["index"] == index}
    assert ours["10.1.0.254"] == NeighbourInfo(index, "10.1.0.254", "02:00:00:00:00:fe", "PERMANENT")
    assert ours["fd00::fe"] == NeighbourInfo(index, "fd00::fe", "02:00:00:00:00:fe", "STALE")
    assert ours["10.1.0.250"] == NeighbourInfo(index, "10.1.0.250", None, "FAILED")
    assert ours["10.1.0.99"].state in ("INCOMPLETE", "FAILED"), "there is nobody"
    assert ours["10.1.0.99"].lladdr is None


def test_veth_has_no_dcb(said: dict[str, Any]) -> None:
    assert said["dcb"] is None


def test_this_host_agrees_with_its_own_sysfs() -> None:
    """Also what a veth cannot show: a bus device under a netdev."""
    links = interfaces.read().links
    assert {link.name for link in links} == {path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()}
    for link in links:
        shown = Path("/sys/class/net") / link.name
        assert (shown / "mtu").read_text().strip() == str(link.mtu)
        assert (shown / "address").read_text().strip() == (link.address or "")
        assert (shown / "operstate").read_text().strip() == link.operstate
        assert (shown / "carrier_changes").read_text().strip() == str(link.carrier_changes)
        if (shown / "device").exists():
            assert (shown / "device").resolve().name == link.parent_dev
            assert (shown / "device/subsystem").resolve().name == link.parent_bus


IPOIB = bytes.fromhex("00000a48fe80000000000000506b4b0300fbb1d2")


def test_an_infiniband_netdev_keeps_all_twenty_bytes_of_its_address() -> None:
    """The port GUID is its tail; pyroute2's own class keeps six bytes."""
    ifinfomsg = struct.pack("=BxHiII", 0, 32, 7, 0x1003, 0)
    info = nest(18, text(1, "ipoib"), nla(2, bytes(8)))
    attributes = (
        nla(1, IPOIB), text(3, "ibs0"), u32(4, 2044), u32(51, 4092), u8(16, 6), u8(33, 1), info, nla(54, IPOIB),
        text(56, "0000:5c:00.0"), text(57, "pci"), u32(4242, 1), nest(4243, u8(1, 1)),
    )  # fmt: skip
    link = only(ifinfomsg + b"".join(attributes)).links[0]
    assert link.address == link.permanent_address == IPOIB.hex(":")
    assert (link.parent_dev, link.parent_bus, link.kind, link.max_mtu) == ("0000:5c:00.0", "pci", "ipoib", 4092)
    assert (link.carrier_changes, link.altnames) == (None, ())


def test_states_of_a_newer_kernel_are_their_numbers() -> None:
    said = only(struct.pack("=BxHiII", 0, 1, 7, 0, 0) + u8(16, 9), address=b"\x02\x18\x00\x07" + bytes(4) + ADDRESS)
    assert said.links[0].operstate == "9"
    assert said.addresses[0].scope == "7"


def test_families_that_are_not_ip_are_left_out() -> None:
    mctp = struct.pack("=BBBBI", 45, 0, 0, 0, 1) + nla(1, b"\x08")
    assert only(address=mctp).addresses == ()


@pytest.mark.parametrize("address", [b"\x02\x18\x80\x00" + bytes(4), b"\x0a\x18\x80\x00" + bytes(4) + nla(1, bytes(4))])
def test_an_address_without_its_bytes_is_no_answer(address: bytes) -> None:
    with pytest.raises(OSError, match=r"is no inet6? address"):
        only(address=address)


ADDRESS = nla(1, socket.inet_aton("10.1.0.1"))
RTM_GETLINK, RTM_GETADDR = 18, 22


def only(link: bytes = b"", *, address: bytes = b"") -> RouteNetlink:
    """What is read of a kernel with this link and this address."""

    def answer(kind: int, _: bytes) -> list[bytes]:
        return [body for body in ({RTM_GETLINK: link, RTM_GETADDR: address}.get(kind),) if body]

    with kernel(answer) as (asking, _):
        return RouteNetlink(interfaces.links(asking), interfaces.addresses(asking))


def test_values_are_plain() -> None:
    """They go into snapshots: nothing of pyroute2's may be left in them."""
    read = asdict(interfaces.read())
    assert read["links"]
    assert foreign(read) == []


def test_reading_leaves_no_descriptor_behind() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        interfaces.read()
        dcbnl.dcb("lo")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
