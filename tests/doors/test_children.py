"""Children that were killed: what they said is had, and none is forgotten before it is reaped."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeprep.doors import children
from tests.rigs.waiting import until

SLEEPS = "import sys, time; print('began', flush=True); time.sleep(600)"


@pytest.fixture
def stuck() -> Iterator[subprocess.Popen[bytes]]:
    """A child that does not end within the grace, as a sick device would hold it. Here nobody has killed it."""
    child = subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"began\n"
    yield child
    if child.poll() is None:
        child.kill()
        until(lambda: child.poll() is not None, "the child's end")


@pytest.mark.parametrize("see_off", [children.last_words, children.ended])
def test_one_that_has_not_ended_is_kept_and_reaped_later(
    stuck: subprocess.Popen[bytes], see_off: Callable[[subprocess.Popen[bytes]], object]
) -> None:
    see_off(stuck)
    assert stuck.poll() is None
    assert stuck.stdin is not None
    assert stuck.stdout is not None
    assert (stuck.stdin.closed, stuck.stdout.closed) == (True, True)
    assert stuck in children.unreaped
    os.kill(stuck.pid, signal.SIGKILL)
    until(lambda: Path(f"/proc/{stuck.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "its end")
    other = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    children.ended(other)
    assert stuck not in children.unreaped
    assert stuck.returncode == -signal.SIGKILL


def test_nobody_is_warned_of_a_child_that_ends_late() -> None:
    """Without a place where they are kept, Python says `subprocess is still running` when it forgets one."""
    child = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE)
    pid = child.pid
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        children.ended(child)
        del child
        gc.collect()
    os.kill(pid, signal.SIGKILL)
    kept = next(one for one in children.unreaped if one.pid == pid)
    until(lambda: kept.poll() is not None, "its end")


def test_one_that_has_ended_gives_its_words() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print('x')"], stdout=subprocess.PIPE)
    until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "its end")
    assert children.last_words(child) == b"x\n"
    assert child not in children.unreaped
