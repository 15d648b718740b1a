"""The commands about files that operators write: `profile` and `config`."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli import options, program
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.nodes.nodes_commands import Context, Kubeconfig, Names, Namespace, Selector
from nodeprep.cli.options import (
    Config,
    Force,
    Output,
    Root,
)

profiles = program.commands(no_args_is_help=True, help="Capture, show and validate what a node should have.")
configs = program.commands(no_args_is_help=True, help="Show and validate configuration files.")


@profiles.command("capture")
def capture(
    output: Output = None,
    root: Root = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="By default, the node's name.")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CHECK[@DEVICE]",
            help="Take the node with this finding, and name it in the profile; repeat it for others.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write what this good node has as a profile for similar nodes.

    The node is judged first. With a fault, or with a device that is worse than its likes, nothing is written.
    """

    def body() -> int:
        from nodeprep.cli.files import profile_command as command

        return command.capture(root, output, name, accept or (), force=force)

    program.end(body)


@profiles.command("list")
def list_profiles(
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
) -> None:
    """List the built-in profiles: for which jobs they are, and how many gates they have."""

    def body() -> int:
        from nodeprep.cli.files import profile_command as command

        return command.list_all(output)

    program.end(body)


@profiles.command("show")
def show_profile(
    asked: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="A built-in profile or a file.", autocompletion=options.complete_profile
        ),
    ],
) -> None:
    """Print a profile with everything that it inherits."""

    def body() -> int:
        from nodeprep.cli.files import profile_command as command

        return command.show(asked)

    program.end(body)


@profiles.command("validate")
def validate_profiles(files: Annotated[list[str], typer.Argument(metavar="FILE...")]) -> None:
    """Say whether files have valid profiles."""

    def body() -> int:
        from nodeprep.cli.files import profile_command as command

        return command.check_files(files)

    program.end(body)


@configs.command("show")
def show_config(file: Annotated[str | None, typer.Argument(metavar="[FILE]")] = None) -> None:
    """Print the configuration that `check` and the agent use."""

    def body() -> int:
        from nodeprep.cli.files import config_command as command

        return command.show(file)

    program.end(body)


@configs.command("validate")
def validate_config(file: Annotated[str, typer.Argument(metavar="FILE")]) -> None:
    """Say whether a configuration file is valid."""

    def body() -> int:
        from nodeprep.cli.files import config_command as command

        return command.validate(file)

    program.end(body)


@configs.command("try")
def try_config(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    names: Names = None,
    *,
    selector: Selector = None,
    output: Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")] = ListFormat.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = "nodeprep",
) -> None:
    """Say which nodes would change their verdict under a configuration, before it is applied. It changes nothing.

    Each agent's container runs `nodeprep check --config -` with this file and those that it names on stdin, by your own
    right to exec. Exit code 1: a node would close. 3: a node did not answer.
    """

    def body() -> int:
        from nodeprep.cli.files import config_try_command as command
        from nodeprep.cli.nodes import nodes_commands

        where = nodes_commands.where_of((kubeconfig, context), namespace, names=names, selector=selector)
        return command.run(command.TryOptions(file, where, output))

    program.end(body)


@configs.command("init")
def init_config(output: Output = None, force: Force = False) -> None:
    """Print a configuration with every key at its default, or write it to a file."""

    def body() -> int:
        from nodeprep.cli.files import config_command as command

        return command.init(output, force=force)

    program.end(body)


@configs.command("admission-policy")
def admission_policy(
    config: Config = None,
    account: Annotated[
        str | None,
        typer.Option(
            "--service-account",
            metavar="NAMESPACE:NAME",
            help="The account that they limit; by default, nodeprep:nodeprep-agent.",
        ),
    ] = None,
) -> None:
    """Print the admission policies that let the agent write only its own Node."""

    def body() -> int:
        from nodeprep.cli.files import config_command as command

        return command.admission_policy(config, account)

    program.end(body)
