"""The checks of device plugins on what a node shows: real sockets, a kubelet that answers, and its checkpoint."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nodeprep import check_round
from nodeprep.checks import CHECKS
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import allocatable_devices, device_plugins, kubelet, pod_resources
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.job_profile import Expectation, Profile
from nodeprep.look import Look
from nodeprep.model import Unreadable
from tests import cluster_values, values
from tests.gpu_values import uuids
from tests.kubelet_values import GPU, answer, container, plugin_devices, pod_devices
from tests.rigs.grpc_server import serving

HELD = pod_devices("jobs", "a", container("c", plugin_devices(GPU, uuids(8)[:2], 0)))
ANSWERS = {pod_resources.LIST: answer(HELD), pod_resources.ALLOCATABLE: answer(plugin_devices(GPU, uuids(8)[:7], 0))}
EIGHT = Profile("hgx", expect=Expectation(resources={GPU: 8}))
SECRET = "AWS_SECRET=hunter2"
ENTRY = {"PodUID": "u", "ContainerName": "c", "ResourceName": GPU, "DeviceIDs": ["GPU-0"], "AllocResp": SECRET}
ASKED = ("plugin.kubelet-socket", "plugin.registered", "plugin.allocatable", "plugin.sockets", "plugin.in-use")


class TestHost(Host):
    """A directory of a test is the root of a machine, which may be so busy that a kubelet answers late."""

    __test__ = False
    PATIENCE = 60.0  # seconds

    def unmounted(self) -> Unreadable | None:
        return None

    def grpc(
        self, socket: str, method: str, request: bytes, *, deadline: float, limit: int, rest: float
    ) -> bytes | Unreadable:
        assert deadline < self.PATIENCE
        return super().grpc(socket, method, request, deadline=self.PATIENCE, limit=limit, rest=rest)


@pytest.fixture
def root() -> Iterator[Path]:
    """Its path is short: the name of a socket has 107 characters at most (unix(7))."""
    with tempfile.TemporaryDirectory(prefix="node-") as directory:
        place = Path(directory)
        (place / "proc/1").mkdir(parents=True)
        (place / "proc/1/stat").write_text("1 (init) S")
        for name in ("pod-resources", "device-plugins"):
            (place / "var/lib/kubelet" / name).mkdir(parents=True)
        yield place


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """Somebody listens on a Unix socket, and leaves its file behind."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield


@contextmanager
def answering(root: Path) -> Iterator[None]:
    """A kubelet that answers since ten minutes."""
    path = root / kubelet.SOCKET.lstrip("/")
    with serving(path, ANSWERS), listening(root / device_plugins.DIRECTORY.lstrip("/") / "kubelet.sock"):
        os.utime(path, (0, time.time() - 600))
        yield


def said(root: Path, told: Cluster) -> dict[str, list[str]]:
    """The reasons by check, on what this root shows."""
    host = TestHost(str(root), live=True)
    seen = [kubelet.observe(host), allocatable_devices.observe(host), device_plugins.observe(host)]
    made: dict[str, Any] = {"id": "10de:2330", "pci_class": "030200", "driver": "nvidia", "rdma": (), "netdevs": ()}
    gpus = [values.nic(address=f"0000:{number:02x}:00.0", **made) for number in range(8)]
    facts = {type(one): one for one in (*seen, values.pci(*gpus), values.rdma(), values.links(), told)}
    looked = Look(1.0, live=True, facts=facts)
    found = check_round.judge([CHECKS[one] for one in ASKED], looked, None, EIGHT, {}).findings
    return {one: [each.verdict.reason for each in found if each.check == one] for one in ASKED}


def node(**counts: str) -> Cluster:
    offers = {GPU: counts["allocatable"]} if counts else {}
    capacity = {GPU: counts["capacity"]} if counts else {}
    return cluster_values.cluster(node=cluster_values.node_object(capacity=capacity, allocatable=offers), pods=())


def test_a_gpu_that_is_unhealthy(root: Path) -> None:
    with answering(root), listening(root / device_plugins.DIRECTORY.lstrip("/") / "nvidia-gpu.sock"):
        assert said(root, node(capacity="8", allocatable="8")) == {
            "plugin.kubelet-socket": ["Accepts"],
            "plugin.registered": ["Registered"],
            "plugin.allocatable": ["SomeUnhealthy"],
            "plugin.sockets": ["Listens"],
            "plugin.in-use": ["InUse"],
        }


CHECKPOINTS = ["", "{", "[]", json.dumps({"Data": {"PodDeviceEntries": [ENTRY], "RegisteredDevices": {GPU: uuids(8)}}})]


@pytest.mark.parametrize("text", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_a_plugin_that_died(root: Path, text: str) -> None:
    """The kubelet has devices of it, so another socket serves it. No checkpoint changes that, whatever it holds."""
    directory = root / device_plugins.DIRECTORY.lstrip("/")
    (directory / "kubelet_internal_checkpoint").write_text(text)
    with listening(directory / "nvidia-gpu.sock"):
        pass
    with answering(root):
        assert said(root, node(capacity="8", allocatable="8"))["plugin.sockets"] == ["Stale"]


def test_what_containers_were_told_is_never_kept(root: Path) -> None:
    (root / device_plugins.CHECKPOINT.lstrip("/")).write_text(CHECKPOINTS[-1])
    found = device_plugins.observe(TestHost(str(root), live=True))
    assert "GPU-0" in repr(found)
    assert SECRET not in repr(found)


def test_no_kubelet_at_all(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    assert set(map(tuple, said(tmp_path, node()).values())) == {("Nothing",)}
