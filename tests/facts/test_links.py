"""Network interfaces: from the files of a dead tree, and from the kernel of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import pci
from nodeprep.facts.network import links, neighbours
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.network.neighbours import Neighbours
from nodeprep.model import CannotLook, Unreadable, raw
from tests.rigs.absent import cannot_start
from tests.rigs.trees import Content, Tree, write
from tests.rigs.trees import Link as Symlink
from tests.values import link
from tests.values import links as seen_links

AGENT = Path(links.__file__).parents[3]
AT = "0000:5c:00.0"
NET = "sys/class/net"
HOME = f"sys/devices/pci0000:5b/0000:5b:01.0/{AT}/net/eth2"


def netdev(here: str = f"{NET}/eth2", **different: Content) -> Tree:
    usual: Tree = {
        "address": "00:16:3e:aa:bb:02",
        "flags": "0x1003",
        "ifindex": "4",
        "operstate": "up",
        "carrier": "1",
        "carrier_down_count": "2",
        "mtu": "9000",
    }
    return {f"{here}/{name}": content for name, content in (usual | different).items() if content != "gone"}


def look(tmp_path: Path, files: Tree) -> Links:
    write(files, tmp_path)
    seen = links.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Links)
    return seen


def one(tmp_path: Path, files: Tree) -> Link:
    (found,) = look(tmp_path, files).links
    return found


def test_an_interface_as_the_kernel_shows_it(tmp_path: Path) -> None:
    files = netdev(HOME) | {f"{NET}/eth2": Symlink(f"../../../{HOME}"), f"{HOME}/device": Symlink(f"../../../{AT}")}
    seen = look(tmp_path, files)
    assert seen.links == (
        Link(
            name="eth2",
            index=4,
            mac="00:16:3e:aa:bb:02",
            permanent_mac=None,
            bdf=AT,
            up=True,
            operstate="up",
            carrier=True,
            mtu=9000,
            master=None,
            kind=None,
            physical=True,
            downs=2,
        ),
    )
    assert (seen.addresses, seen.on("eth2")) == (None, None)


def test_no_class_directory_is_no_record(tmp_path: Path) -> None:
    seen = links.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert seen.not_recorded


def test_files_among_the_interfaces_and_links_to_nowhere_are_no_interfaces(tmp_path: Path) -> None:
    files = netdev() | {f"{NET}/bonding_masters": "bond0", f"{NET}/eth9": Symlink("../../devices/not/copied")}
    assert [found.name for found in look(tmp_path, files).links] == ["eth2"]


ADDRESSES: list[Tree] = [
    {f"{NET}/eth2/device": Symlink(f"../../../{AT}")},  # dangles
    {f"{NET}/eth2/device/uevent": f"DRIVER=mlx5_core\nPCI_SLOT_NAME={AT}"},
    {
        f"{NET}/eth2/device": Symlink(f"../../../devices/pci0000:00/{AT}/virtio2"),
        f"sys/devices/pci0000:00/{AT}/virtio2": None,
    },
]


@pytest.mark.parametrize("files", ADDRESSES, ids=["dangling", "copied", "virtio"])
def test_the_function_behind_it(tmp_path: Path, files: Tree) -> None:
    found = one(tmp_path, netdev() | files)
    assert (found.bdf, found.physical) == (AT, True)


def test_it_is_known_by_its_function_else_by_its_name() -> None:
    assert (link().subject.place, link(bdf="").subject.place) == (AT, "eth2")


def test_without_a_device_there_is_none(tmp_path: Path) -> None:
    found = one(tmp_path, netdev())
    assert (found.bdf, found.physical) == ("", False)


def test_a_bond_and_its_legs(tmp_path: Path) -> None:
    legs = {f"{NET}/{name}/master": Symlink("../bond0") for name in ("eth2", "eth3")}
    files = netdev() | netdev(f"{NET}/eth3") | netdev(f"{NET}/bond0", **{"bonding/mode": "802.3ad 4"}) | legs
    seen = look(tmp_path, files)
    bond = seen.named("bond0")
    assert bond is not None
    assert bond.is_bond
    assert [leg.name for leg in seen.legs("bond0")] == ["eth2", "eth3"]
    assert [seen.bond_of(name, "") for name in ("eth2", "bond0", "eth9", None)] == [bond, bond, None, None]


STATES = [
    # flags    operstate  carrier  up     connected
    ("0x1003", "up", "1", True, True),
    ("0x1003", "down", "0", True, False),
    ("0x1002", "down", "gone", False, False),
    ("0x1002", "down", "", False, False),  # EINVAL, as a recorder that keeps empty files writes it
    ("0x1003", "unknown", "gone", True, True),
    ("gone", "up", "1", True, True),
    ("gone", "down", "0", True, False),  # carrier_show: a carrier is shown only of an interface that is up
    ("gone", "dormant", "gone", True, True),  # operstate_show: one that is not up is "down"
    ("gone", "down", "gone", None, False),  # nothing tells
    ("gone", "gone", "gone", None, True),
    ("garbage", "down", "0", None, False),
    ("0x1003", "gone", "1", True, True),
    ("0x1003", "lowerlayerdown", "gone", True, False),
]


@pytest.mark.parametrize("row", STATES, ids=str)
def test_what_its_state_means(tmp_path: Path, row: tuple[str, str, str, bool | None, bool]) -> None:
    flags, operstate, carrier, up, connected = row
    found = one(tmp_path, netdev(flags=flags, operstate=operstate, carrier=carrier))
    assert (found.set_down, found.connected) == (None if up is None else not up, connected)
    if up is None:
        with pytest.raises(CannotLook):
            assert found.up
    else:
        assert found.up == up


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("flags", "up"),
        ("operstate", "operstate"),
        ("carrier", "carrier"),
        ("mtu", "mtu"),
        ("ifindex", "index"),
        ("address", "mac"),
        ("carrier_down_count", "downs"),
    ],
)
def test_damage_spoils_its_own_field_only(tmp_path: Path, file: str, field: str) -> None:
    found = one(tmp_path, netdev(**{file: "garbage"}))
    with pytest.raises(CannotLook):
        getattr(found, field)
    assert [name for name, value in raw(found).items() if isinstance(value, Unreadable)] == [field]


NEVER_WRITTEN = [
    ("operstate", "UP"),
    ("operstate", ""),
    ("carrier", "2"),
    ("carrier", "-1"),
    ("flags", "-0x3"),
    ("flags", "1003"),
    ("mtu", "-1"),
    ("carrier_down_count", "-1"),
    ("ifindex", "-1"),
]


@pytest.mark.parametrize(("file", "content"), NEVER_WRITTEN)
def test_what_no_kernel_writes_is_damage(tmp_path: Path, file: str, content: str) -> None:
    found = one(tmp_path, netdev(**{file: content}))
    assert len([value for value in raw(found).values() if isinstance(value, Unreadable)]) == 1


@pytest.mark.parametrize(("mtu", "taken"), [("67", False), ("0", False), ("68", True), ("65520", True)])
def test_a_nic_has_an_mtu_of_68_or_more(tmp_path: Path, mtu: str, taken: bool) -> None:
    files = netdev(HOME, mtu=mtu) | {
        f"{NET}/eth2": Symlink(f"../../../{HOME}"),
        f"{HOME}/device": Symlink(f"../../../{AT}"),
    }
    assert isinstance(raw(one(tmp_path, files))["mtu"], int) is taken


def test_an_mtu_that_is_not_recorded_is_no_damage(tmp_path: Path) -> None:
    assert raw(one(tmp_path, netdev(mtu="gone")))["mtu"].not_recorded


def test_an_interface_is_found_by_function_only_where_its_name_is_not_shown() -> None:
    rail, other = link(), link(name="eth3", bdf="0000:5d:00.0")
    two = seen_links(rail, other)
    assert two.under("eth3", rail.bdf) is other
    assert two.under(None, rail.bdf) is rail
    assert two.under("eth9", rail.bdf) is None
    assert two.under(None, "") is None
    assert seen_links(rail, link(name="eth2_rep0")).under(None, rail.bdf) is None


SETUP = """set -e
ip link add above0 type bridge
ip link add rail0 mtu 4200 type veth peer name switch0
ip link set rail0 master above0
for one in above0 rail0 switch0; do ip link set $one up; done
ip address add 10.1.0.1/24 dev above0
ip neighbour add 10.1.0.254 lladdr 02:00:00:00:00:fe dev above0 nud permanent
for wait in $(seq 100); do ip link show above0 | grep -q 'state UP' && break; sleep 0.05; done
"""
LOOK = f"""
import sys
sys.path.insert(0, {str(AGENT)!r})
from nodeprep.doors.node_host import Host
from nodeprep.facts import links, neighbours
seen = links.observe(Host())
rail = seen.named("rail0")
print(rail.up, rail.operstate, rail.carrier, rail.mtu, rail.master, rail.kind, repr(rail.bdf), type(rail.downs))
print(seen.named("above0").is_bond, seen.bond_of("rail0", ""), [leg.name for leg in seen.legs("above0")])
print([(one.address, one.prefix, one.scope) for one in seen.on("above0") if "." in one.address])
found = neighbours.observe(Host()).entries
above = seen.named("above0").index
print([(one.index == above, one.state) for one in found if one.address == "10.1.0.254"])
"""


def isolated(setup: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a network namespace of its own, and then looks at it."""
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    argv = ["unshare", *flags, "sh", "-c", f'{setup}\nexec "$@"', "sh", sys.executable, "-c", LOOK]
    path = f"{os.environ['PATH']}:/sbin:/usr/sbin"
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})


def test_what_the_kernel_of_this_machine_tells() -> None:
    """A bridge is a master too, and must not be taken for a bond."""
    done = isolated(SETUP)
    if done.returncode:
        cannot_start(f"no network namespace with a veth pair: {done.stderr.strip()}")
    assert done.stdout.splitlines() == [
        "True up True 4200 above0 veth '' <class 'int'>",
        "False None ['rail0']",
        "[('10.1.0.1', 24, 'global')]",
        "[(True, 'PERMANENT')]",
    ], done.stderr


def test_this_machines_own_interfaces() -> None:
    seen = links.observe(Host())
    assert isinstance(seen, Links)
    assert seen.named("lo") is not None
    there = {
        path.parent.name: pci.address_in(os.path.realpath(path)) or ""
        for path in Path("/sys/class/net").glob("*/device")
    }
    assert {found.name: found.bdf for found in seen.links if found.name in there or found.bdf} == there
    assert seen.addresses is not None
    assert isinstance(neighbours.observe(Host()), Neighbours)
