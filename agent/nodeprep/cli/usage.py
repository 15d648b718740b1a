"""An operator's request that cannot be done: one line on stderr, exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(Exception):
    """Wrong use or configuration; its text is the one line that names what was found and what is wanted."""


@contextmanager
def usage() -> Iterator[None]:
    """An operator's mistake in a file is wrong use."""
    from nodeprep.config.document import ConfigError

    try:
        yield
    except ConfigError as error:
        raise UsageError(str(error)) from error
