"""`nodeprep repair approve`: lets a remedy of class S3 run once on each of these Nodes, before a time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nodeprep.cli import terminal
from nodeprep.cli.nodes import scope
from nodeprep.cli.nodes.fleet_reader import Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.repair import fleet_orders
from nodeprep.cli.usage import UsageError
from nodeprep.config import remedy_files
from nodeprep.config.document import ConfigError
from nodeprep.decide import repair_orders, repair_plan
from nodeprep.values import Value, field


class ApproveOptions(Value):
    """The options of `repair approve`, as they were typed."""

    remedy: str
    where: FleetScope = field(default_factory=FleetScope)
    lasts: str = "1h"
    dry_run: bool = False


def run(asked: ApproveOptions) -> int:
    """Approve; returns the exit code. Raises UsageError."""
    try:
        wrong = repair_plan.unapprovable(asked.remedy, remedy_files.headers())
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if wrong:
        raise UsageError(f"repair approve: {wrong}")
    seconds = fleet_orders.lasting(asked.lasts, repair_orders.APPROVAL_LIMIT_SECONDS)
    if not asked.where.names:
        raise UsageError("repair approve: found no Node, wanted some by name")
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: _approve(fleet, asked, seconds))


def _approve(fleet: Fleet, asked: ApproveOptions, seconds: float) -> int:
    found = fleet_orders.nodes(fleet)
    ends = {name: _end(found.annotations[name], found.now + seconds) for name in sorted(found.annotations)}
    late = next((name for name, end in ends.items() if end > found.now + repair_orders.APPROVAL_LIMIT_SECONDS), "")
    if late:
        used = terminal.clean(found.annotations[late].get(repair_orders.APPROVED, ""))
        raise UsageError(f"repair approve: {late}: {used!r} was used there, and one that ends later is for over 7 days")
    orders: dict[str, str | None] = {name: repair_orders.approval_text(asked.remedy, end) for name, end in ends.items()}

    def says(name: str) -> str:
        before = found.annotations[name].get(repair_orders.APPROVE, "")
        gone = f"; it takes the place of {terminal.clean(before)!r}" if before and before != orders[name] else ""
        return f"{asked.remedy} is approved until {repair_orders.time_text(ends[name])}, for one run{gone}"

    failed = fleet_orders.write_to_nodes(fleet, orders, repair_orders.APPROVE, says, dry_run=asked.dry_run)
    if asked.dry_run or failed == len(orders):
        return 1 if failed else 0
    terminal.put(
        f"it runs where a fault asks for it, the mode is repair, and the remediator's manifest names it:"
        f" --allow-s3={asked.remedy} (components/repair/remediator.yaml)"
    )
    return 1 if failed else 0


def _end(annotations: Mapping[str, str], wanted: float) -> float:
    """When the approval of a Node ends: later than the last that was used there, or it would count as that one."""
    used = repair_orders.approval(annotations.get(repair_orders.APPROVED, ""))
    return wanted if used is None else max(wanted, math.floor(used.until) + 1.0)
