"""A PID namespace whose first process we are. The kernel ends all that is in it with us, whatever it does to get away.

For a process that does nothing else: it reaps every child, so no Popen of it may wait.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress

from nodeprep.doors import clock

CLONE_NEWPID = 0x20000000  # include/uapi/linux/sched.h
PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
PAUSE = 0.005  # seconds between two looks at processes that were told to end
UNLISTED = (FileNotFoundError, ProcessLookupError)  # a process that ended while it was read


def enter(relayed: Iterable[int]) -> int | None:
    """Go on in a child, the first process of a new PID namespace. The child gets None.

    This process stays outside. It passes the signals `relayed` on, waits, and gets the child's exit code as subprocess
    has it. If it is killed, the child is. The child needs a handler for each of the signals by now: the kernel drops
    what its first process does not handle. Raises OSError, as where CAP_SYS_ADMIN is missing.
    """
    _called("unshare", CLONE_NEWPID)
    ours, theirs = os.pipe()
    child = _forked(tuple(relayed))
    if not child:
        os.close(theirs)
        _die_with_the_writer(ours)
        return None
    os.close(ours)
    _, status = os.waitpid(child, 0)
    os.close(theirs)
    return os.waitstatus_to_exitcode(status)


def _forked(relayed: tuple[int, ...]) -> int:
    """As os.fork. The parent passes `relayed` on from the first moment: until then the kernel keeps these signals."""
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, relayed)
    try:
        child = os.fork()
        for number in relayed if child else ():
            signal.signal(number, lambda number, _: _tell(child, number))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    return child


def reaped() -> dict[int, int] | None:
    """The children that have ended since, with their exit codes as subprocess has them. None: nobody is left.

    Who loses his parent is a child of the first process, so where we have no child we are alone.
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
    """End all others: SIGTERM, and SIGKILL at `asked_until`. Both are moments of `clock.now()`.

    Gives those that are still there at `tried_until`, "name (number on the host)": they sleep in the kernel, or we may
    not signal them.
    """
    _tell(-1, signal.SIGTERM)
    if _alone(asked_until):
        return ()
    # To all at once, while the kernel lets nobody fork: no process that forks without end escapes it.
    _tell(-1, signal.SIGKILL)
    return () if _alone(tried_until) else tuple(sorted(map(_shown, _descendants())))


def _alone(until: float) -> bool:
    while clock.now() < until:
        if reaped() is None:
            return True
        clock.sleep(PAUSE)
    return reaped() is None


def _die_with_the_writer(pipe: int) -> None:
    """Have this process killed when its parent ends. The pipe tells whether that was before we asked."""
    _called("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    ended, _, _ = select.select((pipe,), (), (), 0)
    if ended:
        os._exit(1)
    os.close(pipe)


def _tell(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _descendants() -> list[str]:
    """The numbers of all that can be seen now, as /proc has them: on the host it shows those of the host."""
    seen = _children("self")
    for pid in seen:  # grows as it goes
        seen += _children(pid)
    return seen


def _children(pid: str) -> list[str]:
    children: list[str] = []
    with suppress(*UNLISTED):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(*UNLISTED), open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as listed:
                children += listed.read().split()
    return children


def _shown(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as name:
            return f"{name.read().strip()} ({pid})"
    except OSError:
        return f"({pid})"


def _called(name: str, *numbers: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*map(ctypes.c_ulong, numbers)):
        raise OSError(number := ctypes.get_errno(), f"{name}: {os.strerror(number)}")
