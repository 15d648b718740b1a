"""What the kubelet says, from real sockets: of one that answers, one that hangs, one that is dead, and none."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import allocatable_devices, container_runtime, device_plugins, kubelet, pod_resources
from nodeprep.facts.kubernetes.allocatable_devices import AllocatableDevices
from nodeprep.facts.kubernetes.container_runtime import ContainerRuntime, RuntimeCondition
from nodeprep.facts.kubernetes.device_plugins import DevicePlugins
from nodeprep.facts.kubernetes.kubelet import Healthz, Kubelet
from nodeprep.facts.kubernetes.pod_resources import ContainerDevices, PluginDevices, PodDevices
from nodeprep.facts.machine import system
from nodeprep.facts.machine.system import System
from nodeprep.model import CannotLook, Unreadable, Why
from nodeprep.observer import Observation, Observer
from tests.kubelet_values import (
    GPU,
    answer,
    container,
    plugin_devices,
    pod_devices,
    runtime_condition,
    runtime_status,
)
from tests.rigs.absent import cannot_start
from tests.rigs.grpc_server import serving
from tests.rigs.raw_server import Caller, Conversation, RawServer, once

LISTED = answer(pod_devices("jobs", "a", container("c", plugin_devices(GPU, ["GPU-1"], 0))))
ADVERTISED = answer(plugin_devices(GPU, ["GPU-1"], 0), plugin_devices(GPU, ["GPU-2"], 1))
ANSWERS = {pod_resources.LIST: LISTED, pod_resources.ALLOCATABLE: ADVERTISED}
HOLDER = PodDevices("jobs", "a", (ContainerDevices("c", (PluginDevices(GPU, ("GPU-1",), (0,)),), 0),))
PATIENCE = 60.0


class KubeletHost(Host):
    """A node whose kubelet has its health port at another number: several tests run at once on one machine.

    An answer may take `patience` seconds, however busy this machine is.
    """

    def __init__(self, root: Path, port: int, *, live: bool = True, patience: float = PATIENCE) -> None:
        super().__init__(str(root), live=live)
        self.port, self.patience = port, patience
        self.asked: list[tuple[int, str]] = []
        self.deadlines: list[float] = []

    def unmounted(self) -> Unreadable | None:
        """A directory of a test is taken for the root of this machine."""
        return None

    def page(self, port: int, path: str, *, deadline: float, limit: int) -> tuple[int, bytes] | None | Unreadable:
        self.asked.append((port, path))
        self.deadlines.append(deadline)
        return super().page(self.port, path, deadline=max(deadline, self.patience), limit=limit)

    def grpc(
        self, socket: str, method: str, request: bytes, *, deadline: float, limit: int, rest: float
    ) -> bytes | Unreadable:
        self.deadlines.append(deadline)
        return super().grpc(socket, method, request, deadline=max(deadline, self.patience), limit=limit, rest=rest)


def page(status: str, body: str) -> Conversation:
    return once(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


def silent(caller: Caller) -> None:
    caller.over.wait(PATIENCE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with processes and the kubelet's directory."""
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    (tmp_path / "var/lib/kubelet/pod-resources").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def nobody() -> int:
    """A port on which nobody listens."""
    with RawServer(silent) as server:
        return server.port


def socket_of(root: Path) -> Path:
    return root / kubelet.SOCKET.lstrip("/")


def test_a_kubelet_that_answers(root: Path) -> None:
    with RawServer(page("200 OK", "ok")) as health, serving(socket_of(root), ANSWERS):
        os.utime(socket_of(root), (0, time.time() - 600))
        host = KubeletHost(root, health.port)
        found = kubelet.observe(host)
        assert found.present
        assert found.healthz == Healthz(200, ())
        assert found.pods == (HOLDER,)
        assert found.age is not None
        assert 595 < found.age < 700
        assert found.started == kubelet.observe(host).started, "the same in each look"
        assert (found.port_silence, found.socket_silence) == (None, None)
        assert host.asked[0] == (10248, "/healthz")
        advertised = allocatable_devices.observe(host)
        assert advertised.devices == (PluginDevices(GPU, ("GPU-1",), (0,)), PluginDevices(GPU, ("GPU-2",), (1,)))


