"""A request of an operator that is not possible: one line on stderr, exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(Exception):
    """Wrong use or configuration. Its text is one line with what was found and what is wanted."""


@contextmanager
def usage() -> Iterator[None]:
    """Report an operator's mistake in a file as wrong use."""
    from nodeprep.config.document import ConfigError

    try:
        yield
    except ConfigError as error:
        raise UsageError(str(error)) from error
