"""Child processes that may hang in the kernel."""

from __future__ import annotations

import subprocess
from contextlib import suppress

GRACE_SECONDS = 0.1  # for a killed child to end; one in uninterruptible sleep ends when its device answers

# Killed children that had not ended. They are kept, so that each is reaped and none is a zombie for ever.
unreaped: list[subprocess.Popen[bytes]] = []


def last_words(child: subprocess.Popen[bytes]) -> bytes:
    """What the killed child said before its end. Its pipes are closed even if it cannot end."""
    _reap()
    try:
        return child.communicate(timeout=GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired as late:
        unreaped.append(child)
        _close(child)
        return late.output or b""


def ended(child: subprocess.Popen[bytes]) -> None:
    """See the killed child off, without its words. Its pipes are closed even if it cannot end."""
    _reap()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        unreaped.append(child)
    _close(child)


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _reap() -> None:
    """Forget those that have ended since. Threads may do this at once."""
    for one in tuple(unreaped):
        if one.poll() is not None:
            with suppress(ValueError):
                unreaped.remove(one)
