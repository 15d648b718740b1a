"""How long this process was busy itself: it computed, or one of its threads waited for a processor.

While a device hangs, we are idle. On a node with busy processors a look may take long although all devices are good.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import get_native_id

from nodeprep.doors import clock
from nodeprep.model import Why
from nodeprep.values import Value

TASKS = "/proc/self/task"
WAITED = 1  # field of schedstat: nanoseconds on a run queue (Documentation/scheduler/sched-stats.rst)
RUNNABLE = b"R"  # the state of a thread that computes or waits for a processor (proc_pid_stat(5))


class ProcessorMoment(Value):
    """A moment. `computed` is seconds of all threads until then, `waited` nanoseconds of each thread by its number."""

    at: float
    computed: float
    waited: Mapping[str, int]


def moment(tasks: str = TASKS) -> ProcessorMoment:
    """Now. A kernel without CONFIG_SCHED_INFO does not say who waited; `waited` is empty then."""
    return ProcessorMoment(clock.now(), clock.computed(), dict(_waited(tasks)))


def busy_since(then: ProcessorMoment, tasks: str = TASKS) -> float:
    """Seconds since `then` in which a thread of ours computed or waited; at most the time that passed.

    The kernel counts a wait after its end. So if another thread of ours waits now, the whole time counts. The waits of
    threads that have ended are not counted.
    """
    return clock.now() - then.at if _another_is_runnable(tasks) else counted_since(then, tasks)


def counted_since(then: ProcessorMoment, tasks: str = TASKS) -> float:
    """As `busy_since`, without a wait that has not ended: for a thread that was itself idle until now."""
    now = moment(tasks)
    waited = sum(nanoseconds - then.waited.get(thread, 0) for thread, nanoseconds in now.waited.items())
    return min(now.at - then.at, now.computed - then.computed + waited / 1e9)


def silence(then: ProcessorMoment, deadline: float, tasks: str = TASKS) -> Why:
    """What it means that nothing answered within a deadline since `then`: BUSY if we were idle for less than half."""
    idle = clock.now() - then.at - counted_since(then, tasks)
    return Why.BUSY if idle < deadline / 2 else Why.TIMEOUT


def is_runnable(thread: int, tasks: str = TASKS) -> bool:
    """Whether this thread computes or waits for a processor, and so does not wait for a device."""
    try:
        with open(f"{tasks}/{thread}/stat", "rb") as file:
            return file.read(400).rpartition(b") ")[2][:1] == RUNNABLE
    except OSError:
        return False


def _another_is_runnable(tasks: str) -> bool:
    own = str(get_native_id())
    return any(stat.rpartition(b") ")[2][:1] == RUNNABLE for thread, stat in _read(tasks, "stat") if thread != own)


def _waited(tasks: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for thread, figures in _read(tasks, "schedstat"):
        try:
            found.append((thread, int(figures.split()[WAITED])))
        except (ValueError, IndexError):  # this kernel keeps no such figures
            continue
    return found


def _read(tasks: str, name: str) -> Iterator[tuple[str, bytes]]:
    """This file of every thread. Threads that end meanwhile are left out."""
    try:
        threads = os.listdir(tasks)
    except OSError:
        return
    for thread in threads:
        with suppress(OSError), open(f"{tasks}/{thread}/{name}", "rb") as file:
            yield thread, file.read(400)
