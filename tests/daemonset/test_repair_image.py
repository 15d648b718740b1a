"""The remediator's image: the agent's with a shell and Ansible, and a remediator in it that mends a host."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from daemonset.image import build, debian, wheels
from daemonset.image.debian import CannotBuild
from nodeprep.config import remedy_files
from tests.rigs import remediator_process
from tests.rigs.absent import cannot_start, needs_root
from tests.rigs.remediator_process import HELLO, Remediator

pytestmark = needs_root("chroot and mounts")
HERE = build.CHECKOUT / "daemonset/image"
LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
SHELLS = {"sh", "dash", "bash", "busybox", "nsenter", "chroot", "env", "cp", "ansible", "ansible-playbook"}
CHANGES = (  # of the Containerfile
    ("requirements.lock ", "requirements.lock requirements-repair.lock "),
    ("build.py ", "build.py --repair "),
    ("title=nodeprep ", "title=nodeprep-repair "),
)

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


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the agent's image."""
    made = tmp_path_factory.mktemp("image") / "root"
    try:
        build.file_system(made)
    except CannotBuild as reason:
        cannot_start(reason)
    return made


def packages(root: Path) -> set[str]:
    return {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}


def wheels_of(root: Path) -> dict[str, str]:
    """The version of each package of Python, by its name."""
    parts = (path.name.removesuffix(".dist-info").partition("-") for path in (root / wheels.SITE).glob("*.dist-info"))
    return {name.lower().replace("_", "-"): version for name, _, version in parts}


def locked(lock: Path) -> dict[str, str]:
    return dict(LOCKED.findall(lock.read_text()))


def files(root: Path, below: str = "") -> dict[str, str]:
    """The hash of each file, and where each link leads, by its path."""
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (root / below).rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_the_agents_image_has_what_its_lists_have_and_nothing_of_ansible(root: Path, agents: Path) -> None:
    """Who takes the agent over finds neither a shell nor a tool there. The remediator's image has them besides."""
    assert packages(agents) == set(debian.names())
    assert packages(root) - packages(agents) == set(debian.names(debian.REPAIR))
    ours = {"nodeprep": build.version()}
    assert wheels_of(agents) == locked(build.AGENT.lock) | ours
    assert wheels_of(root) == locked(build.REPAIR.lock) | ours
    assert wheels_of(agents).items() <= wheels_of(root).items()
    names = {Path(path).name for path in files(agents)}
    assert not names & SHELLS
    assert SHELLS & {Path(path).name for path in files(root)} >= {"sh", "nsenter"}
    site = {path.name for path in (agents / wheels.SITE).iterdir()}
    assert not [name for name in site if "ansible" in name or "jinja" in name]


def test_both_have_the_same_nodeprep(root: Path, agents: Path) -> None:
    """The modules, and the playbooks with their headers: the agent plans by them, and cannot run one."""
    here = files(agents, f"{wheels.SITE}/nodeprep")
    assert here == files(root, f"{wheels.SITE}/nodeprep")
    assert len([path for path in here if path.endswith(".py")]) > 400
    assert {Path(path).stem for path in here if "/playbooks/" in path and "/tasks/" not in path} >= set(
        remedy_files.headers()
    )


def test_the_containerfile_is_the_agents_with_the_other_lists() -> None:
    said = [(HERE / name).read_text() for name in ("Containerfile", "Containerfile-repair")]
    lines = [[line for line in one.splitlines() if not line.startswith("#")] for one in said]
    assert [pair for pair in zip(*lines, strict=True) if pair[0] != pair[1]] == [
        (before, before.replace(*change))
        for before in lines[0]
        for change in CHANGES
        if before.startswith(("COPY", "RUN .ci", "LABEL")) and change[0] in before
    ]


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
