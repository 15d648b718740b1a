"""The machine itself, from trees and from this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import system
from nodeprep.facts.machine.system import System
from nodeprep.model import Unreadable, raw
from tests.rigs import trees


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def dead(root: Path) -> System:
    return system.observe(Host(str(root), live=False))


def test_a_whole_node(tmp_path: Path) -> None:
    trees.build("h100-ib", tmp_path)
    put(tmp_path, "sys/class/dmi/id/product_name", "DGXH100")
    seen = dead(tmp_path)
    assert (seen.kernel, seen.vendor, seen.product) == ("6.8.0-45-generic", "NVIDIA", "DGXH100")
    assert seen.name == trees.described("h100-ib")["name"]
    assert seen.boot_id == "0f2b6c3e-4b8f-4a35-9d62-0c5d3f1f0a11"
    assert seen.cmdline == ""
    assert seen.virtual is False


def test_an_empty_tree_says_nothing(tmp_path: Path) -> None:
    seen = dead(tmp_path)
    assert (seen.name, seen.kernel, seen.boot_id, seen.virtual) == ("", "", "", None)
    assert (seen.vendor, seen.product, seen.cmdline) == ("", "", "")


@pytest.mark.parametrize(
    ("cpuinfo", "virtual"),
    [
        ("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm", True),
        ("processor\t: 0\nflags\t\t: fpu vme lahf_lm", False),
        ("processor\t: 0\nflags\t\t: fpu not_a_hypervisor", False),
        ("processor\t: 0\nmodel name\t: hypervisor", None),
        ("processor\t: 0\nFeatures\t: fp asimd", None),
        ("", None),
    ],
)
def test_virtual(tmp_path: Path, cpuinfo: str, virtual: bool | None) -> None:
    put(tmp_path, "proc/cpuinfo", cpuinfo)
    assert dead(tmp_path).virtual is virtual


def test_flags_of_a_machine_with_hundreds_of_processors(tmp_path: Path) -> None:
    one = "processor\t: {0}\nflags\t\t: fpu hypervisor " + "flag " * 200 + "\n\n"
    put(tmp_path, "proc/cpuinfo", "".join(one.format(number) for number in range(1500)))
    assert (tmp_path / "proc/cpuinfo").stat().st_size > 1 << 20
    assert dead(tmp_path).virtual is True


def test_one_damaged_file_spoils_its_own_field(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/hostname").mkdir(parents=True)
    put(tmp_path, "proc/sys/kernel/osrelease", "6.1.0-18-amd64")
    seen = dead(tmp_path)
    assert isinstance(raw(seen)["name"], Unreadable)
    assert seen.kernel == "6.1.0-18-amd64"


@pytest.mark.parametrize(
    ("kernel", "at_least"),
    [
        ("5.12.0", True),
        ("5.11.99-generic", False),
        ("5.12-rc1", True),
        ("6.1.0-18-amd64", True),
        ("4.18.0-553.el8", False),
        ("5.100.1", True),
        ("", None),
        ("custom", None),
    ],
)
def test_kernel_at_least(kernel: str, at_least: bool | None) -> None:
    assert System(0.0, "", kernel, "", None, "", "", "").kernel_at_least(5, 12) is at_least


def test_this_machine() -> None:
    seen = system.observe(Host())
    assert seen.name == platform.node()
    assert seen.kernel == platform.release()
    assert seen.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert seen.kernel_at_least(2, 6) is True


PARAMETERS = [
    # /proc/cmdline                                                        what is kept of it
    ("ro quiet iommu=pt rd.luks.key=SECRET", ""),
    ("pci=nomsi,config_acs=xx1xxxx@0000:5a:00.0,noats quiet", "pci=config_acs=xx1xxxx@0000:5a:00.0"),
    ('pci="config_acs=a@0000:5a:00.0" x', "pci=config_acs=a@0000:5a:00.0"),
    ('"pci=disable_acs_redir=0000:5a:00.0"', "pci=disable_acs_redir=0000:5a:00.0"),
    ('init.password="SECRET pci=config_acs=SECRET" ro', ""),
    ("ro -- pci=config_acs=SECRET", ""),
    ("config_acs=SECRET xpci=config_acs=SECRET", ""),
    ("pci pci= pci=config_acs=", "pci=config_acs="),
]


@pytest.mark.parametrize(("cmdline", "kept"), PARAMETERS)
def test_of_the_kernels_parameters_those_that_checks_read(tmp_path: Path, cmdline: str, kept: str) -> None:
    put(tmp_path, "proc/cmdline", cmdline)
    assert dead(tmp_path).cmdline == kept
