"""The history of repairs on a real disk: what is kept is whole, and what cannot be kept is said."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.cli.repair import history_command
from nodeprep.repair import repair_history
from nodeprep.repair.repair_history import BEGAN, LIMIT_BYTES, NAME, RepairHistory, RepairRecord
from nodeprep.values import replace
from tests.rigs.absent import needs_root

ONE = RepairRecord(
    "a1", 1764000000.0, "boot", "repair", "link_up", BEGAN, {"interface": "eth0"}, ("port.state",), why="ünïcode\n\x1b"
)


def test_what_is_added_is_read(tmp_path: Path) -> None:
    history = RepairHistory(str(tmp_path))
    assert list(history.records()) == []
    ended = replace(ONE, state="done", changed=1, seconds=2.5, still=("port.state",))
    history.add(ONE)
    history.add(ended)
    assert list(RepairHistory(str(tmp_path)).records()) == [ONE, ended]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert len((tmp_path / NAME).read_bytes().splitlines()) == 2, "each record is one line"


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_line_costs_only_itself(tmp_path: Path, cut: int) -> None:
    history = RepairHistory(str(tmp_path))
    for name in ("a", "b"):
        history.add(replace(ONE, id=name))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-cut])
    history.add(replace(ONE, id="c"))
    found = [one.id for one in history.records()]
    assert found == (["a", "b", "c"] if cut == 1 else ["a", "c"])


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"id": 1}', '{"id": "x", "checks": 7}', "\x00\x00"])
def test_a_line_that_is_no_record_is_passed_over(tmp_path: Path, line: str) -> None:
    history = RepairHistory(str(tmp_path))
    history.add(ONE)
    with (tmp_path / NAME).open("a") as file:
        file.write(line + "\n")
    history.add(replace(ONE, id="after"))
    assert [one.id for one in history.records()] == ["a1", "after"]


def test_a_later_version_may_know_more(tmp_path: Path) -> None:
    history = RepairHistory(str(tmp_path))
    history.add(ONE)
    path = tmp_path / NAME
    path.write_text(path.read_text().replace('"state"', '"slot": "nodeprep-slot-0", "state"'))
    assert list(history.records()) == [ONE]


def test_it_does_not_grow_without_end(tmp_path: Path) -> None:
    history = RepairHistory(str(tmp_path))
    history.add(replace(ONE, id="first"))
    with (tmp_path / NAME).open("a") as file:
        file.write(("x" * 1023 + "\n") * (LIMIT_BYTES >> 10))
    history.add(replace(ONE, id="last"))
    assert (tmp_path / NAME).stat().st_size < LIMIT_BYTES * 0.6
    assert [one.id for one in history.records()] == ["last"]


FULL = """
import sys
from nodeprep.repair.repair_history import RepairHistory, RepairRecord
history = RepairHistory(sys.argv[1])
try:
    for number in range(10_000):
        history.add(RepairRecord(str(number), 0.0, "boot", "repair", "link_up", "began", why="x" * 200))
except OSError as error:
    print(number, error.errno)
"""


@needs_root("it mounts a small disk")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=64k none "{tmp_path}" && "$0" -c "$1" "{tmp_path}" && cat "{tmp_path}/{NAME}"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, FULL], capture_output=True, text=True, check=True
    )
    first, _, rest = done.stdout.partition("\n")
    count, code = map(int, first.split())
    assert code == errno.ENOSPC
    assert count > 50
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / NAME).write_text(rest)
    assert [one.id for one in RepairHistory(str(copy)).records()] == [str(one) for one in range(count)]


def test_a_step_without_an_end_was_cut_off() -> None:
    other = replace(ONE, id="a2")
    found = history_command.steps([ONE, other, replace(ONE, state="done", changed=1)])
    assert [(one.id, one.state) for one in found] == [("a1", "done"), ("a2", "cut off")]
    assert repair_history.REFUSED not in {one.state for one in found}