PAGES = [
    # status                        body                                                          says
    ("200 OK", "ok", Healthz(200, ())),
    (
        "500 Internal Server Error",
        "[+]ping ok\n[-]syncloop failed: reason withheld\n[-]watchdog failed: x\nhealthz check failed\n",
        Healthz(500, ("syncloop", "watchdog")),
    ),
    ("404 Not Found", "", Healthz(404, ())),
]


@pytest.mark.parametrize(("status", "body", "says"), PAGES)
def test_its_health_page(root: Path, status: str, body: str, says: Healthz) -> None:
    with RawServer(page(status, body)) as health:
        assert kubelet.observe(KubeletHost(root, health.port)).healthz == says


def test_a_port_that_is_not_in_use(root: Path, nobody: int) -> None:
    with serving(socket_of(root), ANSWERS):
        found = kubelet.observe(KubeletHost(root, nobody))
    assert found.healthz is None
    assert found.pods == (HOLDER,)


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02"])
def test_a_port_of_somebody_else(root: Path, said: bytes) -> None:
    def other(caller: Caller) -> None:
        caller.says(said)
        caller.over.wait(PATIENCE)

    with RawServer(other) as health:
        silence = kubelet.observe(KubeletHost(root, health.port)).port_silence
    assert silence is not None
    assert silence.kind is Why.MALFORMED


def test_a_dead_kubelet(root: Path, nobody: int) -> None:
    with serving(socket_of(root), ANSWERS):
        pass
    found = kubelet.observe(KubeletHost(root, nobody))
    assert found.present
    assert found.healthz is None
    assert found.socket_silence == Unreadable(Why.IO_ERROR, kubelet.SOCKET, errno.ECONNREFUSED, "Connection refused")


def test_a_kubelet_that_has_not_made_its_socket(root: Path, nobody: int) -> None:
    found = kubelet.observe(KubeletHost(root, nobody))
    assert found.present
    assert found.started is None
    assert found.age is None
    assert found.socket_silence is not None
    assert found.socket_silence.errno == errno.ENOENT


@pytest.mark.timeout(120)
def test_a_kubelet_that_hangs_costs_a_second_once(root: Path) -> None:
    """As one that was stopped: its sockets take connections. Both facts, and a second look."""
    with RawServer(silent) as health, RawServer(silent, path=socket_of(root)) as server:
        host = KubeletHost(root, health.port, patience=0.0)
        began = clock.now()
        found = kubelet.observe(host)
        took = clock.now() - began
        assert 1.0 < took < PATIENCE
        late = found.port_silence is not None and found.port_silence.kind is Why.TIMEOUT  # else this machine was busy
        rest = kubelet.LAST_SECONDS if late else kubelet.ANSWER_SECONDS
        assert host.deadlines == [kubelet.ANSWER_SECONDS, rest], "the socket has what the port left"
        for silence in (found.port_silence, found.socket_silence):
            assert silence is not None
            assert silence.kind in (Why.TIMEOUT, Why.BUSY)
        if found.socket_silence is not None and found.socket_silence.kind is Why.TIMEOUT:
            allocatable_devices.observe(host)
            assert server.connections == 1, "for 30 s it is not asked again"


GARBAGE = [b"\xff", b"\x0a\x7f", b"\x0a\x02\x08", bytes(range(1, 200))]


@pytest.mark.parametrize("message", GARBAGE, ids=range(len(GARBAGE)))
def test_an_answer_that_is_no_protobuf(root: Path, nobody: int, message: bytes) -> None:
    with serving(socket_of(root), dict.fromkeys(ANSWERS, message)):
        host = KubeletHost(root, nobody)
        for silence in (
            kubelet.observe(host).socket_silence,
            unreadable(allocatable_devices.observe(host)),
        ):
            assert silence is not None
            assert (silence.kind, silence.path) == (Why.MALFORMED, kubelet.SOCKET)


