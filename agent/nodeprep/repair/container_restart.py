"""Restarts a plugin's or Terway's container through the container runtime: it is stopped, and the kubelet starts it.

Which containers these are says the runtime (`decide/restart_choice`), and never who asks.

No pod is deleted: the kubelet starts the container of the same pod again at once, whatever taints there are. After some
restarts in a row it waits longer each time (10 s to 5 min).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from nodeprep.decide import restart_choice
from nodeprep.decide.idleness import IdleDoubt, IdleHolder, Idleness, IdleTarget
from nodeprep.decide.remedy_header import Idle, SafetyClass
from nodeprep.decide.restart_choice import SeenContainer
from nodeprep.doors import clock
from nodeprep.facts.kubernetes import container_runtime, cri_containers, cri_sandboxes, device_plugins, protobuf
from nodeprep.facts.kubernetes.container_runtime import ANSWER_BYTES
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.facts.kubernetes.cri_sandboxes import PodSandbox
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from nodeprep.model import Unreadable
from nodeprep.repair import idle_proof
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine, TaskResult

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

T = TypeVar("T")
STOP_SECONDS = 30  # from SIGTERM to SIGKILL, as a pod has by default (terminationGracePeriodSeconds)
ANSWER_SECONDS = 5.0
STOPPED_SECONDS = 30.0  # from SIGKILL until a busy runtime says that the container has ended
AGAIN_PERIOD_SECONDS = 0.5
LOOK = "Look which containers run"
SERVES = f"serves a device plugin: none mounts {device_plugins.DIRECTORY} to write"


class CriClient:
    """The container runtime that the kubelet uses here. `socket` is "" where there is none."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.socket = container_runtime.observe(host).socket

    def running(self) -> tuple[RunningContainer, ...] | Unreadable:
        """The containers that run, by the runtime's own word; none without a runtime."""
        if not self.socket:
            return ()
        return self.ask(cri_containers.LIST, cri_containers.LIST_RUNNING, cri_containers.running)

    def ask(
        self, method: str, request: bytes, read: Callable[[bytes], T], deadline: float = ANSWER_SECONDS
    ) -> T | Unreadable:
        """The answer to a call as `read` makes a value of it. `deadline` is in seconds."""
        answer = self.host.grpc(self.socket, method, request, deadline=deadline, limit=ANSWER_BYTES, rest=0.0)
        if isinstance(answer, Unreadable):
            return answer
        try:
            return read(answer)
        except NotProtobuf as error:
            return protobuf.malformed(self.socket, method, error)


def restart(
    client: CriClient, pod: str | None, deadline: float, say: Callable[[TaskLine], None], *, check: bool = False
) -> RunOutcome:
    """Stop containers, and wait until the kubelet has started them again. `deadline` is in seconds.

    Of a `pod` (NAMESPACE/NAME) those that serve a device plugin. Without one, Terway's own. None is stopped where
    one of their pods holds a device. With `check`, nothing is stopped and `say` hears what would be.
    """
    began = clock.now()
    found = chosen(client, pod)
    if isinstance(found, Unreadable):
        return _failed(began, LOOK, str(found))
    if not found:
        return _failed(began, LOOK, f"no container of {pod} {SERVES}" if pod else "no container of Terway runs here")
    held = holding(client.host, {one.where for one in found})  # of these, whatever was found before
    if not held.is_idle:
        return _failed(began, "Look whether their pods hold devices", "; ".join(held.words()))
    for one in found:
        task = f"Stop {one.label}"
        if check:
            say(TaskLine(task, TaskResult.CHANGED))
            continue
        stopped = stop(client, one)
        if isinstance(stopped, Unreadable):
            say(TaskLine(task, TaskResult.FAILED))
            return _failed(began, task, str(stopped))
        say(TaskLine(task, TaskResult.CHANGED))
    if check:
        return RunOutcome(RunEnd.DONE, clock.now() - began, changed=len(found))
    return _started_again(client, found, (began, began + deadline), say)


