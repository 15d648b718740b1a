"""One write of what should stand on the Node: read it, patch what differs, in an order that never claims too much.

Closing: the Node (taint and labels together), then its status, even if the Node could not be written. Opening: the
status, then the Node (design 3.5). Opening ends with the first failure, or when something newer is wanted.
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

RACES_LIMIT = 5  # tries of a write that loses races (design 3.5)
CONFLICT, UNPROCESSABLE = 409, 422
RETRY_SLOWLY = (403, 404)  # a missing right or object, for good or because the server is new
# The names of rules in the admission policy (publish/admission_policy.py), and not a part of
# system:serviceaccount:nodeprep:nodeprep-agent.
RULE = Pattern(r"(?<![\w:])nodeprep:[a-z-]+")
NODE, STATUS = "nodes", "nodes/status"  # as RBAC and the admission policy name them
FIX_OURS = (
    "mend the admission policy or gate.* in the configuration, then kill -HUP or restart the agent: "
    "it is not tried before"
)
FIX_OTHERS = "mend that policy or exempt this agent from it: it is tried again with the next that is to be said"


class WriteRequest(Protocol):
    """One request to the API server."""

    def __call__(self, method: str, where: str, body: object = None, content_type: str = MERGE, /) -> WriteOutcome: ...


class WriteOrder(Value):
    """What should stand on which Node.

    `uid` is that of the Node that it was decided for. Nothing is written to another Node of the same name. `refresh` is
    the age in seconds at which conditions are written again. It is infinite if the checks did not run. `denied` are the
    resources that a policy kept us from writing.
    """

    node: str
    uid: str
    desired: Desired
    names: GatePolicy
    refresh: float
    denied: frozenset[str] = frozenset()


class WriteResult(Value):
    """The result of a write.

    `seen` is the Node as it is now, None if it could not be read. If the write is not done, `before` is the Node when
    it was first tried. `failure` is the first failed request, None if everything is written except what is in `denied`:
    resource -> what the server said. `is_other_node`: the Node is not the one that it was decided for. `is_superseded`:
    something newer is wanted, so the write stopped. `node_events` are the transitions to post as Events.
    """

    seen: WrittenNode | None = None
    before: WrittenNode | None = None
    failure: WriteOutcome | None = None
    denied: Mapping[str, str] = field(default_factory=dict)
    is_other_node: bool = False
    is_superseded: bool = False
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
    """Make the Node say what it should. `before` is the Node when that was first tried, None if this is the first time.

    Each try has a connection and a deadline of its own. `still_wanted` is asked before each try and before each write
    of an opening: what is no longer wanted must not delay what is.
    """
    lost, denied = WriteOutcome(CONFLICT), dict[str, str]()
    for _ in range(RACES_LIMIT):
        if not still_wanted():
            return WriteResult(before=before, denied=denied, is_superseded=True)
        with connect() as ask:
            got = ask("GET", path(order.node))
            if not got.done:
                return WriteResult(before=before, failure=got, denied=denied)
            seen = WrittenNode.of(got.body)
            before = before if before is not None and before.uid == seen.uid else seen
            written = _attempt(seen, before, order, ask, now, still_wanted=still_wanted)
        denied |= written.denied
        order = replace(order, denied=order.denied.union(denied))
        if written.failure is None or written.failure.status != CONFLICT:
            return replace(written, denied=denied)
        lost = written.failure
    message = f"{RACES_LIMIT} times somebody else was faster: {lost.message}"
    return WriteResult(before=before, failure=WriteOutcome(CONFLICT, message=message), denied=denied)


def look(order: WriteOrder, ask: WriteRequest, now: datetime) -> WriteResult | None:
    """Whether the Node says what it should, from the server's cache. None if it may not: then it is to be written."""
    got = ask("GET", f"{path(order.node)}?resourceVersion=0")
    if not got.done:
        return WriteResult(failure=got)
    seen = WrittenNode.of(got.body)
    return WriteResult(seen) if seen.uid == order.uid and not needs_write(seen, order, now) else None


def needs_write(seen: WrittenNode, order: WriteOrder, now: datetime) -> bool:
    """Whether something is to be written to a Node that says this."""
    return any(_patch(resource, seen, order, now) is not None for resource in (NODE, STATUS))


