"""`nodeprep repair history --fleet`: what agents repaired and say now, as Nodes and Leases tell it."""

from __future__ import annotations

import json

from nodeprep.cli import terminal
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.nodes import scope
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet
from nodeprep.cli.nodes.scope import FleetScope
from nodeprep.cli.repair import fleet_history, fleet_orders
from nodeprep.cli.repair.fleet_history import FleetRepairs
from nodeprep.cli.usage import UsageError
from nodeprep.values import Value, field


class FleetHistoryOptions(Value):
    """The options of `repair history`, as they were typed. `whole` is --fleet."""

    where: FleetScope = field(default_factory=FleetScope)
    whole: bool = False
    output: ListFormat = ListFormat.TABLE

    @property
    def is_of_host(self) -> bool:
        """Whether it is about this host, and no cluster. Raises UsageError for options that contradict each other."""
        chosen = bool(self.where.names) or self.where.selector is not None
        if chosen and self.whole:
            raise UsageError("repair history: found both --fleet and Nodes, wanted one of them")
        cluster = {"--kubeconfig": self.where.cluster.kubeconfig, "--context": self.where.cluster.context}
        found = [option for option, given in cluster.items() if given is not None]
        if found and not (chosen or self.whole):
            raise UsageError(f"repair history: found {found[0]}, wanted --fleet or Nodes with it")
        return not (chosen or self.whole)


def run(asked: FleetHistoryOptions) -> int:
    """Print it; returns the exit code. Raises UsageError."""
    fleet = asked.where.fleet()
    return scope.exit_code(lambda: _show(fleet, asked))


def _show(fleet: Fleet, asked: FleetHistoryOptions) -> int:
    found = fleet_orders.nodes(fleet)
    if not found.annotations and asked.where.selector is not None:
        terminal.complain(asked.where.no_node_message)
        return 1
    leases, trouble = None, ""
    try:
        leases = fleet_orders.leases(fleet).leases
    except CannotSee as cannot:
        trouble = str(cannot)
    told = FleetRepairs(found.now, found.annotations, leases, named=not asked.whole)
    if asked.output is ListFormat.JSON:
        terminal.put(json.dumps(fleet_history.document(told), indent=2, sort_keys=True))
    else:
        terminal.put("\n".join(fleet_history.lines(told, terminal.whole_width())))
    scope.print_troubles([*told.troubles, trouble])
    return 3 if trouble else 0
