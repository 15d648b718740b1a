"""How much of a time this process was busy itself: it computed, or a thread of it waited for a processor.

A device that hangs leaves us idle. On a node whose processors are all taken a look may take long, and that is no fault
of what it looks at.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from nodeprep.doors import clock

TASKS = "/proc/self/task"
WAITED = 1  # which field of schedstat: nanoseconds on a run queue (Documentation/scheduler/sched-stats.rst)


@dataclass(frozen=True, slots=True)
class Moment:
    """When it was, and until then: seconds that all threads computed, nanoseconds that each waited, by its number."""

    at: float
    computed: float
    waited: Mapping[str, int]


def moment(tasks: str = TASKS) -> Moment:
    """Now. A kernel without CONFIG_SCHED_INFO does not tell who waited; then nobody did."""
    return Moment(clock.now(), clock.computed(), dict(_waited(tasks)))


def busy_since(then: Moment, tasks: str = TASKS) -> float:
    """Seconds in which some thread computed or waited, no more than went by; what ended threads waited is missed."""
    now = moment(tasks)
    waited = sum(nanoseconds - then.waited.get(thread, 0) for thread, nanoseconds in now.waited.items())
    return min(now.at - then.at, now.computed - then.computed + waited / 1e9)


def _waited(tasks: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    try:
        threads = os.listdir(tasks)
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"{tasks}/{thread}/schedstat", "rb") as file:
                found.append((thread, int(file.read(200).split()[WAITED])))
        except (OSError, ValueError, IndexError):  # it ended meanwhile, or this kernel keeps no such figures
            continue
    return found