def chosen(client: CriClient, pod: str | None) -> tuple[RunningContainer, ...] | Unreadable:
    """The containers that `restart` would stop, by what the runtime says of them now."""
    running = client.running()
    if isinstance(running, Unreadable) or not running:
        return running
    return _of_terway(client, running) if pod is None else _of_plugin(client, running, pod)


def _of_terway(client: CriClient, running: tuple[RunningContainer, ...]) -> tuple[RunningContainer, ...] | Unreadable:
    labelled: list[PodSandbox] = []
    for labels in restart_choice.TERWAY_LABELS:
        found = client.ask(cri_sandboxes.LIST, cri_sandboxes.list_request(labels), cri_sandboxes.sandboxes)
        if isinstance(found, Unreadable):
            return found
        labelled += found
    return restart_choice.of_terway(running, labelled)


def _of_plugin(
    client: CriClient, running: Iterable[RunningContainer], pod: str
) -> tuple[RunningContainer, ...] | Unreadable:
    seen = []
    for one in running:
        if one.where != pod:
            continue
        mounts = client.ask(cri_containers.STATUS, cri_containers.status_request(one.id), cri_containers.mounts)
        if isinstance(mounts, Unreadable):
            return mounts
        seen.append(SeenContainer(one, mounts))
    return restart_choice.of_plugin(pod, seen)


def idle(host: Host, pod: str | None) -> Idleness:
    """Whether no pod of these containers holds a device itself, by the kubelet's list and by its checkpoint."""
    found = chosen(CriClient(host), pod)
    if isinstance(found, Unreadable):
        return Idleness(doubts=(IdleDoubt(None, found),))
    return holding(host, {one.where for one in found})


def holding(host: Host, pods: Iterable[str]) -> Idleness:
    """Which of these pods (NAMESPACE/NAME) hold devices. One that does is never restarted."""
    held: list[IdleHolder] = []
    doubts: dict[IdleDoubt, None] = {}
    for pod in sorted(pods):
        proof = idle_proof.prove(host, IdleTarget(Idle.PLUGIN, pod=pod), SafetyClass.S1)
        held += proof.holders
        doubts |= dict.fromkeys(proof.doubts)
    return Idleness(tuple(held), tuple(doubts))


def stop(client: CriClient, one: RunningContainer) -> bool | Unreadable:
    """Stop a container with the grace that pods have by default. True, or why the runtime did not."""
    request = cri_containers.stop_request(one.id, STOP_SECONDS)
    return client.ask(cri_containers.STOP, request, lambda _: True, STOP_SECONDS + STOPPED_SECONDS)


def _started_again(
    client: CriClient, chosen: tuple[RunningContainer, ...], time: tuple[float, float], say: Callable[[TaskLine], None]
) -> RunOutcome:
    """Wait for a new container of the same name in the same pod, for each. `time` is when it began and has to end."""
    began, until = time
    former = {one.id for one in chosen}
    waiting = {(one.pod_uid, one.name): one for one in chosen}
    while True:
        running = client.running()
        for one in () if isinstance(running, Unreadable) else running:
            if one.id not in former and waiting.pop((one.pod_uid, one.name), None) is not None:
                say(TaskLine(f"Wait until {one.label} runs again", TaskResult.OK))
        if not waiting:
            return RunOutcome(RunEnd.DONE, clock.now() - began, changed=len(chosen))
        if clock.now() >= until:
            names = ", ".join(one.label for one in waiting.values())
            words = f"the kubelet has not started {names} again: kubectl describe pod tells its back-off"
            return RunOutcome(RunEnd.TIMED_OUT, clock.now() - began, len(chosen), "Wait until it runs again", words)
        clock.sleep(AGAIN_PERIOD_SECONDS)


def _failed(began: float, task: str, words: str) -> RunOutcome:
    return RunOutcome(RunEnd.FAILED, clock.now() - began, failed_task=task, message=words)
