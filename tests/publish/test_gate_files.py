"""Gate files: one for each gate and boot, whole or not there, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors.files import atomic
from nodeprep.publish import gate_files
from nodeprep.publish.gate_files import GateFiles, GateStage
from tests.rigs.mounted import seen_with

BOOT, OTHER = "6f1c1f0a-0001", "6f1c1f0a-0002"
ROCE, ROCE_READY, IB = ("rdma-roce", "device"), ("rdma-roce", "ready"), ("rdma-ib", "device")


def open_(directory: Path, *wanted: tuple[str, str], boot_id: str = BOOT, node_uid: str = "u-1") -> str:
    return GateFiles(str(directory)).open(wanted, boot_id=boot_id, node_uid=node_uid, version="1.2.3")


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def test_an_opened_gate_is_a_line_that_says_whose_and_since_when(tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert open_(place, ROCE, ROCE_READY) == ""
    assert names(place) == ["rdma-roce.device", "rdma-roce.ready"]
    (line,) = (place / "rdma-roce.ready").read_text().splitlines()
    said = json.loads(line)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", said.pop("since"))
    assert said == {"profile": "rdma-roce", "stage": "ready", "boot_id": BOOT, "node_uid": "u-1", "version": "1.2.3"}
    assert (place / "rdma-roce.ready").stat().st_mode & 0o777 == 0o644
    assert gate_files.open_gates(str(place), BOOT) == {ROCE, ROCE_READY}
    assert gate_files.why_closed(str(place), *ROCE, BOOT) == ""


def test_nothing_is_open_where_nothing_is(tmp_path: Path) -> None:
    assert (
        gate_files.open_gates(str(tmp_path), BOOT)
        == gate_files.open_gates(str(tmp_path / "nowhere"), BOOT)
        == frozenset()
    )
    assert gate_files.why_closed(str(tmp_path / "nowhere"), *ROCE, BOOT) == "no such file"
    for act in (GateFiles(str(tmp_path / "nowhere")).sweep(), GateFiles(str(tmp_path / "nowhere")).close(())):
        assert act == ""
    assert open_(tmp_path / "nowhere") == ""
    assert not (tmp_path / "nowhere").exists()


def test_closing_takes_what_is_not_wanted_and_nothing_of_others(tmp_path: Path) -> None:
    open_(tmp_path, ROCE, ROCE_READY, IB)
    others = ("memory.json", "lock", "ready", ".hidden.ready", "report.sock", atomic.fresh("memory.json"))
    for other in others:
        (tmp_path / other).write_text("")
    (tmp_path / "old-profile.ready").write_text("anything")
    (tmp_path / "linked.ready").symlink_to("memory.json")
    (tmp_path / "directory.ready").mkdir()
    assert GateFiles(str(tmp_path)).close({ROCE}) == ""
    assert names(tmp_path) == sorted(("rdma-roce.device", "directory.ready", *others))
    assert GateFiles(str(tmp_path)).close(()) == ""
    assert gate_files.open_gates(str(tmp_path), BOOT) == frozenset()


def test_opening_leaves_a_right_file_untouched(tmp_path: Path) -> None:
    open_(tmp_path, ROCE)
    before = (tmp_path / "rdma-roce.device").stat()
    open_(tmp_path, ROCE, IB)
    after = (tmp_path / "rdma-roce.device").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def written(**different: object) -> bytes:
    right = {"profile": "rdma-roce", "stage": "device", "boot_id": BOOT, "node_uid": "u-1", "version": "1"}
    return json.dumps(right | {"since": "2026-01-10T12:00:00Z"} | different).encode()


def linked(file: Path, content: bytes) -> None:
    """The same, behind a link."""
    file.with_name("x").write_bytes(content)
    file.symlink_to("x")


NO_GATES: list[tuple[str, Callable[[Path], object], str]] = [
    ("another boot", lambda file: file.write_bytes(written(boot_id=OTHER)), f"it is of another boot ({OTHER}, since "),
    ("no boot", lambda file: file.write_bytes(written(boot_id="")), "it is of another boot (, since "),
    ("another profile", lambda file: file.write_bytes(written(profile="x")), "it is damaged, what it says is not"),
    ("another stage", lambda file: file.write_bytes(written(stage="ready")), "it is damaged, what it says is not"),
    ("a number", lambda file: file.write_bytes(written(since=5)), "it is damaged, what it says is not"),
    ("nothing", lambda file: file.write_bytes(b""), "it is damaged, 0 bytes"),
    ("torn", lambda file: file.write_bytes(written()[:-1]), "it is damaged, 138 bytes"),
    (
        "a part",
        lambda file: file.write_bytes(b'{"profile": "rdma-roce", "stage": "device"}'),
        "it is damaged, 43 bytes",
    ),
    ("a list", lambda file: file.write_bytes(b"[]"), "it is damaged, 2 bytes"),
    ("lists", lambda file: file.write_bytes(b"[" * 50_000), "it is damaged, 50000 bytes"),
    ("binary", lambda file: file.write_bytes(b"\xff\xfe\x00"), "it is damaged, 3 bytes"),
    ("long", lambda file: file.write_bytes(b" " * 70_000 + written()), "it cannot be read (longer than 65536 bytes)"),
    ("a FIFO", os.mkfifo, "it cannot be read (a FIFO)"),
    ("a link", lambda file: linked(file, written()), "it is a link"),
]


@pytest.mark.parametrize(("make", "says"), [row[1:] for row in NO_GATES], ids=[row[0] for row in NO_GATES])
def test_what_is_no_gate_of_this_boot_counts_as_absent_and_is_written_anew(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    make(tmp_path / "rdma-roce.device")
    assert gate_files.open_gates(str(tmp_path), BOOT) == frozenset()
    assert gate_files.why_closed(str(tmp_path), *ROCE, BOOT).startswith(says)
    assert open_(tmp_path, ROCE) == ""
    assert gate_files.open_gates(str(tmp_path), BOOT) == {ROCE}


def test_a_gate_of_another_node_object_is_written_anew(tmp_path: Path) -> None:
    open_(tmp_path, ROCE, node_uid="u-0")
    before = (tmp_path / "rdma-roce.device").stat().st_ino
    open_(tmp_path, ROCE)
    assert (tmp_path / "rdma-roce.device").stat().st_ino != before  # renamed into its place, never written there
    assert json.loads((tmp_path / "rdma-roce.device").read_text())["node_uid"] == "u-1"


def test_where_the_boot_is_unknown_no_gate_opens_and_none_is_open(tmp_path: Path) -> None:
    assert open_(tmp_path, ROCE, boot_id="") == (
        f"{tmp_path}: no gate opens while the id of this boot is unknown; see cat /proc/sys/kernel/random/boot_id"
    )
    assert names(tmp_path) == []
    (tmp_path / "rdma-roce.device").write_bytes(written(boot_id=""))
    assert gate_files.open_gates(str(tmp_path), "") == frozenset()
    assert gate_files.why_closed(str(tmp_path), *ROCE, "") != ""


def test_a_copy_under_another_name_opens_nothing(tmp_path: Path) -> None:
    open_(tmp_path, ROCE)
    (tmp_path / "rdma-roce.device").rename(tmp_path / "rdma-roce.ready")
    assert gate_files.open_gates(str(tmp_path), BOOT) == frozenset()


def test_a_start_sweeps_what_a_killed_agent_left_half_written(tmp_path: Path) -> None:
    open_(tmp_path, ROCE)
    for name in ("rdma-roce.device", "x.ready", "%2E..ready"):
        (tmp_path / atomic.fresh(name)).write_text("{")
    stay = ["rdma-roce.device", atomic.fresh("memory.json"), "x.ready.new", ".x.ready", ".new"]
    for name in stay[1:]:
        (tmp_path / name).write_text("")
    assert gate_files.open_gates(str(tmp_path), BOOT) == {ROCE}
    assert GateFiles(str(tmp_path)).sweep() == ""
    assert names(tmp_path) == sorted(stay)


NAMES = [
    # profile             file
    ("rdma-roce", "rdma-roce.device"),
    ("RDMA_roce.2", "RDMA_roce.2.device"),
    (".", "%2E.device"),
    ("..", "%2E..device"),
    (".hidden", "%2Ehidden.device"),
    ("", ".device"),
    ("a/b", "a%2Fb.device"),
    ("../../etc/x", "%2E.%2F..%2Fetc%2Fx.device"),
    ("a%2Fb", "a%252Fb.device"),
    ("a b\n\0", "a%20b%0A%00.device"),
    ("é", "%C3%A9.device"),
    ("\ud800", "%ED%A0%80.device"),
    ("a.ready", "a.ready.device"),
    ("x" * 200, "x" * 200 + ".device"),
]


@pytest.mark.parametrize(("profile", "name"), [row for row in NAMES if row[0]], ids=range(len(NAMES) - 1))
def test_a_name_is_a_safe_file(tmp_path: Path, profile: str, name: str) -> None:
    assert gate_files.file_name(profile, "device") == name
    assert open_(tmp_path, (profile, "device")) == ""
    assert names(tmp_path) == [name]
    assert gate_files.open_gates(str(tmp_path), BOOT) == {(profile, "device")}


@pytest.mark.parametrize("profile", ["x" * 201, "x" * 250, "x" * 10_000, "網" * 250, "/" * 250])
def test_a_long_name_is_a_file_too(tmp_path: Path, profile: str) -> None:
    gates = {(f"{profile}{end}", stage) for end in ("", "1", "2") for stage in GateStage}
    assert open_(tmp_path, *gates) == ""
    assert gate_files.open_gates(str(tmp_path), BOOT) == gates
    assert all(len(name) + len(atomic.fresh("")) <= 255 for name in names(tmp_path))


@given(st.text(max_size=260), st.text(max_size=260))
def test_no_two_gates_share_a_file(one: str, two: str) -> None:
    found = {gate_files.file_name(profile, stage) for profile in (one, two, "") for stage in GateStage}
    assert len(found) == len({one, two, ""}) * len(GateStage)
    for name in found:
        assert re.fullmatch(r"[A-Za-z0-9._%-]{1,250}", name)


def test_a_directory_in_a_gates_place_is_words(tmp_path: Path) -> None:
    (tmp_path / "rdma-ib.device").mkdir()
    assert open_(tmp_path, IB, ROCE) == (
        f"{tmp_path}/rdma-ib.device cannot be written (Is a directory): pods that wait for it do not start; "
        f"see findmnt -T {tmp_path}"
    )
    assert gate_files.open_gates(str(tmp_path), BOOT) == {ROCE}  # one that cannot be opened keeps no other shut


READ_ONLY = """
import json, sys
from nodeprep.publish.gate_files import GateFiles, open_gates
files = GateFiles(sys.argv[1])
told = [files.open({("b", "ready"), ("c", "ready"), ("a", "device")}, boot_id="b-1", node_uid="", version="1")]
told += [files.close({("a", "device")}), files.close(()), files.sweep(), sorted(open_gates(sys.argv[1], "b-1"))]
print(json.dumps(told))
"""


def test_where_nothing_can_be_written_it_is_said_and_nothing_breaks(tmp_path: Path) -> None:
    open_(tmp_path, ("a", "device"), ("b", "device"), boot_id="b-1", node_uid="")
    why, look = "Read-only file system", f"see findmnt -T {tmp_path}"
    assert seen_with('mount --bind -o ro "$1" "$1"', READ_ONLY, str(tmp_path)) == [
        f"{tmp_path}/b.ready cannot be written ({why}) and 1 more: pods that wait for it do not start; {look}",
        f"{tmp_path}/b.device cannot be removed ({why}): pods that wait for it may start; {look}",
        f"{tmp_path}/a.device cannot be removed ({why}) and 1 more: pods that wait for it may start; {look}",
        "",
        [["a", "device"], ["b", "device"]],
    ]


def test_a_directory_that_cannot_be_listed_is_said(tmp_path: Path) -> None:
    place = tmp_path / "loop"
    place.symlink_to("loop")
    assert GateFiles(str(place)).close(()) == (
        f"{place} cannot be read (Too many levels of symbolic links): pods that wait for it may start; "
        f"see findmnt -T {place}"
    )
    assert gate_files.open_gates(str(place), BOOT) == frozenset()


def test_in_a_files_place_there_is_no_gate(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    assert GateFiles(str(place)).close(()) == GateFiles(str(place)).sweep() == ""
    assert gate_files.open_gates(str(place), BOOT) == frozenset()
    assert open_(place, ROCE).startswith(f"{place}/rdma-roce.device cannot be written (File exists)")
