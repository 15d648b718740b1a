"""Durations as people type them: 90, 90s, 5m, 1h, 0.5."""

from __future__ import annotations

import re

from nodeprep.cli.usage import UsageError
from nodeprep.pattern import Pattern

DURATION = Pattern(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)?", re.ASCII)
UNITS = {None: 1, "s": 1, "m": 60, "h": 3600}


def seconds(option: str, given: str) -> float:
    """Raises UsageError for an invalid duration."""
    match = DURATION.fullmatch(given)
    if match is None:
        raise UsageError(f"{option}: found {given!r}, wanted seconds, or a number with s, m or h such as 90s or 5m")
    return float(match[1]) * UNITS[match[2]]
