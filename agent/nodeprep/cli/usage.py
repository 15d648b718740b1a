"""What an operator asked for cannot be done: one line on stderr, exit code 2."""

from __future__ import annotations


class UsageError(Exception):
    """Wrong use or configuration; its text is the one line that names what was found and what is wanted."""
