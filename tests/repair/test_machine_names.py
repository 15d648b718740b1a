"""The names by which arguments of remedies are resolved: those of this moment, and none that nobody could read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.repair import machine_names
from tests.kubelet_values import cri_container, message
from tests.rigs import idle_host
from tests.rigs.grpc_server import GrpcCaller, fine, talk
from tests.rigs.raw_server import RawServer
from tests.rigs.scratch import in_memory

PLUGIN = RunningContainer("c1", "kube-system", "plugin", "uid-1", "plugin", "s1")
BDF = "0000:3b:00.0"


@pytest.fixture
def root() -> Iterator[Path]:
    with in_memory() as directory:
        idle_host.tree(directory)
        (directory / "sys/bus/pci/devices").mkdir(parents=True)
        (directory / "sys/class").mkdir()
        yield directory


def test_they_are_those_of_now(root: Path) -> None:
    host = Host(str(root), live=True)
    first = machine_names.observe(host)
    assert (first.functions, first.rdma_devices, first.pods) == (frozenset(), frozenset(), frozenset())
    assert first.netdevs is not None
    assert "lo" in first.netdevs
    (root / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert machine_names.observe(host).rdma_devices == frozenset({"mlx5_0"})


def test_what_cannot_be_read_has_no_names(root: Path) -> None:
    """A name that must not be there yet could be any of them."""
    (root / "sys/bus/pci/devices").rmdir()
    for path in ("sys/bus/pci/devices", "sys/class/infiniband"):
        (root / path).symlink_to(Path(path).name)  # to itself
    found = machine_names.observe(Host(str(root), live=True))
    assert (found.functions, found.rdma_devices) == (None, None)


def refuses(here: GrpcCaller) -> None:
    here.head(("grpc-status", "14"), ("grpc-message", "not now"), ended=True)


RUNTIMES = [
    (fine(message((1, cri_container(PLUGIN)))), {"kube-system/plugin"}),
    (refuses, None),
]


@pytest.mark.parametrize(("answer", "pods"), RUNTIMES)
def test_pods_are_those_that_the_runtime_runs(root: Path, answer: object, pods: object) -> None:
    for one in ("var/lib/kubelet/pod-resources", "run/containerd"):
        (root / one).mkdir(parents=True)
    with RawServer(talk(answer), path=root / "run/containerd/containerd.sock"):  # type: ignore[arg-type]
        assert machine_names.observe(Host(str(root), live=True)).pods == pods
