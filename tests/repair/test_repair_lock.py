"""One repair at a time: across processes, after kill -9, and with words about who it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from nodeprep.repair.repair_lock import NAME, RepairLock, RepairUnderWay
from tests.rigs.absent import needs_root

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


def test_what_was_left_is_named_after_its_owner_is_gone(tmp_path: Path) -> None:
    """A supervisor holds on to the lock while what it supervises sleeps in the kernel."""
    with RepairLock(str(tmp_path), "nodeprep repair", shows_pid=False) as lock:
        held = os.dup(lock.descriptor)
        lock.leave(["tee (77)"])
    says = r"^tee \(77\), which sleeps in the kernel and was left by nodeprep repair, repairs this node"
    with pytest.raises(RepairUnderWay, match=says):
        RepairLock(str(tmp_path), "y").__enter__()
    os.close(held)
    with RepairLock(str(tmp_path), "y"):
        pass


@needs_root("a mount")
def test_a_lock_whose_words_find_no_room_is_not_kept(tmp_path: Path) -> None:
    """A remediator tries again each second, for days: it would hold it itself, and a descriptor for each try."""
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16k", "small", str(tmp_path)), check=True)
    try:
        (tmp_path / NAME).touch()
        with suppress(OSError), (tmp_path / "filled").open("wb", buffering=0) as filled:
            while filled.write(b"x" * 4096):
                pass
        with pytest.raises(OSError, match="No space left on device"):
            RepairLock(str(tmp_path), "x").__enter__()
        (tmp_path / "filled").unlink()
        with RepairLock(str(tmp_path), "y"):
            pass
    finally:
        subprocess.run(("umount", str(tmp_path)), check=True)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / NAME).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        RepairLock(str(tmp_path), "x").__enter__()
    assert (tmp_path / "target").read_text() == "kept"
