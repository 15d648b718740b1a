"""What Python 3.11 brought and Ubuntu 22.04's 3.10 lacks. With 3.11 and later it is the standard library's own."""

from __future__ import annotations

import sys
from datetime import datetime, timezone

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Members are texts, and print as such."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["UTC", "StrEnum", "moment"]

UTC = timezone.utc  # noqa: UP017 - datetime.UTC came with 3.11
FRACTION_DIGITS = 6  # of a second, which 3.10 reads; it reads 3 as well


def moment(text: str) -> datetime:
    """A time as RFC 3339 writes it. Raises ValueError."""
    if sys.version_info >= (3, 11):
        return datetime.fromisoformat(text)
    if text.endswith(("Z", "z")):
        text = f"{text[:-1]}+00:00"
    head, dot, rest = text.partition(".")
    if dot:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        text = f"{head}.{rest[:digits][:FRACTION_DIGITS].ljust(FRACTION_DIGITS, '0')}{rest[digits:]}"
    return datetime.fromisoformat(text)
