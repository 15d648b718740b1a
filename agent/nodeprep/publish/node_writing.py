"""One writing of a node's standing: read the Node, patch what differs, in an order that never says more than holds.

Closing: the Node (taint and labels together), then its status, though the Node could not be written. Opening: status,
then the Node (design 3.5); it ends with the first that fails, or when something newer is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy
from nodeprep.doors.kube.writer import LOST, MERGE, STRATEGIC, WriteOutcome
from nodeprep.pattern import Pattern
from nodeprep.publish import node_events, node_object, node_patches
from nodeprep.publish.node_events import NodeEvent
from nodeprep.publish.node_object import RELEASED, WrittenNode
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, Backoff
from nodeprep.values import Value, field, replace

RACES = 5  # times that a write which lost a race is decided anew (design 3.5)
CONFLICT, UNPROCESSABLE = 409, 422
NOT_THERE = (403, 404)  # a right or a thing, for good or because the server or what it reads is new
# As the admission policy names them (publish/admission_policy.py); no part of
# system:serviceaccount:nodeprep:nodeprep-agent.
RULE = Pattern(r"(?<![\w:])nodeprep:[a-z-]+")
NODE, STATUS = "nodes", "nodes/status"  # as RBAC and the admission policy name them
MEND = (
    "mend the admission policy or gate.* in the configuration, then kill -HUP or restart the agent: "
    "it is not tried before"
)
MEND_THEIRS = "mend that policy or exempt this agent from it: it is tried again with the next that is to be said"


class WriteRequest(Protocol):
    """One request to the API server."""

    def __call__(self, method: str, where: str, body: object = None, content_type: str = MERGE, /) -> WriteOutcome: ...


class WriteOrder(Value):
    """What ought to stand on which Node.

    `uid` is that of the Node that it was decided for; on another of the same name nothing is written. `refresh` is the
    age in seconds at which conditions are said again, infinite where the checks did not run. `denied` are the resources
    that a policy kept us from writing.
    """

    node: str
    uid: str
    desired: Desired
    names: GatePolicy
    refresh: float
    denied: frozenset[str] = frozenset()


class WriteResult(Value):
    """What came of it.

    `seen` is the Node as it stands now, None where it could not be read; `before`, where it is not done, as it was when
    that was first tried. `failure` is the first answer that was none, None where all stands as it ought to but for what
    is in `denied`: resource -> what the server said. `stranger`: the Node is another than the one that it was decided
    for. `dropped`: something newer is wanted, so it was left where it was. `node_events` are the transitions that
    others should hear of.
    """

    seen: WrittenNode | None = None
    before: WrittenNode | None = None
    failure: WriteOutcome | None = None
    denied: Mapping[str, str] = field(default_factory=dict)
    stranger: bool = False
    dropped: bool = False
    node_events: tuple[NodeEvent, ...] = ()


def path(node: str) -> str:
    return f"/api/v1/nodes/{node}"


def write(
    order: WriteOrder,
    connect: Callable[[], AbstractContextManager[WriteRequest]],
    now: Callable[[], datetime],
    *,
    before: WrittenNode | None = None,
    still_wanted: Callable[[], bool] = lambda: True,
) -> WriteResult:
    """Make the Node say what it should. `before` is what it said when that was first tried, None if this is the first.

    Each try has a connection of its own, and its deadline. `still_wanted` is asked before each try and before whatever
    an opening writes: what is no longer so must not delay what is.
    """
    lost, denied = WriteOutcome(CONFLICT), dict[str, str]()
    for _ in range(RACES):
        if not still_wanted():
            return WriteResult(before=before, denied=denied, dropped=True)
        with connect() as ask:
            got = ask("GET", path(order.node))
            if not got.done:
                return WriteResult(before=before, failure=got, denied=denied)
            seen = WrittenNode.of(got.body)
            before = before if before is not None and before.uid == seen.uid else seen
            written = _patched(seen, before, order, ask, now, still_wanted=still_wanted)
        denied |= written.denied
        order = replace(order, denied=order.denied.union(denied))
        if written.failure is None or written.failure.status != CONFLICT:
            return replace(written, denied=denied)
        lost = written.failure
    message = f"{RACES} times somebody else was faster: {lost.message}"
    return WriteResult(before=before, failure=WriteOutcome(CONFLICT, message=message), denied=denied)


def look(order: WriteOrder, ask: WriteRequest, now: datetime) -> WriteResult | None:
    """Whether the Node says what it should, by the server's memory; None if it may not: then it is to be written."""
    got = ask("GET", f"{path(order.node)}?resourceVersion=0")
    if not got.done:
        return WriteResult(failure=got)
    seen = WrittenNode.of(got.body)
    return WriteResult(seen) if seen.uid == order.uid and not owes(seen, order, now) else None


