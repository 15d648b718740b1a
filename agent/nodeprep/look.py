"""A look at a node as a value: the facts of one moment by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from nodeprep.values import Value

T = TypeVar("T")


class Look(Value):
    """The facts of one look by kind, an Unreadable for a fact that failed. `at` is in CLOCK_BOOTTIME seconds."""

    at: float
    live: bool
    facts: Mapping[type, object]

    def get(self, kind: type[T]) -> T | None:
        value = self.facts.get(kind)
        return value if isinstance(value, kind) else None
