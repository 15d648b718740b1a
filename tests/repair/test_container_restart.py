"""The acts of the container runtime where it misbehaves. tests/kubernetes has them on a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep.decide.idleness import Idleness, IdleSource
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cri_containers, cri_sandboxes
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.repair import container_restart
from nodeprep.repair.container_restart import CriClient
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine
from tests.kubelet_values import container, cri_container, message, plugin_devices, pod_devices
from tests.rigs import idle_host
from tests.rigs.grpc_server import GrpcCaller, fine, talk
from tests.rigs.raw_server import RawServer

SOCKET = "run/containerd/containerd.sock"
PLUGIN = RunningContainer("c1", "default", "plugin", "uid-1", "plugin")
EXPORTER = RunningContainer("c2", "default", "plugin", "uid-1", "exporter")
AGAIN = RunningContainer("c3", "default", "plugin", "uid-1", "plugin")


def listed(*containers: RunningContainer) -> bytes:
    """A ListContainersResponse."""
    return message(*((1, cri_container(one)) for one in containers))


def mounting(*paths: str) -> bytes:
    """A ContainerStatusResponse. A path that begins with "ro:" is mounted to read only."""
    return message((1, message(*((14, mount(path)) for path in paths))))


def mount(path: str) -> bytes:
    place = (2, path.removeprefix("ro:").encode())
    return message((1, b"/in"), place, *(((3, 1),) if path.startswith("ro:") else ()))


class Runtime:
    """A container runtime: its running containers, and what it heard. `stopped` is what a stop leads to."""

    def __init__(self, *running: RunningContainer, paths: dict[str, tuple[str, ...]] | None = None) -> None:
        self.running = running
        self.paths = paths or {}
        self.sandboxes: list[tuple[dict[str, str], bytes]] = []  # with the labels that they are found by
        self.stops: list[bytes] = []
        self.stopped: Callable[[], tuple[RunningContainer, ...]] = lambda: self.running

    def answer(self, here: GrpcCaller) -> None:
        match here.headers[":path"].rpartition("/")[2]:
            case "Status":
                fine(b"")(here)
            case "ListContainers":
                fine(listed(*self.running))(here)
            case "ListPodSandbox":
                wanted = [one for labels, one in self.sandboxes if cri_sandboxes.list_request(labels) == here.message]
                fine(message(*((1, one) for one in wanted)))(here)
            case "ContainerStatus":
                fine(mounting(*self.paths.get(here.message[2:].decode(), ())))(here)
            case "StopContainer":
                self.stops.append(here.message)
                self.running = self.stopped()
                fine(b"")(here)


def restarted(
    root: Path,
    runtime: Runtime,
    pod: str | None = "default/plugin",
    deadline: float = 60.0,
    *holders: bytes,
    check: bool = False,
) -> RunOutcome:
    lines: list[TaskLine] = []
    with RawServer(talk(runtime.answer), path=root / SOCKET), idle_host.kubelet_of(root, *holders):
        client = CriClient(Host(str(root), live=True))
        return container_restart.restart(client, pod, deadline, lines.append, check=check)


SERVES: dict[str, tuple[str, ...]] = {"c1": ("/var/lib/kubelet/device-plugins",)}


def test_a_check_stops_nothing(root: Path) -> None:
    runtime = Runtime(PLUGIN, EXPORTER, paths=SERVES)
    outcome = restarted(root, runtime, check=True)
    assert (outcome.end, outcome.changed, runtime.stops) == (RunEnd.DONE, 1, [])


def test_what_serves_the_plugin_is_stopped_with_its_grace(root: Path) -> None:
    runtime = Runtime(PLUGIN, EXPORTER, paths=SERVES)
    runtime.stopped = lambda: (EXPORTER, AGAIN)
    assert restarted(root, runtime).end is RunEnd.DONE
    assert runtime.stops == [message((1, b"c1"), (2, container_restart.STOP_SECONDS))]


@pytest.mark.parametrize(
    "paths", [("/var/lib/kubelet/device-plugins-of-mine",), ("ro:/var/lib/kubelet/device-plugins", "/dev"), ()]
)
def test_where_none_serves_a_plugin_nothing_is_stopped(root: Path, paths: tuple[str, ...]) -> None:
    runtime = Runtime(PLUGIN, EXPORTER, paths={"c1": paths})
    outcome = restarted(root, runtime)
    assert (outcome.end, outcome.changed, runtime.stops) == (RunEnd.FAILED, 0, [])
    assert outcome.message == (
        "no container of default/plugin serves a device plugin: none mounts /var/lib/kubelet/device-plugins to write"
    )


TERWAY = RunningContainer("c6", "kube-system", "terway-eniip-x7k2p", "uid-6", "terway", "s6")
POLICY = RunningContainer("c7", "kube-system", "terway-eniip-x7k2p", "uid-6", "policy", "s6")
IMPOSTOR = RunningContainer("c8", "kube-system", "terway-job", "uid-8", "terway", "s8")
TERWAY_AGAIN = RunningContainer("c9", "kube-system", "terway-eniip-x7k2p", "uid-6", "terway", "s6")


def sandbox(one: RunningContainer) -> bytes:
    names = message((1, one.pod.encode()), (2, one.pod_uid.encode()), (3, one.namespace.encode()))
    return message((1, one.sandbox.encode()), (2, names))


@pytest.mark.parametrize("app", ["terway-eniip", "terway-eni"])
def test_terway_is_found_by_its_label(root: Path, app: str) -> None:
    runtime = Runtime(TERWAY, POLICY, IMPOSTOR)
    runtime.sandboxes = [({"app": app}, sandbox(TERWAY)), ({"app": "terway-job"}, sandbox(IMPOSTOR))]
    runtime.stopped = lambda: (TERWAY_AGAIN, POLICY, IMPOSTOR)
    assert restarted(root, runtime, pod=None).end is RunEnd.DONE
    assert runtime.stops == [message((1, b"c6"), (2, container_restart.STOP_SECONDS))]


def test_without_the_label_there_is_no_terway(root: Path) -> None:
    runtime = Runtime(TERWAY, IMPOSTOR)
    outcome = restarted(root, runtime, pod=None)
    assert (outcome.end, runtime.stops) == (RunEnd.FAILED, [])
    assert outcome.message == "no container of Terway runs here"


def proved(root: Path, runtime: Runtime, pod: str | None, *pods: bytes) -> Idleness:
    """Whether what would be restarted is idle, on a node whose kubelet lists these pods."""
    with RawServer(talk(runtime.answer), path=root / SOCKET), idle_host.kubelet_of(root, *pods):
        return container_restart.idle(Host(str(root), live=True), pod)


def holding(namespace: str, name: str) -> bytes:
    return pod_devices(namespace, name, container("main", plugin_devices("nvidia.com/gpu", ["GPU-1"], 0)))


def terway_node() -> Runtime:
    runtime = Runtime(TERWAY, POLICY)
    runtime.sandboxes = [({"app": "terway-eniip"}, sandbox(TERWAY))]
    return runtime


HOLDERS = [
    # runtime                                  asked for           who holds a device           idle
    (Runtime(PLUGIN, EXPORTER, paths=SERVES), "default/plugin", ("team", "job"), True),
    (Runtime(PLUGIN, EXPORTER, paths=SERVES), "default/plugin", ("default", "plugin"), False),
    (terway_node(), None, ("team", "job"), True),
    (terway_node(), None, ("kube-system", "terway-eniip-x7k2p"), False),
    (Runtime(), None, ("team", "job"), True),
]


def test_what_holds_a_device_by_now_is_not_stopped(root: Path) -> None:
    """Whatever was proved before: the runtime may have listed other containers then, or none."""
    runtime = Runtime(PLUGIN, paths=SERVES)
    outcome = restarted(root, runtime, "default/plugin", 60.0, holding("default", "plugin"))
    assert (outcome.end, outcome.changed, runtime.stops) == (RunEnd.FAILED, 0, [])
    assert "nvidia.com/gpu GPU-1 is in use" in outcome.message


@pytest.mark.parametrize(("runtime", "pod", "holder", "is_idle"), HOLDERS)
def test_one_that_holds_a_device_is_never_restarted(
    root: Path, runtime: Runtime, pod: str | None, holder: tuple[str, str], is_idle: bool
) -> None:
    found = proved(root, runtime, pod, holding(*holder))
    assert (found.is_idle, found.doubts) == (is_idle, ())
    assert [one.device for one in found.holders] == ([] if is_idle else ["nvidia.com/gpu GPU-1"])


def test_where_nobody_can_say_who_holds_devices_it_is_in_use(root: Path) -> None:
    with RawServer(talk(terway_node().answer), path=root / SOCKET):
        found = container_restart.idle(Host(str(root), live=True), None)
    assert [one.source for one in found.doubts] == [IdleSource.POD_RESOURCES]


def test_a_runtime_that_does_not_say_what_a_container_mounts_is_a_doubt(root: Path) -> None:
    def silent(here: GrpcCaller) -> None:
        if here.headers[":path"].endswith("/ContainerStatus"):
            here.head(("grpc-status", "14"), ("grpc-message", "not now"), ended=True)
        else:
            Runtime(PLUGIN).answer(here)

    with RawServer(talk(silent), path=root / SOCKET):
        found = container_restart.idle(Host(str(root), live=True), "default/plugin")
    assert ["not now" in str(one.why) for one in found.doubts] == [True]


def test_one_that_is_not_started_again_is_told(root: Path) -> None:
    """Another pod of the same name, or the same container, is not it."""
    other = RunningContainer("c5", "default", "plugin", "uid-2", "plugin")
    runtime = Runtime(PLUGIN, paths=SERVES)
    runtime.stopped = lambda: (PLUGIN, other)
    outcome = restarted(root, runtime, deadline=1.0)
    assert (outcome.end, outcome.changed) == (RunEnd.TIMED_OUT, 1)
    assert "the kubelet has not started default/plugin (container plugin) again" in outcome.message


def test_a_runtime_that_says_nonsense(root: Path) -> None:
    with RawServer(talk(fine(b"\xff\xff")), path=root / SOCKET):
        lines: list[TaskLine] = []
        client = CriClient(Host(str(root), live=True))
        outcome = container_restart.restart(client, "default/plugin", 5.0, lines.append)
    assert outcome.end is RunEnd.FAILED
    assert "ListContainers" in outcome.message


def test_no_runtime_has_no_containers(tmp_path: Path) -> None:
    client = CriClient(Host(str(tmp_path), live=True))
    assert client.running() == ()


def test_containers_that_the_kubelet_did_not_make_are_left_alone() -> None:
    """Those of `ctr run` or Docker have no such labels."""
    own = message((1, b"c9"), (8, message((1, b"owner"), (2, b"me"))))
    assert cri_containers.running(message((1, own), (1, cri_container(PLUGIN)))) == (PLUGIN,)


def test_requests_are_protobuf() -> None:
    assert message((1, message((2, message((1, 1)))))) == cri_containers.LIST_RUNNING
    assert cri_containers.stop_request("é" * 100, 300) == message((1, ("é" * 100).encode()), (2, 300))
