"""The acts of the container runtime where it misbehaves. tests/kubernetes has them on a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cri_containers
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.repair import container_restart
from nodeprep.repair.container_restart import CriClient
from nodeprep.repair.playbook_run import RunEnd, RunOutcome, TaskLine
from tests.kubelet_values import cri_container, message
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
    """A ContainerStatusResponse."""
    mounts = ((14, message((1, b"/in"), (2, path.encode()))) for path in paths)
    return message((1, message(*mounts)))


class Runtime:
    """A container runtime: its running containers, and what it heard. `stopped` is what a stop leads to."""

    def __init__(self, *running: RunningContainer, paths: dict[str, tuple[str, ...]] | None = None) -> None:
        self.running = running
        self.paths = paths or {}
        self.stops: list[bytes] = []
        self.stopped: Callable[[], tuple[RunningContainer, ...]] = lambda: self.running

    def answer(self, here: GrpcCaller) -> None:
        match here.headers[":path"].rpartition("/")[2]:
            case "Status":
                fine(b"")(here)
            case "ListContainers":
                fine(listed(*self.running))(here)
            case "ContainerStatus":
                fine(mounting(*self.paths.get(here.message[2:].decode(), ())))(here)
            case "StopContainer":
                self.stops.append(here.message)
                self.running = self.stopped()
                fine(b"")(here)


def restarted(
    root: Path, runtime: Runtime, pod: str | None = "default/plugin", deadline: float = 60.0, *, check: bool = False
) -> RunOutcome:
    lines: list[TaskLine] = []
    with RawServer(talk(runtime.answer), path=root / SOCKET):
        client = CriClient(Host(str(root), live=True))
        return container_restart.restart(client, pod, deadline, lines.append, check=check)


def test_a_check_stops_nothing(root: Path) -> None:
    runtime = Runtime(PLUGIN, EXPORTER)
    outcome = restarted(root, runtime, check=True)
    assert (outcome.end, outcome.changed, runtime.stops) == (RunEnd.DONE, 2, [])


def test_what_serves_the_plugin_is_stopped_with_its_grace(root: Path) -> None:
    runtime = Runtime(PLUGIN, EXPORTER, paths={"c1": ("/var/lib/kubelet/device-plugins",)})
    runtime.stopped = lambda: (EXPORTER, AGAIN)
    assert restarted(root, runtime).end is RunEnd.DONE
    assert runtime.stops == [message((1, b"c1"), (2, container_restart.STOP_SECONDS))]


@pytest.mark.parametrize("paths", [("/var/lib/kubelet/device-plugins-of-mine",), ()])
def test_where_none_shows_that_it_serves_all_are_stopped(root: Path, paths: tuple[str, ...]) -> None:
    runtime = Runtime(PLUGIN, EXPORTER, paths={"c1": paths})
    runtime.stopped = lambda: (AGAIN, RunningContainer("c4", "default", "plugin", "uid-1", "exporter"))
    outcome = restarted(root, runtime)
    assert (outcome.end, outcome.changed, len(runtime.stops)) == (RunEnd.DONE, 2, 2)


def test_one_that_is_not_started_again_is_told(root: Path) -> None:
    """Another pod of the same name, or the same container, is not it."""
    other = RunningContainer("c5", "default", "plugin", "uid-2", "plugin")
    runtime = Runtime(PLUGIN, paths={})
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
