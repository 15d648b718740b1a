"""What a drill runs to make its fault, and what undoes it: decided from what is there, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nodeprep.decide import drill_ground
from nodeprep.decide.drill_ground import CannotPutBack, DrillGround, Row
from nodeprep.decide.drill_kinds import FORMS, MODULES, DrillKind
from nodeprep.decide.drill_record import HostCommand
from nodeprep.decide.idleness import IdleTarget
from nodeprep.decide.remedy_header import Idle
from nodeprep.values import Value, field

SHOWN_TARGETS = 12  # that a refusal names
MAIN = "main"
KERNEL_LOG = "/dev/kmsg"
# A line of mlx5_core (drivers/net/ethernet/mellanox/mlx5/core/health.c), of level KERN_ERR. Checks go by the address in
# the line, so it serves for each driver.
FATAL_LINE = "<3>mlx5_core {function}: device's health compromised - reached miss count"


NO_WAY_BACK = (
    "A line of the kernel log cannot be taken back. `dmesg --clear` ends what `nodeprep check` says of it, and the "
    "agent holds the fault until `nodeprep reset`."
)


class DrillRefused(Exception):
    """The drill is not made. Its text is one line: what was found, what was wanted. `is_use`: it was ordered badly."""

    def __init__(self, words: str, *, is_use: bool = False) -> None:
        super().__init__(words)
        self.is_use = is_use


class DrillOrder(Value):
    """What was typed. `table` is of a route."""

    kind: DrillKind
    target: str = ""
    table: str = MAIN


class DrillPlan(Value):
    """What is done. `device` is what it is about, `names` what that may be called in findings.

    `args` are those of the kind's header, for the idle proof. `idle` is the target of that proof where the header does
    not say it. `watched` are the parts of the state that must be as before. `notes` are to be known before.
    """

    kind: DrillKind
    target: str
    device: str
    make: tuple[HostCommand, ...]
    undo: tuple[HostCommand, ...]
    watched: tuple[str, ...] = ()
    args: Mapping[str, str] = field(default_factory=dict)
    idle: IdleTarget | None = None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan(order: DrillOrder, ground: DrillGround, functions: Iterable[str] = ()) -> DrillPlan:
    """How the fault is made and undone. `functions` are PCI addresses of RDMA NICs. Raises DrillRefused."""
    try:
        if order.kind is DrillKind.KERNEL_LOG_LINE:
            return _kernel_log_line(order, tuple(functions))
        return PLANS[order.kind](order, ground)
    except CannotPutBack as error:
        raise DrillRefused(f"{order.kind}: {error}: no command of ours puts that back") from error


def _link_down(order: DrillOrder, ground: DrillGround) -> DrillPlan:
    name = order.target
    if ground.link(name) is None:
        raise _no_target(order, [str(row.get("ifname")) for row in ground.links if _is_candidate(row)])
    if not ground.is_up(name):
        raise DrillRefused(f"{order.kind}: {name} is set down already: there is nothing to see (nodeprep check)")
    riders = ground.riders(name)
    if riders:
        raise DrillRefused(f"{order.kind}: {', '.join(riders)} on {name} would go down with it")
    addresses = [row for family, row in drill_ground.addresses_of(ground, name) if family == 6]
    return DrillPlan(
        kind=order.kind,
        target=name,
        device=name,
        make=(HostCommand(("ip", "link", "set", "dev", name, "down")),),
        undo=(
            HostCommand(("ip", "link", "set", "dev", name, "up")),
            *(drill_ground.address_command(name, row) for row in addresses),
            *(drill_ground.route_command(family, "replace", row) for family, row in ground.routes_of(name)),
        ),
        watched=(f"interface {name}",),
        args={"interface": name},
        names=(name,),
    )


def _is_candidate(row: Row) -> bool:
    flags = row.get("flags", ())
    return "UP" in flags and "LOOPBACK" not in flags


def _route_removed(order: DrillOrder, ground: DrillGround) -> DrillPlan:
    found = [
        (family, row)
        for family, row in ground.routes
        if row.get("dst") == order.target and str(row.get("table", MAIN)) == order.table and row.get("type") != "local"
    ]
    if len(found) != 1:
        raise _no_route(order, ground, len(found))
    family, row = found[0]
    name = str(row.get("dev", ""))
    if not name or "nexthops" in row:
        raise DrillRefused(f"{order.kind}: the route to {order.target} goes by no single interface")
    return DrillPlan(
        kind=order.kind,
        target=order.target,
        device=f"{order.target} in table {order.table}",
        make=(drill_ground.route_command(family, "del", row),),
        undo=(drill_ground.route_command(family, "replace", row),),
        watched=(f"interface {name}",),
        args={"interface": name},
        names=(name, order.target, f"table {order.table}"),
    )


def _no_route(order: DrillOrder, ground: DrillGround, count: int) -> DrillRefused:
    if count > 1:
        words = f"found {count} routes to {order.target} in table {order.table}, wanted one"
        return DrillRefused(f"{order.kind}: {words}", is_use=True)
    there = [
        f"{row.get('dst')} --table {row.get('table', MAIN)}"
        for _, row in ground.routes
        if row.get("type", "unicast") == "unicast" and row.get("dev")
    ]
    return _no_target(order, there)


def _module_unloaded(order: DrillOrder, ground: DrillGround) -> DrillPlan:
    name = order.target.replace("-", "_")
    if name not in MODULES or name not in ground.modules:
        raise _no_target(order, sorted(set(MODULES) & ground.modules.keys()))
    module = ground.modules[name]
    if module.holders or module.uses:
        by = ", ".join(module.holders) or f"{module.uses} users (lsmod)"
        raise DrillRefused(f"{order.kind}: {name} is in use by {by}: the kernel would not unload it")
    type_ = {"rdma_rxe": "rxe", "siw": "siw"}.get(name, "")
    lost = {device: part for device, part in ground.rdma.items() if type_ and part.type == type_}
    return DrillPlan(
        kind=order.kind,
        target=order.target,
        device=name,
        make=(HostCommand(("modprobe", "-r", name)),),
        undo=(HostCommand(("modprobe", name)), *(_link_added(device, part) for device, part in lost.items())),
        watched=(f"module {name}", "rdma"),
        args={"module": name},
        names=(name, *ground.rdma),
    )


def _rdma_link_removed(order: DrillOrder, ground: DrillGround) -> DrillPlan:
    name = order.target
    part = ground.rdma.get(name)
    if part is None:
        raise _no_target(order, [device for device, one in ground.rdma.items() if one.type])
    if not part.type or not part.netdev:
        raise DrillRefused(f"{order.kind}: {name} is no software device: its driver makes it (drill module-unloaded)")
    return DrillPlan(
        kind=order.kind,
        target=name,
        device=name,
        make=(HostCommand(("rdma", "link", "delete", name)),),
        undo=(_link_added(name, part),),
        watched=("rdma",),
        idle=IdleTarget(Idle.RDMA, rdma=(name,)),
        names=(name, part.netdev),
    )


def _link_added(name: str, part: drill_ground.RdmaPart) -> HostCommand:
    return HostCommand(("rdma", "link", "add", name, "type", part.type, "netdev", part.netdev))


def _kernel_log_line(order: DrillOrder, functions: tuple[str, ...]) -> DrillPlan:
    if order.target not in functions:
        raise _no_target(order, functions)
    line = FATAL_LINE.format(function=order.target)
    return DrillPlan(
        kind=order.kind,
        target=order.target,
        device=order.target,
        make=(HostCommand(("tee", KERNEL_LOG), line),),
        undo=(),
        args={"function": order.target},
        names=(order.target,),
        notes=(NO_WAY_BACK,),
    )


def _no_target(order: DrillOrder, there: Iterable[str]) -> DrillRefused:
    """The clear demand: what there is to be named."""
    names = list(dict.fromkeys(there))
    more = f" and {len(names) - SHOWN_TARGETS} more" if len(names) > SHOWN_TARGETS else ""
    here = f"{', '.join(names[:SHOWN_TARGETS])}{more}" if names else "nothing that it could take"
    given = repr(order.target) if order.target else "no target"
    words = f"found {given}, wanted {FORMS[order.kind].target}; here: {here}"
    return DrillRefused(f"{order.kind}: {words}", is_use=True)


PLANS: Mapping[DrillKind, Callable[[DrillOrder, DrillGround], DrillPlan]] = {
    DrillKind.LINK_DOWN: _link_down,
    DrillKind.MODULE_UNLOADED: _module_unloaded,
    DrillKind.RDMA_LINK_REMOVED: _rdma_link_removed,
    DrillKind.ROUTE_REMOVED: _route_removed,
}
