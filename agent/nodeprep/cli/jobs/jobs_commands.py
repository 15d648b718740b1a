"""The command for who submits jobs: `preflight`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import Format
from nodeprep.cli.nodes import nodes_commands
from nodeprep.cli.nodes.nodes_commands import Config, Context, Kubeconfig

app = program.commands()


@app.command()
def preflight(
    file: Annotated[
        str, typer.Option("--filename", "-f", metavar="FILE", help="The manifest of the job; - reads stdin.")
    ],
    *,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="DURATION", help="Wait until it can start, for at most DURATION (90s, 10m)."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Of objects in FILE that name none.")
    ] = "default",
    agents: Annotated[
        str, typer.Option("--agents-namespace", metavar="NAME", help="Where the agents run and keep their Leases.")
    ] = "nodeprep",
    config: Config = None,
) -> None:
    """Say whether a job can start now, and if not, what keeps it from each node.

    \b
    Exit codes:
      0  it can start
      1  it cannot
      2  the manifest or the use is wrong
      3  it could not look, or the answer rests on something that it does not judge (it lists what)

    \b
    Examples:
      nodeprep preflight -f job.yaml
      nodeprep preflight -f job.yaml --wait 10m && kubectl apply -f job.yaml
      kubectl kustomize . | nodeprep preflight -f - -o json
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.jobs import preflight_command as command

        where = nodes_commands.where_of((kubeconfig, context), agents, config)
        return command.run(command.PreflightOptions(file, where, output, wait, namespace))

    program.end(body)
