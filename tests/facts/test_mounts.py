"""Mount tables from trees, and file systems of this kernel that really hang, in a mount namespace of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import mounts as mounts_facts
from nodeprep.facts.machine import mounts as mounts_module
from nodeprep.facts.machine.mounts import STATVFS_TIMEOUT_SECONDS, Mount, Mounts
from nodeprep.model import Unreadable, Why, raw
from tests.rigs import hung_mounts
from tests.rigs.absent import cannot_start

AGENT = Path(mounts_module.__file__).parents[3]

TABLE = r"""22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,discard
40 22 0:44 / /data\040of\134jobs rw,relatime shared:5 master:1 - nfs4 nas.example:/vol\0401 rw,vers=4.2
41 22 0:44 /sub /models rw,relatime - nfs4 nas.example:/vol\0401 rw,vers=4.2
42 22 0:45 / /scratch rw - fuse.juicefs JuiceFS:scratch rw,user_id=0
43 22 0:46 / /home rw - autofs systemd-1 rw,fd=30
44 22 0:47 / /nameless rw - tmpfs  rw
45 22 0:48 / /pool rw - lustre 10.0.0.1@o2ib:/fs rw
46 22 0:49 / /proc/fs/nfsd rw - nfsd nfsd rw
47 22 0:50 / /sys/fs/fuse/connections rw - fusectl fusectl rw
48 22 0:51 / /data\040of\134jobs rw - tmpfs over rw"""


def table(root: Path, text: str | bytes, path: str = "proc/1/mountinfo") -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text if isinstance(text, bytes) else text.encode())


def look(host: Host) -> Mounts:
    mounts = mounts_facts.observe(host)
    assert isinstance(mounts, Mounts)
    return mounts


class Answering(Host):
    """A live host with another's mount table, whose file systems answer as a test says."""

    def __init__(self, root: Path, answers: dict[str, Unreadable | None]) -> None:
        super().__init__(str(root))
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def statvfs(self, points: object, deadline: float) -> dict[str, Unreadable | None]:
        assert isinstance(points, tuple)
        assert 0 < deadline < 5
        self.asked.append(points)
        return {point: self.answers.get(point) for point in points}


def test_a_dead_tree(tmp_path: Path) -> None:
    table(tmp_path, TABLE)
    mounts = look(Host(str(tmp_path), live=False))
    assert mounts.mounts[0] == Mount("/", "ext4", "/dev/nvme0n1p2", "259:2", "/", False, "")
    assert mounts.mounts[1] == Mount("/data of\\jobs", "nfs4", "nas.example:/vol 1", "0:44", "/", True, "")
    assert mounts.mounts[2] == Mount("/models", "nfs4", "nas.example:/vol 1", "0:44", "/sub", True, "")
    assert mounts.mounts[5] == Mount("/nameless", "tmpfs", "", "0:47", "/", False, "")
    remote = [mount.point for mount in mounts.mounts if mount.remote]
    assert remote == ["/data of\\jobs", "/models", "/scratch", "/pool"]


def test_the_topmost_mount_at_a_point(tmp_path: Path) -> None:
    table(tmp_path, TABLE)
    mounts = look(Host(str(tmp_path), live=False))
    top = mounts.at_point("/data of\\jobs")
    assert top is not None
    assert top.kind == "tmpfs"
    assert mounts.at_point("/nothing") is None


@pytest.mark.parametrize(
    "line", ["", "22 1 259:2", "22 1 259:2 / / rw,relatime ext4 /dev/x rw", "a b - c", " - ext4 x rw"]
)
def test_lines_that_no_kernel_writes_are_passed_over(tmp_path: Path, line: str) -> None:
    table(tmp_path, f"{line}\n{TABLE.splitlines()[0]}\n{line}")
    assert [mount.point for mount in look(Host(str(tmp_path), live=False)).mounts] == ["/"]


def test_a_mount_point_that_is_not_utf8_spoils_nothing(tmp_path: Path) -> None:
    table(tmp_path, b"50 22 0:60 / /caf\xe9 rw - nfs4 nas:/x rw\n" + TABLE.encode())
    mounts = look(Host(str(tmp_path), live=False)).mounts
    assert mounts[0].point == "/caf\\xe9"
    assert len(mounts) == len(TABLE.splitlines()) + 1


def test_a_table_of_many_megabytes(tmp_path: Path) -> None:
    layers = ":".join(["/var/lib/containerd/snapshots/x"] * 60)
    line = "{0} 22 0:{0} / /run/c/{0} rw - overlay overlay rw,lowerdir=" + layers + "\n"
    table(tmp_path, "".join(line.format(number) for number in range(1000)))
    assert (tmp_path / "proc/1/mountinfo").stat().st_size > 1 << 20
    assert len(look(Host(str(tmp_path), live=False)).mounts) == 1000


def test_a_tree_without_a_table(tmp_path: Path) -> None:
    nothing = mounts_facts.observe(Host(str(tmp_path), live=False))
    assert isinstance(nothing, Unreadable)
    assert nothing.not_recorded


