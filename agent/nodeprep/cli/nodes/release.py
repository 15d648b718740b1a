"""`nodeprep nodes release`: removes all that is ours from Nodes, and makes sure that it stays away.

For all Nodes, it first stops the agents, so that nobody writes again. For some Nodes, it tells their agents by an
annotation, which they read before each write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodeprep.cli import terminal
from nodeprep.cli.nodes import agent_pods, fleet_reader, names_in_force, node_writes, scope
from nodeprep.cli.nodes.agent_pods import AGENTS, AgentSigns
from nodeprep.cli.nodes.fleet_reader import OUTAGE_LIMIT_SECONDS, CannotSee, Fleet
from nodeprep.cli.nodes.names_in_force import DAEMON_SET, NamesInForce
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
    return scope.exit_code(lambda: _undo(fleet, asked) if asked.undo else _release(fleet, asked))


def _release(fleet: Fleet, asked: ReleaseOptions) -> int:
    names = _names(fleet)
    owned = _owned_parts(fleet, names.policy, None if asked.everything else ())
    if not owned:
        terminal.complain(asked.where.no_node_message)
        return 0 if asked.everything else 1  # a selector without Nodes may be mistyped
    found = agent_pods.signs(fleet) if asked.everything else None
    if found is not None and not found:
        agent_pods.refuse_elsewhere(fleet, owned)
    scope.print_notes((names.missing,) if names.missing else ())
    if asked.dry_run:
        terminal.put("\n".join(f"{name}: {ours or 'nothing of ours'}" for name, ours in owned.items()))
        return 0
    if found is not None:
        return _release_all(fleet, names.policy, owned, found)
    return _remove(_Removal(fleet.with_names(owned), names.policy, clock.utc()), owned, [], list(owned))


def _names(fleet: Fleet) -> NamesInForce:
    """The names in force, read once. Raises CannotSee: with wrong names nothing would seem to be left."""
    with ApiLists(fleet.access) as api:
        names = names_in_force.names_in_force(api, fleet.config, fleet.namespace)
    if names.read_error:
        raise CannotSee(names.read_error)
    return names


def _release_all(fleet: Fleet, policy: GatePolicy, owned: Mapping[str, OwnedParts], found: AgentSigns) -> int:
    stopped = agent_pods.stop(fleet)
    try:
        with_agents = _nodes_with_agents(fleet, found, stopped=stopped)
        for_good, marked_nodes = sorted(owned.keys() - with_agents), sorted(owned.keys() & with_agents)
        return _remove(_Removal(fleet, policy, clock.utc(), stopped), owned, for_good, marked_nodes)
    except CannotSee as cannot:
        raise CannotSee(f"{cannot}; {_started_by(fleet)}" if stopped else str(cannot)) from cannot


def _started_by(fleet: Fleet) -> str:
    where = "" if fleet.namespace == NAMESPACE else f" -n {fleet.namespace}"
    return f"the agents are stopped: run it again, or nodeprep nodes release --all --undo{where} starts them"


def _nodes_with_agents(fleet: Fleet, found: AgentSigns, *, stopped: bool) -> frozenset[str]:
    """Wait for the agents to end; returns the Nodes on which one still runs."""
    if not stopped:
        terminal.complain(f"no DaemonSet {fleet.namespace}/{DAEMON_SET}: nothing to stop")
    pods = agent_pods.remaining_pods(fleet, stopped=stopped)
    if pods:
        nodes, see = kubernetes_text.few(sorted(pods)), f"kubectl -n {fleet.namespace} get pods -l {AGENTS}"
        ends = f"does not end on {nodes}: " if stopped else f"lives on {nodes}: stop there what runs it; see "
        terminal.complain(f"the agent's pod {ends}{see}")
    others = agent_pods.live_agents(fleet, found.fresh.keys() - found.pods, found.renewed)
    if others:
        terminal.complain(
            f"an agent outside the DaemonSet runs on {kubernetes_text.few(sorted(others))}: stop it there"
        )
    return pods | others


class _Removal(Value):
    """Removes what is ours, under these names, from Nodes. `stamp` is the time of the human's command.

    `stopped`: the DaemonSet runs no agents any more.
    """

    fleet: Fleet
    policy: GatePolicy
    stamp: str
    stopped: bool = False

    def clean(self, for_good: Collection[str], marked_nodes: Collection[str]) -> None:
        """Remove it from the Nodes `for_good`, with their Leases, and from `marked_nodes`, which get the annotation."""
        access, marks = self.fleet.access, dict.fromkeys(for_good) | dict.fromkeys(marked_nodes, self.stamp)
        trouble = node_writes.for_each(
            marks, lambda name: node_writes.remove_owned(access, name, self.policy, marks[name])
        )
        trouble += node_writes.for_each(
            for_good, lambda name: node_writes.remove_lease(access, name, self.fleet.namespace)
        )
        scope.print_troubles(trouble)

    def owned(self, for_good: Collection[str]) -> dict[str, OwnedParts]:
        """What is on the Nodes now. Raises CannotSee."""
        return fleet_reader.with_retries(
            lambda: _owned_parts(self.fleet, self.policy, for_good), clock.now() + OUTAGE_LIMIT_SECONDS
        )


def _remove(removal: _Removal, owned: Mapping[str, OwnedParts], for_good: list[str], marked_nodes: list[str]) -> int:
    """Remove it, look again, and remove once more what an agent wrote in between."""
    now: dict[str, OwnedParts] = {}
    back: dict[str, OwnedParts] = {}
    removal.clean(for_good, marked_nodes)
    clock.sleep(RECHECK_SECONDS if marked_nodes else 0.0)
    for _ in range(RELEASE_ROUNDS):
        now = removal.owned(for_good)
        back = {name: found for name, found in now.items() if found}
        if not back:
            break
        removal.clean([name for name in for_good if name in back], [name for name in marked_nodes if name in back])
        clock.sleep(1.0)
    else:
        lasting = kubernetes_text.few([f"{name}: {found}" for name, found in back.items()])
        terminal.complain(
            f"still there, or there again: {lasting}" + (f"; {_started_by(removal.fleet)}" if removal.stopped else "")
        )
        return 1
    _print_result(
        removal, owned, [name for name in for_good if name in now], [name for name in marked_nodes if name in now]
    )
    return 1 if for_good and marked_nodes else 0


def _print_result(
    removal: _Removal, owned: Mapping[str, OwnedParts], for_good: list[str], marked_nodes: list[str]
) -> None:
    still = {*for_good, *marked_nodes}
    for name, found in owned.items():
        gone = "" if name in still else "the Node no longer exists"
        terminal.put(f"{name}: {gone or (f'removed {found}' if found else 'nothing of ours was there')}")
    if marked_nodes:
        names = kubernetes_text.few(marked_nodes)
        terminal.put(f"{names}: the annotation {RELEASED} stops all writes until nodes release --undo")
    if for_good:
        agents = "the agents are stopped and can be deleted now" if removal.stopped else "no agent runs there"
        terminal.put(f"nothing of ours is left on {scope.node_count(len(for_good))}; {agents}")


def _undo(fleet: Fleet, asked: ReleaseOptions) -> int:
    """Let agents write again: they continue from their state files."""
    with ApiLists(fleet.access) as api:
        nodes = fleet.objects(
            api, lambda node: (str(fleet_rows.part(node, "metadata").get("name")), _is_released(node))
        )
    if not nodes and not asked.everything:
        terminal.complain(asked.where.no_node_message)
        return 1
    marked = [name for name, released in nodes if released]
    trouble = scope.print_troubles(
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


def _owned_parts(fleet: Fleet, policy: GatePolicy, for_good: Collection[str] | None) -> dict[str, OwnedParts]:
    """What is ours on each Node by these names. On the Nodes `for_good` (None: all) also what humans wrote for us.

    Raises CannotSee, UsageError.
    """

    def ours(node: Object) -> tuple[str, OwnedParts]:
        name = str(fleet_rows.part(node, "metadata").get("name"))
        return name, node_object.owned_parts(
            WrittenNode.of(node), policy, for_good=for_good is None or name in for_good
        )

    with ApiLists(fleet.access) as api:
        return dict(fleet.objects(api, ours))
