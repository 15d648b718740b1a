"""`nodeprep nodes reset`: a human makes agents start over, and waits for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodeprep.cli import duration, terminal
from nodeprep.cli.nodes import fleet_reader, fleet_table, node_writes, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet, FleetLook
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.decide.desired import RESET_DONE_ANNOTATION
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.publish import agent_lease, fleet_rows
from nodeprep.publish.node_object import RELEASED, RESET
from nodeprep.values import Value

RESET_POLL_SECONDS = 1.0  # seconds between two looks; an agent reads its Node once a minute
GONE_MESSAGE = "not reset: the Node no longer exists"
INVENTORY = " inventory"  # at the end of a value: also forget what belongs on the Node


class ResetAnnotations(Value):
    """The resets of a Node: the last value of a human, and the last value that its agent acted on."""

    requested: str
    acknowledged: str
    released: bool

    @classmethod
    def of(cls, node: Object) -> ResetAnnotations:
        said = fleet_rows.part(node, "metadata", "annotations")
        return cls(str(said.get(RESET, "")), str(said.get(RESET_DONE_ANNOTATION, "")), RELEASED in said)


def run(where: FleetScope, *, inventory: bool, timeout: str | None) -> int:
    """Ask the agents of these Nodes, and wait for them unless `timeout` is None. Raises UsageError."""
    timeout_seconds = None if timeout is None else duration.seconds("--timeout", timeout)
    if not where.names and where.selector is None:
        raise UsageError("nodes reset: found no Node, wanted some by name or --selector")
    fleet = where.fleet()
    return scope.exit_code(
        lambda: _reset(fleet, timeout_seconds, f"{clock.utc()}{INVENTORY if inventory else ''}", where.no_node_message)
    )


def _reset(fleet: Fleet, timeout_seconds: float | None, value: str, no_node_message: str) -> int:
    before = _annotations(fleet)
    if not before:
        terminal.complain(no_node_message)
        return 1
    refused = scope.print_troubles(_refusal(name) for name in sorted(before) if before[name].released)
    asked = tuple(name for name in sorted(before) if not before[name].released)
    if scope.print_troubles(
        node_writes.for_each(asked, lambda name: node_writes.annotate(fleet.access, name, RESET, value))
    ):
        return 1
    if timeout_seconds is None and asked:
        terminal.put(f"asked the agents of {scope.node_count(len(asked))}: {RESET}={value}")
    if timeout_seconds is None or not asked:
        return 1 if refused else 0
    failed = _wait(fleet.with_names(asked), {name: before[name].acknowledged for name in asked}, value, timeout_seconds)
    return 1 if refused or failed else 0


def _refusal(name: str) -> str:
    return f"{name}: not asked: it is released, so no agent answers; nodeprep nodes release --undo {name} ends that"


def _wait(fleet: Fleet, before: Mapping[str, str], value: str, timeout_seconds: float) -> int:
    """Print the result of each Node; returns how many were not reset. `before` is what each agent answered before."""
    end, pending, failed = clock.now() + timeout_seconds, set(before), 0
    while True:
        annotations = _annotations_again(fleet, pending, end)
        for name in sorted(pending):
            done = _outcome(annotations[name], before[name], value) if name in annotations else (False, GONE_MESSAGE)
            if done is None:
                continue
            pending.remove(name)
            is_reset, says = done
            failed += not is_reset
            (terminal.put if is_reset else terminal.complain)(f"{name}: {says}")
        if not pending:
            return failed
        if clock.now() >= end:
            _print_reasons(fleet, pending, annotations, value, timeout_seconds)
            return failed + len(pending)
        clock.sleep(RESET_POLL_SECONDS)


def _annotations_again(fleet: Fleet, pending: Collection[str], end: float) -> dict[str, ResetAnnotations]:
    """As `_annotations`, for as long as a human waits. Raises CannotSee with the Nodes whose answer was not seen."""
    try:
        return fleet_reader.with_retries(lambda: _annotations(fleet), end)
    except CannotSee as cannot:
        raise CannotSee(
            f"asked {kubernetes_text.few(sorted(pending))}, and cannot tell whether it was done: {cannot}"
        ) from cannot


def _outcome(own: ResetAnnotations, before: str, value: str) -> tuple[bool, str] | None:
    """Whether it is the wanted answer, and in words. None while the answer may still come.

    If somebody wrote another value after ours, the Node is reset too.
    """
    if own.acknowledged == value:
        return True, "reset"
    if own.acknowledged in ("", before) or own.acknowledged != own.requested:
        return None
    if value.endswith(INVENTORY) and not own.requested.endswith(INVENTORY):
        return False, f"reset, but with its inventory: somebody else asked for {own.requested!r} after us; run it again"
    return True, f"reset, by somebody else who asked for {own.requested!r} after us"


def _annotations(fleet: Fleet) -> dict[str, ResetAnnotations]:
    """The reset annotations by Node."""
    with ApiLists(fleet.access) as api:
        return dict(
            fleet.objects(
                api, lambda node: (str(fleet_rows.part(node, "metadata").get("name", "")), ResetAnnotations.of(node))
            )
        )


def _print_reasons(
    fleet: Fleet,
    pending: Collection[str],
    annotations: Mapping[str, ResetAnnotations],
    value: str,
    timeout_seconds: float,
) -> None:
    """Why an agent may not have done it, and what to look at."""
    try:
        look: FleetLook | str = fleet.look()
    except CannotSee as cannot:
        look = str(cannot)
    for name in sorted(pending):
        own = annotations[name]
        if own.released:
            why = f"it was released since; nodeprep nodes release --undo {name} ends that"
        elif not own.requested:
            why = f"somebody removed {RESET} before its agent read it; run it again"
        elif own.requested != value:
            why = f"somebody else asked for {own.requested!r} after us; {_agent_words(look, name, fleet.namespace)}"
        else:
            why = _agent_words(look, name, fleet.namespace)
        terminal.complain(f"{name}: not reset in {timeout_seconds:g} s: {why}")


def _agent_words(look: FleetLook | str, name: str, namespace: str) -> str:
    """Whether the agent of a Node lives, and where to look. `look` may be the reason why there is no look."""
    pods = f"kubectl -n {namespace} get pods -o wide --field-selector spec.nodeName={name}"
    if isinstance(look, str):
        return f"whether its agent lives is not known ({look}); see {pods}"
    renewed = (look.context.renewed or {}).get(name)
    if look.context.renewed is None:
        return f"whether its agent lives is not known; see {pods}"
    if renewed is None:
        return f"there is no Lease of an agent; see {pods}"
    if not agent_lease.is_fresh(renewed, look.now) and renewed > look.now:
        ahead = fleet_table.age(renewed - look.now)
        return f"its Lease was renewed {ahead} in the future, so its clock is wrong; see {pods}"
    if not agent_lease.is_fresh(renewed, look.now):
        return f"its agent is silent for {fleet_table.age(look.now - renewed)}; see {pods}"
    old = fleet_table.age(look.now - renewed)
    return f"its agent lives (Lease {old} old); see its log, and nodeprep nodes {name} -o wide"
