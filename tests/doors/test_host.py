"""Whether what is mounted at a live host's root is the machine that we run on, and what says that it is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from tests.rigs.absent import cannot_start
from tests.rigs.ending import ending
from tests.rigs.mounted import seen_with

BOOT_ID = "proc/sys/kernel/random/boot_id"
OURS = Path("/", BOOT_ID).read_text()
NOT_MOUNTED = "the host's root is not mounted here: "
TABLE = "no {root}/proc/1/stat, and no {root}/"
ROWS: list[tuple[dict[str, str], str]] = [
    # files, what is wrong
    ({}, f"{TABLE}proc/1/mountinfo and no {{root}}/sys/class and no {{root}}/usr"),
    ({"proc/1/mountinfo": "", "usr/bin/x": ""}, f"{TABLE}sys/class"),
    ({BOOT_ID: OURS}, f"{TABLE}proc/1/mountinfo and no {{root}}/sys/class and no {{root}}/usr"),
    ({"proc/1/stat": "1 (init) S"}, f"no {{root}}/{BOOT_ID}"),
    ({"proc/1/stat": "1 (init) S", BOOT_ID: "another\n"}, f"{{root}}/{BOOT_ID} is not that of this boot"),
    (
        {"proc/1/mountinfo": Path("/proc/1/mountinfo").read_text(), "usr/x": "", "sys/class/x": ""},
        "{root}/proc/1/mountinfo is no mount, wanted the host's /proc/1/mountinfo, mounted as a file",
    ),
]


@pytest.mark.parametrize(("files", "wrong"), ROWS)
def test_a_root_that_is_not_mounted_says_what_is_missing(tmp_path: Path, files: dict[str, str], wrong: str) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    told = Host(f"{tmp_path}/").unmounted()
    assert told is not None
    assert told.detail == NOT_MOUNTED + wrong.format(root=tmp_path)


def test_one_that_is_mounted_or_dead_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    assert Host("/").unmounted() is None
    assert Host(str(tmp_path), live=False).unmounted() is None


# As the agent's pod has its host: two files of /proc, and directories. $1 is the root.
PLACES = 'mkdir -p "$1/proc/1" "$1/sys/class" "$1/usr" && touch "$1/proc/1/mountinfo"'
MOUNTED = "mount --bind /proc/1/mountinfo $1/proc/1/mountinfo"
OTHERS = "mount --bind /sys/class $1/sys/class && mount --bind /usr $1/usr"
LOOK = """
import json, sys
from nodeprep.doors.node_host import Host
host = Host(sys.argv[1])
looks = [host.unmounted() for _ in range(2)]
print(json.dumps([one.detail if one else "" for one in looks]))
"""


def says(root: Path, mounts: str) -> str:
    """Why the root is not the host's after the mounts, "" if it is; a second look says the same."""
    first, second = seen_with(f"{PLACES} && {mounts}", LOOK, str(root))
    assert first == second
    return str(first).removeprefix(NOT_MOUNTED).replace(str(root), "ROOT")


@pytest.fixture
def hosts() -> None:
    """What these rows rest on: that of this machine's first process is the table that has our /proc."""
    if Path("/proc/1/mountinfo").read_text() != Path("/proc/self/mountinfo").read_text():
        pytest.skip("this test runs in a container: what is at /proc/1 is no host's")


@pytest.mark.usefixtures("hosts")
def test_a_mount_table_and_directories_of_the_host_prove_it(tmp_path: Path) -> None:
    assert says(tmp_path, f"{MOUNTED} && {OTHERS}") == ""


def test_the_table_of_another_process_is_not_the_hosts(tmp_path: Path) -> None:
    told = says(tmp_path, f"mount --bind /proc/$$/mountinfo $1/proc/1/mountinfo && {OTHERS}")
    assert told.startswith("ROOT/proc/1/mountinfo is /")
    assert told.endswith("wanted the host's /proc/1/mountinfo, mounted as a file")


@pytest.fixture
def container() -> Iterator[int]:
    """The first process of namespaces of its own."""
    own = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")
    script = "echo up && read -r _"
    with ending(subprocess.Popen((*own, "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as outer:
        assert outer.stdin is not None
        assert outer.stdout is not None
        if outer.stdout.readline() != b"up\n":
            cannot_start("no PID and mount namespace of its own")
        yield int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        outer.stdin.close()


@pytest.mark.usefixtures("hosts")
def test_the_table_of_a_containers_first_process_is_not_the_hosts(tmp_path: Path, container: int) -> None:
    proc = f'mkdir "$1/other" && nsenter --pid --target {container} mount -t proc none "$1/other"'
    told = says(tmp_path, f"{proc} && mount --bind $1/other/1/mountinfo $1/proc/1/mountinfo && {OTHERS}")
    assert told.startswith("ROOT/proc/1/mountinfo is of another mount namespace: /proc is / of proc ")


@pytest.mark.usefixtures("hosts")
def test_the_sysfs_of_another_network_namespace_is_not_the_hosts(tmp_path: Path) -> None:
    sysfs = 'mkdir "$1/other" && unshare --net mount -t sysfs none "$1/other"'
    told = says(tmp_path, f"{MOUNTED} && {OTHERS} && {sysfs} && mount --bind $1/other/class $1/sys/class")
    assert told.startswith("ROOT/sys/class is /class of sysfs ")
    assert told.endswith("wanted what ROOT/proc/1/mountinfo has at /sys/class")


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("path", ["/usr", "/sys/class"])
def test_an_empty_directory_in_place_of_the_hosts_is_not_it(tmp_path: Path, path: str) -> None:
    told = says(tmp_path, f"{MOUNTED} && {OTHERS} && umount $1{path}")
    assert told == f"ROOT{path} is no mount, wanted what ROOT/proc/1/mountinfo has at {path}"


LOST = """
import json, subprocess, sys
from nodeprep.doors.node_host import Host
host = Host(sys.argv[1])
proven = host.unmounted()
subprocess.run(["umount", sys.argv[1] + sys.argv[2]], check=True)
print(json.dumps([one.detail if one else "" for one in (proven, host.unmounted())]))
"""


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("path", ["/usr", "/sys/class"])
def test_a_root_that_was_proven_is_proven_again_once_another_directory_is_there(tmp_path: Path, path: str) -> None:
    first, second = seen_with(f"{PLACES} && {MOUNTED} && {OTHERS}", LOST, str(tmp_path), path)
    assert first == ""
    assert second.startswith(f"{NOT_MOUNTED}{tmp_path}{path} is no mount, wanted ")
