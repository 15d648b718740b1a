"""The order of the netdevs of one PCI function: by what the kernel says of them, whatever they are called."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from nodeprep.doors.files.reader import Files
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import function_netdevs
from tests.rigs.trees import Tree, write

HOME = "/sys/bus/pci/devices/0000:5c:00.0/net"


def files(tmp_path: Path, netdevs: dict[str, dict[str, str]]) -> Files:
    tree: Tree = {f"{HOME}/{name}/{file}"[1:]: text for name, told in netdevs.items() for file, text in told.items()}
    write(tree, tmp_path)
    return Host(str(tmp_path), live=False).files


PARENT = {"ifindex": "9", "iflink": "9"}
CHILD = {"ifindex": "7", "iflink": "9"}
LATER = {"ifindex": "12", "iflink": "9"}


@pytest.mark.parametrize("names", list(permutations(("a", "b", "c"))), ids="-".join)
def test_a_parent_comes_before_its_children(tmp_path: Path, names: tuple[str, str, str]) -> None:
    parent, child, later = names
    seen = files(tmp_path, {parent: PARENT, child: CHILD, later: LATER})
    assert function_netdevs.by_parent(seen, HOME, ("a", "b", "c")) == (parent, child, later)
    assert function_netdevs.of_port(seen, HOME, ("a", "b", "c")) == parent


@pytest.mark.parametrize("port", ["pf0vf0", "pf1sf12", "c1pf0vf127"])
@pytest.mark.parametrize("names", list(permutations(("a", "b"))), ids="-".join)
def test_a_representor_comes_after_the_uplink(tmp_path: Path, names: tuple[str, str], port: str) -> None:
    uplink, representor = names
    seen = files(tmp_path, {uplink: PARENT | {"phys_port_name": "p0"}, representor: {"phys_port_name": port}})
    assert function_netdevs.by_parent(seen, HOME, ("a", "b")) == names


def test_a_single_one_is_not_asked(tmp_path: Path) -> None:
    assert function_netdevs.by_parent(files(tmp_path, {}), HOME, ("ib0",)) == ("ib0",)


def test_two_that_nothing_tells_apart_are_not_told_apart(tmp_path: Path) -> None:
    seen = files(tmp_path, {"a": {"mtu": "1500"}, "b": {"mtu": "1500"}})
    assert function_netdevs.of_port(seen, HOME, ("a", "b")) is None
    assert function_netdevs.of_port(seen, HOME, ()) is None