def _attempt(
    seen: WrittenNode,
    before: WrittenNode,
    order: WriteOrder,
    ask: WriteRequest,
    now: Callable[[], datetime],
    *,
    still_wanted: Callable[[], bool],
) -> WriteResult:
    """One try. If a policy denies one patch, the others are still written. A closing writes as much as it can."""
    if seen.uid != order.uid:
        return WriteResult(seen, is_other_node=True)
    wanted, denied, failure = _effective(seen, order.desired), dict[str, str](), None
    closing = node_object.closes_gate(seen, wanted, order.names)
    for resource in (NODE, STATUS) if closing else (STATUS, NODE):
        patch = _patch(resource, seen, order, now())
        if patch is None:
            continue
        if not closing and not still_wanted():
            return WriteResult(seen, before=before, denied=denied, is_superseded=True)
        answer = _send(resource, patch, order, ask)
        if answer.status == UNPROCESSABLE:
            denied[resource] = denial(answer)
        elif not answer.done:
            failure = failure or answer
            if not closing or answer.status == LOST or answer.retry_after:  # the server is gone, or asks us to wait
                break
        else:
            seen = WrittenNode.of(answer.body)
            if seen.uid != order.uid:
                return WriteResult(seen, denied=denied, is_other_node=True)
    if failure is not None:
        return WriteResult(seen, before=before, failure=failure, denied=denied)
    new_events = (
        node_events.node_events(before, wanted, order.names) if STATUS not in order.denied.union(denied) else ()
    )
    return WriteResult(seen, denied=denied, node_events=new_events)


def _send(resource: str, patch: dict[str, Any], order: WriteOrder, ask: WriteRequest) -> WriteOutcome:
    if resource == NODE:
        return ask("PATCH", path(order.node), patch, MERGE)
    return ask("PATCH", f"{path(order.node)}/status", patch, STRATEGIC)


def _says_ready(wanted: Desired) -> bool:
    return any(one.type == TRAINING_READY and one.status == "True" for one in wanted.conditions)


def _patch(resource: str, seen: WrittenNode, order: WriteOrder, now: datetime) -> dict[str, Any] | None:
    if resource in order.denied:
        return None
    wanted = _effective(seen, order.desired)
    if resource == NODE:
        return node_patches.desired_node(seen, wanted, order.names)
    # A status that says ready is for the Node that was read, and not for one that was registered since.
    version = seen.version if _says_ready(wanted) else ""
    return node_patches.desired_status(seen, wanted, now, refresh_after=order.refresh, version=version)


def _effective(seen: WrittenNode, desired: Desired) -> Desired:
    """What should stand. Nothing of ours if a human released the Node (`nodeprep nodes release`)."""
    return Desired(desired.state, bootstrap_taint_may_stay=False) if RELEASED in seen.annotations else desired


def denied_by(answer: WriteOutcome) -> str:
    """The rule of the admission policy that denied it, "" if none did."""
    rule = RULE.search(answer.said) if answer.status == UNPROCESSABLE else None
    return rule[0] if rule else ""


def denial(answer: WriteOutcome) -> str:
    """What a policy said, with the rule first, because what shows the text may cut it."""
    rule = denied_by(answer)
    return f"denied by {rule}: {answer.message}" if rule else f"denied: {answer.message}"


def with_fix(denial_text: str) -> str:
    """One or more denials, with what to do about them. Nobody tells the agent that others' policies were mended."""
    return f"{denial_text}; {FIX_OURS if RULE.search(denial_text) else FIX_OTHERS}"


def back_off(backoff: Backoff, answer: WriteOutcome, now: float) -> None:
    """When to try again after this failure. A lost race may be won the next time; a policy stays."""
    if is_lost(answer) or answer.status == CONFLICT:
        backoff.failed(now, answer.retry_after)
    elif answer.status in RETRY_SLOWLY:
        backoff.refused(now)
    else:
        backoff.failed(now, FUTILE_RETRY_SECONDS)


def is_lost(answer: WriteOutcome) -> bool:
    """Whether the server itself has trouble, so that other requests would fail too."""
    return answer.status in (LOST, 401, 408, 429) or answer.status >= 500
