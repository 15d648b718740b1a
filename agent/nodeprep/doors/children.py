"""Child processes that may hang in the kernel."""

from __future__ import annotations

import subprocess

GRACE = 0.1  # seconds for a killed child to end; one in uninterruptible sleep ends when its device answers


def last_words(child: subprocess.Popen[bytes]) -> bytes:
    """What the killed child said before its end. Its pipes are closed even if it cannot end."""
    try:
        return child.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired as late:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        return late.output or b""
