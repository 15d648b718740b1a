"""Where agents keep what they keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.scratch import in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory
