"""`nodeprep nodes release`: takes all that is ours off Nodes, and sees to it that it stays off.

Of all Nodes: the agents are stopped first, so that nobody writes again. Of some: their agents are told by an
annotation, which they look at before each write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nodeprep.cli import output
from nodeprep.cli.nodes_agents import agents, alive, fresh, start, stop
from nodeprep.cli.nodes_names import names_in_force
from nodeprep.cli.nodes_reading import Fleet
from nodeprep.cli.nodes_where import Where, number, say, say_few, seen
from nodeprep.cli.nodes_writing import annotate, clean, for_each, remove_lease
from nodeprep.cli.usage import UsageError
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.legal import few
from nodeprep.doors import clock
from nodeprep.doors.kube import Object
from nodeprep.doors.kube_watch import Lists
from nodeprep.publish.fleet import part
from nodeprep.publish.node import RELEASED
from nodeprep.publish.release import Left, left

AGAIN = 5.0  # seconds after which we look whether an agent was just writing
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `nodes release`, as they were typed."""

    where: Where = field(default_factory=Where)
    everything: bool = False
    undo: bool = False
    dry_run: bool = False


def run(asked: Asked) -> int:
    """Release; returns the exit code. Raises UsageError."""
    named = bool(asked.where.names) or asked.where.selector is not None
    if named == asked.everything:
        found = "both" if named else "neither"
        raise UsageError(f"nodes release: found {found}, wanted Nodes (by name or --selector) or --all")
    if asked.undo and asked.dry_run:
        raise UsageError("--undo and --dry-run exclude each other: give one of them")
    fleet = asked.where.fleet()
    return seen(lambda: _undo(fleet, asked) if asked.undo else _release(fleet, asked))


def _release(fleet: Fleet, asked: Asked) -> int:
    policy, there, note = _there(fleet, None if asked.everything else ())
    say((note,) if note else ())
    if not there:
        output.complain(asked.where.nobody)
        return 0 if asked.everything else 1  # a selector that fits nobody may be mistyped
    if asked.dry_run:
        output.put("\n".join(f"{name}: {found or 'nothing of ours'}" for name, found in there.items()))
        return 0
    if asked.everything:
        stays = _stopped(fleet)
        forever, kept = sorted(there.keys() - stays), sorted(there.keys() & stays)
    else:
        forever, kept = [], list(there)
    done = _Cleaning(fleet, policy, clock.utc())
    done.clean(forever, kept)
    clock.sleep(AGAIN if kept else 0.0)
    return _proved(done, there, forever, kept)


@dataclass(frozen=True, slots=True)
class _Cleaning:
    """Takes what is ours off Nodes under these names; `stamp` is when a human said so."""

    fleet: Fleet
    policy: GatePolicy
    stamp: str

    def clean(self, forever: Collection[str], kept: Collection[str]) -> None:
        """The Nodes `forever`, with their Leases, and those whose agents have to be told."""
        access, told = self.fleet.access, dict.fromkeys(forever) | dict.fromkeys(kept, self.stamp)
        trouble = for_each(told, lambda name: clean(access, name, self.policy, told[name]))
        trouble += for_each(forever, lambda name: remove_lease(access, name, self.fleet.namespace))
        say_few(trouble)


def _stopped(fleet: Fleet) -> frozenset[str]:
    """Stop the agents; the Nodes on which one lives on."""
    with_pods = agents(fleet)
    before = fresh(fleet)
    stuck = stop(fleet)
    if stuck:
        output.complain(f"the agent's pod does not end on {few(sorted(stuck))}: kubectl -n {fleet.namespace} get pods")
    others = alive(fleet, before.keys() - with_pods, before)
    if others:
        output.complain(f"an agent that is no pod of the DaemonSet lives on {few(sorted(others))}: stop it there")
    return stuck | others


def _proved(done: _Cleaning, there: Mapping[str, Left], forever: list[str], kept: list[str]) -> int:
    """Look again, and once more take off what an agent wrote meanwhile."""
    back: dict[str, Left] = {}
    for _ in range(ROUNDS):
        _, now, _ = _there(done.fleet, forever)
        back = {name: found for name, found in now.items() if found}
        if not back:
            break
        done.clean([name for name in forever if name in back], [name for name in kept if name in back])
        clock.sleep(1.0)
    else:
        output.complain(f"still there, or there again: {few([f'{name}: {found}' for name, found in back.items()])}")
        return 1
    for name, found in there.items():
        output.put(f"{name}: {f'took off {found}' if found else 'nothing of ours was there'}")
    if kept:
        output.put(f"{few(kept)}: told by the annotation {RELEASED} to write nothing until nodes release --undo")
    if forever:
        output.put(f"nothing of ours is left on {number(len(forever))}; the agents are stopped and can be deleted now")
    return 1 if forever and kept else 0


def _undo(fleet: Fleet, asked: Asked) -> int:
    """Let agents write again: they prove their Nodes by what they remember."""
    with Lists(fleet.access) as api:
        nodes = fleet.objects(api, lambda told: (str(part(told, "metadata").get("name")), _is_released(told)))
    if not nodes and not asked.everything:
        output.complain(asked.where.nobody)
        return 1
    marked = [name for name, released in nodes if released]
    trouble = say_few(for_each(marked, lambda name: annotate(fleet.access, name, RELEASED, None)))
    if asked.everything and not start(fleet):
        output.complain(f"no DaemonSet in namespace {fleet.namespace} that could run again")
    output.put(f"{len(marked) - trouble} of {len(nodes)} Nodes were released and are no longer")
    return 1 if trouble else 0


def _is_released(node: Mapping[str, object]) -> bool:
    return RELEASED in part(node, "metadata", "annotations")


def _there(fleet: Fleet, forever: Collection[str] | None) -> tuple[GatePolicy, dict[str, Left], str]:
    """The names in force, what is ours on each Node, and a note.

    On those `forever` (None: all) what humans wrote for us counts too. Raises CannotSee, UsageError.
    """
    with Lists(fleet.access) as api:
        policy, note = names_in_force(api, fleet.config, fleet.namespace)

        def ours(told: Object) -> tuple[str, Left]:
            name = str(part(told, "metadata").get("name"))
            return name, left(told, policy, for_good=forever is None or name in forever)

        found = fleet.objects(api, ours)
    return policy, dict(found), note
