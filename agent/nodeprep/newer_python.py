"""What Python 3.11 brought and Ubuntu 22.04's 3.10 lacks. With 3.11 and later it is the standard library's own."""

from __future__ import annotations

import sys
from datetime import datetime, timezone

if sys.version_info >= (3, 11):
    from enum import StrEnum
    from typing import dataclass_transform
else:
    from collections.abc import Callable
    from enum import Enum
    from typing import Any

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """It tells type checkers something, and does nothing."""
        return lambda kind: kind

    class StrEnum(str, Enum):
        """Members are texts, and print as such."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["UTC", "StrEnum", "dataclass_transform", "moment"]

UTC = timezone.utc
FRACTION_DIGITS = 6  # of a second, which 3.10 reads; it reads 3 as well


def moment(text: str) -> datetime:
    """A time as RFC 3339 writes it. Raises ValueError."""
    if sys.version_info < (3, 11):
        text = as_older(text)
    return datetime.fromisoformat(text)


def as_older(text: str) -> str:
    """The same time as 3.10 reads it: without Z, and with six digits of a second or none."""
    if text.endswith(("Z", "z")):
        text = f"{text[:-1]}+00:00"
    head, dot, rest = text.partition(".")
    if not dot:
        return text
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{head}.{rest[:digits][:FRACTION_DIGITS].ljust(FRACTION_DIGITS, '0')}{rest[digits:]}"
