"""How commands are made, run and ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer


def commands(*, add_completion: bool = False, **settings: Any) -> typer.Typer:
    """A Typer without rich, which would add 50 ms to every --help. Its tracebacks do not help an operator either."""
    return typer.Typer(add_completion=add_completion, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def run(app: typer.Typer) -> int:
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
    """Run the body of a command and exit with its code. Wrong use is one line on stderr and code 2."""
    from nodeprep.cli import terminal
    from nodeprep.cli.usage import UsageError

    try:
        code = body()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        terminal.silence()
        code = 141  # 128 + SIGPIPE, like any program whose reader has gone
    except UsageError as error:
        code = 2
        terminal.complain(str(error))
    raise typer.Exit(code)
