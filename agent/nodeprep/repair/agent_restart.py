"""Gives the agent's own pod of this node a new sandbox, so that its containers have the limits that hold now.

A container inherits its limits from the process that watches over its sandbox (containerd's shim), and that one has
those of the runtime when the sandbox was made. To stop the container alone changes nothing: the kubelet starts it again
in the same sandbox. So the sandbox is stopped. The pod stays, no pod is deleted, and the kubelet makes a new sandbox.
A pod that holds a device is no agent, whatever its labels: it is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nodeprep.decide.remedy_header import RemedyHeader, Restarted
from nodeprep.doors import clock
from nodeprep.facts.kubernetes import cri_sandboxes
from nodeprep.facts.kubernetes.cri_containers import RunningContainer
from nodeprep.facts.kubernetes.cri_sandboxes import PodSandbox
from nodeprep.facts.machine import limits
from nodeprep.model import Unreadable
from nodeprep.repair import container_restart
from nodeprep.repair.container_restart import AGAIN_PERIOD_SECONDS, STOPPED_SECONDS, CriClient
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine, TaskResult
from nodeprep.values import replace

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

# Of the agent's pods, in whatever namespace (daemonset/base/daemonset.yaml).
AGENT_LABELS: Mapping[str, str] = {
    "app.kubernetes.io/name": "nodeprep",
    "app.kubernetes.io/component": "agent",
}
RUNTIME_SECONDS = 30.0  # until a runtime that was just restarted answers
BY_HAND = (
    "the limit is lifted, and the agent's pod keeps the old one: "
    "crictl pods --label app.kubernetes.io/name=nodeprep, then crictl stopp ID"
)


def after(
    host: Host,
    header: RemedyHeader,
    done: RunOutcome,
    deadline: float,
    say: Callable[[TaskLine], None],
    *,
    check: bool = False,
) -> RunOutcome:
    """The outcome of a play, with that of the agent's pod where the remedy's header wants that one started anew.

    It stays as it is where the play did not end well, and where no agent runs here. Without a limit the agent's pod is
    left alone. Where nobody sees its limit, it has one if the play changed something. `deadline` is in seconds. With
    `check`, nothing is stopped and `say` hears what would be.
    """
    if header.restarts is not Restarted.AGENT or done.end is not RunEnd.DONE:
        return done
    began = clock.now()
    client = CriClient(host)
    found = _found(client, min(deadline, RUNTIME_SECONDS))
    if isinstance(found, Unreadable):
        return _failed(done, began, "Look which pod is the agent's", str(found)) if done.changed else done
    for sandbox, containers in found:
        if not _is_limited(host, containers, changed=done.changed > 0):
            continue
        held = _held(host, sandbox, began + min(deadline, RUNTIME_SECONDS))
        if held:
            return _failed(done, began, f"Look whether {sandbox.where} holds a device", held)
        task = f"Stop the agent's pod {sandbox.where}, which keeps the former limit"
        if not check:
            stopped = _stopped(client, sandbox, containers)
            if isinstance(stopped, Unreadable):
                say(TaskLine(task, TaskResult.FAILED))
                return _failed(done, began, task, str(stopped))
        say(TaskLine(task, TaskResult.CHANGED))
        done = replace(done, changed=done.changed + 1)
        if not check and not _runs_again(client, sandbox, containers, began + deadline):
            words = f"the kubelet has not started {sandbox.where} again: kubectl describe pod tells its back-off"
            return replace(_failed(done, began, f"Wait until {sandbox.where} runs again", words), end=RunEnd.TIMED_OUT)
    return replace(done, seconds=done.seconds + clock.now() - began)


def _found(
    client: CriClient, seconds: float
) -> tuple[tuple[PodSandbox, tuple[RunningContainer, ...]], ...] | Unreadable:
    """The sandboxes of the agent that are ready, with their containers. A runtime may just have been restarted."""
    if not client.socket:
        return ()
    until = clock.now() + seconds
    while True:
        request = cri_sandboxes.list_request(AGENT_LABELS)
        found = client.ask(cri_sandboxes.LIST, request, cri_sandboxes.sandboxes)
        running = client.running()
        unknown = next((one for one in (found, running) if isinstance(one, Unreadable)), None)
        if isinstance(found, tuple) and isinstance(running, tuple):
            return tuple((pod, tuple(one for one in running if one.sandbox == pod.id)) for pod in found)
        if unknown is not None and clock.now() >= until:
            return unknown
        clock.sleep(AGAIN_PERIOD_SECONDS)


def _held(host: Host, sandbox: PodSandbox, until: float) -> str:
    """Why the pod must not be stopped, "" if it may. A kubelet that was just restarted may not answer yet."""
    while True:
        found = container_restart.holding(host, [sandbox.where])
        if found.is_idle or found.holders or clock.now() >= until:
            return "; ".join(found.words())
        clock.sleep(AGAIN_PERIOD_SECONDS)


def _is_limited(host: Host, containers: tuple[RunningContainer, ...], *, changed: bool) -> bool:
    host.files.forget()
    shown = [limit for one in containers for limit in limits.locked_memory_of(host.files, one.id)]
    return any(limit is not None for limit in shown) if shown else changed


def _stopped(client: CriClient, sandbox: PodSandbox, containers: tuple[RunningContainer, ...]) -> bool | Unreadable:
    """Each container with its grace, then the sandbox, in which the kubelet may have started one again meanwhile."""
    for one in containers:
        stopped = container_restart.stop(client, one)
        if isinstance(stopped, Unreadable):
            return stopped
    return client.ask(cri_sandboxes.STOP, cri_sandboxes.stop_request(sandbox.id), lambda _: True, STOPPED_SECONDS)


def _runs_again(client: CriClient, sandbox: PodSandbox, containers: tuple[RunningContainer, ...], until: float) -> bool:
    """Whether all containers run in another sandbox of the same pod, in time."""
    waiting = {one.name for one in containers}
    while True:
        running = client.running()
        for one in () if isinstance(running, Unreadable) else running:
            if one.pod_uid == sandbox.pod_uid and one.sandbox != sandbox.id:
                waiting.discard(one.name)
        if not waiting or clock.now() >= until:
            return not waiting
        clock.sleep(AGAIN_PERIOD_SECONDS)


def _failed(done: RunOutcome, began: float, task: str, words: str) -> RunOutcome:
    seconds = done.seconds + clock.now() - began
    return replace(done, end=RunEnd.FAILED, seconds=seconds, failed_task=task, message=f"{words}; {BY_HAND}")
