"""The agent's own pod after a limit was lifted, where the runtime misbehaves. tests/kubernetes has it on a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nodeprep.cli.nodes import agent_pods
from nodeprep.config import remedy_files
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import cri_sandboxes
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.facts.kubernetes.cri_sandboxes import PodSandbox
from nodeprep.facts.machine import limits
from nodeprep.repair import agent_restart, container_restart
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine
from tests.kubelet_values import container, cri_container, message, plugin_devices, pod_devices
from tests.rigs import idle_host
from tests.rigs.grpc_server import GrpcCaller, fine, talk
from tests.rigs.raw_server import RawServer

DAEMONSET = Path(__file__).parents[2] / "daemonset/base/daemonset.yaml"
SOCKET = "run/containerd/containerd.sock"
POD = PodSandbox("s1", "nodeprep", "nodeprep-x7k2p", "uid-1")
AGENT = RunningContainer("c1", "nodeprep", "nodeprep-x7k2p", "uid-1", "agent", "s1")
SAME_SANDBOX = RunningContainer("c2", "nodeprep", "nodeprep-x7k2p", "uid-1", "agent", "s1")
AGAIN = RunningContainer("c3", "nodeprep", "nodeprep-x7k2p", "uid-1", "agent", "s2")
JOB = RunningContainer("c9", "team", "job", "uid-9", "train", "s9")
LIMITED = "Max locked memory         65536                65536                bytes\n"
UNLIMITED = "Max locked memory         unlimited            unlimited            bytes\n"
LIFTED = RunOutcome(RunEnd.DONE, 2.0, changed=3)
UNCHANGED = RunOutcome(RunEnd.DONE, 2.0)
MEMLOCK = remedy_files.headers()["memlock"]
TASK = "Stop the agent's pod nodeprep/nodeprep-x7k2p, which keeps the former limit"


def sandbox(one: PodSandbox) -> bytes:
    names = message((1, one.pod.encode()), (2, one.pod_uid.encode()), (3, one.namespace.encode()))
    return message((1, one.id.encode()), (2, names))


class Runtime:
    """A container runtime with one sandbox of the agent. `deaf` are calls that it refuses so often."""

    def __init__(self, *running: RunningContainer, deaf: dict[str, int] | None = None) -> None:
        self.running = running
        self.deaf = deaf or {}
        self.heard: list[tuple[str, bytes]] = []
        self.stopped: Callable[[], tuple[RunningContainer, ...]] = lambda: (AGAIN, JOB)

    def answer(self, here: GrpcCaller) -> None:
        call = here.headers[":path"].rpartition("/")[2]
        self.heard.append((call, here.message))
        if self.deaf.get(call, 0) > 0:
            self.deaf[call] -= 1
            here.head(("grpc-status", "14"), ("grpc-message", "not now"), ended=True)
            return
        match call:
            case "ListPodSandbox":
                fine(message((1, sandbox(POD))) if AGENT in self.running else b"")(here)
                return
            case "ListContainers":
                fine(message(*((1, cri_container(one)) for one in self.running)))(here)
                return
            case "StopPodSandbox":
                self.running = self.stopped()
        fine(b"")(here)

    def stops(self) -> list[tuple[str, bytes]]:
        return [one for one in self.heard if one[0].startswith("Stop")]


def process(root: Path, pid: int, group: str, text: str) -> None:
    here = root / "proc" / str(pid)
    here.mkdir()
    (here / "cgroup").write_text(f"0::/kubepods/besteffort/pod1/{group}\n")
    (here / "limits").write_text(text)


def after(
    root: Path,
    runtime: Runtime,
    done: RunOutcome = LIFTED,
    deadline: float = 60.0,
    *pods: bytes,
    check: bool = False,
) -> tuple[RunOutcome, list[str]]:
    """Of a node whose kubelet says that these pods hold devices."""
    lines: list[TaskLine] = []
    with RawServer(talk(runtime.answer), path=root / SOCKET), idle_host.kubelet_of(root, *pods):
        outcome = agent_restart.after(Host(str(root), live=True), MEMLOCK, done, deadline, lines.append, check=check)
    return outcome, [f"{one.result} {one.task}" for one in lines]


def test_its_sandbox_is_stopped_after_its_containers_had_their_grace(root: Path) -> None:
    runtime = Runtime(AGENT, JOB)
    outcome, lines = after(root, runtime)
    assert (outcome.end, outcome.changed, lines) == (RunEnd.DONE, 4, [f"changed {TASK}"])
    assert runtime.stops() == [
        ("StopContainer", message((1, b"c1"), (2, container_restart.STOP_SECONDS))),
        ("StopPodSandbox", message((1, b"s1"))),
    ]
    assert next(one for one in runtime.heard if one[0] != "Status") == (
        "ListPodSandbox",
        cri_sandboxes.list_request(agent_restart.AGENT_LABELS),
    )


LEFT_ALONE = [
    # limits of its process       what the play changed    stops
    (UNLIMITED, LIFTED, False),
    (LIMITED, LIFTED, True),
    (LIMITED, UNCHANGED, True),  # an earlier run lifted the limit, and did not come to this
    ("nonsense", UNCHANGED, False),
    ("nonsense", LIFTED, True),
    (None, UNCHANGED, False),
    (None, LIFTED, True),
]


@pytest.mark.parametrize(("text", "done", "stops"), LEFT_ALONE)
def test_only_a_pod_that_keeps_a_limit_is_stopped(root: Path, text: str | None, done: RunOutcome, stops: bool) -> None:
    if text is not None:
        process(root, 70, "cri-containerd-c1.scope", text)
    process(root, 71, "cri-containerd-c9.scope", LIMITED)  # a job's: it keeps its limit
    runtime = Runtime(AGENT, JOB)
    outcome, _ = after(root, runtime, done)
    assert bool(runtime.stops()) is stops
    assert outcome.changed == done.changed + stops


def test_only_a_play_that_lifted_a_limit_and_ended_well_goes_on_to_the_agent(root: Path) -> None:
    runtime = Runtime(AGENT)
    host, lines = Host(str(root), live=True), list[TaskLine]()
    failed = RunOutcome(RunEnd.FAILED, 2.0, changed=1)
    with RawServer(talk(runtime.answer), path=root / SOCKET):
        assert agent_restart.after(host, MEMLOCK, failed, 60.0, lines.append) == failed
        assert agent_restart.after(host, remedy_files.headers()["mtu"], LIFTED, 60.0, lines.append) == LIFTED
    assert (runtime.stops(), lines) == ([], [])


def test_a_check_says_what_it_would_stop_and_stops_nothing(root: Path) -> None:
    runtime = Runtime(AGENT)
    outcome, lines = after(root, runtime, check=True)
    assert (outcome.end, outcome.changed, lines, runtime.stops()) == (RunEnd.DONE, 4, [f"changed {TASK}"], [])


def test_a_pod_that_holds_a_device_is_left_alone_whatever_its_labels(root: Path) -> None:
    held = container("agent", plugin_devices("nvidia.com/gpu", ["GPU-1"], 0))
    runtime = Runtime(AGENT)
    outcome, lines = after(root, runtime, LIFTED, 60.0, pod_devices("nodeprep", "nodeprep-x7k2p", held))
    assert (outcome.end, lines, runtime.stops()) == (RunEnd.FAILED, [], [])
    assert "nvidia.com/gpu GPU-1 is in use: pod nodeprep/nodeprep-x7k2p" in outcome.message


def test_a_kubelet_that_does_not_say_who_holds_devices_is_asked_again_and_then_told(root: Path) -> None:
    runtime = Runtime(AGENT)
    with RawServer(talk(runtime.answer), path=root / SOCKET):
        outcome = agent_restart.after(Host(str(root), live=True), MEMLOCK, LIFTED, 1.0, lambda _: None)
    assert (outcome.end, runtime.stops()) == (RunEnd.FAILED, [])
    assert "pod-resources could not be asked" in outcome.message
    assert agent_restart.BY_HAND in outcome.message


def test_where_no_agent_runs_the_outcome_stays(root: Path, tmp_path: Path) -> None:
    runtime = Runtime(JOB)
    outcome, lines = after(root, runtime)
    assert (outcome.end, outcome.changed, lines, runtime.stops()) == (RunEnd.DONE, 3, [], [])
    bare = agent_restart.after(Host(str(tmp_path / "nowhere"), live=True), MEMLOCK, LIFTED, 1.0, lambda _: None)
    assert (bare.end, bare.changed) == (RunEnd.DONE, 3)


def test_a_runtime_that_was_just_restarted_is_asked_again(root: Path) -> None:
    runtime = Runtime(AGENT, deaf={"ListPodSandbox": 2})
    outcome, _ = after(root, runtime)
    assert (outcome.end, len(runtime.stops())) == (RunEnd.DONE, 2)


REFUSALS = [
    # the call             its lines                   changed
    ("ListPodSandbox", [], 3),
    ("ListContainers", [], 3),
    ("StopContainer", [f"failed {TASK}"], 3),
    ("StopPodSandbox", [f"failed {TASK}"], 3),
]


@pytest.mark.parametrize(("call", "said", "changed"), REFUSALS)
def test_a_runtime_that_refuses_is_told_with_what_to_do_by_hand(
    root: Path, call: str, said: list[str], changed: int
) -> None:
    outcome, lines = after(root, Runtime(AGENT, deaf={call: 1 << 30}), deadline=0.0)
    assert (outcome.end, outcome.changed, lines) == (RunEnd.FAILED, changed, said)
    assert agent_restart.BY_HAND in outcome.message


def test_a_runtime_that_refuses_where_nothing_was_lifted_changes_nothing(root: Path) -> None:
    outcome, _ = after(root, Runtime(AGENT, deaf={"ListPodSandbox": 1 << 30}), UNCHANGED, deadline=0.0)
    assert outcome == UNCHANGED


def test_a_container_in_the_same_sandbox_is_not_it(root: Path) -> None:
    """The kubelet may start one there again before the sandbox is stopped. It has the former limit."""
    runtime = Runtime(AGENT)
    runtime.stopped = lambda: (SAME_SANDBOX, RunningContainer("c4", "nodeprep", "other", "uid-2", "agent", "s3"))
    outcome, _ = after(root, runtime, deadline=1.0)
    assert (outcome.end, outcome.changed) == (RunEnd.TIMED_OUT, 4)
    assert "the kubelet has not started nodeprep/nodeprep-x7k2p again" in outcome.message
    assert agent_restart.BY_HAND in outcome.message


def test_the_labels_are_those_of_the_daemonset_and_of_what_lists_agents() -> None:
    template = yaml.safe_load(DAEMONSET.read_text(encoding="utf-8"))["spec"]["template"]
    assert agent_restart.AGENT_LABELS.items() <= template["metadata"]["labels"].items()
    assert ",".join(f"{name}={one}" for name, one in agent_restart.AGENT_LABELS.items()) == agent_pods.AGENTS


def test_requests_are_protobuf() -> None:
    pair = message((1, b"a"), (2, b"b"))
    assert cri_sandboxes.list_request({"a": "b"}) == message((1, message((2, b""), (3, pair))))
    assert cri_sandboxes.sandboxes(message((1, sandbox(POD)))) == (POD,)


def test_limits_of_a_container_are_those_of_its_processes(root: Path) -> None:
    process(root, 70, "cri-containerd-c1.scope", LIMITED)
    process(root, 71, "cri-containerd-c1.scope", UNLIMITED)
    process(root, 72, "cri-containerd-c9.scope", LIMITED)
    assert set(limits.locked_memory_of(Host(str(root), live=True).files, "c1")) == {65536, None}
