"""A failed test does not hang: the child that it started ends with its block."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.rigs.ending import ending

HANGS = ("sleep", "100000")


def test_a_block_that_fails_kills_its_child() -> None:
    with pytest.raises(AssertionError, match="red"), ending(subprocess.Popen(HANGS)) as child:
        raise AssertionError("red")
    assert child.returncode == -signal.SIGKILL


def test_a_block_that_passes_waits_for_its_child() -> None:
    with ending(subprocess.Popen(("sh", "-c", "sleep 0.2; exit 3"))) as child:
        assert child.poll() is None
    assert child.returncode == 3
