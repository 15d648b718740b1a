"""The date in a header of HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from nodeprep.pattern import Pattern

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DATE = Pattern(r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT", re.ASCII)


def http_date(value: str) -> float | None:
    """Seconds since 1970 by a date as servers must send it (IMF-fixdate, RFC 9110, 5.6.7); None for anything else."""
    found = DATE.fullmatch(value)
    if found is None or found[2] not in MONTHS:
        return None
    day, year, hour, minute, second = (int(found[group]) for group in (1, 3, 4, 5, 6))
    try:
        return datetime(year, MONTHS.index(found[2]) + 1, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except ValueError:
        return None
