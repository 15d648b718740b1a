"""The disk of a guest that is a node, with images that its containerd has from the start.

They are imported here and not there: an emulated machine unpacks 3 MiB a second.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.rigs import cluster_tools
from tests.rigs.cluster_build import CannotStart
from tests.rigs.waiting import until

SIZE = 8 << 30  # bytes, of which a fresh one takes 4 MiB here
STORE = "var/lib/containerd"  # where a node has it (tests/rigs/cluster_node.sh)
IMPORTED = ".imported"  # a node with this file imports nothing at its start
OPTIONS = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]

[grpc]
  address = "{state}/containerd.sock"
"""


def make(path: Path, archives: Sequence[Path]) -> None:
    """An ext4 file system in a sparse file. Its containerd knows the images of these archives: base.tar first.

    Raises:
        CannotStart: mkfs.ext4 or containerd is missing, or this machine does not let containerd unpack an image.
    """
    if not shutil.which("mkfs.ext4"):
        raise CannotStart("guest: not installed: mkfs.ext4 (apt-get install e2fsprogs)")
    with tempfile.TemporaryDirectory(prefix="disk-", dir=path.parent) as scratch, path.open("wb") as file:
        tree = Path(scratch) / "tree"
        (tree / STORE).mkdir(parents=True)
        with containerd(tree / STORE, Path(scratch) / "run") as ctr:
            for archive in archives:
                ran((*ctr, "images", "import", "--snapshotter", "overlayfs", str(archive.resolve())))
        (tree / STORE / IMPORTED).touch()
        file.truncate(SIZE)
        ran(("mkfs.ext4", "-q", "-F", *OPTIONS, "-d", str(tree), str(path)))


@contextmanager
def containerd(root: Path, state: Path) -> Iterator[tuple[str, ...]]:
    """Runs a containerd with the store `root`. Gives the words of a `ctr` for the kubelet's images in it."""
    programs = cluster_tools.tools() / "root/usr/bin"
    state.mkdir()
    settings = state / "config.toml"
    settings.write_text(CONFIG.format(root=root, state=state))
    # It mounts things to unpack an image. Nobody else must see them.
    apart = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount")
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(
            (*apart, str(programs / "containerd"), "--config", str(settings)), stdout=log, stderr=log
        )
    ctr = (str(programs / "ctr"), "--address", f"{state}/containerd.sock", "--namespace", "k8s.io")
    try:
        until(lambda: process.poll() is not None or answers(ctr), "a containerd for a guest's disk answers")
        if process.poll() is not None:
            raise CannotStart(f"guest: containerd ended: {(state / 'log').read_text()[-500:]}")
        yield ctr
    finally:
        process.terminate()
        process.wait()


def answers(ctr: Sequence[str]) -> bool:
    return subprocess.run((*ctr, "version"), capture_output=True, check=False).returncode == 0


def ran(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotStart(f"guest: {' '.join(command[:3])} failed: {(done.stderr or done.stdout).strip()[-500:]}")
