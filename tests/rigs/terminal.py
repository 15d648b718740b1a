"""Programs in a terminal, whose questions are answered."""

from __future__ import annotations

import os
import pty
from collections.abc import Mapping, Sequence
from contextlib import suppress

QUESTION = b"[y/N]"


def answered(argv: Sequence[str], environment: Mapping[str, str], answer: bytes) -> tuple[int, str]:
    """Exit code and output of a program in a terminal, with this answer to each question."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], tuple(argv), environment)
    told, answers = b"", 0
    with suppress(OSError):  # the other end of a terminal is closed
        while part := os.read(terminal, 1 << 16):
            told += part
            if told.count(QUESTION) > answers:
                answers += 1
                os.write(terminal, answer)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.decode().replace("\r", "")
