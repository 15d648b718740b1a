"""Writes of a human's commands to Nodes and Leases, several at a time.

They are repeated if the server is busy or a race was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from nodeprep.decide.desired import GatePolicy
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import MERGE, STRATEGIC, ApiWriter, WriteOutcome
from nodeprep.publish import agent_lease, node_object, node_patches, node_writing
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.node_writing import CONFLICT

T = TypeVar("T")
R = TypeVar("R")

NODE_WRITES_TIMEOUT_SECONDS = 60.0  # for all writes to one Node
WRITE_ATTEMPTS = 5
PARALLEL_NODES = 8  # Nodes that are written to at the same time
UNKNOWN_USER, MISSING = 401, 404


def for_each(items: Iterable[T], act: Callable[[T], R]) -> list[R]:
    """The results of `act` for each, in their order."""
    with ThreadPoolExecutor(PARALLEL_NODES) as pool:
        return list(pool.map(act, items))


def request(writer: ApiWriter, method: str, path: str, body: object = None, content_type: str = MERGE) -> WriteOutcome:
    """One request, repeated while the server is busy or the connection is lost. Only for what may run twice."""
    for attempt in range(WRITE_ATTEMPTS):
        outcome = writer.request(method, path, body, content_type)
        if outcome.status == UNKNOWN_USER or not node_writing.is_lost(outcome) or attempt == WRITE_ATTEMPTS - 1:
            return outcome
        clock.sleep(outcome.retry_after or 0.5 * 2**attempt)
    raise AssertionError("unreachable")


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def annotate(access: ApiAccess, name: str, key: str, value: str | None) -> str:
    """Set an annotation of a Node, or remove it. Returns one line on what went wrong, "" if nothing did."""
    return _patched_once(access, node_path(name), node_patches.of_node(annotations={key: value}))


def annotate_lease(access: ApiAccess, namespace: str, name: str, key: str, value: str | None) -> str:
    """Set an annotation of a Lease, or remove it. Returns one line on what went wrong, "" if nothing did."""
    path = f"{agent_lease.path(namespace)}/{quote(name, safe='')}"
    return _patched_once(access, path, {"metadata": {"annotations": {key: value}}})


def remove_owned(access: ApiAccess, name: str, names: GatePolicy, released: str | None) -> str:
    """Remove all that is ours from a Node; with `released`, tell its agent. Returns one line on what went wrong."""
    with ApiWriter(access, NODE_WRITES_TIMEOUT_SECONDS) as writer:
        for _ in range(WRITE_ATTEMPTS):
            answer = request(writer, "GET", node_path(name))
            if answer.status == MISSING:
                return ""
            if not answer.done:
                return answer.message
            seen = WrittenNode.of(answer.body)
            ours = node_object.owned_parts(seen, names, for_good=released is None)
            done = _patched(writer, name, node_patches.removal_from_node(seen, ours, released), "", MERGE)
            if done is not None and done.status == CONFLICT:
                continue
            if done is None or done.done:
                done = _patched(writer, name, node_patches.removal_from_status(ours), "/status", STRATEGIC)
            return "" if done is None or done.done else done.message
    return f"Node {name}: others wrote to it {WRITE_ATTEMPTS} times between our read and our write"


def remove_lease(access: ApiAccess, name: str, namespace: str) -> str:
    """Remove the Lease of a Node's agent. Returns one line on what went wrong."""
    with ApiWriter(access, NODE_WRITES_TIMEOUT_SECONDS) as writer:
        outcome = request(writer, "DELETE", agent_lease.path(namespace, name))
    return "" if outcome.done or outcome.status == MISSING else outcome.message


def _patched_once(access: ApiAccess, path: str, patch: dict[str, Any] | None) -> str:
    with ApiWriter(access, NODE_WRITES_TIMEOUT_SECONDS) as writer:
        outcome = request(writer, "PATCH", path, patch)
    return "" if outcome.done else outcome.message


def _patched(
    writer: ApiWriter, name: str, patch: dict[str, Any] | None, part: str, content_type: str
) -> WriteOutcome | None:
    return None if patch is None else request(writer, "PATCH", node_path(name) + part, patch, content_type)
