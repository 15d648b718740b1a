"""The processes below this one, and the end of all of them. Who leaves his session or his parent stays below.

For a process that does nothing else: it reaps every child, so no Popen of it may wait.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from nodeprep.doors import clock

PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
PAUSE = 0.005  # seconds between two looks at processes that were told to end
UNLISTED = (FileNotFoundError, ProcessLookupError)  # a process that ended while it was read


def adopt() -> None:
    """Become the parent of every descendant whose own parent ends. Raises OSError, also where the kernel lists none."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    with open(
        f"/proc/self/task/{os.getpid()}/children", "rb"
    ):  # a kernel without CONFIG_PROC_CHILDREN has no such file
        pass


def die_with(parent: int) -> None:
    """Have this process killed when the thread that started it ends. `parent` is its process. Raises OSError."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def found() -> list[int]:
    """The numbers of all descendants that can be seen now. One that forks may hide others from one look."""
    seen = _children(os.getpid())
    for pid in seen:  # grows as it goes
        seen += _children(pid)
    return seen


def reaped() -> dict[int, int] | None:
    """The children that have ended since, with their exit codes as subprocess has them. None: nobody is left.

    A descendant has a line of parents up to us, so where we have no child there is no descendant.
    """
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if not pid:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def end(asked_until: float, tried_until: float) -> tuple[str, ...]:
    """End all descendants: SIGTERM, and SIGKILL from `asked_until` on. Both are moments of `clock.now()`.

    Gives those that are still there at `tried_until`: they sleep in the kernel, or we may not signal them.
    """
    _signalled(signal.SIGTERM)
    while clock.now() < asked_until:
        if reaped() is None:
            return ()
        clock.sleep(PAUSE)
    return _killed(tried_until)


def kill_marked(mark: bytes, tried_until: float) -> tuple[str, ...]:
    """Kill all processes with `mark` in the environment that they were started with, wherever they are.

    For orphans of a killed parent that nobody has adopted. Gives those that are still there at `tried_until`.
    """
    while marked := _marked(mark):
        if clock.now() >= tried_until:
            return tuple(map(_shown, marked))
        _tell(marked, signal.SIGKILL)
        clock.sleep(PAUSE)
    return ()


def _killed(tried_until: float) -> tuple[str, ...]:
    _come_first()
    known: set[int] = set()
    while reaped() is not None:
        told = _signalled(signal.SIGKILL)
        if clock.now() >= tried_until:
            return tuple(sorted(map(_shown, found())))
        if told <= known:  # nobody new: they need a moment. One that forks gets none.
            clock.sleep(PAUSE)
        known |= told
    return ()


def _signalled(number: int) -> set[int]:
    told = set(found())
    _tell(told, number)
    return told


def _tell(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _marked(mark: bytes) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return [pid for pid in pids if mark in _environment(pid)]


def _environment(pid: int) -> list[bytes]:
    """None of a zombie, of the kernel's own, and of one that has just ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return environment.read().split(b"\0")
    except OSError:
        return []


def _come_first() -> None:
    """Before processes that fork without end, if we may: they would share the processors with us."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(*UNLISTED):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(*UNLISTED), open(f"/proc/{pid}/task/{task}/children", "rb") as listed:
                children += map(int, listed.read().split())
    return children


def _shown(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
            return f"{name.read().strip()} ({pid})"
    except OSError:
        return f"({pid})"


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "prctl")
