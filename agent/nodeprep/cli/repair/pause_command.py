"""`nodeprep repair pause`: agents begin no repair on these Nodes, or in the whole fleet, until a time or a resume."""

from __future__ import annotations

from nodeprep.cli import terminal
from nodeprep.cli.nodes import scope
from nodeprep.cli.nodes.fleet_reader import Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.repair import fleet_orders
from nodeprep.cli.usage import UsageError
from nodeprep.decide import repair_orders
from nodeprep.values import Value, field

ENDS = "a play that runs goes on to its end"


class PauseOptions(Value):
    """The options of `repair pause`, as they were typed. `lasts` is None without --for."""

    where: FleetScope = field(default_factory=FleetScope)
    reason: str = ""
    lasts: str | None = None
    everything: bool = False
    dry_run: bool = False


def run(asked: PauseOptions) -> int:
    """Pause; returns the exit code. Raises UsageError."""
    named = bool(asked.where.names) or asked.where.selector is not None
    if named == asked.everything:
        found = "both" if named else "neither"
        raise UsageError(f"repair pause: found {found}, wanted Nodes (by name or --selector) or --all")
    wrong = repair_orders.unusable_reason(asked.reason)
    if wrong:
        raise UsageError(f"--reason: {wrong}")
    seconds = None if asked.lasts is None else fleet_orders.lasting(asked.lasts)
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: (_pause_fleet if asked.everything else _pause_nodes)(fleet, asked, seconds))


def _pause_fleet(fleet: Fleet, asked: PauseOptions, seconds: float | None) -> int:
    listed = fleet_orders.leases(fleet)
    if listed.orders is None:
        terminal.complain(fleet_orders.no_fleet_message(fleet))
        return 1
    text = _text(asked, listed.now, seconds)
    ends = "" if seconds is not None else "; nodeprep repair resume --all ends it"
    before = _before(listed.orders.get(repair_orders.PAUSE, ""), text)
    says = f"{fleet_orders.WHOLE_FLEET}: paused {fleet_orders.words(text)}{ends}{before}; {ENDS}"
    return 0 if fleet_orders.write_to_fleet(fleet, repair_orders.PAUSE, text, says, dry_run=asked.dry_run) else 1


def _pause_nodes(fleet: Fleet, asked: PauseOptions, seconds: float | None) -> int:
    found = fleet_orders.nodes(fleet)
    if not found.annotations:
        terminal.complain(asked.where.no_node_message)
        return 1
    text = _text(asked, found.now, seconds)

    def says(name: str) -> str:
        ends = "" if seconds is not None else f"; nodeprep repair resume {name} ends it"
        before = _before(found.annotations[name].get(repair_orders.PAUSE, ""), text)
        return f"paused {fleet_orders.words(text)}{ends}{before}; {ENDS}"

    orders: dict[str, str | None] = dict.fromkeys(sorted(found.annotations), text)
    return 1 if fleet_orders.write_to_nodes(fleet, orders, repair_orders.PAUSE, says, dry_run=asked.dry_run) else 0


def _text(asked: PauseOptions, now: float, seconds: float | None) -> str:
    return repair_orders.pause_text(asked.reason, None if seconds is None else now + seconds)


def _before(there: str, text: str) -> str:
    return f"; before: {fleet_orders.words(there)}" if there and there != text else ""
