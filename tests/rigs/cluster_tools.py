"""The other programs of a node: containerd, runc, CNI plugins and a small image, from Debian's packages.

They are unpacked, not installed: no daemon starts, and the machine's packages stay as they are. A directory of the
user's cache holds root/, the packages' files, and base.tar, the image BASE. That is busybox. With a sleeping busybox it
is also the container that holds a pod's namespaces.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

from daemonset.image import oci
from tests.rigs import cache
from tests.rigs.cluster_build import CannotStart

DEBIAN = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
BASE = "nodeprep.test/base:dev"
ASLEEP = ("/bin/sleep", "2147483647")


@functools.cache
def tools() -> Path:
    """The directory for the packages that apt would install now, made if needed: 35 MB to fetch, 150 MB unpacked.

    Raises:
        CannotStart: apt is missing, does not know a package, or cannot fetch one.
    """
    with cache.locked("node-tools") as directory:
        packages = candidates()
        sources = [Path(__file__).read_bytes(), Path(oci.__file__).read_bytes(), *(one.encode() for one in packages)]
        return cache.built(directory, "node-tools", b" ".join(sources), partial(make, packages))


def candidates() -> list[str]:
    """Each package and the version that apt would install: "runc=1.1.5+ds1-1"."""
    shown = output("apt-cache", "show", "--no-all-versions", *DEBIAN)
    versions = dict(re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", shown, re.MULTILINE))
    if missing := [name for name in DEBIAN if name not in versions]:
        raise CannotStart(f"cluster: apt knows no {', '.join(missing)}; run: apt-get update")
    return [f"{name}={versions[name]}" for name in DEBIAN]


def make(packages: list[str], target: Path) -> None:
    (target / "root").mkdir(parents=True)
    # The sandbox user cannot write to a directory in someone's home; without root the option has no effect.
    output("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages, cwd=target)
    for archive in target.glob("*.deb"):
        output("dpkg", "-x", str(archive), str(target / "root"))
        archive.unlink()
    base = target / "base"
    for directory in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (base / directory).mkdir(parents=True)
    busybox = base / "bin/busybox"
    shutil.copy(target / "root/bin/busybox", busybox)
    for applet in output(str(busybox), "--list").split():
        if applet != "busybox":  # its list contains its own name
            (base / "bin" / applet).symlink_to("busybox")
    oci.write([base], target / "base.tar", name=BASE, entrypoint=ASLEEP)


def output(*command: str, cwd: Path | None = None) -> str:
    """The output of a program.

    Raises:
        CannotStart: it is missing, or it failed; with the last line that it wrote.
    """
    if not shutil.which(command[0]):
        raise CannotStart(f"cluster: {command[0]} is missing: nodes are made of Debian's packages")
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, timeout=600, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotStart(f"cluster: {' '.join(command[:3])} failed: {said[-1] if said else done.returncode}")
    return done.stdout
