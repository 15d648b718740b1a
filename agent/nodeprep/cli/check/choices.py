"""The words that options take. Imports nothing of ours: `--help` needs it."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats of `check`: for people, for people with every finding, for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class ListFormat(StrEnum):
    """Output formats of `list`."""

    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    """The lowest status that makes `check` fail."""

    FAIL = "fail"
    WARN = "warn"
