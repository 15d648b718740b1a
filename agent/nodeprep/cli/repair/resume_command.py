"""`nodeprep repair resume`: ends a pause of Nodes or of the fleet, or lets a remedy run again that did not help."""

from __future__ import annotations

from nodeprep.cli import terminal
from nodeprep.cli.nodes import scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.repair import fleet_orders
from nodeprep.cli.repair.fleet_orders import ListedLeases
from nodeprep.cli.usage import UsageError
from nodeprep.config import remedy_files
from nodeprep.config.document import ConfigError
from nodeprep.decide import fleet_holds, kubernetes_text, repair_orders
from nodeprep.decide.fleet_holds import FLEET, RESUMED
from nodeprep.values import Value, field, replace

WAYS = "wanted one of: --all, Nodes (by name or --selector), --remedy"


class ResumeOptions(Value):
    """The options of `repair resume`, as they were typed."""

    where: FleetScope = field(default_factory=FleetScope)
    remedies: tuple[str, ...] = ()
    everything: bool = False
    dry_run: bool = False


def run(asked: ResumeOptions) -> int:
    """Resume; returns the exit code. Raises UsageError."""
    ways = {
        "--all": asked.everything,
        "Nodes": bool(asked.where.names) or asked.where.selector is not None,
        "--remedy": bool(asked.remedies),
    }
    found = [way for way, given in ways.items() if given]
    if len(found) != 1:
        raise UsageError(f"repair resume: found {' and '.join(found) or 'none'}, {WAYS}")
    fleet = asked.where.fleet()
    act = {"--all": _resume_fleet, "Nodes": _resume_nodes, "--remedy": _resume_remedies}[found[0]]
    return scope.exit_code(lambda: act(fleet, asked))


def _resume_fleet(fleet: Fleet, asked: ResumeOptions) -> int:
    orders = fleet_orders.leases(fleet).orders
    if orders is None:
        terminal.complain(fleet_orders.no_fleet_message(fleet))
        return 1
    stay = "Nodes that were paused by name stay so (nodeprep repair history --fleet)"
    if repair_orders.PAUSE not in orders:
        terminal.put(f"{fleet_orders.WHOLE_FLEET}: was not paused; {stay}")
        return 0
    says = (
        f"{fleet_orders.WHOLE_FLEET}: resumed; it was paused {fleet_orders.words(orders[repair_orders.PAUSE])}; {stay}"
    )
    return 0 if fleet_orders.write_to_fleet(fleet, repair_orders.PAUSE, None, says, dry_run=asked.dry_run) else 1


def _resume_nodes(fleet: Fleet, asked: ResumeOptions) -> int:
    found = fleet_orders.nodes(fleet).annotations
    if not found:
        terminal.complain(asked.where.no_node_message)
        return 1
    pauses = {name: found[name][repair_orders.PAUSE] for name in sorted(found) if repair_orders.PAUSE in found[name]}
    orders: dict[str, str | None] = dict.fromkeys(pauses)
    for name in sorted(found.keys() - pauses.keys()):
        terminal.put(f"{name}: was not paused")
    failed = bool(orders) and fleet_orders.write_to_nodes(
        fleet,
        orders,
        repair_orders.PAUSE,
        lambda name: f"resumed; it was paused {fleet_orders.words(pauses[name])}",
        dry_run=asked.dry_run,
    )
    _say_if_fleet_is_paused(fleet)
    return 1 if failed else 0


def _say_if_fleet_is_paused(fleet: Fleet) -> None:
    """Who resumed a Node wants it to be repaired."""
    try:
        listed = fleet_orders.leases(fleet)
    except CannotSee as cannot:
        terminal.complain(f"whether the whole fleet is paused is not known: {cannot}")
        return
    text = (listed.orders or {}).get(repair_orders.PAUSE)
    paused = repair_orders.paused(text, listed.now, fleet_orders.WHOLE_FLEET)
    if paused:
        terminal.complain(f"{paused}; nodeprep repair resume --all ends that")


def _resume_remedies(fleet: Fleet, asked: ResumeOptions) -> int:
    listed = fleet_orders.leases(fleet)
    if listed.orders is None:
        terminal.complain(fleet_orders.no_fleet_message(fleet))
        return 1
    for remedy in asked.remedies:
        _refuse_unknown(listed, remedy)
    failed = [one for one in dict.fromkeys(asked.remedies) if not _resume_remedy(fleet, listed, one, asked)]
    return 1 if failed else 0


def _refuse_unknown(listed: ListedLeases, remedy: str) -> None:
    """A mistyped name would resume nothing, and say that it did. Other versions of agents may know other remedies."""
    try:
        known = set(remedy_files.headers())
    except ConfigError as error:
        raise UsageError(str(error)) from error
    said = fleet_holds.notes_of(listed.leases).values()
    known |= {name for note in said for part in (note.unhelpful, note.held) for name in part}
    if remedy not in known:
        raise UsageError(f"--remedy: found {remedy!r}, wanted one of {', '.join(sorted(known))}")


def _resume_remedy(fleet: Fleet, listed: ListedLeases, remedy: str, asked: ResumeOptions) -> bool:
    """Whether nothing holds it any more. What nobody holds is not touched: it would be tried out anew."""
    against = fleet_holds.against(listed.leases, remedy, listed.now)
    if not against:
        terminal.put(f"{remedy}: nothing to resume: no node says that it did not help")
        return True
    at = repair_orders.time_text(listed.now + 1)  # the server tells whole seconds
    nodes = kubernetes_text.few(sorted(against))
    says = (
        f"{remedy}: resumed; it had not helped by what {nodes} {'says' if len(against) == 1 else 'say'}. Until it helps"
        f" on one node, {fleet_holds.NODES_LIMIT} at most try it"
    )
    if not fleet_orders.write_to_fleet(fleet, f"{RESUMED}{remedy}", at, says, dry_run=asked.dry_run):
        return False
    return _is_resumed(listed, remedy, at)


def _is_resumed(listed: ListedLeases, remedy: str, at: str) -> bool:
    """What a node says of a time to come outlasts a resume of now."""
    orders = {**(listed.orders or {}), f"{RESUMED}{remedy}": at}
    after = tuple(replace(one, orders=orders) if one.name == FLEET else one for one in listed.leases)
    ahead = fleet_holds.against(after, remedy, listed.now)
    for node, until in sorted(ahead.items()):
        terminal.complain(
            f"{remedy}: {node} says that it did not help at {repair_orders.time_text(until)}, which is still to come:"
            f" mend the clock of {node}, and resume again after that time"
        )
    return not ahead
