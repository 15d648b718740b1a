"""The program: its options, its groups of commands, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

import typer

# rich would add 50 ms to every --help, and its tracebacks do not help an operator.
app = typer.Typer(
    name="nodeprep",
    help="Proves that a node is ready for distributed training.",
    add_completion=True,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

profiles = typer.Typer(no_args_is_help=True, help="Capture, show and validate what a node should have.")
configs = typer.Typer(no_args_is_help=True, help="Show and validate configuration files.")
app.add_typer(profiles, name="profile")
app.add_typer(configs, name="config")


def run() -> int:
    """Run what the command line says; returns the exit code."""
    try:
        app(prog_name="nodeprep")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(bool(left.code))
    except OSError as error:  # --help is written before any of our commands runs
        from nodeprep.cli import terminal

        terminal.silence()
        terminal.complain(f"cannot write to stdout: {error.strerror}")
        return 2
    return 0


def end(body: Callable[[], int]) -> NoReturn:
    """Run a command's body and exit with its code; wrong use is one line on stderr and 2."""
    from nodeprep.cli import terminal
    from nodeprep.cli.usage import UsageError

    try:
        code = body()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        terminal.silence()
        code = 141  # 128 + SIGPIPE, like any program whose reader went away
    except UsageError as error:
        code = 2
        terminal.complain(str(error))
    raise typer.Exit(code)