def unreadable(found: AllocatableDevices) -> Unreadable:
    with pytest.raises(CannotLook) as cannot:
        _ = found.devices
    return cannot.value.blind


def test_an_old_kubelet_that_does_not_know_the_method(root: Path, nobody: int) -> None:
    with serving(socket_of(root), {pod_resources.LIST: LISTED}):
        silence = unreadable(allocatable_devices.observe(KubeletHost(root, nobody)))
    assert silence.kind is Why.MISSING
    assert silence.errno is None
    assert "UNIMPLEMENTED" in silence.detail


def test_a_clock_that_was_set_back(root: Path, nobody: int) -> None:
    with serving(socket_of(root), ANSWERS):
        os.utime(socket_of(root), (0, time.time() + 3600))
        found = kubelet.observe(KubeletHost(root, nobody))
    with pytest.raises(CannotLook, match="in the future: the clock was set back"):
        _ = found.started


def test_a_host_without_a_kubelet_is_asked_nothing(tmp_path: Path, nobody: int) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    host = KubeletHost(tmp_path, nobody)
    assert kubelet.observe(host).present is False
    assert allocatable_devices.observe(host).present is False
    assert container_runtime.observe(host).asked is False
    assert host.asked == []


def pod(root: Path) -> Path:
    """What a pod of the agent has of /proc: the mount tables (docs/adr/0021)."""
    shutil.rmtree(root / "proc")
    (root / "proc/1").mkdir(parents=True)
    (root / "proc/1/mountinfo").write_text("")
    return root


def test_a_pod_without_the_mount_says_which_manifest_has_it(root: Path) -> None:
    with RawServer(page("200 OK", "ok")) as health:
        (pod(root) / "var/lib/kubelet/pod-resources").rmdir()
        host = KubeletHost(root, health.port)
        found = kubelet.observe(host)
        assert found.present, "it was started by a kubelet"
        assert found.healthz == Healthz(200, ())
        for silence in (found.socket_silence, unreadable(allocatable_devices.observe(host))):
            assert silence is not None
            assert silence.is_not_mounted
            assert str(silence) == (
                "/var/lib/kubelet/pod-resources: missing "
                "(not mounted in this pod: daemonset/base/daemonset.yaml mounts it)"
            )
        with pytest.raises(CannotLook, match="not mounted in this pod"):
            _ = found.started


def test_a_pod_with_the_mount(root: Path, nobody: int) -> None:
    with serving(socket_of(pod(root)), ANSWERS):
        host = KubeletHost(root, nobody)
        assert kubelet.observe(host).pods == (HOLDER,)
        assert container_runtime.observe(host).asked is False, "a pod never asks the runtime"


def test_a_pod_on_a_node_whose_kubelet_is_at_home_elsewhere(root: Path, nobody: int) -> None:
    """The runtime made an empty directory for the mount."""
    silence = kubelet.observe(KubeletHost(pod(root), nobody)).socket_silence
    assert silence is not None
    assert silence.errno is None, "nobody says that the kubelet is dead"
    assert "its --root-dir is another" in silence.detail


LOOK = """
import sys
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import allocatable_devices, container_runtime, device_plugins, kubelet
host = Host({root!r})
for observe in (kubelet.observe, allocatable_devices.observe, device_plugins.observe, container_runtime.observe):
    observe(host)
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("h2", "hpack", "hyperframe", "h11", "socket")))
"""


