"""The commands that look at a node: `check`, `list`, `explain`, `snapshot`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import program
from nodeprep.cli.check.choices import CheckFormat, FailOn, ListFormat
from nodeprep.cli.options import (
    Config,
    Context,
    Force,
    HostRoot,
    Kubeconfig,
    NodeName,
    Output,
    ProfileName,
    Root,
    Settle,
)

app = program.commands()


def _complete_check(incomplete: str) -> list[str]:
    from nodeprep.checks import IDS

    return [check_id for check_id in IDS if check_id.startswith(incomplete)]


@app.command()
def check(
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="With --snapshot: more recordings, for one table.")
    ] = None,
    *,
    profile: ProfileName = None,
    root: Root = None,
    host_root: HostRoot = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="FILE", help="Judge a recorded node (`nodeprep snapshot`).")
    ] = None,
    config: Config = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Ids, families or globs to run.", autocompletion=_complete_check),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip", metavar="CHECK", help="Ids, families or globs to leave out.", autocompletion=_complete_check
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The lowest status that makes it exit with 1.")
    ] = FailOn.FAIL,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if any gate of a copy (--root) was not judged.")
    ] = False,
    settle: Settle = "1",
    output: Annotated[
        CheckFormat, typer.Option("--output", "-o", help="Output format; line: one line, junit: for CI.")
    ] = CheckFormat.TABLE,
    failing: Annotated[
        bool,
        typer.Option(
            "--failing", help="Show only what fails, warns or could not look; with -o line or many hosts, bad hosts."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing: the exit code says it.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Never use colour.")] = False,
    watch: Annotated[
        str | None, typer.Option("--watch", metavar="SECONDS", help="Look again every SECONDS, until Ctrl-C.")
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait", metavar="DURATION", help="Look again until it would exit with 0, for at most DURATION (90s, 5m)."
        ),
    ] = None,
) -> None:
    """Judge this node, a copy of one, or a recording.

    \b
    Exit codes:
      0  nothing at or above --fail-on
      1  at least one such finding
      2  wrong use or configuration
      3  no such finding, but a gate was not judged: on a live node any gate,
         on a copy (--root) a gate that the profile rests on
    \b
    A copy is never READY. --only and --skip judge a selection: PASSED, or
    NO FAULT with a warning.

    \b
    Examples:
      nodeprep check                             # this node
      nodeprep check --only port,counter.*       # two families
      nodeprep check --profile rdma-roce -o json
      nodeprep check --root /mnt/node --profile good-sibling.yaml
      nodeprep check --kubeconfig ~/.kube/config --node NODE
      nodeprep check --config - < config.yaml
      pdsh -w gpu-[1-64] nodeprep check -o line  # one line a host
      nodeprep check --snapshot gpu-*.json       # a table, and which host is unlike the others
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli.check import check_command as command
        from nodeprep.cli.kubernetes_access import ClusterOptions

        return command.run(
            command.CheckOptions(
                profile=profile,
                root=root,
                host_root=host_root,
                cluster=ClusterOptions(kubeconfig, context, node),
                snapshot=snapshot,
                more=tuple(more or ()),
                config=config,
                only=tuple(only or ()),
                skip=tuple(skip or ()),
                fail_on=fail_on,
                strict=strict,
                settle=settle,
                output=output,
                failing=failing,
                quiet=quiet,
                no_color=no_color,
                watch=watch,
                wait=wait,
            )
        )

    program.end(body)


@app.command()
def compare(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings (`nodeprep snapshot`).")],
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
) -> None:
    """Say in what recorded hosts differ: machine, kernel, firmware, rates, MTU, versions, missing devices.

    Exit code 1: they differ.
    """

    def body() -> int:
        from nodeprep.cli.check import many_command as command

        return command.compare(tuple(files), output)

    program.end(body)


@app.command("list")
def list_(
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
) -> None:
    """List the checks, in the order in which a person would look."""

    def body() -> int:
        from nodeprep.cli.check import check_sheet as command

        return command.list_all(output)

    program.end(body)


@app.command()
def explain(
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="ID|FAMILY|REASON", help="Such as port.state, port, NoSignal.", autocompletion=_complete_check
        ),
    ],
    no_color: Annotated[bool, typer.Option("--no-color", help="Never use colour.")] = False,
) -> None:
    """Say what a check asks, why, what it needs and what to do when it fails.

    Of a family it lists the checks, and of a reason the checks that say it.
    """

    def body() -> int:
        from nodeprep.cli.check import check_sheet as command

        return command.explain(wanted, no_color)

    program.end(body)


@app.command()
def snapshot(
    *,
    output: Output = None,
    profile: ProfileName = None,
    root: Root = None,
    host_root: HostRoot = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    node: NodeName = None,
    config: Config = None,
    settle: Settle = "1",
    force: Force = False,
) -> None:
    """Record everything that `check` looks at in one file, for `check --snapshot`."""

    def body() -> int:
        from nodeprep.cli.files import snapshot_command as command
        from nodeprep.cli.kubernetes_access import ClusterOptions

        cluster = ClusterOptions(kubeconfig, context, node)
        return command.run(
            output,
            root=root,
            host_root=host_root,
            cluster=cluster,
            settle=settle,
            profile=profile,
            config=config,
            force=force,
        )

    program.end(body)
