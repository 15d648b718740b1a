"""pyroute2's message classes come without the rest, and leave the rest as it is for others."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_look_at_links_loads_no_more_of_it() -> None:
    ours = "from nodeprep.doors.netlink import interfaces; interfaces.read(); import sys"
    loaded = run(f"{ours}; print(*(name for name in sys.modules if name.startswith('pyroute2')))").split()
    assert set(loaded) == {"pyroute2.common", "pyroute2.netlink", "pyroute2.netlink.exceptions"}


@pytest.mark.parametrize("first", ["import pyroute2", "from nodeprep.doors.netlink import interfaces"])
def test_all_of_it_can_be_had_before_and_after(first: str) -> None:
    ours = "from nodeprep.doors.netlink import interfaces"
    words = run(f"{first}; import pyroute2; {ours}; print(pyroute2.IPRoute, interfaces.LinkInfo)")
    assert "IPRoute" in words
