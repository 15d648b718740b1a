"""The commands and their options. Each imports what it needs when it runs: `--help` has 60 ms (design 7)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from nodeprep.cli.choices import FailOn, Format, ListFormat
from nodeprep.cli.options import (
    Config,
    Context,
    HostRoot,
    Kubeconfig,
    NodeName,
    Output,
    ProfileName,
    Root,
    Settle,
)

# rich would add 50 ms to every --help, and its tracebacks are no message for an operator.
app = typer.Typer(
    name="nodeprep",
    help="Proves that a node is ready for distributed training.",
    add_completion=True,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

profiles = typer.Typer(no_args_is_help=True, help="Capture, show and validate what a node ought to have.")
configs = typer.Typer(no_args_is_help=True, help="Show and validate configuration files.")
app.add_typer(profiles, name="profile")
app.add_typer(configs, name="config")


def run() -> int:
    """Run what the command line says; returns the exit code."""
    try:
        app(prog_name="nodeprep")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except OSError as error:  # --help is written before any of our commands runs
        from nodeprep.cli import output

        output.silence()
        output.complain(f"cannot write to stdout: {error.strerror}")
        return 2
    return 0


def _end(body: Callable[[], int]) -> NoReturn:
    """Run a command's body and exit with its code; wrong use is one line on stderr and 2."""
    from nodeprep.cli import output
    from nodeprep.cli.usage import UsageError

    try:
        code = body()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        output.silence()
        code = 141  # 128 + SIGPIPE, as for any program whose reader went away
    except UsageError as error:
        code = 2
        output.complain(str(error))
    raise typer.Exit(code)


def _complete_check(incomplete: str) -> list[str]:
    from nodeprep.checks import ALL

    return [check.id for check in ALL if check.id.startswith(incomplete)]


@app.command()
def check(
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
        typer.Option("--only", metavar="CHECK", help="Ids, families or globs.", autocompletion=_complete_check),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="CHECK", help="The same, to leave out.", autocompletion=_complete_check),
    ] = None,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="The least that makes it exit with 1.")] = FailOn.FAIL,
    settle: Settle = "1",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to say it.")] = Format.TABLE,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour on a terminal either.")] = False,
    watch: Annotated[
        str | None, typer.Option("--watch", metavar="SECONDS", help="Look again that often, until Ctrl-C.")
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="DURATION", help="Look again until it exits with 0, at most so long (90s, 5m)."),
    ] = None,
) -> None:
    """Judge this node, a copy of one, or a recording.

    \b
    Exit codes:
      0  nothing at or above --fail-on
      1  at least one such finding
      2  wrong use or configuration
      3  no such finding, but a check that may close the gate could not look

    \b
    Examples:
      nodeprep check                             # this node
      nodeprep check --only port,counter.*       # two families
      nodeprep check --profile rdma-roce -o json
      nodeprep check --root /mnt/node --profile good-sibling.yaml
      nodeprep check --kubeconfig ~/.kube/config --node NODE
    """  # noqa: D301 - the help reads the character \b, not its escape

    def body() -> int:
        from nodeprep.cli import check as command
        from nodeprep.cli.kubernetes_access import ClusterOptions

        return command.run(
            command.Asked(
                profile=profile,
                root=root,
                host_root=host_root,
                cluster=ClusterOptions(kubeconfig, context, node),
                snapshot=snapshot,
                config=config,
                only=tuple(only or ()),
                skip=tuple(skip or ()),
                fail_on=fail_on,
                settle=settle,
                output=output,
                no_color=no_color,
                watch=watch,
                wait=wait,
            )
        )

    _end(body)


@app.command("list")
def list_(
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="How to say it.")] = ListFormat.TABLE,
) -> None:
    """List the checks, in the order in which a person would look."""

    def body() -> int:
        from nodeprep.cli import describe

        return describe.list_all(output)

    _end(body)


@app.command()
def explain(
    check_id: Annotated[str, typer.Argument(metavar="ID", help="Such as port.state.", autocompletion=_complete_check)],
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour on a terminal either.")] = False,
) -> None:
    """Say what a check asks, why, what it needs and what to do when it fails."""

    def body() -> int:
        from nodeprep.cli import describe

        return describe.explain(check_id, no_color)

    _end(body)


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
) -> None:
    """Record all that `check` looks at in one file, for `check --snapshot`."""

    def body() -> int:
        from nodeprep.cli import snapshot as command
        from nodeprep.cli.kubernetes_access import ClusterOptions

        cluster = ClusterOptions(kubeconfig, context, node)
        return command.run(
            output, root=root, host_root=host_root, cluster=cluster, settle=settle, profile=profile, config=config
        )

    _end(body)


@profiles.command("capture")
def capture(
    output: Output = None,
    root: Root = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="By default, the node's name.")] = None,
) -> None:
    """Write down what this good node has, as the profile that its siblings are held against."""

    def body() -> int:
        from nodeprep.cli import profile as command

        return command.capture(root, output, name)

    _end(body)


@profiles.command("show")
def show_profile(
    asked: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A built-in profile or a file.")],
) -> None:
    """Print a profile with all that it extends."""

    def body() -> int:
        from nodeprep.cli import profile as command

        return command.show(asked)

    _end(body)


@profiles.command("validate")
def validate_profiles(files: Annotated[list[str], typer.Argument(metavar="FILE...")]) -> None:
    """Say whether files hold sound profiles."""

    def body() -> int:
        from nodeprep.cli import profile as command

        return command.check_files(files)

    _end(body)


@configs.command("show")
def show_config(file: Annotated[str | None, typer.Argument(metavar="[FILE]")] = None) -> None:
    """Print the configuration that `check` uses."""

    def body() -> int:
        from nodeprep.cli import config as command

        return command.show(file)

    _end(body)


@configs.command("validate")
def validate_config(file: Annotated[str, typer.Argument(metavar="FILE")]) -> None:
    """Say whether a configuration file is sound."""

    def body() -> int:
        from nodeprep.cli import config as command

        return command.validate(file)

    _end(body)


@app.command()
def version() -> None:
    """Print the version."""

    def body() -> int:
        from nodeprep import __version__
        from nodeprep.cli import output

        output.put(f"nodeprep {__version__}")
        return 0

    _end(body)
