"""Asks NVML by a child process, and never by a second one while the first hangs.

A GPU that does not answer can hold a process in the kernel, where it cannot even be killed. So nobody waits for it,
and a hanging child is remembered until it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodeprep.doors import children, clock
from nodeprep.model import Unreadable, Why

CHILD = Path(__file__).with_name("library.py")
LIBRARY = "libnvidia-ml.so.1"
ANSWER_BYTES = 64 << 10  # 64 GPUs have 20 KiB


class NvmlChild:
    """Gives what NVML tells, as the child's JSON. An answer stands for `rest` seconds: each one starts a process."""

    def __init__(self) -> None:
        self.hanging: subprocess.Popen[bytes] | None = None
        self._told: tuple[float, dict[str, Any]] | None = None

    def ask(self, deadline: float, rest: float) -> dict[str, Any] | Unreadable:
        """The answer within `deadline` seconds.

        Raises:
            OSError: no child could be started.
        """
        if self._told is not None and clock.now() - self._told[0] < rest:
            return self._told[1]
        if self.hanging is not None and self.hanging.poll() is None:
            return Unreadable(Why.TIMEOUT, LIBRARY, detail="NVML has not returned from an earlier look")
        self.hanging = None
        at = clock.now()
        told = self._ask(deadline)
        self._told = None if isinstance(told, Unreadable) else (at, told)
        return told

    def _ask(self, deadline: float) -> dict[str, Any] | Unreadable:
        argv = [sys.executable, "-I", "-S", str(CHILD)]
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            said, _ = child.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            child.kill()
            children.last_words(child)
            if child.poll() is None:
                self.hanging = child
            return Unreadable(Why.TIMEOUT, LIBRARY, detail=f"NVML gave no answer in {deadline:g} s: a GPU hangs")
        if child.returncode:
            died = f"its child ended with {child.returncode}: the library crashed"
            return Unreadable(Why.IO_ERROR, LIBRARY, detail=died)
        return _read(said)


def _read(said: bytes) -> dict[str, Any] | Unreadable:
    try:
        told = json.loads(said) if len(said) <= ANSWER_BYTES else None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        return Unreadable(Why.MALFORMED, LIBRARY, detail=f"{len(said)} bytes that are no answer of the child")
    return told
