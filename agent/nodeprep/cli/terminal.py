"""Puts text on stdout: without control sequences, and without a traceback when stdout cannot be written."""

from __future__ import annotations

import os
import shutil
import sys

from nodeprep.cli.usage import UsageError

PIPE_COLUMNS = 80  # columns if the width of the page is unknown
# Columns; less is not a screen: kubectl says 1 to a container where its own terminal has no size, as those of CI do.
MIN_COLUMNS = 20
MAX_COLUMNS = 100  # columns; longer lines of prose are hard to read on any screen


def clean(text: str) -> str:
    """Replace control characters, escape sequences and characters that hide or reorder text by visible escapes.

    Names and values come from the node: a device name must not control the operator's terminal.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def width() -> int:
    shown = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if is_terminal() else PIPE_COLUMNS
    return PIPE_COLUMNS if shown < MIN_COLUMNS else min(shown, MAX_COLUMNS)


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def colourful(refused: bool) -> bool:
    """Whether stdout gets colour: a terminal, unless refused here, by NO_COLOR (no-color.org) or by a dumb terminal."""
    return not refused and is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str) -> bool:
    """Write `text` and a newline; False if nobody reads any more. Raises UsageError if it cannot be stored."""
    if sys.stdout is None:  # started with stdout closed (`>&-`)
        return False
    # A character that stdout's encoding lacks becomes its escape; the process owns its text from here on.
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
    """Discard the rest of stdout, or the interpreter would complain about it when it ends."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
