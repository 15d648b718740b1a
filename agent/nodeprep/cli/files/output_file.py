"""The file of `-o FILE`: a file that is there is replaced only with --force."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from nodeprep.cli import terminal
from nodeprep.cli.usage import UsageError

# Our own open files by name. A shell that redirects stdout has made a regular file of it for us.
OWN_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def refuse_existing(output: str | None, *, force: bool) -> None:
    """Raise UsageError if `output` is a regular file, unless `force`. Devices and pipes are written to."""
    if output is not None and not force and _is_kept(output):
        raise _exists(output)


def write(text: str, output: str | None, *, force: bool = False, private: bool = False) -> None:
    """To a file, or to stdout if no file is named. A `private` file is its owner's alone (0600). Raises UsageError."""
    if output is None:
        if sys.stdout is None:
            raise UsageError("stdout is closed; -o FILE names a file")
        terminal.put(text.rstrip("\n"))
        return
    refuse_existing(output, force=force)
    try:
        is_new = not force and not Path(output).exists()
        with open(output, "x" if is_new else "w", encoding="utf-8", opener=_private if private else None) as file:
            file.write(text)
    except FileExistsError:
        raise _exists(output) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {output!r}: {getattr(error, 'strerror', error)}") from error


def _is_kept(output: str) -> bool:
    if output.startswith(OWN_STREAMS):
        return False
    return os.path.isfile(output)  # noqa: PTH113 - Path.is_file raises where a directory above may not be entered


def _exists(output: str) -> UsageError:
    return UsageError(f"{output}: it exists already, and nothing is overwritten without --force")


def _private(path: str, flags: int) -> int:
    """Open a file for its owner alone, whoever could read it before. Anything else, such as a pipe, stays as it is."""
    opened = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        os.fchmod(opened, 0o600)
    return opened
