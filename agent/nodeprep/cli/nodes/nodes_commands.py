"""The commands of the fleet: `nodes` with `lint`, `release` and `reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import Format
from nodeprep.cli.program import DefaultCommand

if TYPE_CHECKING:
    from nodeprep.cli.nodes.scope import FleetScope

LIST = "list"


class Nodes(DefaultCommand):
    """`nodes NAME... --options` is `nodes list`."""

    default = LIST


nodes = program.commands(cls=Nodes, help="The fleet: list, watch, wait for, release or reset the Nodes of a cluster.")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of Nodes; by default, all.")]
Meant = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of Nodes.")]
Selector = Annotated[
    str | None, typer.Option("--selector", "-l", metavar="SELECTOR", help="Labels, as kubectl takes them: a=b,c!=d.")
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="By default KUBECONFIG, ~/.kube/config or the pod's service account."
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; by default, its current one."),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Where the agents run and keep their Leases.")
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Names of our taints and labels (gate.*); by default those of the ConfigMap that the agents mount.",
    ),
]


def where_of(
    cluster: tuple[str | None, str | None],
    namespace: str,
    config: str | None = None,
    names: list[str] | None = None,
    selector: str | None = None,
) -> FleetScope:
    """The options as they were typed; `cluster` is a kubeconfig and a context."""
    from nodeprep.cli.nodes.kubeconfigs import FleetOptions
    from nodeprep.cli.nodes.scope import FleetScope

    return FleetScope(tuple(names or ()), selector, FleetOptions(*cluster), namespace, config)


@nodes.command(LIST)
def list_(
    names: Names = None,
    *,
    selector: Selector = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Also print each change, until Ctrl-C.")] = False,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait", metavar="DURATION", help="Wait until all of them are ready, for at most DURATION (90s, 5m)."
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
    config: Config = None,
) -> None:
    """List the fleet, or Nodes by name: `nodeprep nodes` is the same.

    \b
    Exit codes:
      0  listed; with --wait: all are ready
      1  with --wait: at least one is not
      2  wrong use or configuration
      3  it could not look; with --wait: no Node is known not to be ready, but the state of one is unknown

    \b
    Commands: lint, release, reset (each with --help)

    \b
    Examples:
      nodeprep nodes -o wide
      nodeprep nodes -l pool=a100 --watch
      nodeprep nodes -l pool=a100 --wait 10m && kubectl apply -f job.yaml
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import listing as command

        where = where_of((kubeconfig, context), namespace, config, names, selector)
        return command.run(command.NodesOptions(where, output, watch, wait))

    program.end(body)


@nodes.command()
def release(
    names: Meant = None,
    *,
    selector: Selector = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All Nodes; also stop the agents, to uninstall them.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Let the agents write again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
    config: Config = None,
) -> None:
    """Remove all that nodeprep wrote from Nodes: taints, labels, conditions, annotations, Leases.

    \b
    Exit codes:
      0  nothing of ours is left on these Nodes
      1  something is left or came back
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import release as command

        where = where_of((kubeconfig, context), namespace, config, names, selector)
        return command.run(command.ReleaseOptions(where, everything, undo, dry_run))

    program.end(body)


@nodes.command()
def reset(
    names: Meant = None,
    *,
    selector: Selector = None,
    inventory: Annotated[
        bool,
        typer.Option(
            "--inventory", help="Also forget the profiles that hardware chose, and the devices that the Node had."
        ),
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the agents have done it.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for them.")] = "90s",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Make agents forget the faults of their Nodes and prove the Nodes again.

    \b
    Exit codes:
      0  done; with --no-wait: asked for
      1  an agent did not do it in time
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import reset as command

        where = where_of((kubeconfig, context), namespace, None, names, selector)
        return command.run(where, inventory=inventory, timeout=None if no_wait else timeout)

    program.end(body)


@nodes.command()
def lint(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
    config: Config = None,
) -> None:
    """List the DaemonSets that our taints would keep away, and what to paste.

    \b
    Exit codes:
      0  there are none
      1  there is at least one
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import lint as command

        return command.run(where_of((kubeconfig, context), namespace, config))

    program.end(body)
