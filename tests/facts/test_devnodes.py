"""Class entries and nodes of RDMA, from trees built here: live ones and dead ones show absence differently."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import devnodes
from nodeprep.facts.rdma.devnodes import ClassEntry, DevNode, DevNodes
from nodeprep.model import Unreadable, Why, raw
from tests.rigs import trees
from tests.rigs.absent import cannot_start


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def char(root: Path, path: str, major: int, minor: int, mode: int) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(target, stat.S_IFCHR | mode, os.makedev(major, minor))
    except PermissionError:
        cannot_start("device nodes can only be made with CAP_MKNOD")
    target.chmod(mode)


def live(root: Path) -> DevNodes:
    return devnodes.observe(Host(str(root)))


def dead(root: Path) -> DevNodes:
    return devnodes.observe(Host(str(root), live=False))


def test_a_whole_node(tmp_path: Path) -> None:
    trees.build("h100-ib", tmp_path)
    for shown in (live(tmp_path), dead(tmp_path)):
        verbs, mads, nodes = shown.verbs or (), shown.mads or (), shown.nodes or ()
        assert ClassEntry("uverbs0", "mlx5_0", None, "231:192") in verbs
        assert ClassEntry("umad0", "mlx5_0", 1, "231:0") in mads
        assert len(verbs) == len(mads) == len({entry.device for entry in verbs})
        assert {entry.name for entry in (*verbs, *mads)} | {"rdma_cm"} == {node.name for node in nodes}
        assert (shown.verbs_abi, shown.rdma_cm) == ("6", "10:122")
    assert (live(tmp_path).live, dead(tmp_path).live) == (True, False)


def test_a_machine_without_rdma_has_neither_class_nor_nodes(tmp_path: Path) -> None:
    shown = live(tmp_path)
    assert (shown.verbs, shown.mads, shown.rdma_cm, shown.verbs_abi, shown.nodes) == (None, None, None, None, ())


def test_a_dead_tree_without_their_directory_says_nothing_of_nodes(tmp_path: Path) -> None:
    assert dead(tmp_path).nodes is None
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    assert dead(tmp_path).nodes == ()


def test_an_empty_class_is_not_a_missing_one(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/infiniband_verbs/abi_version", "6")
    assert dead(tmp_path).verbs == ()


def test_entries_of_a_copy_that_lost_their_ends(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband_verbs").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband_verbs/uverbs0").symlink_to("../../devices/gone/infiniband_verbs/uverbs0")
    assert dead(tmp_path).verbs == (ClassEntry("uverbs0", None, None, None),)


def test_a_damaged_entry_spoils_its_own_fields_only(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
    (tmp_path / "sys/class/infiniband_verbs/uverbs0/dev").mkdir()
    put(tmp_path, "sys/class/infiniband_mad/umad0/port", "one")
    (entry,) = dead(tmp_path).verbs or ()
    assert entry.device == "mlx5_0"
    assert isinstance(raw(entry)["number"], Unreadable)
    (mad,) = dead(tmp_path).mads or ()
    assert raw(mad)["port"].kind is Why.MALFORMED


def test_files_in_place_of_directories_are_damage(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/infiniband_verbs", "")
    put(tmp_path, "dev/infiniband", "")
    shown = raw(dead(tmp_path))
    assert [shown[name].errno for name in ("verbs", "nodes")] == [errno.ENOTDIR, errno.ENOTDIR]
    assert shown["mads"] is None


def test_nodes_with_number_and_mode_and_no_directories(tmp_path: Path) -> None:
    char(tmp_path, "dev/infiniband/uverbs0", 231, 192, 0o666)
    char(tmp_path, "dev/infiniband/issm0", 231, 64, 0o600)
    (tmp_path / "dev/infiniband/by-ibdev").mkdir()
    (tmp_path / "dev/infiniband/by-path").mkdir()
    (tmp_path / "dev/infiniband/by-path/pci-0000:5c:00.0-uverbs").symlink_to("../uverbs0")
    expected = (DevNode("issm0", "231:64", 0o600), DevNode("uverbs0", "231:192", 0o666))
    assert live(tmp_path).nodes == expected
    assert dead(tmp_path).nodes == expected


def test_what_is_no_device(tmp_path: Path) -> None:
    put(tmp_path, "dev/infiniband/uverbs0", "")
    assert live(tmp_path).nodes == (DevNode("uverbs0", "", None),)
    assert dead(tmp_path).nodes == (DevNode("uverbs0", None, None),)  # a copy's placeholder


def test_a_block_device_is_no_character_device(tmp_path: Path) -> None:
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    try:
        os.mknod(tmp_path / "dev/infiniband/uverbs0", stat.S_IFBLK | 0o600, os.makedev(231, 192))
    except PermissionError:
        cannot_start("device nodes can only be made with CAP_MKNOD")
    (node,) = live(tmp_path).nodes or ()
    assert node.number == ""


def test_a_link_to_nowhere_is_no_node(tmp_path: Path) -> None:
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").symlink_to("/dev/nothing")
    assert live(tmp_path).nodes == ()


def test_this_machine() -> None:
    shown = devnodes.observe(Host())
    assert shown.live
    assert (shown.verbs is None) == (not Path("/sys/class/infiniband_verbs").exists())
    assert shown.nodes is not None
