"""A file that is put in its place: all of it or nothing, synced before its name and with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.doors.files import atomic
from tests.rigs.absent import cannot_start

AGENT = Path(__file__).parents[2] / "agent"


def test_a_file_and_its_directory_are_made_and_replaced(tmp_path: Path) -> None:
    place = tmp_path / "not/there/yet"
    for data in (b"old" * 1000, b"new"):
        atomic.put(str(place), "file", data, 0o640)
        assert (place / "file").read_bytes() == data
    assert list(place.iterdir()) == [place / "file"]


def test_it_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    before = len(tuple(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        atomic.put(str(tmp_path), "file", b"new", 0o600)
        with pytest.raises(IsADirectoryError):
            atomic.put(str(tmp_path), "taken", b"new", 0o600)
    assert len(tuple(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_who_may_read_it_is_what_was_said(tmp_path: Path, umask: int) -> None:
    former = os.umask(umask)
    try:
        atomic.put(str(tmp_path), "file", b"", 0o644)
    finally:
        os.umask(former)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_what_a_killed_writer_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / atomic.fresh("file")).write_bytes(b"half of something that was long" * 100)
    atomic.put(str(tmp_path), "file", b"whole", 0o600)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"file": b"whole"}


@pytest.mark.parametrize("name", ["file", atomic.fresh("file")])
def test_a_link_leads_nowhere(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    place = tmp_path / "place"
    place.mkdir()
    (place / name).symlink_to(other)
    atomic.put(str(place), "file", b"whole", 0o600)
    assert (other.read_bytes(), (place / "file").read_bytes()) == (b"precious", b"whole")
    assert not (place / "file").is_symlink()


@pytest.mark.parametrize("name", ["file", atomic.fresh("file")])
def test_a_directory_in_its_place_stays_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="directory"):
        atomic.put(str(tmp_path), "file", b"whole", 0o600)
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_the_content_is_on_the_disk_before_it_has_the_name_and_the_name_before_put_returns(tmp_path: Path) -> None:
    trace, place = tmp_path / "trace", tmp_path / "place"
    place.mkdir()
    calls = "openat,write,fsync,rename,renameat,renameat2,exit_group"
    command = ("strace", "-qq", "-y", "-e", f"trace={calls}", "-o", str(trace))
    try:
        subprocess.run((*command, "true"), check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        cannot_start(f"needs strace and leave to trace: {error}")
    put = f"atomic.put({str(place)!r}, 'file', b'x', 0o600)"
    program = f"from nodeprep.doors.files import atomic; {put}; print('returned')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    subprocess.run(
        (*command, sys.executable, "-c", program),
        check=True,
        capture_output=True,
        env=environment | {"PYTHONPATH": str(AGENT)},
    )
    lines = [line for line in trace.read_text().splitlines() if str(place) in line or '"returned' in line]
    kinds = [re.sub(r"\(.*", "", line) for line in lines]
    assert kinds == ["openat", "openat", "write", "fsync", "renameat", "fsync", "write"], lines
    assert atomic.fresh("file") in lines[3]
    assert f"<{place}>)" in lines[5]
