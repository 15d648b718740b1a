"""What device plugins leave: sockets with and without a listener, and the kubelet's checkpoint in all its forms."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeprep import snapshot as snapshot_file
from nodeprep.config import profile_files
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import device_plugins
from nodeprep.facts.kubernetes.device_plugins import CheckpointEntry, DevicePlugins
from nodeprep.look import Look
from nodeprep.model import CannotLook, Unreadable, Why
from nodeprep.snapshot import Snapshot
from tests.kubelet_values import GPU
from tests.rigs.raw_server import Caller, RawServer

SECRET = "PLANTED"
NEW = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "7c7d",
                "ContainerName": "train",
                "ResourceName": GPU,
                "DeviceIDs": {"1": ["GPU-2"], "0": ["GPU-1", "GPU-0"], "-1": ["GPU-9"]},
                "AllocResp": f"ChYKFk{SECRET}",
            }
        ],
        "RegisteredDevices": {GPU: ["GPU-2", "GPU-1"], "rdma/hca": None},
    },
    "Checksum": 1234567890,
    "BootID": "b-1",
}
OLD = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "7c7d",
                "ContainerName": "train",
                "ResourceName": GPU,
                "DeviceIDs": ["GPU-1"],
                "AllocResp": SECRET,
            }
        ],
        "RegisteredDevices": {GPU: ["GPU-1"]},
    },
    "Checksum": 1,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with processes and the kubelet's directory of plugins."""
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    (tmp_path / "var/lib/kubelet/device-plugins").mkdir(parents=True)
    return tmp_path


def directory(root: Path) -> Path:
    return root / device_plugins.DIRECTORY.lstrip("/")


def look(root: Path, *, live: bool = True) -> DevicePlugins:
    found = device_plugins.observe(Host(str(root), live=live))
    assert isinstance(found, DevicePlugins)
    return found


def read(root: Path, given: object) -> DevicePlugins:
    text = given if isinstance(given, str) else json.dumps(given)
    (root / device_plugins.CHECKPOINT.lstrip("/")).write_text(text)
    return look(root)


def test_the_checkpoint_of_today(root: Path) -> None:
    found = read(root, NEW).checkpoint
    assert found is not None
    devices = {"1": ("GPU-2",), "0": ("GPU-0", "GPU-1"), "-1": ("GPU-9",)}
    assert found.entries == (CheckpointEntry("7c7d", "train", GPU, devices),)
    assert found.registered == {GPU: ("GPU-1", "GPU-2"), "rdma/hca": ()}
    assert found.made > 1.7e9


def test_the_checkpoint_of_old_kubelets(root: Path) -> None:
    found = read(root, OLD).checkpoint
    assert found is not None
    assert found.entries == (CheckpointEntry("7c7d", "train", GPU, {"-1": ("GPU-1",)}),)


EMPTY = [
    {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1},
    {"Data": {"PodDeviceEntries": [], "RegisteredDevices": None}},
    {"Data": {}},
    {},
]


@pytest.mark.parametrize("given", EMPTY)
def test_a_checkpoint_of_nothing(root: Path, given: object) -> None:
    found = read(root, given).checkpoint
    assert found is not None
    assert (found.entries, found.registered) == ((), {})


def entry(**different: Any) -> dict[str, Any]:
    return {"Data": {"PodDeviceEntries": [NEW["Data"]["PodDeviceEntries"][0] | different]}}  # type: ignore[index]


ODD = [
    ("", "Expecting value: line 1 column 1"),
    (json.dumps(NEW)[:200], "Unterminated string"),
    ("[" * 100_000, "recursion"),
    ([], "above Data is no object"),
    ({"Data": []}, "'Data' is no dict"),
    ({"Data": {"PodDeviceEntries": {}}}, "'PodDeviceEntries' is no list"),
    ({"Data": {"PodDeviceEntries": [7]}}, "above DeviceIDs is no object"),
    ({"Data": {"RegisteredDevices": {GPU: "GPU-1"}}}, "'nvidia.com/gpu' is no list"),
    ({"Data": {"RegisteredDevices": {GPU: [1]}}}, "a device's id is no text"),
    (entry(DeviceIDs="GPU-1"), "'DeviceIDs' is no dict"),
    (entry(DeviceIDs={"x": []}), "DeviceIDs has a key that is no NUMA node"),
    (entry(DeviceIDs=[None]), "a device's id is no text"),
    (entry(PodUID=7), "'PodUID' is no str"),
]


