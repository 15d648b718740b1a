"""Writes text to stdout without control sequences, and without a traceback if stdout cannot be written."""

from __future__ import annotations

import os
import shutil
import sys

from nodeprep.cli.usage import UsageError

PIPE_COLUMNS = 80  # columns if the width of the page is unknown
# Columns; less is not a screen. kubectl reports 1 to a container if its own terminal has no size, as in CI.
MIN_COLUMNS = 20
MAX_COLUMNS = 100  # columns; longer lines of text are hard to read


def clean(text: str) -> str:
    """Replace control characters, escape sequences and characters that hide or reorder text by visible escapes.

    Names and values come from the node. The name of a device must not control the operator's terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def width() -> int:
    shown = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if is_terminal() else PIPE_COLUMNS
    return PIPE_COLUMNS if shown < MIN_COLUMNS else min(shown, MAX_COLUMNS)


def whole_width() -> int | None:
    """Columns of the terminal, however many; None where stdout is no terminal, and lines may have any length."""
    shown = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if is_terminal() else None
    return None if shown is not None and shown < MIN_COLUMNS else shown


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def colourful(refused: bool) -> bool:
    """Whether stdout gets colour: on a terminal that is not dumb, unless `refused` or NO_COLOR (no-color.org)."""
    return not refused and is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str) -> bool:
    """Write `text` and a newline. False if nobody reads any more. Raises UsageError if it cannot be written."""
    if sys.stdout is None:  # started with stdout closed (`>&-`)
        return False
    # A character that the encoding of stdout lacks becomes an escape.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
        return False
    except OSError as error:
        silence()
        raise UsageError(f"cannot write to stdout: {error.strerror}") from error
    return True


def complain(words: str) -> None:
    """One line on stderr."""
    if sys.stderr is not None:
        print(clean(words), file=sys.stderr)


def silence() -> None:
    """Discard the rest of stdout. Otherwise the interpreter would complain about it at its end."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
