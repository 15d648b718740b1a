"""Which programs a host has: files that may be run, in the usual directories, whatever PATH says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.repair import host_tools

ROWS = [
    # where                 mode     is a program
    ("usr/sbin/rdma", 0o755, True),
    ("usr/local/bin/rdma", 0o755, True),
    ("sbin/rdma", 0o755, True),
    ("usr/sbin/rdma", 0o644, False),
    ("opt/bin/rdma", 0o755, False),
    ("usr/sbin/rdma2", 0o755, False),
]


@pytest.mark.parametrize(("place", "mode", "is_program"), ROWS)
def test_a_program(tmp_path: Path, place: str, mode: int, is_program: bool) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    assert host_tools.found(["rdma", "ip"], str(tmp_path)) == ({"rdma"} if is_program else set())


def test_a_link_leads_below_the_root_of_the_host(tmp_path: Path) -> None:
    """As Debian's modprobe. Ours must not be taken for the host's, nor its lack for that of the host's."""
    for place, target in (("usr/sbin/rdma", "/bin/ours"), ("usr/sbin/cat", "/bin/cat")):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(target)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ours").touch(0o755)
    assert host_tools.found(["rdma", "cat"], str(tmp_path)) == {"rdma"}


def test_a_directory_is_none(tmp_path: Path) -> None:
    (tmp_path / "usr/sbin/rdma").mkdir(parents=True)
    assert host_tools.found(["rdma"], str(tmp_path)) == frozenset()
