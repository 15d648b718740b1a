"""Runs a command in the agents' containers of a fleet, with the caller's own rights; nothing new listens anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote

from nodeprep.cli.nodes.agent_pods import AGENTS
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet
from nodeprep.decide.conditions import TRAINING_READY
from nodeprep.doors.kube import pod_exec
from nodeprep.doors.kube.pod_exec import ExecResult, ExecTarget
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.model import Unreadable
from nodeprep.publish import fleet_rows

T = TypeVar("T")

CONTAINER = "agent"
AT_ONCE = 10  # commands at one time: each costs its node a second of a processor
COMMAND_TIMEOUT_SECONDS = 60.0  # seconds for one command; a check takes 2 to 5


def targets(fleet: Fleet) -> dict[str, ExecTarget | None]:
    """The agent's container on each selected Node; None where a Node has nodeprep's condition and no running agent.

    A named Node is always there. Raises CannotSee, UsageError.
    """
    path = f"/api/v1/namespaces/{quote(fleet.namespace, safe='')}/pods"
    with ApiLists(fleet.access) as api:
        nodes = dict(fleet.objects(api, lambda node: (_name(node), _is_judged(node))))
        may = f"list pods -n {fleet.namespace}"
        pods = api.listed(path, "pods", _running, may=may, labelSelector=AGENTS)
    if isinstance(pods, Unreadable):
        raise CannotSee(f"cannot tell where the agents are: {pods}", pods)
    there = {node: ExecTarget(fleet.namespace, pod, CONTAINER) for node, pod in pods.items}
    named = set(fleet.selection.names)
    return {node: there.get(node) for node in sorted(nodes) if node in there or nodes[node] or node in named}


def each(known: Mapping[str, ExecTarget | None], ask: Callable[[ExecTarget], T]) -> dict[str, T | None]:
    """The result of `ask` for each Node, ten at once; None where no agent runs."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {node: pool.submit(ask, target) for node, target in known.items() if target is not None}
        return {node: asked[node].result() if node in asked else None for node in known}


def run(fleet: Fleet, target: ExecTarget, command: tuple[str, ...], stdin: bytes = b"") -> ExecResult | Unreadable:
    """The result of one command of nodeprep, without the program's name."""
    return pod_exec.run(fleet.access, target, ("nodeprep", *command), stdin, COMMAND_TIMEOUT_SECONDS)


def _running(pod: Object) -> tuple[str, str] | None:
    metadata, node = fleet_rows.part(pod, "metadata"), fleet_rows.part(pod, "spec").get("nodeName")
    runs = fleet_rows.part(pod, "status").get("phase") == "Running" and "deletionTimestamp" not in metadata
    return (str(node), str(metadata.get("name"))) if node and runs else None


def _name(node: Object) -> str:
    return str(fleet_rows.part(node, "metadata").get("name"))


def _is_judged(node: Object) -> bool:
    """Whether an agent wrote its condition there."""
    found = fleet_rows.part(node, "status").get("conditions")
    told = found if isinstance(found, list) else []
    return any(isinstance(one, Mapping) and one.get("type") == TRAINING_READY for one in told)
