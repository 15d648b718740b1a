"""What these tests share with others that run at the same time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs import cache


@pytest.fixture(scope="module")
def kernel_log() -> Iterator[None]:
    """The log is one for the whole machine, and a test here clears it: modules that write or read it take turns."""
    with cache.locked("kernel-log"):
        yield
