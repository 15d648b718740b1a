"""Moments as people type them: 2026-11-28T03:12:30Z, 03:12, 2h (so long ago)."""

from __future__ import annotations

from datetime import datetime, timedelta

from nodeprep import newer_python
from nodeprep.cli import duration
from nodeprep.cli.duration import DURATION
from nodeprep.cli.usage import UsageError
from nodeprep.newer_python import UTC
from nodeprep.pattern import Pattern

DAYS = Pattern(r"(\d{1,4})d")
CLOCK = Pattern(r"\d{1,2}:\d\d(?::\d\d)?")
DAY_SECONDS = 86400.0


def seconds(option: str, given: str, now: float) -> float:
    """The moment in seconds since 1970; without a zone it is UTC, and a clock time is the last one of that kind.

    `now` is wall time. Raises UsageError.
    """
    if days := DAYS.fullmatch(given):
        return now - float(days[1]) * DAY_SECONDS
    if DURATION.fullmatch(given):
        return now - duration.seconds(option, given)
    try:
        if CLOCK.fullmatch(given):
            return _of_clock(given, now)
        found = newer_python.moment(given)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option}: found {given!r}, wanted a UTC time such as 2026-11-28T03:12:30Z or 03:12, or an age: 2h, 3d"
        ) from None


def _of_clock(given: str, now: float) -> float:
    today = datetime.fromtimestamp(now, UTC)
    hour, minute, *rest = (int(one) for one in given.split(":"))
    found = today.replace(hour=hour, minute=minute, second=rest[0] if rest else 0, microsecond=0)
    return (found if found <= today else found - timedelta(days=1)).timestamp()


def stamp(wall: float) -> str:
    """A moment for people: date and time in UTC, to the second."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock_time(wall: float) -> str:
    """The time of day in UTC, to the second."""
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M:%S")


def exact(wall: float) -> str:
    """A moment as RFC 3339 in UTC, to the hundredth of a second."""
    return f"{datetime.fromtimestamp(wall, UTC).isoformat(timespec='milliseconds').removesuffix('+00:00')[:-1]}Z"


def span(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = round(max(seconds, 0.0))
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, name in units:
        if whole >= size or (size == 1 and not parts):
            parts.append(f"{whole // size} {name}")
            whole %= size
        elif parts:
            break
    return " ".join(parts[:2])