def owes(seen: WrittenNode, order: WriteOrder, now: datetime) -> bool:
    """Whether something is to be written to a Node that says this."""
    return any(_patch(resource, seen, order, now) is not None for resource in (NODE, STATUS))


def _patched(
    seen: WrittenNode,
    before: WrittenNode,
    order: WriteOrder,
    ask: WriteRequest,
    now: Callable[[], datetime],
    *,
    still_wanted: Callable[[], bool],
) -> WriteResult:
    """One try. What a policy denies keeps nothing else from being written, and what closes is said by all that can."""
    if seen.uid != order.uid:
        return WriteResult(seen, stranger=True)
    wanted, denied, failure = _allowed(seen, order.desired), dict[str, str](), None
    closing = node_object.closes(seen, wanted, order.names)
    for resource in (NODE, STATUS) if closing else (STATUS, NODE):
        patch = _patch(resource, seen, order, now())
        if patch is None:
            continue
        if not closing and not still_wanted():
            return WriteResult(seen, before=before, denied=denied, dropped=True)
        answer = _sent(resource, patch, order, ask)
        if answer.status == UNPROCESSABLE:
            denied[resource] = denial(answer)
        elif not answer.done:
            failure = failure or answer
            if not closing or answer.status == LOST or answer.retry_after:  # nobody is there, or wants to be left alone
                break
        else:
            seen = WrittenNode.of(answer.body)
            if seen.uid != order.uid:
                return WriteResult(seen, denied=denied, stranger=True)
    if failure is not None:
        return WriteResult(seen, before=before, failure=failure, denied=denied)
    told = node_events.node_events(before, wanted, order.names) if STATUS not in order.denied.union(denied) else ()
    return WriteResult(seen, denied=denied, node_events=told)


def _sent(resource: str, patch: dict[str, Any], order: WriteOrder, ask: WriteRequest) -> WriteOutcome:
    if resource == NODE:
        return ask("PATCH", path(order.node), patch, MERGE)
    return ask("PATCH", f"{path(order.node)}/status", patch, STRATEGIC)


def _promises(wanted: Desired) -> bool:
    return any(one.type == TRAINING_READY and one.status == "True" for one in wanted.conditions)


def _patch(resource: str, seen: WrittenNode, order: WriteOrder, now: datetime) -> dict[str, Any] | None:
    if resource in order.denied:
        return None
    wanted = _allowed(seen, order.desired)
    if resource == NODE:
        return node_patches.desired_node(seen, wanted, order.names)
    # A status that says ready is for the Node that was read, and not for one that was registered since.
    version = seen.version if _promises(wanted) else ""
    return node_patches.desired_status(seen, wanted, now, refresh_after=order.refresh, version=version)


def _allowed(seen: WrittenNode, desired: Desired) -> Desired:
    """What ought to stand; nothing of ours where a human gave the node back (`nodeprep nodes release`)."""
    return Desired(desired.state, bootstrap_taint_may_stay=False) if RELEASED in seen.annotations else desired


def denied_by(answer: WriteOutcome) -> str:
    """The rule of the admission policy that denied it, "" where none did."""
    rule = RULE.search(answer.said) if answer.status == UNPROCESSABLE else None
    return rule[0] if rule else ""


def denial(answer: WriteOutcome) -> str:
    """What a policy said, and which rule first: whatever shows this may cut it."""
    rule = denied_by(answer)
    return f"denied by {rule}: {answer.message}" if rule else f"denied: {answer.message}"


def mend(said: str) -> str:
    """A denial, or several, with what to do about it. Nobody tells the agent that a policy of others was mended."""
    return f"{said}; {MEND if RULE.search(said) else MEND_THEIRS}"


def back_off(backoff: Backoff, answer: WriteOutcome, now: float) -> None:
    """What failed so is tried again in a while: a race may be won the next time, a policy stays."""
    if is_lost(answer) or answer.status == CONFLICT:
        backoff.failed(now, answer.retry_after)
    elif answer.status in NOT_THERE:
        backoff.refused(now)
    else:
        backoff.failed(now, FUTILE_RETRY_SECONDS)


def is_lost(answer: WriteOutcome) -> bool:
    """Whether the server itself has trouble, so that nothing else need be asked of it now."""
    return answer.status in (LOST, 401, 408, 429) or answer.status >= 500
