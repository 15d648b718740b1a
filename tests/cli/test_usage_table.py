"""`check -o wide` says who uses which device, and what it could not see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.cli.check import usage_table
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes.pod_resources import ContainerDevices, PluginDevices, PodDevices
from nodeprep.facts.machine import holders
from nodeprep.facts.machine.holders import NodeHolder, NodeHolders
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, Why
from tests.kubelet_values import kubelet
from tests.rigs.scratch import in_memory

SILENT = Unreadable(Why.TIMEOUT, "/var/lib/kubelet/pod-resources/kubelet.sock", detail="no answer in 1 s")


def pod(*devices: PluginDevices, claims: int = 0) -> PodDevices:
    return PodDevices("team-a", "worker-0", (ContainerDevices("pytorch", devices, claims),))


def test_a_row_for_each_device_that_a_pod_holds() -> None:
    gpus, nics = PluginDevices("nvidia.com/gpu", ("GPU-1", "GPU-2"), (0,)), PluginDevices("rdma/hca", ("3",), ())
    held = pod(gpus, nics, claims=1)
    where = "pod team-a/worker-0 container pytorch"
    assert list(usage_table.of_pods(kubelet(pods=(held,)))) == [
        ("GPU-1", "nvidia.com/gpu", where),
        ("GPU-2", "nvidia.com/gpu", where),
        ("3", "rdma/hca", where),
        ("?", "1 by resource claim", where),
    ]


def test_a_silent_kubelet_is_told_and_an_absent_one_is_no_question() -> None:
    assert list(usage_table.of_pods(kubelet(pods=SILENT))) == [
        "which pods hold devices (/var/lib/kubelet/pod-resources/kubelet.sock: timeout (no answer in 1 s))"
    ]
    assert list(usage_table.of_pods(kubelet(present=False))) == []


PROCESSES: list[tuple[Any, list[Any]]] = [
    (NodeHolders((NodeHolder("/dev/nvidia0", 7, "python3"),), 0), [("/dev/nvidia0", "device node", "pid 7 (python3)")]),
    (NodeHolders((), 3), ["the open files of 3 processes of other users (run as root)"]),
    (
        Unreadable(Why.MISSING, "/proc", detail="processes of the node are not shown here"),
        ["which processes have device nodes open (/proc: missing (processes of the node are not shown here))"],
    ),
]


@pytest.mark.parametrize(("found", "told"), PROCESSES)
def test_processes(found: Any, told: list[Any]) -> None:
    assert list(usage_table.of_processes(found)) == told


def test_contexts_of_the_kernel() -> None:
    found = RdmaNetlink(0.0, True, ("mlx5_0", "mlx5_1"), (), (), (), (("mlx5_0", 2), ("mlx5_1", 0)), (), None, ())
    assert list(usage_table.of_contexts(found)) == [("mlx5_0", "RDMA context", "2 open")]


@pytest.fixture
def root() -> Iterator[Path]:
    """A live root with two processes: one has nodes open, the other files alone."""
    with in_memory() as directory:
        for pid, command, targets in (
            ("77", "python3", ("/dev/infiniband/uverbs0", "/dev/nvidia3", "/dev/infiniband/uverbs0", "/dev/null")),
            ("78", "sshd", ("/dev/null", "socket:[1]", "/home/dev/infiniband/uverbs0")),
        ):
            fd = directory / "proc" / pid / "fd"
            fd.mkdir(parents=True)
            (fd.parent / "comm").write_text(f"{command}\n")
            for number, target in enumerate(targets):
                (fd / str(number)).symlink_to(target)
        (directory / "proc/1").mkdir()
        (directory / "proc/1/stat").write_text("1 (init) S 0 1 1 0 -1\n")
        yield directory


def test_who_has_a_device_node_open(root: Path) -> None:
    found = holders.observe(Host(str(root), live=True))
    assert isinstance(found, NodeHolders)
    assert [(one.node, one.pid, one.command) for one in found.found] == [
        ("/dev/infiniband/uverbs0", 77, "python3"),
        ("/dev/nvidia3", 77, "python3"),
    ]
    assert found.unseen == 0


def test_a_copy_and_a_pod_show_no_process(root: Path) -> None:
    assert isinstance(holders.observe(Host(str(root), live=False)), Unreadable)
    (root / "proc/1/stat").unlink()
    (root / "proc/1/mountinfo").write_text("")  # a pod of the agent (docs/adr/0021)
    assert isinstance(holders.observe(Host(str(root), live=True)), Unreadable)
    assert usage_table.lines(Host(str(root), live=False), None) == []


def test_the_wide_report_ends_with_it() -> None:
    program = [sys.executable, "-m", "nodeprep", "check", "-o", "wide", "--only", "time.sync", "--settle", "0"]
    told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert "HELD BY" in told or "no device is seen in use" in told
