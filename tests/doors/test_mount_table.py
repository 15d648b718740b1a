"""Mount tables: what they say of a path, and which mounts of a host a real process could write."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.files import mount_table
from nodeprep.doors.node_host import Host
from tests.rigs.mounted import seen_with

TABLE = rb"""22 1 259:2 / / rw - ext4 /dev/x rw
23 22 259:2 /data /srv/data\040of\040jobs rw - ext4 /dev/x rw
24 22 0:5 / /sys ro - sysfs sysfs rw
25 24 0:6 / /sys/fs/cgroup rw - cgroup2 none ro
26 22 0:7 / /usr rw - overlay none rw
27 22 0:8 /@usr /usr rw - btrfs none rw"""


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/", ("259:2", "/")),
        ("/etc/cni", ("259:2", "/etc/cni")),
        ("/srv/data of jobs/x", ("259:2", "/data/x")),
        ("/sys/class", ("0:5", "/class")),
        ("/sys/fs/cgroup", ("0:6", "/")),
        ("/sys/fs/cgroup2", ("0:5", "/fs/cgroup2")),
        ("/usr", ("0:8", "/@usr")),
        ("/usr/lib", ("0:8", "/@usr/lib")),
        ("/usrlocal", ("259:2", "/usrlocal")),
    ],
)
def test_what_is_seen_at_a_path(path: str, seen: tuple[str, str]) -> None:
    assert mount_table.shown(mount_table.rows(TABLE), path) == seen


def test_nothing_is_seen_without_a_mount() -> None:
    assert mount_table.shown((), "/usr") is None
    assert mount_table.topmost((), "/usr") is None


def test_a_mount_is_writable_if_neither_it_nor_its_file_system_is_read_only() -> None:
    found = {row.point: row.is_writable for row in mount_table.rows(TABLE)}
    assert (found["/"], found["/sys"], found["/sys/fs/cgroup"]) == (True, False, False)


LOOK = """
import json, sys
from nodeprep.doors.node_host import Host
root = sys.argv[1]
kept = (f"{root}/run/nodeprep",)
hosts = (Host(root), Host(root, live=False), Host("/"))
print(json.dumps([host.writable_mounts(kept) for host in hosts]))
"""
# What lies on top counts.
TWICE = """cd "$1" && mkdir covered open && mount -t tmpfs none covered && mount -t tmpfs -o ro none covered &&
mount -t tmpfs -o ro none open && mount -t tmpfs none open"""
# As a runtime without recursive read-only mounts has it: what is mounted inside stays writable.
MOUNTS = """cd "$1" && mkdir -p opt/cni etc/cni run/nodeprep beside source/bin && mount -t tmpfs none source/bin &&
mount --rbind source opt/cni && mount -o remount,bind,ro opt/cni &&
mount --bind source etc/cni && mount -o remount,bind,ro etc/cni &&
mount --bind source run/nodeprep && mkdir ../root-beside && mount -t tmpfs none ../root-beside && umount source/bin"""


def test_what_is_mounted_inside_a_read_only_mount_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    assert seen_with(MOUNTS, LOOK, str(root)) == [[f"{root}/opt/cni/bin"], [], []]


def test_of_mounts_upon_each_other_the_last_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    assert seen_with(TWICE, LOOK, str(root)) == [[f"{root}/open"], [], []]


def test_this_machines_own_root_has_none() -> None:
    assert Host().writable_mounts(()) == ()
