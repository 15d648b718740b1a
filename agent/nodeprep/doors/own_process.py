"""Our own container: its limit of locked memory, and when it was made."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

from nodeprep.doors import clock
from nodeprep.doors.files import mount_table
from nodeprep.doors.files.mount_table import OWN, MountRow
from nodeprep.values import Value

FIRST = "/proc/1/stat"  # the first process of our PID namespace started with the container
STARTED = 19  # index after the name of the start time, in clock ticks since boot (proc_pid_stat(5), field 22)


class OwnMemlock(Value):
    """Bytes of memory that we may lock; None means unlimited.

    Every process of the container gets the same answer: the runtime starts them all with one limit. `made` is when our
    container was made, in UTC to the minute. `roots` are the places where the runtime mounted our "/" on the host.
    """

    soft: int | None
    hard: int | None
    made: str
    roots: tuple[str, ...]


def memlock(hosts: Iterable[MountRow]) -> OwnMemlock:
    """What we may lock; `hosts` is the mount table of the host. Raises OSError."""
    soft, hard = (_bytes(limit) for limit in resource.getrlimit(resource.RLIMIT_MEMLOCK))
    return OwnMemlock(soft, hard, _made(Path(FIRST).read_text(encoding="utf-8", errors="replace")), _roots(hosts))


def _bytes(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _roots(hosts: Iterable[MountRow]) -> tuple[str, ...]:
    ours = mount_table.topmost(mount_table.rows(Path(OWN).read_bytes()), "/")
    return tuple(row.point for row in hosts if ours is not None and row.device == ours.device)


def _made(stat: str) -> str:
    ticks = int(stat.rpartition(")")[2].split()[STARTED])
    return clock.utc_minute(clock.wall() - (clock.now() - ticks / os.sysconf("SC_CLK_TCK")))
