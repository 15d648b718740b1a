"""The host's file systems in our own mount namespace: whole, ours alone, and where they cannot be, one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.doors import host_tree
from tests.rigs.absent import needs_root
from tests.rigs.waiting import until

AGENT = Path(host_tree.__file__).parents[2]
HOST = """
mount --make-rshared /
mount -t tmpfs host /run
mkdir /run/inner && mount -t tmpfs inner /run/inner && echo deep > /run/inner/file
echo ready
while read -r words; do eval "$words"; done
"""
BEGIN = """
import os, sys
from nodeprep.doors import host_tree
from nodeprep.doors.host_tree import NoHostTree
"""


# Root without capabilities, as in an ordinary container.
WITHOUT_RIGHTS = """
import ctypes
ctypes.CDLL(None).prctl(24, 21)  # PR_CAPBSET_DROP, CAP_SYS_ADMIN
if not os.environ.get("AGAIN"):
    os.execve(sys.executable, [sys.executable, "-c", *sys.orig_argv[2:]], {**os.environ, "AGAIN": "yes"})
"""


@pytest.fixture
def host() -> Iterator[subprocess.Popen[str]]:
    """A process whose mount namespace is the host. It runs the lines that it is told."""
    with subprocess.Popen(
        ("unshare", "--mount", "sh", "-ec", HOST), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def in_tree(script: str, *arguments: str) -> str:
    done = subprocess.run(
        (sys.executable, "-c", BEGIN + script, *arguments),
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_root("mount namespaces")
def test_all_of_it_is_there_and_nobody_else_sees_it(host: subprocess.Popen[str], tmp_path: Path) -> None:
    place = tmp_path / "host"
    script = """
host_tree.attach(*sys.argv[1:])
place = sys.argv[2]
print(open(f"{place}/run/inner/file").read().strip())
print(os.path.realpath(f"{place}/run/inner/file") == f"{place}/run/inner/file")
open(f"{place}/run/ours", "w").write("x")
print(os.path.exists("/run/ours"))
"""
    assert in_tree(script, f"/proc/{host.pid}", str(place)).split() == ["deep", "True", "False"]
    assert Path(f"/proc/{host.pid}/root/run/ours").exists()
    assert str(place) not in Path("/proc/self/mounts").read_text()
    assert str(place) not in Path(f"/proc/{host.pid}/mounts").read_text()
    assert list(place.iterdir()) == []


@needs_root("mount namespaces")
def test_directories_that_are_empty_small_and_ours_alone(host: subprocess.Popen[str], tmp_path: Path) -> None:
    """Also where the place of the host's tree is below one of them."""
    (tmp_path / "file").touch()
    script = """
place, scratch = sys.argv[2:]
host_tree.attach(sys.argv[1], place, [scratch])
print(os.listdir(scratch), os.path.exists(f"{place}/run/inner/file"))
try:
    with open(f"{scratch}/much", "wb") as file:
        while True:
            file.write(bytes(1 << 20))
except OSError as error:
    print(error.strerror, os.path.getsize(f"{scratch}/much") >> 20)
"""
    told = in_tree(script, f"/proc/{host.pid}", str(tmp_path / "host"), str(tmp_path))
    assert told.splitlines() == ["['host'] True", "No space left on device 64"]
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@needs_root("mount namespaces")
def test_a_mount_that_the_host_makes_later_appears(host: subprocess.Popen[str], tmp_path: Path) -> None:
    script = """
host_tree.attach(*sys.argv[1:3])
print("attached", flush=True)
input()
print(os.path.exists(f"{sys.argv[2]}/mnt/late"))
"""
    with subprocess.Popen(
        (sys.executable, "-c", BEGIN + script, f"/proc/{host.pid}", str(tmp_path / "host")),
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "attached\n"
        assert host.stdin is not None
        host.stdin.write("mount -t tmpfs late /mnt; touch /mnt/late\n")
        host.stdin.flush()
        until(lambda: Path(f"/proc/{host.pid}/root/mnt/late").exists(), "the mount on the host")
        assert process.communicate("\n")[0] == "True\n"
        assert process.returncode == 0


@needs_root("mount namespaces")
@pytest.mark.parametrize(
    ("begin", "process", "says"),
    [
        ("", "/proc/0", "/proc/0/ns/mnt: No such file or directory\n"),
        (
            WITHOUT_RIGHTS,
            "/proc/self",
            "setns: Operation not permitted; wanted a privileged container\n",
        ),
    ],
    ids=["no such process", "no right"],
)
def test_why_not(tmp_path: Path, begin: str, process: str, says: str) -> None:
    tmp_path.chmod(0o777)
    script = (
        begin
        + """
try:
    host_tree.attach(*sys.argv[1:])
except NoHostTree as error:
    print(error)
"""
    )
    assert in_tree(script, process, str(tmp_path)) == says
