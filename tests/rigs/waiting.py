"""Waits for things that only need time, as long as a busy machine takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 600.0  # 3 on an idle machine; a play took 240 beside a whole run and a busy loop
# Seconds between two looks. A look may cost a process, and a thing that takes long is not urgent.
SHORTEST, LONGEST = 0.05, 0.25
T = TypeVar("T")


def until(found: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """The first true value of `found`. It looks less and less often.

    Raises:
        TimeoutError: there was none within `seconds`, nor in one last look. `what` names the thing waited for.
    """
    began = time.monotonic()
    over = False
    while not (last := found()):
        if over:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        waited = time.monotonic() - began
        time.sleep(min(LONGEST, SHORTEST + waited / 20))
        over = time.monotonic() - began > seconds  # before the last look: the machine may have stood still
    return last
