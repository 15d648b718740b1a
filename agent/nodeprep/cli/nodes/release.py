"""`nodeprep nodes release`: removes all that is ours from Nodes, and makes sure that it stays away.

For all Nodes, it first stops the agents, so that nobody writes again. For some Nodes, it tells their agents by an
annotation, which they read before each write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodeprep.cli import terminal
from nodeprep.cli.nodes import agent_pods, fleet_reader, names_in_force, node_writes, scope
from nodeprep.cli.nodes.agent_pods import AGENTS, DAEMON_SET, AgentSigns
from nodeprep.cli.nodes.fleet_reader import OUTAGE_LIMIT_SECONDS, CannotSee, Fleet
from nodeprep.cli.nodes.names_in_force import NamesInForce
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import NAMESPACE, Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.publish import fleet_rows, node_object
from nodeprep.publish.node_object import RELEASED, OwnedParts, WrittenNode
from nodeprep.values import Value, field

RECHECK_SECONDS = 5.0  # seconds after which we look again, because an agent may have been writing
RELEASE_ROUNDS = 3


class ReleaseOptions(Value):
    """The options of `nodes release`, as they were typed."""

    where: FleetScope = field(default_factory=FleetScope)
    everything: bool = False
    undo: bool = False
    dry_run: bool = False


def run(asked: ReleaseOptions) -> int:
    """Release; returns the exit code. Raises UsageError."""
    named = bool(asked.where.names) or asked.where.selector is not None
    if named == asked.everything:
        found = "both" if named else "neither"
        raise UsageError(f"nodes release: found {found}, wanted Nodes (by name or --selector) or --all")
    if asked.undo and asked.dry_run:
        raise UsageError("--undo and --dry-run exclude each other: give one of them")
    fleet = asked.where.fleet()
    return scope.seen(lambda: _undo(fleet, asked) if asked.undo else _release(fleet, asked))


def _release(fleet: Fleet, asked: ReleaseOptions) -> int:
    names = _names(fleet)
    there = _there(fleet, names.policy, None if asked.everything else ())
    if not there:
        terminal.complain(asked.where.nobody)
        return 0 if asked.everything else 1  # a selector without Nodes may be mistyped
    found = agent_pods.signs(fleet) if asked.everything else None
    if found is not None and not found:
        agent_pods.refuse_elsewhere(fleet, there)
    scope.say((names.none,) if names.none else ())
    if asked.dry_run:
        terminal.put("\n".join(f"{name}: {ours or 'nothing of ours'}" for name, ours in there.items()))
        return 0
    if found is not None:
        return _release_all(fleet, names.policy, there, found)
    return _released(_Cleaning(fleet.held_to(there), names.policy, clock.utc()), there, [], list(there))


def _names(fleet: Fleet) -> NamesInForce:
    """The names in force, read once. Raises CannotSee: with wrong names nothing would seem to be left."""
    with ApiLists(fleet.access) as api:
        names = names_in_force.names_in_force(api, fleet.config, fleet.namespace)
    if names.unread:
        raise CannotSee(names.unread)
    return names


def _release_all(fleet: Fleet, policy: GatePolicy, there: Mapping[str, OwnedParts], found: AgentSigns) -> int:
    stopped = agent_pods.stop(fleet)
    try:
        stays = _living(fleet, found, stopped=stopped)
        forever, kept = sorted(there.keys() - stays), sorted(there.keys() & stays)
        return _released(_Cleaning(fleet, policy, clock.utc(), stopped), there, forever, kept)
    except CannotSee as cannot:
        raise CannotSee(f"{cannot}; {_started_by(fleet)}" if stopped else str(cannot)) from cannot


def _started_by(fleet: Fleet) -> str:
    where = "" if fleet.namespace == NAMESPACE else f" -n {fleet.namespace}"
    return f"the agents are stopped: run it again, or nodeprep nodes release --all --undo{where} starts them"


def _living(fleet: Fleet, found: AgentSigns, *, stopped: bool) -> frozenset[str]:
    """Wait for the agents to end; returns the Nodes on which one still runs."""
    if not stopped:
        terminal.complain(f"no DaemonSet {fleet.namespace}/{DAEMON_SET}: nothing to stop")
    pods = agent_pods.stuck(fleet, stopped=stopped)
    if pods:
        nodes, see = kubernetes_text.few(sorted(pods)), f"kubectl -n {fleet.namespace} get pods -l {AGENTS}"
        ends = f"does not end on {nodes}: " if stopped else f"lives on {nodes}: stop there what runs it; see "
        terminal.complain(f"the agent's pod {ends}{see}")
    others = agent_pods.alive(fleet, found.fresh.keys() - found.pods, found.renewed)
    if others:
        terminal.complain(
            f"an agent outside the DaemonSet runs on {kubernetes_text.few(sorted(others))}: stop it there"
        )
    return pods | others


class _Cleaning(Value):
    """Removes what is ours, under these names, from Nodes; `stamp` is the time of the human's command.

    `stopped`: the DaemonSet runs no agents any more.
    """

    fleet: Fleet
    policy: GatePolicy
    stamp: str
    stopped: bool = False

    def clean(self, forever: Collection[str], kept: Collection[str]) -> None:
        """The Nodes `forever`, with their Leases, and those whose agents need the annotation."""
        access, told = self.fleet.access, dict.fromkeys(forever) | dict.fromkeys(kept, self.stamp)
        trouble = node_writes.for_each(told, lambda name: node_writes.clean(access, name, self.policy, told[name]))
        trouble += node_writes.for_each(
            forever, lambda name: node_writes.remove_lease(access, name, self.fleet.namespace)
        )
        scope.say_few(trouble)

    def there(self, forever: Collection[str]) -> dict[str, OwnedParts]:
        """What is on the Nodes now. Raises CannotSee."""
        return fleet_reader.patiently(
            lambda: _there(self.fleet, self.policy, forever), clock.now() + OUTAGE_LIMIT_SECONDS
        )


def _released(done: _Cleaning, there: Mapping[str, OwnedParts], forever: list[str], kept: list[str]) -> int:
    """Remove it, look again, and remove once more what an agent wrote in between."""
    now: dict[str, OwnedParts] = {}
    back: dict[str, OwnedParts] = {}
    done.clean(forever, kept)
    clock.sleep(RECHECK_SECONDS if kept else 0.0)
    for _ in range(RELEASE_ROUNDS):
        now = done.there(forever)
        back = {name: found for name, found in now.items() if found}
        if not back:
            break
        done.clean([name for name in forever if name in back], [name for name in kept if name in back])
        clock.sleep(1.0)
    else:
        lasting = kubernetes_text.few([f"{name}: {found}" for name, found in back.items()])
        terminal.complain(
            f"still there, or there again: {lasting}" + (f"; {_started_by(done.fleet)}" if done.stopped else "")
        )
        return 1
    _tell(done, there, [name for name in forever if name in now], [name for name in kept if name in now])
    return 1 if forever and kept else 0


def _tell(done: _Cleaning, there: Mapping[str, OwnedParts], forever: list[str], kept: list[str]) -> None:
    still = {*forever, *kept}
    for name, found in there.items():
        gone = "" if name in still else "the Node no longer exists"
        terminal.put(f"{name}: {gone or (f'removed {found}' if found else 'nothing of ours was there')}")
    if kept:
        terminal.put(
            f"{kubernetes_text.few(kept)}: the annotation {RELEASED} stops all writes until nodes release --undo"
        )
    if forever:
        agents = "the agents are stopped and can be deleted now" if done.stopped else "no agent runs there"
        terminal.put(f"nothing of ours is left on {scope.number(len(forever))}; {agents}")


def _undo(fleet: Fleet, asked: ReleaseOptions) -> int:
    """Let agents write again: they continue from their state files."""
    with ApiLists(fleet.access) as api:
        nodes = fleet.objects(
            api, lambda told: (str(fleet_rows.part(told, "metadata").get("name")), _is_released(told))
        )
    if not nodes and not asked.everything:
        terminal.complain(asked.where.nobody)
        return 1
    marked = [name for name, released in nodes if released]
    trouble = scope.say_few(
        node_writes.for_each(marked, lambda name: node_writes.annotate(fleet.access, name, RELEASED, None))
    )
    started = not asked.everything or agent_pods.start(fleet)
    if not started:
        terminal.complain(
            f"no DaemonSet {fleet.namespace}/{DAEMON_SET}: nothing to start; --namespace names another place"
        )
    terminal.put(f"{len(marked) - trouble} of {len(nodes)} Nodes were released and are no longer")
    return 0 if started and not trouble else 1


def _is_released(node: Mapping[str, object]) -> bool:
    return RELEASED in fleet_rows.part(node, "metadata", "annotations")


def _there(fleet: Fleet, policy: GatePolicy, forever: Collection[str] | None) -> dict[str, OwnedParts]:
    """What is ours on each Node by these names; on those `forever` (None: all) also what humans wrote for us.

    Raises CannotSee, UsageError.
    """

    def ours(told: Object) -> tuple[str, OwnedParts]:
        name = str(fleet_rows.part(told, "metadata").get("name"))
        return name, node_object.owned_parts(WrittenNode.of(told), policy, for_good=forever is None or name in forever)

    with ApiLists(fleet.access) as api:
        return dict(fleet.objects(api, ours))
