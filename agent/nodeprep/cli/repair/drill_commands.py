"""The commands of drills: `drill NAME TARGET`, `drill list`, `drill stop`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.options import Config, Context, Kubeconfig, NodeName, ProfileName
from nodeprep.cli.program import DefaultCommand
from nodeprep.decide.drill_kinds import DrillKind

RUN = "run"


class DrillGroup(DefaultCommand):
    """`drill NAME TARGET --options` is `drill run`."""

    default = RUN


drills = program.commands(
    cls=DrillGroup,
    help="Make a fault of this host on purpose, watch until it is seen, and undo it.\n\n"
    "`drill NAME TARGET` is `drill run`.",
)


@drills.command(RUN)
def run(
    name: Annotated[DrillKind, typer.Argument(metavar="NAME", help="A drill of `nodeprep drill list`.")],
    target: Annotated[str, typer.Argument(metavar="[TARGET]", help="The device, module or route.")] = "",
    *,
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Table of the route.")] = "main",
    deadline: Annotated[
        str, typer.Option("--deadline", metavar="DURATION", help="When it is undone at the latest (at most 1h).")
    ] = "5m",
    hold: Annotated[
        bool, typer.Option("--hold", help="Do not end when it is seen, but at Ctrl-C, `drill stop` or the deadline.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the fault is made.")] = False,
    profile: ProfileName = None,
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Never use colour.")] = False,
) -> None:
    """Make one fault, watch until nodeprep sees it, and undo it. `drill NAME TARGET` does the same.

    Nobody may use the device, and no option overrides that. The agent is told first: findings, Events, metrics and
    alerts say that it is a drill. A process of its own undoes the fault when the command ends, at the deadline, and
    when the command is killed.

    \b
    Exit codes:
      0  nodeprep saw the fault, and the state is as before
      1  it was not seen, was refused, or is not undone: the last lines say what to run
      2  wrong use or configuration
      3  nothing was done, for it could not be proved that nobody uses the device
      130  interrupted, and undone
    \b
    Examples:
      nodeprep drill link-down eth1
      nodeprep drill route-removed default --table 1003 --hold
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.check.check_command import CheckOptions
        from nodeprep.cli.kubernetes_access import ClusterOptions
        from nodeprep.cli.repair import drill_command as command
        from nodeprep.decide.drill_plan import DrillOrder

        cluster = ClusterOptions(kubeconfig, context, node)
        check = CheckOptions(profile=profile, config=config, cluster=cluster, no_color=no_color)
        return command.run(command.DrillOptions(DrillOrder(name, target, table), check, deadline, hold=hold, yes=yes))

    program.end(body)


@drills.command("list")
def listed(
    *, output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE
) -> None:
    """The drills that there are, and the one that runs."""

    def body() -> int:
        from nodeprep.cli.repair import drill_list_command as command

        return command.run(output)

    program.end(body)


@drills.command()
def stop() -> None:
    """End the drill that runs, and wait until it is undone. Also undoes one that was left behind."""

    def body() -> int:
        from nodeprep.cli.repair import drill_stop_command as command

        return command.run()

    program.end(body)
