"""Restarts a plugin's or Terway's container through the container runtime: it is stopped, and the kubelet starts it.

No pod is deleted: the kubelet starts the container of the same pod again at once, whatever taints there are. After some
restarts in a row it waits longer each time (10 s to 5 min).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from nodeprep.doors import clock
from nodeprep.facts.kubernetes import container_runtime, cri_containers, device_plugins, protobuf
from nodeprep.facts.kubernetes.container_runtime import ANSWER_BYTES
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from nodeprep.model import Unreadable
from nodeprep.repair.playbook_run import RunEnd, RunOutcome, TaskLine, TaskResult

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

T = TypeVar("T")
TERWAY_NAMESPACE, TERWAY_POD, TERWAY_CONTAINER = "kube-system", "terway", "terway"
STOP_SECONDS = 30  # from SIGTERM to SIGKILL, as a pod has by default (terminationGracePeriodSeconds)
ANSWER_SECONDS = 5.0
STOPPED_SECONDS = 30.0  # from SIGKILL until a busy runtime says that the container has ended
AGAIN_PERIOD_SECONDS = 0.5
LOOK = "Look which containers run"


class CriClient:
    """The container runtime that the kubelet uses here. `socket` is "" where there is none."""

    def __init__(self, host: Host) -> None:
        self._host = host
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
        answer = self._host.grpc(self.socket, method, request, deadline=deadline, limit=ANSWER_BYTES, rest=0.0)
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

    Of a `pod` (NAMESPACE/NAME) those that serve the kubelet's directory of plugins, all of them if none shows that it
    does. Without one, Terway's own. With `check`, nothing is stopped and `say` hears what would be.
    """
    began = clock.now()
    running = client.running()
    if isinstance(running, Unreadable):
        return _failed(began, LOOK, str(running))
    chosen = tuple(filter(_is_terway, running)) if pod is None else _of_plugin(client, running, pod)
    if isinstance(chosen, Unreadable):
        return _failed(began, LOOK, str(chosen))
    if not chosen:
        return _failed(began, LOOK, f"no container of {pod or 'Terway'} runs here")
    for one in chosen:
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
        return RunOutcome(RunEnd.DONE, clock.now() - began, changed=len(chosen))
    return _started_again(client, chosen, (began, began + deadline), say)


def _is_terway(one: RunningContainer) -> bool:
    is_pod = one.namespace == TERWAY_NAMESPACE and one.pod.startswith(TERWAY_POD)
    return is_pod and one.name == TERWAY_CONTAINER


def _of_plugin(
    client: CriClient, running: Iterable[RunningContainer], pod: str
) -> tuple[RunningContainer, ...] | Unreadable:
    """The containers of the pod that serve a plugin's socket."""
    here = tuple(one for one in running if one.where == pod)
    serving = []
    for one in here:
        paths = client.ask(cri_containers.STATUS, cri_containers.status_request(one.id), cri_containers.mounts)
        if isinstance(paths, Unreadable):
            return paths
        if any(f"{path}/".startswith(f"{device_plugins.DIRECTORY}/") for path in paths):
            serving.append(one)
    return tuple(serving) or here


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
