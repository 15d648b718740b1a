"""The commands that change this host, `provision` and `repair`, and those about repairs by agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.nodes import nodes_commands
from nodeprep.cli.options import Config, Context, Kubeconfig, NodeName, ProfileName
from nodeprep.cli.program import DefaultCommand
from nodeprep.cli.repair import order_commands
from nodeprep.decide.remedy_header import SafetyClass

if TYPE_CHECKING:
    from nodeprep.cli.repair.repair_command import RepairOptions

RUN = "run"


class RepairGroup(DefaultCommand):
    """`repair CHECK... --options` is `repair run`."""

    default = RUN


app = program.commands()
repairs = program.commands(
    cls=RepairGroup,
    help="Mend faults of this host by our playbooks; `repair history` shows what was done.\n\n"
    "`repair [CHECK]...` is `repair run`. `pause`, `resume` and `approve` are for the agents of a fleet.",
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and what each playbook would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the plan runs.")]
MaxClass = Annotated[
    SafetyClass,
    typer.Option(
        "--max-class",
        help="The highest safety class: S1 safe while jobs run, S2 if nobody uses the device, S3 if you approve it.",
    ),
]
WaitIdle = Annotated[
    str,
    typer.Option("--wait-idle", metavar="DURATION", help="How long to wait until nobody uses the device (90s, 5m)."),
]
Recheck = Annotated[
    str, typer.Option("--recheck", metavar="DURATION", help="How long our checks may take to pass after a playbook.")
]
ViaRemediator = Annotated[
    bool,
    typer.Option(
        "--via-remediator", help="Have this node's remediator (components/repair) run it, within its own limits."
    ),
]
NoColor = Annotated[bool, typer.Option("--no-color", help="Never use colour.")]
Checks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CHECK]...", help="Ids, families or globs to mend; by default, all that have a remedy."),
]


@app.command()
def provision(
    *,
    profile: ProfileName = None,
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    max_class: MaxClass = SafetyClass.S2,
    wait_idle: WaitIdle = "0",
    recheck: Recheck = "15",
    via_remediator: ViaRemediator = False,
    no_color: NoColor = False,
) -> None:
    """Make this host ready for a profile, by our playbooks.

    Every finding with a remedy is mended, warnings too, as one plan. Remedies run in the order in which causes come
    before what follows from them. Then it looks again, and runs what has become due. The verdict at the end is that of
    `nodeprep check`. On a ready host it does nothing, so it may run at each boot.

    \b
    Exit codes:
      0  the host is ready, or there was nothing to do
      1  something still fails, a remedy was refused, or somebody else repairs
      2  wrong use or configuration
      3  nothing was done, for it could not be proved that nobody uses the device
    \b
    Examples:
      nodeprep provision --profile rdma-roce --dry-run
      nodeprep provision --profile rdma-roce --yes
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import repair_command as command

        terms = (dry_run, yes, max_class, wait_idle, recheck, via_remediator)
        asked = _options("provision", (profile, config, no_color), (kubeconfig, context, node), terms)
        return command.run(asked)

    program.end(body)


@repairs.command(RUN)
def run(
    checks: Checks = None,
    *,
    profile: ProfileName = None,
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    max_class: MaxClass = SafetyClass.S2,
    wait_idle: WaitIdle = "0",
    recheck: Recheck = "15",
    via_remediator: ViaRemediator = False,
    no_color: NoColor = False,
) -> None:
    """Mend what these checks found on this host. `repair CHECK...` does the same.

    \b
    Commands: history, and for the agents of a fleet pause, resume, approve (each with --help)

    \b
    Exit codes:
      0  these checks pass afterwards, or there was nothing to do
      1  one of them still fails, a remedy was refused, or somebody else repairs
      2  wrong use or configuration
      3  nothing was done, for it could not be proved that nobody uses the device
    \b
    Examples:
      nodeprep repair --dry-run
      nodeprep repair port.state
      nodeprep repair limits.memlock --wait-idle 10m --yes
      nodeprep repair --via-remediator
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import repair_command as command

        terms = (dry_run, yes, max_class, wait_idle, recheck, via_remediator)
        asked = _options("repair", (profile, config, no_color), (kubeconfig, context, node), terms, checks)
        return command.run(asked)

    program.end(body)


@repairs.command()
def history(
    names: nodes_commands.Meant = None,
    *,
    fleet: Annotated[bool, typer.Option("--fleet", help="All Nodes of the cluster, and what agents say now.")] = False,
    selector: nodes_commands.Selector = None,
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
    kubeconfig: nodes_commands.Kubeconfig = None,
    context: nodes_commands.Context = None,
    namespace: nodes_commands.Namespace = "nodeprep",
) -> None:
    """What was repaired on this host, newest last; with --fleet or Nodes, what agents repaired in the cluster.

    Of a cluster it also shows what holds repairs back now: pauses, remedies that are held, slots and who has them.

    \b
    Exit codes:
      0  printed
      1  no Node matches --selector
      2  wrong use, or the history of this host cannot be read
      3  it could not look at the Nodes or the Leases
    \b
    Examples:
      nodeprep repair history
      nodeprep repair history --fleet
      nodeprep repair history gpu-17 -o json
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.repair import fleet_history_command, history_command

        where = nodes_commands.where_of((kubeconfig, context), namespace, None, names, selector)
        asked = fleet_history_command.FleetHistoryOptions(where, fleet, output)
        return history_command.run(output) if asked.is_of_host else fleet_history_command.run(asked)

    program.end(body)


for ordered in (order_commands.pause, order_commands.resume, order_commands.approve):
    repairs.command()(ordered)


def _options(
    command: str,
    look: tuple[str | None, str | None, bool],
    cluster: tuple[str | None, str | None, str | None],
    terms: tuple[bool, bool, SafetyClass, str, str, bool],
    checks: list[str] | None = None,
) -> RepairOptions:
    """What to look at and by which profile, and the terms of a repair in the order of RepairOptions."""
    from nodeprep.cli.check.check_command import CheckOptions
    from nodeprep.cli.kubernetes_access import ClusterOptions
    from nodeprep.cli.repair.repair_command import RepairOptions

    profile, config, no_color = look
    asked = CheckOptions(profile=profile, config=config, cluster=ClusterOptions(*cluster), no_color=no_color)
    return RepairOptions(command, asked, tuple(checks or ()), *terms)
