"""Who has device nodes open, by device number and by path. Real processes: tests/repair/test_idle_proof.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.door_values import FIRST_PID_NAMESPACE
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import holders, processes
from nodeprep.facts.machine.holders import GPU, RDMA, VFIO, NodeHolder, NodeHolders, NodeNumbers
from nodeprep.model import Unreadable, Why
from tests.rigs.absent import needs_root
from tests.rigs.scratch import in_memory

DEVICES = """Character devices:
  1 mem
231 infiniband_mad
231 infiniband_verbs
195 nvidia-frontend
508 nvidia-uvm
235 kfd
226 drm
510 infiniband_verbs
511 vfio
509 vfio-dev

Block devices:
195 nvidia
  7 loop
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with in_memory() as directory:
        (directory / "proc/1").mkdir(parents=True)
        (directory / "proc/1/stat").write_text("1 (init) S")
        (directory / "proc/devices").write_text(DEVICES)
        (directory / "proc/misc").write_text(" 58 rdma_cm\n183 hw_random\n196 vfio\n")
        node = directory / "sys/class/infiniband_mad/umad3"
        node.mkdir(parents=True)
        (node / "dev").write_text("231:3\n")
        (node / "ibdev").write_text("mlx5_3\n")
        yield directory


def process(root: Path, pid: int, *targets: str) -> Path:
    here = root / "proc" / str(pid)
    (here / "fd").mkdir(parents=True)
    (here / "comm").write_text("python3\n")
    for number, target in enumerate(targets):
        (here / f"fd/{number}").symlink_to(target)
    return here


def observed(root: Path) -> NodeHolders:
    found = holders.observe(Host(str(root)))
    assert isinstance(found, NodeHolders)
    return found


def test_device_numbers_as_drivers_register_them(root: Path) -> None:
    found = holders.registered(Host(str(root)).files)
    assert isinstance(found, NodeNumbers)
    assert found.families == {
        (231, None): RDMA,
        (510, None): RDMA,
        (10, 58): RDMA,
        (195, None): GPU,
        (508, None): GPU,
        (235, None): GPU,
        (511, None): VFIO,
        (509, None): VFIO,
    }
    assert found.devices == {(231, 3): "mlx5_3"}
    assert [found.family(number) for number in ((231, 3), (10, 58), (10, 183), (1, 3))] == [RDMA, RDMA, "", ""]


def test_functions_that_a_virtual_machine_drives(root: Path) -> None:
    (root / "sys/kernel/iommu_groups/12/devices").mkdir(parents=True)
    for address in ("0000:3b:00.0", "0000:3b:00.1"):
        (root / f"sys/kernel/iommu_groups/12/devices/{address}").mkdir()
    (root / "sys/class/vfio/12").mkdir(parents=True)
    (root / "sys/class/vfio/12/dev").write_text("511:0\n")
    (root / "sys/class/vfio-dev/vfio0").mkdir(parents=True)
    (root / "sys/class/vfio-dev/vfio0/dev").write_text("509:0\n")
    (root / "sys/class/vfio-dev/vfio0/device").symlink_to("../../../0000:5e:00.0")
    found = holders.registered(Host(str(root)).files)
    assert isinstance(found, NodeNumbers)
    assert found.devices[511, 0] == "0000:3b:00.0 0000:3b:00.1"
    assert found.devices[509, 0] == "0000:5e:00.0"


def test_device_numbers_that_cannot_be_read(root: Path) -> None:
    (root / "proc/misc").write_bytes(b"\xff")
    found = holders.registered(Host(str(root)).files)
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.MALFORMED, "/proc/misc")


@needs_root("it makes device nodes")
def test_a_node_at_any_path_by_its_number(root: Path) -> None:
    nodes = {"a": (231, 3), "b": (10, 58), "c": (195, 0), "d": (1, 3), "e": (10, 183)}
    for name, number in nodes.items():
        os.mknod(root / name, 0o020600, os.makedev(*number))
    process(root, 77, *(str(root / name) for name in nodes))
    assert observed(root).found == (
        NodeHolder(str(root / "a"), 77, "python3", RDMA, "mlx5_3"),
        NodeHolder(str(root / "b"), 77, "python3", RDMA),
        NodeHolder(str(root / "c"), 77, "python3", GPU),
    )


def test_a_node_that_was_removed_and_one_of_a_number_that_nobody_registered(root: Path) -> None:
    process(root, 77, "/dev/infiniband/uverbs9 (deleted)", "/dev/nvidia7", "pipe:[7]", "/dev/infiniband/x", "/tmp/gone")
    assert observed(root).found == (
        NodeHolder("/dev/infiniband/uverbs9", 77, "python3", RDMA),
        NodeHolder("/dev/nvidia7", 77, "python3", GPU),
    )


def test_a_process_whose_first_thread_has_ended(root: Path) -> None:
    here = process(root, 77)
    (here / "task/78/fd").mkdir(parents=True)
    (here / "task/78/fd/4").symlink_to("/dev/nvidia0")
    assert [one.pid for one in observed(root).found] == [77]


def test_a_proc_of_all_pid_namespaces(root: Path) -> None:
    assert not observed(root).is_whole
    (root / "proc/1/ns").mkdir()
    (root / "proc/1/ns/pid").symlink_to(f"pid:[{FIRST_PID_NAMESPACE}]")
    assert observed(root).is_whole
    assert observed(root).families == (GPU, RDMA, VFIO)


def test_processes_by_name_and_by_socket(root: Path) -> None:
    process(root, 77, "socket:[4711]", "/dev/null")
    (root / "proc/78").mkdir()  # it ends meanwhile
    files = Host(str(root)).files
    (root / "proc/1/comm").write_text("init\n")
    assert processes.commands(files) == {1: "init", 77: "python3"}
    assert processes.command(files, 78) == "?"
    assert processes.sockets(files, (1, 77, 78)) == {4711: 77}


def test_a_name_that_cannot_be_read_may_be_any(root: Path) -> None:
    process(root, 77)
    (root / "proc/77/comm").write_bytes(b"\xff")
    assert isinstance(processes.commands(Host(str(root)).files), Unreadable)
