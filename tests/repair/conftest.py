"""What tests of repairs share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs import idle_host, scratch
from tests.rigs.waiting import until

FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def root() -> Iterator[Path]:
    """Of a node with a kubelet and containerd."""
    with scratch.in_memory() as directory:
        idle_host.tree(directory)
        idle_host.kubelet_directories(directory)
        (directory / "run/containerd").mkdir(parents=True)
        yield directory


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A cgroup of Linux' first version. Who is frozen in it sleeps in the kernel, and SIGKILL does not wake him."""
    directory = FREEZER / uuid.uuid4().hex
    try:
        directory.mkdir()
    except OSError as reason:
        pytest.skip(f"this machine has no freezer of cgroup v1: {reason}")
    yield directory
    (directory / "freezer.state").write_text("THAWED")
    until(lambda: not (directory / "cgroup.procs").read_text(), "the end of what was frozen")
    directory.rmdir()
