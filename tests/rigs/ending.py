"""A child process that ends with the block in which it is used."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr


@contextmanager
def ending(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """As `with process`, which waits for its end. A block that fails kills it, so a failed test does not hang."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
