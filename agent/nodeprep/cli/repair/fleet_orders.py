"""What `repair pause`, `resume` and `approve` share: the Nodes and Leases that an order is about, and its writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nodeprep.cli import duration, terminal
from nodeprep.cli.nodes import node_writes, scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet
from nodeprep.cli.usage import UsageError
from nodeprep.decide import fleet_holds, repair_orders
from nodeprep.decide.fleet_notes import FleetLease
from nodeprep.doors.kube.reader import Object
from nodeprep.doors.kube.watch import ApiLists
from nodeprep.model import Unreadable
from nodeprep.publish import agent_lease, fleet_leases, fleet_rows
from nodeprep.values import Value

WHOLE_FLEET = f"the fleet (Lease {fleet_holds.FLEET})"
HOUR_SECONDS = 3600.0


class OrderedNodes(Value):
    """The annotations of the selected Nodes, by name. `now` is seconds since 1970 by the server's clock."""

    annotations: Mapping[str, Mapping[str, str]]
    now: float


class ListedLeases(Value):
    """The Leases of the fleet as they were listed. `now` is seconds since 1970 by the server's clock."""

    leases: tuple[FleetLease, ...] = ()
    now: float = 0.0
    orders: Mapping[str, str] | None = None

    @classmethod
    def of(cls, leases: Iterable[FleetLease], now: float) -> ListedLeases:
        """`orders` are those on the Lease of the fleet, None where there is no such Lease."""
        known = tuple(leases)
        return cls(known, now, next((one.orders for one in known if one.name == fleet_holds.FLEET), None))


def nodes(fleet: Fleet) -> OrderedNodes:
    """Raises CannotSee, UsageError."""
    with ApiLists(fleet.access) as api:
        found = dict(fleet.objects(api, _annotated))
        return OrderedNodes(found, api.now)


def leases(fleet: Fleet) -> ListedLeases:
    """Raises CannotSee."""
    with ApiLists(fleet.access) as api:
        may = f"list leases -n {fleet.namespace}"
        found = api.listed(agent_lease.path(fleet.namespace), "leases", fleet_leases.fleet_lease, may=may)
        if isinstance(found, Unreadable):
            raise CannotSee(f"cannot look at the Leases of namespace {fleet.namespace}: {found}", found)
        return ListedLeases.of(found.items, api.now)


def no_fleet_message(fleet: Fleet) -> str:
    """The message if there is nothing on which an order to the whole fleet could stand."""
    where = f"no Lease {fleet_holds.FLEET} in namespace {fleet.namespace}"
    return f"{where}: apply components/repair, or --namespace names another place"


def lasting(given: str, limit: float | None = None) -> float:
    """The seconds of `--for`. Raises UsageError."""
    seconds = duration.seconds("--for", given)
    if seconds <= 0:
        raise UsageError(f"--for: found {given!r}, wanted more than 0 seconds")
    if limit is not None and seconds > limit:
        raise UsageError(f"--for: found {given!r}, wanted at most {limit / HOUR_SECONDS:g}h")
    return seconds


def words(text: str) -> str:
    """A pause as it was written, for people: its reason, and its end."""
    why, mark, until = text.partition(repair_orders.MARK)
    return terminal.clean(f"({why}) until {until}" if mark else f"({why}) without an end")


def write_to_nodes(
    fleet: Fleet, orders: Mapping[str, str | None], key: str, says: Callable[[str], str], *, dry_run: bool
) -> int:
    """Write each Node's order, None to remove it, and print what `says` of it; returns how many were not written."""
    if dry_run:
        terminal.put("\n".join(f"{name}: would {_deed(key, orders[name])}" for name in orders))
        return 0
    done = node_writes.for_each(orders, lambda name: node_writes.annotate(fleet.access, name, key, orders[name]))
    troubles = dict(zip(orders, done, strict=True))
    for name in orders:
        if not troubles[name]:
            terminal.put(f"{name}: {says(name)}")
    return scope.print_troubles(f"{name}: {trouble}" if trouble else "" for name, trouble in troubles.items())


def write_to_fleet(fleet: Fleet, key: str, value: str | None, says: str, *, dry_run: bool) -> bool:
    """Write an order to the whole fleet, None to remove it, and print what it `says`; whether it was written."""
    if dry_run:
        terminal.put(f"Lease {fleet_holds.FLEET}: would {_deed(key, value)}")
        return True
    trouble = node_writes.annotate_lease(fleet.access, fleet.namespace, fleet_holds.FLEET, key, value)
    if trouble:
        terminal.complain(f"Lease {fleet_holds.FLEET}: {trouble}")
        return False
    terminal.put(says)
    return True


def _deed(key: str, value: str | None) -> str:
    return terminal.clean(f"remove {key}" if value is None else f"write {key}={value}")


def _annotated(node: Object) -> tuple[str, Mapping[str, str]]:
    metadata = fleet_rows.part(node, "metadata")
    return str(metadata.get("name", "")), {
        key: str(value) for key, value in fleet_rows.part(metadata, "annotations").items()
    }
