"""The Nodes and the cluster of a fleet command, and how the command ends if it cannot look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nodeprep.cli import terminal
from nodeprep.cli.nodes import kubeconfigs
from nodeprep.cli.nodes.fleet_reader import CannotSee, Fleet, NodeSelection
from nodeprep.cli.nodes.kubeconfigs import FleetOptions
from nodeprep.cli.usage import UsageError
from nodeprep.decide import kubernetes_text
from nodeprep.doors.kube.reader import NAMESPACE
from nodeprep.pattern import Pattern
from nodeprep.values import Value, field

# A DNS label (k8s.io/apimachinery/pkg/util/validation IsDNS1123Label), as the names of namespaces are.
LABEL = Pattern(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
REPEATS_SHOWN = 3  # Nodes with a device that fails again and again
TROUBLES_SHOWN = 5  # troubles of single Nodes that are printed in full


class FleetScope(Value):
    """The options that all commands of the fleet share, as they were typed."""

    names: tuple[str, ...] = ()
    selector: str | None = None
    cluster: FleetOptions = field(default_factory=FleetOptions)
    namespace: str = NAMESPACE
    config: str | None = None

    def fleet(self, *, gpus: bool = False) -> Fleet:
        """Raises UsageError."""
        selection = NodeSelection.of(list(self.names), self.selector)
        if not LABEL.fullmatch(self.namespace):
            found = repr(self.namespace) if self.namespace else "nothing"
            raise UsageError(f"--namespace: found {found}, wanted the name of a namespace, such as {NAMESPACE}")
        return Fleet(kubeconfigs.fleet_access(self.cluster), selection, self.namespace, self.config, gpus)

    @property
    def no_node_message(self) -> str:
        """The message if no Node is selected."""
        if self.names:
            return f"no Node {kubernetes_text.few(self.names)} any more"
        return "no Nodes in this cluster" if self.selector is None else f"no Node matches --selector {self.selector!r}"


def exit_code(body: Callable[[], int]) -> int:
    """Run a command; if it cannot look, print one line on stderr and return exit code 3."""
    try:
        return body()
    except CannotSee as cannot:
        terminal.complain(str(cannot))
        return 3


def print_notes(notes: tuple[str, ...]) -> None:
    for note in notes:
        terminal.complain(note)


def effect_note(names: tuple[str, ...]) -> tuple[str, ...]:
    """A note on Nodes that the mode of their agents does not close; none without such a Node."""
    if not names:
        return ()
    few = kubernetes_text.few(names)
    return (f"{node_count(len(names))} cannot be closed, for gate.profiles names none of their profiles: {few}",)


def repeats_note(known: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """A note on Nodes with a device that fails again and again; none without such a Node."""
    told = tuple(f"{name} fails again and again: {repeats} (nodeprep history {name})" for name, repeats in known)
    more = len(told) - REPEATS_SHOWN
    return (*told[:REPEATS_SHOWN], f"so do {node_count(more)} more") if more > 0 else told


def node_count(nodes: int) -> str:
    return "1 Node" if nodes == 1 else f"{nodes} Nodes"


def print_troubles(troubles: Iterable[str]) -> int:
    """Print the first troubles of several Nodes; returns how many Nodes have one."""
    found = [one for one in troubles if one]
    print_notes(tuple(found[:TROUBLES_SHOWN]))
    if found[TROUBLES_SHOWN:]:
        terminal.complain(f"and {len(found) - TROUBLES_SHOWN} more like it")
    return len(found)
