"""How commands are made, run and ended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

# click's UsageError, which typer names by its parts alone: an option, argument or command that cannot be meant.
WRONG_USE: Any = typer.BadParameter.__base__


class DefaultCommand(TyperGroup):
    """A group that is also a command: an argument that is not a command of the group is for its default one."""

    default = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else [self.default, *args])


def commands(*, add_completion: bool = False, **settings: Any) -> typer.Typer:
    """A Typer without rich, which would add 50 ms to every --help. Its tracebacks do not help an operator either."""
    return typer.Typer(add_completion=add_completion, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def run(app: typer.Typer) -> int:
    """Run what the command line says; returns the exit code."""
    try:
        return app(prog_name="nodeprep", standalone_mode=False) or 0
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(bool(left.code))
    except WRONG_USE as error:
        _refuse(error)
        return 2
    except OSError as error:  # --help is written before any of our commands runs
        from nodeprep.cli import terminal

        terminal.silence()
        terminal.complain(f"cannot write to stdout: {error.strerror}")
        return 2


def _refuse(error: Any) -> None:
    """One line on stderr; the help of a group that was called without a command."""
    from nodeprep.cli import terminal

    if type(error).show is not WRONG_USE.show:
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "nodeprep"
    message = error.format_message().rstrip(".?")
    terminal.complain(f"{command}: {message[:1].lower()}{message[1:]}; see {command} --help")


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
