"""Asks mounted file systems whether they answer. A child asks: a thread of ours in a dead mount could never end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from nodeprep.doors import children
from nodeprep.doors.files.reader import DENIED
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace

# Each path has a thread, so that none waits for another. A line has the errno, 0 for an answer.
CHILD = """
import os, sys, threading
def ask(number, path):
    try:
        os.statvfs(path)
        said = 0
    except OSError as error:
        said = error.errno
    os.write(1, b"%d %d\\n" % (number, said))
for number, path in enumerate(sys.stdin.buffer.read().split(b"\\0")):
    threading.Thread(target=ask, args=(number, path)).start()
"""


class Statvfs:
    """Remembers children that hang, so that a dead mount holds one child and not one for each look."""

    def __init__(self) -> None:
        self._hanging: list[tuple[subprocess.Popen[bytes], frozenset[str]]] = []

    def ask(self, paths: Sequence[str], deadline: float) -> Mapping[str, Unreadable | None]:
        """The result of each path within `deadline` seconds. None means that it answered.

        Raises:
            OSError: no child could be started.
        """
        self._hanging = [(child, held) for child, held in self._hanging if child.poll() is None]
        held = frozenset[str]().union(*(paths for _, paths in self._hanging))
        told: dict[str, Unreadable | None] = {
            path: Unreadable(Why.TIMEOUT, path, detail="statvfs of an earlier look has not returned")
            for path in paths
            if path in held
        }
        asked = [path for path in paths if path not in held]
        return told | (self._ask(asked, deadline) if asked else {})

    def _ask(self, paths: list[str], deadline: float) -> dict[str, Unreadable | None]:
        argv = [sys.executable, "-I", "-S", "-c", CHILD]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        unsaid = Unreadable(
            Why.MISSING_TOOL, sys.executable, detail="the child that asks mounts ended without an answer"
        )
        try:
            said, _ = child.communicate(b"\0".join(map(os.fsencode, paths)), timeout=deadline)
        except subprocess.TimeoutExpired:
            child.kill()
            said = children.last_words(child)
            unsaid = Unreadable(Why.TIMEOUT, "", detail=f"statvfs gave no answer in {deadline:g} s")
        codes = {int(number): int(code) for number, code in (line.split() for line in said.splitlines())}
        if child.poll() is None:
            silent = frozenset(path for number, path in enumerate(paths) if number not in codes)
            self._hanging.append((child, silent))
        return {
            path: _answer(path, codes[number]) if number in codes else replace(unsaid, path=unsaid.path or path)
            for number, path in enumerate(paths)
        }


def _answer(path: str, code: int) -> Unreadable | None:
    if code == 0:
        return None
    kind = Why.DENIED if code in DENIED else Why.MISSING if code == errno.ENOENT else Why.IO_ERROR
    return Unreadable(kind, path, code, os.strerror(code))
