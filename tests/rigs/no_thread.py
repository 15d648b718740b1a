"""No new thread can start, as on a node at its limit of processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

NO_THREAD = "can't start new thread"
TOO_LARGE = 1 << 46  # bytes of a stack: pthread_create(3) fails with EAGAIN, as it does at RLIMIT_NPROC and pids.max


@contextmanager
def no_thread() -> Iterator[None]:
    """Running threads continue."""
    usual = threading.stack_size(TOO_LARGE)
    try:
        yield
    finally:
        threading.stack_size(usual)
