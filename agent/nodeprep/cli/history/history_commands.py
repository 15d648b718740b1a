"""The commands about what was: `history`, and `why` a job ended."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import Format, ListFormat
from nodeprep.cli.nodes.nodes_commands import Context, Kubeconfig, Namespace
from nodeprep.cli.options import HostRoot

app = program.commands()


@app.command()
def history(
    *,
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="A Node of the cluster, by its agent; by default, this host.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Was it ready then? Exit code 0 ready, 1 not ready, 3 nobody knows."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="A time (UTC), or how long ago: 90m, 2h, 3d.")
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="GLOB", help="By name or PCI address.")] = "*",
    check: Annotated[str, typer.Option("--check", metavar="GLOB", help="By id.")] = "*",
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Output format; wide: each record on a line of its own.")
    ] = Format.TABLE,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="FILE", help="The last records that a snapshot took with it.")
    ] = None,
    host_root: HostRoot = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Say what happened to a node, and whether it was ready at a time.

    By the record that its agent keeps: faults, gates, repairs, configurations, restarts.
    """

    def body() -> int:
        from nodeprep.cli.history import history_command as command
        from nodeprep.cli.nodes.kubeconfigs import FleetOptions
        from nodeprep.cli.nodes.scope import FleetScope

        where = FleetScope((node,) if node else (), None, FleetOptions(kubeconfig, context), namespace)
        asked = command.HistoryOptions(where, host_root, since, at, device, check, output, snapshot)
        return command.run(asked)

    program.end(body)


@app.command()
def why(
    *,
    what: Annotated[str, typer.Argument(metavar="POD|job/NAME", help="A pod, or all pods of a job by its name.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Where the pod or job is.")] = (
        "default"
    ),
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    agents: Annotated[
        str, typer.Option("--agents-namespace", metavar="NAME", help="Where nodeprep's agents run.")
    ] = "nodeprep",
) -> None:
    """Say what happened on the nodes of a job when its pods ended.

    It says what coincides, and not what caused it.
    """

    def body() -> int:
        from nodeprep.cli.history import why_command as command
        from nodeprep.cli.nodes.kubeconfigs import FleetOptions

        asked = command.WhyOptions(what, namespace, FleetOptions(kubeconfig, context), agents, output)
        return command.run(asked)

    program.end(body)
