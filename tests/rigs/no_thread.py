"""No new thread can be started, as on a node whose limit of processes is reached."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

NO_THREAD = "can't start new thread"
TOO_LARGE = 1 << 46  # bytes of a stack: pthread_create(3) fails with EAGAIN, as it does at RLIMIT_NPROC and pids.max


@contextmanager
def no_thread() -> Iterator[None]:
    """Threads that run already run on."""
    usual = threading.stack_size(TOO_LARGE)
    try:
        yield
    finally:
        threading.stack_size(usual)
