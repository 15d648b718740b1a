"""The two files of a drill: what is written is read, and what is damaged is no drill or says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.drill_record import DrillRecord, HostCommand
from nodeprep.repair import drill_files
from nodeprep.repair.drill_files import NotADrill

NOTICE = DrillNotice("link-down", "eth1", ("eth1",), "b1", 10.0, 400.0, (("port.mtu", "eth1"),))
UP = HostCommand(("ip", "link", "set", "dev", "eth1", "up"))
RECORD = DrillRecord(
    *("a1", "link-down", "eth1", "eth1", "b1"),
    began=11.0,
    until=311.0,
    make=(HostCommand(("tee", "/dev/kmsg"), "<3>it failed"),),
    undo=(UP,),
    told="/run/nodeprep-agent",
    before=("interface eth1 is set up",),
)


def test_what_is_told_and_kept_is_read_until_it_is_removed(tmp_path: Path) -> None:
    told, kept = str(tmp_path / "agent"), str(tmp_path / "repair")
    assert (drill_files.notice(told), drill_files.kept(kept)) == (None, None)
    drill_files.tell(told, NOTICE)
    drill_files.keep(kept, RECORD)
    assert (drill_files.notice(told), drill_files.kept(kept)) == (NOTICE, RECORD)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("*/*")} == {"0o600"}
    for directory in (told, kept, kept):
        drill_files.remove(directory)
    assert (drill_files.notice(told), drill_files.kept(kept)) == (None, None)


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff{")


def empty(path: Path) -> None:
    path.write_text("{}")


def huge(path: Path) -> None:
    path.write_bytes(b" " * (drill_files.LIMIT_BYTES + 1))


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("damage", [garbage, empty, huge, deep, link, pipe, directory])
def test_what_is_no_drill_is_none_for_the_agent_and_an_error_for_us(tmp_path: Path, damage: object) -> None:
    """Who would begin another drill must not take a record that he cannot read for none."""
    path = tmp_path / drill_files.NAME
    assert callable(damage)
    damage(path)
    assert drill_files.notice(str(tmp_path)) is None
    with pytest.raises(NotADrill, match=str(path)):
        drill_files.kept(str(tmp_path))
