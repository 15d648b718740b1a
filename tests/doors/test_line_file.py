"""A file of lines: whatever happens to a writer or its disk, each line is there whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeprep.doors.files import line_file
from nodeprep.doors.files.line_file import LineFile
from tests.rigs.absent import needs_root
from tests.rigs.ending import ending

NAME = "lines.jsonl"


def file_in(directory: Path) -> LineFile:
    return LineFile(str(directory), NAME, 0o600)


def row(number: int) -> bytes:
    return b'{"n":%d,"x":"%s"}\n' % (number, b"x" * 40)


def numbers(directory: Path) -> list[int]:
    return [int(one.partition(b":")[2].partition(b",")[0]) for one in file_in(directory).lines()]


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "made"
    file = file_in(directory)
    assert list(file.lines()) == []
    assert file.append(row(1)) == len(row(1))
    assert file.append(row(2) + row(3)) == 3 * len(row(1))
    assert numbers(directory) == [1, 2, 3]
    assert (directory / NAME).stat().st_mode & 0o777 == 0o600


@given(cut=st.integers(0, 59))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_line_that_is_torn_at_any_byte_costs_only_itself(tmp_path: Path, cut: int) -> None:
    whole = row(1) + row(2)
    cut = min(cut, len(row(2)))
    (tmp_path / NAME).write_bytes(whole[: len(whole) - cut])
    file_in(tmp_path).append(row(3))
    assert numbers(tmp_path) == ([1, 2, 3] if cut <= 1 else [1, 3]), "one that lacks only its end is whole"


def test_a_torn_line_that_is_longer_than_what_is_looked_at_is_no_line(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(row(1) + b"x" * (line_file.TAIL_BYTES - 5))
    file_in(tmp_path).append(row(2))
    assert numbers(tmp_path) == [1, 2]


WRITER = """
import sys
from nodeprep.doors.files.line_file import LineFile
file = LineFile(sys.argv[1], "lines.jsonl", 0o600)
print("begins", flush=True)
for number in range(10**6):
    file.append(b'{"n":%d,"x":"%s"}\\n' % (number, b"x" * 40))
"""


def test_a_writer_that_is_killed_leaves_whole_lines(tmp_path: Path) -> None:
    """Twenty kills at moments that nobody chose; the next writer begins where the last whole line ends."""
    found: list[int] = []
    for turn in range(20):
        with ending(subprocess.Popen((sys.executable, "-c", WRITER, str(tmp_path)), stdout=subprocess.PIPE)) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begins\n"
            time.sleep(0.005 + turn * 0.002)
            child.send_signal(signal.SIGKILL)
            child.wait(60)
        file_in(tmp_path).append(row(-turn))
        found = numbers(tmp_path)
        assert found[-1] == -turn
    runs: list[list[int]] = [[]]
    for one in found:
        runs[-1].append(one)
        if one < 0 or (one == 0 and len(runs[-1]) > 1):
            runs.append([])
    assert all(run[:-1] == list(range(len(run) - 1)) for run in runs if run), "no line of a writer is missing"


FULL = """
import sys
from nodeprep.doors.files.line_file import LineFile
file = LineFile(sys.argv[1], "lines.jsonl", 0o600)
try:
    for number in range(10**6):
        file.append(b'{"n":%d,"x":"%s"}\\n' % (number, b"x" * 90))
except OSError as error:
    print(number, error.errno, error.filename)
"""


@needs_root("it mounts a small disk")
def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_whole_lines(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=64k none "{tmp_path}" && "$0" -c "$1" "{tmp_path}" && cat "{tmp_path}/{NAME}"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, FULL]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, _, rest = done.stdout.partition("\n")
    count, code, name = first.split()
    assert (int(code), name) == (errno.ENOSPC, f"{tmp_path}/{NAME}")
    assert int(count) > 100
    assert len(rest.splitlines()) == int(count)
    assert rest.endswith("}\n")


def test_two_writers_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 50):
            file_in(tmp_path).append(row(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert sorted(numbers(tmp_path)) == [*range(50), *range(100, 150)]


def test_lines_are_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    for number in (1, 2, 3):
        file.append(row(number))
    assert file.replace([row(2), row(3)]) == 2 * len(row(2))
    assert numbers(tmp_path) == [2, 3]
    (tmp_path / f".{NAME}.new").mkdir()
    with pytest.raises(OSError, match=NAME):
        file.replace([row(9)])
    assert numbers(tmp_path) == [2, 3]


@pytest.mark.parametrize("what", ["directory", "fifo", "link"])
def test_what_is_no_plain_file_does_not_hang_and_is_not_followed(tmp_path: Path, what: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("secret\n")
    if what == "directory":
        (tmp_path / NAME).mkdir()
    elif what == "fifo":
        os.mkfifo(tmp_path / NAME)
    else:
        (tmp_path / NAME).symlink_to(elsewhere)
    with pytest.raises(OSError, match="lines"):
        file_in(tmp_path).append(row(1))
    assert elsewhere.read_text() == "secret\n"
