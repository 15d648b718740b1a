"""Waits for what is only a matter of time, as long as it takes on a machine that is busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 240.0  # 3 where nothing else runs
SHORTEST, LONGEST = (
    0.05,
    0.25,
)  # seconds between two looks: a look may cost a process, and what takes long is not urgent
T = TypeVar("T")


def until(found: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """The first that it finds which is true; it looks ever more seldom.

    Raises:
        TimeoutError: there was none within `seconds`, nor after them; `what` says what was waited for.
    """
    began = time.monotonic()
    over = False
    while not (last := found()):
        if over:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        waited = time.monotonic() - began
        time.sleep(min(LONGEST, SHORTEST + waited / 20))
        over = time.monotonic() - began > seconds  # before the last look: all may have stood still since the one before
    return last