def test_each_directory_of_a_file_system_is_asked_once(tmp_path: Path) -> None:
    """60 pods that mount the same volume wait for one answer."""
    pods = "".join(f"{number} 22 0:44 / /pods/{number} rw - nfs4 nas:/x rw\n" for number in range(100, 160))
    table(tmp_path, pods + "300 22 0:44 /sub /models rw - nfs4 nas:/x rw\n301 22 8:1 / /local rw - ext4 /dev/sda rw")
    gone = Unreadable(Why.TIMEOUT, "/pods/159", detail="statvfs gave no answer in 2 s")
    host = Answering(tmp_path, {"/pods/159": gone})
    mounts = look(host).mounts
    assert host.asked == [("/pods/159", "/models")]
    assert {mount.answer for mount in mounts if mount.point.startswith("/pods")} == {gone.detail}
    assert [mount.answer for mount in mounts[-2:]] == ["", ""]


def test_no_more_than_256_are_asked(tmp_path: Path) -> None:
    table(tmp_path, "".join(f"{n} 22 0:{n} / /pods/{n} rw - nfs4 nas:/{n} rw\n" for n in range(1000)))
    host = Answering(tmp_path, {})
    assert len(look(host).mounts) == 1000
    assert [len(points) for points in host.asked] == [256]


def test_nothing_remote_asks_nobody(tmp_path: Path) -> None:
    table(tmp_path, TABLE.splitlines()[0])
    host = Answering(tmp_path, {})
    assert len(look(host).mounts) == 1
    assert host.asked == []


@pytest.mark.parametrize(
    ("answer", "is_blind"),
    [
        (Unreadable(Why.DENIED, "/scratch", 13, "Permission denied"), True),
        (Unreadable(Why.MISSING, "/scratch", 2, "No such file or directory"), True),
        (Unreadable(Why.MISSING_TOOL, "python", detail="ended"), True),
        (Unreadable(Why.IO_ERROR, "/scratch", 107, "Transport endpoint is not connected"), False),
        (Unreadable(Why.TIMEOUT, "/scratch", detail="statvfs gave no answer in 2 s"), False),
    ],
)
def test_what_could_not_be_asked_is_no_failure_of_the_mount(tmp_path: Path, answer: Unreadable, is_blind: bool) -> None:
    table(tmp_path, TABLE)
    mount = look(Answering(tmp_path, {"/scratch": answer})).at_point("/scratch")
    assert mount is not None
    assert raw(mount)["answer"] == (answer if is_blind else answer.detail)


def test_this_machine() -> None:
    mounts = look(Host())
    root = mounts.at_point("/")
    assert root is not None
    points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    if Path("/proc/1/mountinfo").read_text() == Path("/proc/self/mountinfo").read_text():
        assert {mount.point for mount in mounts.mounts} >= {point for point in points if "\\" not in point}


# File systems that hang

# A busy machine may end a killed child later than the look; the next look takes note of that.
LOOK = """
import json, os, sys, time
from pathlib import Path
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine.mounts import observe

def hanging():
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [child for child in children if "State:\\tZ" not in Path(f"/proc/{child}/status").read_text()]

host, here, looks = Host(), os.environ["MOUNTS"], []
for look in range(2):
    started = time.monotonic()
    mounts = observe(host).mounts
    took = time.monotonic() - started
    answers = {mount.point.rpartition("/")[2]: mount.answer for mount in mounts if mount.point.startswith(here)}
    patience = time.monotonic() + 30
    while hanging() and time.monotonic() < patience:
        time.sleep(0.05)
    looks.append({"took": took, "answers": answers, "hanging": hanging()})
print(json.dumps(looks), flush=True)
"""


GONE = "Transport endpoint is not connected"


def looked() -> list[dict[str, Any]]:
    argv = [sys.executable, hung_mounts.__file__, "run", "--", sys.executable, "-c", LOOK]
    environment = os.environ | {"PYTHONPATH": str(AGENT)}
    # The observer must end too, though its mounts still hang: else this waits for ever.
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False, timeout=100)
    if done.returncode == hung_mounts.UNAVAILABLE:
        cannot_start(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    looks: list[dict[str, Any]] = json.loads(done.stdout)
    return looks


@pytest.mark.timeout(600)
def test_many_hung_mounts_cost_one_deadline_and_nothing_is_left_hanging() -> None:
    looks: list[dict[str, Any]] = []
    for _ in range(5):
        looks = looked()
        # Else the machine took the time of the one that answers. This does not happen each time.
        if all(look["answers"]["gone"] == GONE and look["took"] < 2 * STATVFS_TIMEOUT_SECONDS for look in looks):
            break
    assert len(looks) == 2
    for look in looks:
        hung = {
            f"hung{number}": f"statvfs gave no answer in {STATVFS_TIMEOUT_SECONDS:g} s"
            for number in range(hung_mounts.HUNG)
        }
        assert look["answers"] == hung | {"gone": GONE}
        assert STATVFS_TIMEOUT_SECONDS <= look["took"] < hung_mounts.HUNG * STATVFS_TIMEOUT_SECONDS
        assert look["hanging"] == []
