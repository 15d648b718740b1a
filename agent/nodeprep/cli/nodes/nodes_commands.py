"""The commands of the fleet: `nodes` with `lint`, `release` and `reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nodeprep.cli import program
from nodeprep.cli.check.choices import Format
from nodeprep.cli.program import app

if TYPE_CHECKING:
    from nodeprep.cli.nodes.scope import FleetScope

LIST = "list"


class Nodes(TyperGroup):
    """`nodes NAME... --options` is `nodes list`: what is no command of the group is for listing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else [LIST, *args])


nodes = typer.Typer(cls=Nodes, help="The fleet: list, watch, await, release or reset the Nodes of a cluster.")
app.add_typer(nodes, name="nodes")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Of Nodes; all if there is none.")]
Meant = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Of the Nodes that are meant.")]
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
    str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; by default, its current one.")
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Where the agents run and keep their Leases.")
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Names of our taints and labels (gate.*); by default those of the ConfigMap nodeprep-config.",
    ),
]


def _where(
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
    output: Annotated[Format, typer.Option("--output", "-o", help="How to say it.")] = Format.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="And each change of it, until Ctrl-C.")] = False,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="DURATION", help="Wait until all of them are ready, at most so long (90s, 5m)."),
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
      3  it could not look; with --wait: none is known not to be ready, but of one nobody knows

    \b
    Commands: lint, release, reset (each with --help)

    \b
    Examples:
      nodeprep nodes -o wide
      nodeprep nodes -l pool=a100 --watch
      nodeprep nodes -l pool=a100 --wait 10m && kubectl apply -f job.yaml
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import nodes_command as command

        where = _where((kubeconfig, context), namespace, config, names, selector)
        return command.run(command.NodesOptions(where, output, watch, wait))

    program.end(body)


@nodes.command()
def release(
    names: Meant = None,
    *,
    selector: Selector = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All Nodes: stop the agents too, as before they are uninstalled.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Let the agents write again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
    config: Config = None,
) -> None:
    """Take all that nodeprep wrote off Nodes: taints, labels, conditions, annotations, Leases.

    \b
    Exit codes:
      0  nothing of ours is left on them
      1  something is, or came back
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import release as command

        where = _where((kubeconfig, context), namespace, config, names, selector)
        return command.run(command.ReleaseOptions(where, everything, undo, dry_run))

    program.end(body)


@nodes.command()
def reset(
    names: Meant = None,
    *,
    selector: Selector = None,
    inventory: Annotated[
        bool, typer.Option("--inventory", help="Also what hardware chose, and which devices the Node had.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until the agents have done it.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for them.")] = "90s",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Have agents forget what they hold against their Nodes, which are proven anew.

    \b
    Exit codes:
      0  done, or with --no-wait asked for
      1  an agent has not done it in time
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import reset as command

        where = _where((kubeconfig, context), namespace, None, names, selector)
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
    """Say whom our taints would keep away: DaemonSets without a toleration, and what to paste.

    \b
    Exit codes:
      0  nobody
      1  at least one
      2  wrong use or configuration
      3  it could not look
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.nodes import lint as command

        return command.run(_where((kubeconfig, context), namespace, config))

    program.end(body)
