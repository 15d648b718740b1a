"""Kernel modules, read from trees with the indexes that depmod writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import modules
from nodeprep.facts.machine.modules import Modules
from nodeprep.model import CannotLook, Unreadable
from tests.rigs.trees import Content, Link, Tree, write

RELEASE = "6.1.0-56-amd64"
INDEX = f"lib/modules/{RELEASE}"
CX7 = "pci:v000015B3d00001021sv000015B3sd00000041bc02sc00i00"
LISTED = "sys/bus/pci/devices"


def tree(**different: Content) -> Tree:
    usual: Tree = {
        "sys/module/ib_core/initstate": "live",
        "sys/module/ib_core/parameters/netns_mode": "Y",
        "sys/module/mlx5_core/version": "24.10-0.7.0",
        "sys/module/8250/parameters/nr_uarts": "4",
        "proc/sys/kernel/osrelease": RELEASE,
        f"{INDEX}/modules.dep": (
            "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz\n"
            "kernel/drivers/net/mlx5/core/mlx5_core.ko:\nupdates/dkms/snd-hda-intel.ko.zst:\n"
        ),
        f"{INDEX}/modules.builtin": "kernel/drivers/infiniband/ib_uverbs.ko\nkernel/drivers/virtio/virtio-ring.ko\n",
        f"{INDEX}/modules.alias": (
            "# Aliases extracted from modules themselves.\n"
            "alias pci:v000015B3d00001021sv*sd*bc*sc*i* mlx5_core\nalias pci:v*d*sv*sd*bc02sc00i* catch_all\n"
            "alias pci:v000015B3d00001023sv*sd*bc*sc*i* other\nalias usb:v15B3* usb\n"
            "alias auxiliary:mlx5_core.rdma mlx5_ib\n"
        ),
    }
    return {name: content for name, content in (usual | different).items() if content != "gone"}


def with_nic(**different: Content) -> Tree:
    usual: Tree = {"class": "0x020000", "modalias": CX7}
    return {f"{LISTED}/0000:5c:00.0/{name}": content for name, content in (usual | different).items()}


def observed(root: Path, files: Tree) -> Modules:
    write(files, root)
    seen = modules.observe(Host(str(root), live=False))
    assert isinstance(seen, Modules)
    return seen


def test_loaded_are_those_of_sysfs_and_those_built_in(tmp_path: Path) -> None:
    seen = observed(tmp_path, tree())
    assert seen.loaded == ("8250", "ib_core", "ib_uverbs", "mlx5_core", "virtio_ring")
    assert seen.is_loaded("virtio-ring")
    assert not seen.is_loaded("mlx5_ib")


@pytest.mark.parametrize(("state", "loaded"), [("live", True), ("coming", False), ("going", False), ("gone", True)])
def test_a_module_that_comes_or_goes_is_not_loaded(tmp_path: Path, state: str, loaded: bool) -> None:
    path = "sys/module/ib_core/initstate"
    seen = observed(tmp_path, tree(**{path: state}))
    assert seen.is_loaded("ib_core") is loaded
    assert seen.loading == (() if loaded else ("ib_core",))


def test_available_are_those_that_modprobe_would_find(tmp_path: Path) -> None:
    seen = observed(tmp_path, tree())
    assert seen.available == ("ib_uverbs", "mlx5_core", "snd_hda_intel", "virtio_ring")
    assert (seen.has("snd-hda-intel"), seen.has("mlx5_ib")) == (True, False)


MISSING: list[Tree] = [
    {f"{INDEX}/modules.dep": "gone"},
    {"proc/sys/kernel/osrelease": "gone"},
    {"proc/sys/kernel/osrelease": ""},
    {"proc/sys/kernel/osrelease": "6.1.0-another"},
]


@pytest.mark.parametrize("missing", MISSING)
def test_without_an_index_nobody_can_say_what_is_available(tmp_path: Path, missing: Tree) -> None:
    seen = observed(tmp_path, tree(**missing))
    assert seen.available is None
    assert seen.has("ib_uverbs") is None


def test_an_index_that_is_damaged_is_unreadable_and_has_does_not_guess(tmp_path: Path) -> None:
    seen = observed(tmp_path, tree(**{f"{INDEX}/modules.dep": b"\xff\xfe"}))
    assert seen.has("ib_uverbs") is None
    with pytest.raises(CannotLook):
        _ = seen.available


def test_versions_are_those_that_modules_state(tmp_path: Path) -> None:
    assert observed(tmp_path, tree()).versions == (("mlx5_core", "24.10-0.7.0"),)


def test_who_would_drive_a_nic_without_driver(tmp_path: Path) -> None:
    seen = observed(tmp_path, tree() | with_nic())
    assert seen.wanted == ((CX7, ("catch_all", "mlx5_core")),)
    assert seen.for_modalias(CX7) == ("catch_all", "mlx5_core")
    assert seen.for_modalias("pci:other") == ()


def test_a_driver_in_the_kernel_itself_is_found_too(tmp_path: Path) -> None:
    built_in = b"virtio_pci.license=GPL\0virtio_pci.alias=pci:v000015B3d*sv*sd*bc*sc*i*\0ext4.alias=fs-ext4\0"
    changes: Tree = {f"{INDEX}/modules.alias": "gone", f"{INDEX}/modules.builtin.modinfo": built_in}
    files = tree(**changes)
    assert observed(tmp_path, files | with_nic()).for_modalias(CX7) == ("virtio_pci",)


NOT_ASKED: list[Tree] = [
    with_nic(driver=Link("../../../bus/pci/drivers/mlx5_core")),  # dangling, as in most copies
    with_nic(**{"class": "0x010802"}),
    {f"{LISTED}/0000:5c:00.0/class": "0x020000"},
    {f"{LISTED}/no address/class": "0x020000", f"{LISTED}/no address/modalias": CX7},
]


@pytest.mark.parametrize("files", NOT_ASKED)
def test_nothing_is_asked_for_others(tmp_path: Path, files: Tree) -> None:
    assert observed(tmp_path, tree() | files).wanted == ()


DAMAGED: list[Content] = ["gone", b"\xff\xfe", b"a\0b"]


@pytest.mark.parametrize("alias", DAMAGED)
def test_without_aliases_nobody_claims_anything(tmp_path: Path, alias: Content) -> None:
    assert observed(tmp_path, tree(**{f"{INDEX}/modules.alias": alias}) | with_nic()).wanted == ()


def test_a_tree_without_modules_is_no_record(tmp_path: Path) -> None:
    seen = modules.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert seen.not_recorded


def test_a_file_in_its_place_is_damage(tmp_path: Path) -> None:
    write({"sys/module": "a file"}, tmp_path)
    seen = modules.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert not seen.not_recorded


def test_this_machines_modules_can_be_read() -> None:
    seen = modules.observe(Host())
    assert isinstance(seen, Modules)
    assert seen.loaded
