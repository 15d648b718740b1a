"""Elastic RDMA interfaces, their driver and its mode, from trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba import erdma
from nodeprep.facts.alibaba.erdma import Erdma
from nodeprep.facts.rdma import rdma
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import CannotLook, Unreadable, raw
from tests.rigs import faults, trees
from tests.rigs.trees import Content, Tree, write

AT, OTHER = "0000:00:07.0", "0000:00:05.0"
LISTED = "sys/bus/pci/devices"
RELEASE = "5.10.134-17.al8.x86_64"
INDEX = f"lib/modules/{RELEASE}"
COMPAT = "sys/module/erdma/parameters/compat_mode"
DEFERRED = "sys/kernel/debug/devices_deferred"


def tree(**different: Content) -> Tree:
    usual: Tree = {
        f"{LISTED}/{AT}/vendor": "0x1ded",
        f"{LISTED}/{AT}/device": "0x107f",
        f"{LISTED}/{OTHER}/vendor": "0x1af4",
        f"{LISTED}/{OTHER}/device": "0x1000",
        "proc/sys/kernel/osrelease": RELEASE,
        f"{INDEX}/modules.dep": "kernel/net/smc/smc.ko.xz:\nextra/erdma.ko.xz: kernel/drivers/ib_core.ko.xz\n",
        "sys/module/erdma/initstate": "live",
        COMPAT: "Y",
        DEFERRED: f"{AT}\t\nserial8250\tsome reason\n",
    }
    return {path: content for path, content in (usual | different).items() if content != "gone"}


def look(root: Path, **different: Content) -> Erdma:
    write(tree(**different), root)
    seen = erdma.observe(Host(str(root), live=False))
    assert isinstance(seen, Erdma)
    return seen


def test_a_node_with_an_interface_and_the_vendors_driver(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert raw(seen) == {
        "at": seen.at,
        "functions": (AT,),
        "loaded": True,
        "installed": True,
        "compat": True,
        "deferred": (AT,),
    }


NONE: list[Tree] = [
    {f"{LISTED}/{AT}/device": "0x5007"},
    {f"{LISTED}/{AT}/vendor": "0x15b3"},
    {f"{LISTED}/{AT}/vendor": "gone"},
    {f"{LISTED}/{AT}/device": b"\xff\xfe"},
]


@pytest.mark.parametrize("different", NONE)
def test_without_the_function_nothing_else_is_read(tmp_path: Path, different: Tree) -> None:
    seen = look(tmp_path, **different)
    assert (seen.functions, seen.loaded, seen.installed, seen.compat, seen.deferred) == ((), False, False, None, None)


def test_a_copy_without_a_bus_says_nothing_and_a_live_node_without_one_has_none(tmp_path: Path) -> None:
    seen = erdma.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert seen.not_recorded
    live = erdma.observe(Host(str(tmp_path), live=True))
    assert isinstance(live, Erdma)
    assert live.functions == ()


LOADED: list[tuple[Tree, bool]] = [
    ({"sys/module/erdma/initstate": "coming"}, False),
    ({"sys/module/erdma/initstate": "going"}, False),
    ({"sys/module/erdma/initstate": "gone", COMPAT: "gone"}, False),
    ({"sys/module/erdma/initstate": "gone"}, True),  # a copy that kept the parameters only
    (
        {
            "sys/module/erdma/initstate": "gone",
            COMPAT: "gone",
            f"{INDEX}/modules.builtin": "kernel/drivers/infiniband/hw/erdma/erdma.ko\n",
        },
        True,
    ),
]


@pytest.mark.parametrize(("different", "loaded"), LOADED)
def test_loaded(tmp_path: Path, different: Tree, loaded: bool) -> None:
    assert look(tmp_path, **different).loaded is loaded


INSTALLED: list[tuple[str, bool]] = [
    ("updates/dkms/erdma.ko.zst:\n", True),
    ("erdma.ko:\n", True),
    ("kernel/net/smc.ko: extra/erdma.ko\n", False),  # named as somebody's need only, so it is no file of its own
    ("kernel/net/myerdma.ko:\nkernel/erdma.kox:\n", False),
    ("", False),
]


@pytest.mark.parametrize(("listing", "installed"), INSTALLED)
def test_installed_is_what_depmod_indexed_for_this_kernel(tmp_path: Path, listing: str, installed: bool) -> None:
    assert look(tmp_path, **{f"{INDEX}/modules.dep": listing}).installed is installed


def test_one_that_is_built_in_is_installed(tmp_path: Path) -> None:
    files: Tree = {f"{INDEX}/modules.dep": "gone", f"{INDEX}/modules.builtin": "kernel/drivers/hw/erdma/erdma.ko\n"}
    assert look(tmp_path, **files).installed is True


@pytest.mark.parametrize("lost", [f"{INDEX}/modules.dep", "proc/sys/kernel/osrelease"])
def test_without_an_index_nothing_is_known(tmp_path: Path, lost: str) -> None:
    seen = look(tmp_path, **{lost: "gone"})
    blind = raw(seen)["installed"]
    assert isinstance(blind, Unreadable)
    assert blind.not_recorded
    assert seen.loaded


MODES: list[tuple[Content, bool | None]] = [("Y", True), ("N", False), ("gone", None)]


@pytest.mark.parametrize(("text", "compat"), MODES)
def test_the_mode(tmp_path: Path, text: Content, compat: bool | None) -> None:
    assert look(tmp_path, **{COMPAT: text}).compat is compat


def test_a_mode_that_no_kernel_writes_is_no_mode(tmp_path: Path) -> None:
    seen = look(tmp_path, **{COMPAT: "1"})
    with pytest.raises(CannotLook, match="'1' is neither Y nor N"):
        assert seen.compat


@pytest.mark.parametrize(("text", "deferred"), [("gone", None), ("", ()), ("\n\n", ()), (f"{OTHER}\n", (OTHER,))])
def test_what_waits(tmp_path: Path, text: Content, deferred: tuple[str, ...] | None) -> None:
    assert look(tmp_path, **{DEFERRED: text}).deferred == deferred


GUIDS = [
    ("0216:3eff:feaa:bb01", "00:16:3e:aa:bb:01"),  # seen on a kernel's RDMA device
    ("0016:3EFF:FEAA:BB01", "02:16:3e:aa:bb:01"),
    ("946d:ae03:00cd:e700", None),
    ("0000:0000:0000:0000", None),
    ("0216:3eff", None),
    ("not a guid", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("guid", "mac"), GUIDS)
def test_the_mac_that_a_guid_is_made_of(guid: str | None, mac: str | None) -> None:
    assert erdma.mac_of(guid) == mac


ETH0 = "sys/class/net/eth0"
NETDEVS: list[tuple[dict[str, object], str | None]] = [
    ({}, "eth0"),
    ({f"{ETH0}/address": "00:16:3e:00:00:09"}, None),
    ({f"{ETH0}/device": None}, None),  # a virtual interface that took over its MAC
    ({"sys/class/net": None}, None),
    ({"sys/class/infiniband/erdma_0/node_guid": "946d:ae03:00cd:e700"}, None),
    ({"sys/class/infiniband/erdma_0/ports/1/gid_attrs/ndevs/0": "eth7"}, "eth7"),  # the kernel says it itself
]


@pytest.mark.parametrize(("different", "netdev"), NETDEVS)
def test_its_netdev_is_the_function_beside_it_with_the_same_mac(
    tmp_path: Path, different: dict[str, object], netdev: str | None
) -> None:
    root = trees.build("erdma-cpu", tmp_path)
    faults.apply({"change": different}, root)
    seen = rdma.observe(Host(str(root), live=False))
    assert isinstance(seen, Rdma)
    assert [port.netdev for port in seen.ports] == [netdev]
