"""One repair at a time: across processes, after kill -9, and with words about who it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.repair.repair_lock import NAME, RepairLock, RepairUnderWay

HOLD = """
import sys, time
from nodeprep.repair.repair_lock import RepairLock
with RepairLock(sys.argv[1], "nodeprep drill"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_at_a_time_and_none_after_kill_9(tmp_path: Path) -> None:
    place = tmp_path / "repair"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(RepairUnderWay, match=rf"^nodeprep drill \(pid {holder.pid}\) repairs this node"):
                RepairLock(str(place), "nodeprep repair").__enter__()
        finally:
            holder.kill()
        assert holder.wait() == -signal.SIGKILL
    with RepairLock(str(place), "nodeprep repair"):
        assert (place / NAME).read_text() == f"nodeprep repair (pid {os.getpid()})"
    with RepairLock(str(place), "nodeprep repair"):
        pass
    assert (place.stat().st_mode & 0o777, (place / NAME).stat().st_mode & 0o777) == (0o700, 0o600)


def test_who_holds_it_may_be_nobody_we_know(tmp_path: Path) -> None:
    """A holder of another kind has written nothing, or what is no text."""
    with RepairLock(str(tmp_path), "x"):
        (tmp_path / NAME).write_bytes(b"\xff\xfe")
        with pytest.raises(RepairUnderWay, match="repairs this node"):
            RepairLock(str(tmp_path), "y").__enter__()
        (tmp_path / NAME).write_bytes(b"")
        with pytest.raises(RepairUnderWay, match=r"^another process repairs this node"):
            RepairLock(str(tmp_path), "y").__enter__()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / NAME).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        RepairLock(str(tmp_path), "x").__enter__()
    assert (tmp_path / "target").read_text() == "kept"
