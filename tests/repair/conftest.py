"""What tests of repairs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs import idle_host, scratch


@pytest.fixture
def root() -> Iterator[Path]:
    """Of a node with a kubelet and containerd."""
    with scratch.in_memory() as directory:
        idle_host.tree(directory)
        idle_host.kubelet_directories(directory)
        (directory / "run/containerd").mkdir(parents=True)
        yield directory
