"""The remediator's image: the agent's with a shell and Ansible, and a remediator in it that mends a host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from daemonset.image import build, debian
from daemonset.image.debian import CannotBuild
from tests.rigs import remediator_process
from tests.rigs.absent import cannot_start, needs_root
from tests.rigs.remediator_process import HELLO, Remediator

pytestmark = needs_root("chroot and mounts")

# A container of the image: its files are "/", with file systems in memory where a pod has volumes. $1 is its root, $2
# a directory of ours, which it sees as /run/ours. The rest is what runs in it.
CONTAINER = """
root=$1 ours=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sys sys
mount --rbind /dev dev
for place in run tmp; do mount -t tmpfs memory $place; done
mkdir run/old run/ours
mount --bind "$ours" run/ours
mount -o remount,bind,ro .
pivot_root . run/old
/run/old/usr/bin/umount -l /run/old
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repair-image") / "root"
    try:
        build.file_system(made, build.REPAIR)
    except CannotBuild as reason:
        cannot_start(reason)
    return made


def inside(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("chroot", str(root), *command), capture_output=True, text=True, check=False)


def is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def test_the_list_of_packages_is_closed(root: Path) -> None:
    """Every program and library finds the libraries that it names."""
    loader = "/" + str(next(root.glob("lib/*/ld-linux-*.so.*")).relative_to(root))
    elf = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and is_program(path)]
    assert len(elf) > 200
    for path in elf:
        done = inside(root, loader, "--list", f"/{path.relative_to(root)}")
        assert "not found" not in done.stdout + done.stderr, path


def test_the_agents_image_has_none_of_it() -> None:
    """Neither a shell nor Ansible: who takes the agent over finds no tool there."""
    agents, ours = debian.names(), debian.names(debian.LIST, debian.REPAIR)
    assert set(agents) < set(ours)
    assert not {"dash", "bash", "busybox", "coreutils", "util-linux"} & set(agents)
    locks = [lock.read_text() for lock in (build.AGENT.lock, build.REPAIR.lock)]
    assert ["ansible-core" in lock for lock in locks] == [False, True]


@pytest.mark.timeout(1200)
def test_a_remediator_in_it_mends_a_host(root: Path, tmp_path: Path) -> None:
    container = ("unshare", "--mount", "sh", "-ec", CONTAINER, "sh", str(root), str(tmp_path))
    with remediator_process.host() as first:
        process = f"/proc/{first.pid}"
        remediator = Remediator(
            tmp_path, "--host-process", process, before=container, program=("nodeprep",), seen="/run/ours"
        )
        with remediator.serving():
            told = remediator.ask(HELLO, remediator_process.run_request(remedy="terway_dirs"))
            assert told[1] == {"status": "running"}, told
            done = remediator_process.ended(remediator)
            assert (done["rc"], done["changed"]) == (0, 2), done["why"]
            assert Path(f"{process}/root/run/eni").is_dir()
            assert "/run/eni" in Path(f"{process}/root/etc/tmpfiles.d/nodeprep-terway.conf").read_text()
    assert not (root / "run/eni").exists()
    assert not os.path.lexists("/etc/tmpfiles.d/nodeprep-terway.conf")
