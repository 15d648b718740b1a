"""The words that options take. Imports nothing of ours: `--help` needs it."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How `check` says it: for people, for people with every finding, for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class ListFormat(StrEnum):
    """How `list` says it."""

    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    """The least that makes `check` fail."""

    FAIL = "fail"
    WARN = "warn"
