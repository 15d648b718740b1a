"""What somebody does again and again while a test goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def repeating(deed: Callable[[], object], every: float) -> Iterator[None]:
    """Does it in a thread all through the block, each so many seconds and for the first time after as many."""
    over = Event()

    def repeat() -> None:
        while not over.wait(every):
            deed()

    thread = Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
