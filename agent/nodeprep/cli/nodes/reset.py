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

    asked: str
    answered: str
    released: bool

    @classmethod
    def of(cls, node: Object) -> ResetAnnotations:
        said = fleet_rows.part(node, "metadata", "annotations")
        return cls(str(said.get(RESET, "")), str(said.get(RESET_DONE_ANNOTATION, "")), RELEASED in said)


def run(where: FleetScope, *, inventory: bool, timeout: str | None) -> int:
    """Ask the agents of these Nodes, and wait for them unless `timeout` is None. Raises UsageError."""
    patience = None if timeout is None else duration.seconds("--timeout", timeout)
    if not where.names and where.selector is None:
        raise UsageError("nodes reset: found no Node, wanted some by name or --selector")
    fleet = where.fleet()
    return scope.seen(lambda: _reset(fleet, patience, f"{clock.utc()}{INVENTORY if inventory else ''}", where.nobody))


def _reset(fleet: Fleet, patience: float | None, value: str, nobody: str) -> int:
    before = _words(fleet)
    if not before:
        terminal.complain(nobody)
        return 1
    refused = scope.say_few(_refusal(name) for name in sorted(before) if before[name].released)
    asked = tuple(name for name in sorted(before) if not before[name].released)
    if scope.say_few(node_writes.for_each(asked, lambda name: node_writes.annotate(fleet.access, name, RESET, value))):
        return 1
    if patience is None and asked:
        terminal.put(f"asked the agents of {scope.number(len(asked))}: {RESET}={value}")
    if patience is None or not asked:
        return 1 if refused else 0
    failed = _awaited(fleet.held_to(asked), {name: before[name].answered for name in asked}, value, patience)
    return 1 if refused or failed else 0


def _refusal(name: str) -> str:
    return f"{name}: not asked: it is released, so no agent answers; nodeprep nodes release --undo {name} ends that"


def _awaited(fleet: Fleet, before: Mapping[str, str], value: str, patience: float) -> int:
    """Print the result of each Node; returns how many were not reset. `before` is what each agent answered before."""
    end, late, failed = clock.now() + patience, set(before), 0
    while True:
        words = _words_again(fleet, late, end)
        for name in sorted(late):
            done = _came_of_it(words[name], before[name], value) if name in words else (False, GONE_MESSAGE)
            if done is None:
                continue
            late.remove(name)
            good, says = done
            failed += not good
            (terminal.put if good else terminal.complain)(f"{name}: {says}")
        if not late:
            return failed
        if clock.now() >= end:
            _tell_why(fleet, late, words, value, patience)
            return failed + len(late)
        clock.sleep(RESET_POLL_SECONDS)


def _words_again(fleet: Fleet, late: Collection[str], end: float) -> dict[str, ResetAnnotations]:
    """As `_words`, for as long as a human waits. Raises CannotSee with the Nodes whose answer was not seen."""
    try:
        return fleet_reader.patiently(lambda: _words(fleet), end)
    except CannotSee as cannot:
        raise CannotSee(
            f"asked {kubernetes_text.few(sorted(late))}, and cannot tell whether it was done: {cannot}"
        ) from cannot


def _came_of_it(word: ResetAnnotations, before: str, value: str) -> tuple[bool, str] | None:
    """Whether it is the wanted answer, and in words; None while the answer may still come.

    Another value was written after ours: its writer resets the Node too.
    """
    if word.answered == value:
        return True, "reset"
    if word.answered in ("", before) or word.answered != word.asked:
        return None
    if value.endswith(INVENTORY) and not word.asked.endswith(INVENTORY):
        return False, f"reset, but with its inventory: somebody else asked for {word.asked!r} after us; run it again"
    return True, f"reset, by somebody else who asked for {word.asked!r} after us"


def _words(fleet: Fleet) -> dict[str, ResetAnnotations]:
    """By Node."""
    with ApiLists(fleet.access) as api:
        return dict(
            fleet.objects(
                api, lambda told: (str(fleet_rows.part(told, "metadata").get("name", "")), ResetAnnotations.of(told))
            )
        )


def _tell_why(
    fleet: Fleet, late: Collection[str], words: Mapping[str, ResetAnnotations], value: str, patience: float
) -> None:
    """Why an agent may not have done it, and what to look at."""
    try:
        look: FleetLook | str = fleet.look()
    except CannotSee as cannot:
        look = str(cannot)
    for name in sorted(late):
        word = words[name]
        if word.released:
            why = f"it was released since; nodeprep nodes release --undo {name} ends that"
        elif not word.asked:
            why = f"somebody removed {RESET} before its agent read it; run it again"
        elif word.asked != value:
            why = f"somebody else asked for {word.asked!r} after us; {_of_agent(look, name, fleet.namespace)}"
        else:
            why = _of_agent(look, name, fleet.namespace)
        terminal.complain(f"{name}: not reset in {patience:g} s: {why}")


def _of_agent(look: FleetLook | str, name: str, namespace: str) -> str:
    """Whether the agent of a Node lives, and where to look. `look` may be the reason why there is no look."""
    pods = f"kubectl -n {namespace} get pods -o wide --field-selector spec.nodeName={name}"
    if isinstance(look, str):
        return f"whether its agent lives is not known ({look}); see {pods}"
    renewed = (look.others.renewed or {}).get(name)
    if look.others.renewed is None:
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