@pytest.mark.parametrize(("given", "says"), ODD, ids=range(len(ODD)))
def test_a_checkpoint_that_is_none(root: Path, given: object, says: str) -> None:
    found = read(root, given)
    with pytest.raises(CannotLook) as cannot:
        _ = found.checkpoint
    assert cannot.value.blind.kind is Why.MALFORMED
    assert says in cannot.value.blind.detail
    assert SECRET not in cannot.value.blind.detail


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 400), changes=st.lists(st.tuples(st.integers(0, 380), st.characters()), max_size=3))
def test_a_damaged_checkpoint_is_read_or_said(root: Path, cut: int, changes: list[tuple[int, str]]) -> None:
    text = list(json.dumps(NEW))
    for place, character in changes:
        text[place % len(text)] = character
    found = read(root, "".join(text)[:cut].encode("utf-8", "replace").decode())
    with suppress(CannotLook):
        assert found.checkpoint is not None


@pytest.mark.parametrize("given", [NEW, OLD, json.dumps(NEW)[:-3]], ids=["new", "old", "torn"])
def test_what_containers_were_told_reaches_no_snapshot(root: Path, given: object) -> None:
    found = read(root, given)
    looks = (snapshot_file.observed(Look(1.0, True, {DevicePlugins: found})),)
    profile = snapshot_file.recorded(profile_files.effective("rdma-roce"))
    text = snapshot_file.dumps(Snapshot("n", "2026-01-10T12:00:00Z", True, "/", profile, "x", 0.0, looks))
    assert SECRET not in text
    assert SECRET not in repr(found)
    assert snapshot_file.loads(text).look()[0].get(DevicePlugins) == found


def test_no_checkpoint_yet(root: Path) -> None:
    found = look(root)
    assert found.present
    assert found.checkpoint is None
    assert found.sockets == ()


def test_sockets_are_connected_to_and_told_nothing(root: Path) -> None:
    heard: SimpleQueue[bytes] = SimpleQueue()

    def hear(caller: Caller) -> None:
        heard.put(caller.link.recv(100))

    here = directory(root)
    with RawServer(hear, path=here / "nvidia-gpu.sock"), RawServer(hear, path=here / "kubelet.sock"):
        with RawServer(hear, path=here / "old.sock"):
            pass
        (here / "DEPRECATION").touch()
        found = {one.name: one.errno for one in look(root).sockets or ()}
        assert [heard.get(timeout=60) for _ in range(2)] == [b"", b""]
    assert found == {"kubelet.sock": None, "nvidia-gpu.sock": None, "old.sock": errno.ECONNREFUSED}


@pytest.mark.timeout(120)
def test_plugins_that_take_no_connection_cost_a_second_together(root: Path) -> None:
    full, waiting = [], []
    for name in ("a.sock", "b.sock", "c.sock"):
        server = socket.socket(socket.AF_UNIX)
        here = os.open(directory(root), os.O_PATH)
        server.bind(f"/proc/self/fd/{here}/{name}")
        server.listen(0)
        full.append(server)
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            if one.connect_ex(f"/proc/self/fd/{here}/{name}"):
                break
        os.close(here)
    host = Host(str(root))
    began = host.now()
    found = device_plugins.observe(host)
    assert isinstance(found, DevicePlugins)
    assert host.now() - began < 10
    assert {one.errno for one in found.sockets or ()} <= {errno.EAGAIN, errno.ETIMEDOUT}
    for one in (*full, *waiting):
        one.close()


def test_more_sockets_than_anybody_has(root: Path) -> None:
    for number in range(65):
        (directory(root) / f"{number}.sock").touch()
    with pytest.raises(CannotLook, match="65 sockets, wanted at most 64"):
        _ = look(root).sockets


def test_a_copy_has_a_checkpoint_and_no_sockets(root: Path) -> None:
    (directory(root) / "kubelet.sock").touch()
    read(root, NEW)
    found = look(root, live=False)
    assert found.present
    assert found.sockets is None
    assert found.checkpoint is not None


def unread(root: Path, *, live: bool) -> Unreadable:
    found = device_plugins.observe(Host(str(root), live=live))
    assert isinstance(found, Unreadable)
    return found


def test_a_node_without_the_directory(root: Path) -> None:
    directory(root).rmdir()
    assert not look(root).present
    assert unread(root, live=False).not_recorded
    shutil.rmtree(root / "proc")
    (root / "proc/1").mkdir(parents=True)
    (root / "proc/1/mountinfo").write_text("")  # a pod of the agent (docs/adr/0021)
    blind = unread(root, live=True)
    assert blind.is_not_mounted
    assert str(blind) == (
        "/var/lib/kubelet/device-plugins: missing "
        "(not mounted in this pod: daemonset/components/kubelet-books mounts it)"
    )