def test_without_a_kubelet_nothing_is_imported_and_no_socket_is_opened(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        cannot_start("no strace")
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    program = [sys.executable, "-c", LOOK.format(root=str(tmp_path))]
    trace = ["strace", "-f", "-qq", "-e", "trace=%network", "-o", str(tmp_path / "trace")]
    done = subprocess.run([*trace, *program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert (tmp_path / "trace").read_text() == ""


RUNTIME = "/runtime.v1.RuntimeService/Status"
READY = runtime_condition("RuntimeReady", True)
NO_NETWORK = runtime_condition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized, token: abc")


def runtime_at(root: Path, place: str, message: bytes) -> ContainerRuntime:
    path = root / place.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    with serving(path, {RUNTIME: message}):
        return container_runtime.observe(KubeletHost(root, 0))


def test_a_container_runtime(root: Path) -> None:
    found = runtime_at(root, "/run/containerd/containerd.sock", runtime_status(READY, NO_NETWORK))
    assert found.asked
    assert found.socket == "/run/containerd/containerd.sock"
    assert found.conditions == (
        RuntimeCondition("RuntimeReady", True, "", ""),
        RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized, token: ***"),
    )
    assert [one.type for one in found.missing] == ["NetworkReady"]


CONFIGURED = [
    # file                                     text                                                         socket
    ("config.yaml", "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/a/b.sock\n", "/run/a/b.sock"),
    ("config.yaml", 'containerRuntimeEndpoint: "unix:///run/a/b.sock"\n', "/run/a/b.sock"),
    ("config.yaml", "containerRuntimeEndpoint: /run/a/b.sock", "/run/a/b.sock"),
    ("config.yaml", 'containerRuntimeEndpoint: ""\n', "/run/crio/crio.sock"),
    ("config.yaml", "cgroupDriver: systemd\n", "/run/crio/crio.sock"),
    (
        "kubeadm-flags.env",
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/a/b.sock --pod-infra-container-image=x"\n',
        "/run/a/b.sock",
    ),
]


@pytest.mark.parametrize(("file", "text", "socket"), CONFIGURED)
def test_the_socket_is_the_one_that_the_kubelet_is_told(root: Path, file: str, text: str, socket: str) -> None:
    (root / "run/crio").mkdir(parents=True)
    (root / "run/crio/crio.sock").touch()
    (root / "var/lib/kubelet" / file).write_text(text)
    assert container_runtime.observe(Host(str(root))).socket == socket


def test_a_runtime_that_is_not_found(root: Path) -> None:
    found = container_runtime.observe(Host(str(root)))
    assert found.asked
    assert found.socket == ""
    with pytest.raises(CannotLook, match="names no socket, and none is there of /run/containerd"):
        _ = found.conditions


def test_a_runtime_that_answers_garbage(root: Path) -> None:
    found = runtime_at(root, "/run/containerd/containerd.sock", b"\x0a\x7f")
    with pytest.raises(CannotLook, match="malformed"):
        _ = found.conditions


AGES = [
    # started   age     starting
    (None, None, False),
    (4000.0, 0.0, True),
    (3701.0, 299.0, True),
    (3700.0, 300.0, False),
    (-50.0, 4050.0, False),
]


@pytest.mark.parametrize(("started", "age", "starting"), AGES)
def test_five_minutes_of_grace_from_its_start(started: float | None, age: float | None, starting: bool) -> None:
    found = Kubelet(4000.0, True, started, None, ())
    assert (found.age, found.is_starting) == (age, starting)


@pytest.mark.timeout(120)
def test_a_kubelet_that_hangs_delays_nothing_beside_it(root: Path) -> None:
    """Its two facts wait at the same time, and others have answered before them."""
    with RawServer(silent) as health, RawServer(silent, path=socket_of(root)):
        observer = Observer(KubeletHost(root, health.port, patience=0.0))
        observer.begin((kubelet.FACT, allocatable_devices.FACT, system.FACT, device_plugins.FACT))
        found: dict[type, Observation] = {}
        while len(found) < 4:
            found |= {one.fact.kind: one for one in observer.gather()}
    assert all(isinstance(one.value, kind) for kind, one in found.items())
    ended = {kind: one.began + one.seconds for kind, one in found.items()}
    assert found[System].seconds + found[DevicePlugins].seconds < found[Kubelet].seconds, "they did not wait for it"
    assert found[AllocatableDevices].began < ended[Kubelet], "not one after the other"
    assert found[Kubelet].began < ended[AllocatableDevices]
