"""Which Nodes of which cluster a command of the fleet is about, and how it ends where nothing can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nodeprep.cli import output
from nodeprep.cli.kubeconfigs import FleetOptions, fleet_access
from nodeprep.cli.nodes_reading import CannotSee, Fleet, Selection
from nodeprep.doors.kube import NAMESPACE

SHOWN = 5  # troubles of single Nodes that are told in full


@dataclass(frozen=True, slots=True)
class Where:
    """The options that all commands of the fleet share, as they were typed."""

    names: tuple[str, ...] = ()
    selector: str | None = None
    cluster: FleetOptions = field(default_factory=FleetOptions)
    namespace: str = NAMESPACE
    config: str | None = None

    def fleet(self, *, gpus: bool = False) -> Fleet:
        """Raises UsageError."""
        selection = Selection.of(list(self.names), self.selector)
        return Fleet(fleet_access(self.cluster), selection, self.namespace, self.config, gpus)

    @property
    def nobody(self) -> str:
        """What to say where no Node is meant."""
        return "no Nodes in this cluster" if self.selector is None else f"no Node fits --selector {self.selector!r}"


def seen(body: Callable[[], int]) -> int:
    """Run a command; where nothing can be seen, one line on stderr and exit code 3."""
    try:
        return body()
    except CannotSee as cannot:
        output.complain(str(cannot))
        return 3


def say(notes: tuple[str, ...]) -> None:
    for note in notes:
        output.complain(note)


def number(nodes: int) -> str:
    return "1 Node" if nodes == 1 else f"{nodes} Nodes"


def say_few(troubles: Iterable[str]) -> int:
    """What went wrong on several Nodes, the first of it; how many they are."""
    found = [one for one in troubles if one]
    say(tuple(found[:SHOWN]))
    if found[SHOWN:]:
        output.complain(f"and {len(found) - SHOWN} more like it")
    return len(found)
