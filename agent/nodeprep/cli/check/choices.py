"""The words that options take. Imports nothing of ours: `--help` needs it."""

from __future__ import annotations

from nodeprep.newer_python import StrEnum


class Format(StrEnum):
    """Output formats of `nodes`: for people, for people with everything, for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class CheckFormat(StrEnum):
    """Output formats of `check`. LINE is one line a host, JUNIT is for CI systems."""

    TABLE = "table"
    WIDE = "wide"
    LINE = "line"
    JSON = "json"
    JUNIT = "junit"

    @property
    def is_for_programs(self) -> bool:
        return self in (CheckFormat.JSON, CheckFormat.JUNIT)


class ListFormat(StrEnum):
    """Output formats of `list`."""

    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    """The lowest status that makes `check` fail."""

    FAIL = "fail"
    WARN = "warn"
