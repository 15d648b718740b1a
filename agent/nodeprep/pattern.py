"""Regular expressions that are compiled at their first use. To compile all sixty takes 6 ms of each start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")

if TYPE_CHECKING:
    Pattern = re.compile
else:

    class Pattern:
        """The result of `re.compile`, with the methods in METHODS."""

        __slots__ = ("flags", "pattern", *METHODS)

        def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
            self.pattern = pattern
            self.flags = flags

        def __getattr__(self, name: str) -> Any:  # Python asks it for a slot that is empty
            if name not in METHODS:
                raise AttributeError(name)
            compiled = re.compile(self.pattern, self.flags)
            for method in METHODS:
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
