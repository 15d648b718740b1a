"""Packs the initramfs of a guest: busybox, the modules that it needs before it has a root, and an init."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

DIRECTORIES = ("bin", "early", "proc", "sys", "dev", "lower", "upper", "newroot")
APPLETS = ("sh", "mount", "insmod", "mkdir", "ln", "sleep", "switch_root")


class CannotStart(Exception):
    """This machine lacks something that the lab needs; the text says what, in one line."""


def pack(file: Path, tree: Path, release: str, modules: Sequence[str], init: str) -> None:
    """Writes the initramfs `file`.

    Args:
        file: a new file.
        tree: where lib/modules of the kernel is.
        release: of that kernel, as `uname -r` says it.
        modules: the names of those that `init` loads; the files of them and of what they need, in this order, are
            those of /early that /early/order names.
        init: a script of busybox's shell, with APPLETS.

    Raises:
        CannotStart: the kernel has no such module, or busybox is missing.
    """
    busybox = shutil.which("busybox")
    if not busybox:
        raise CannotStart("lab: not installed: busybox (apt-get install busybox-static)")
    with tempfile.TemporaryDirectory(prefix="initramfs-", dir=file.parent) as scratch:
        root = Path(scratch)
        for name in DIRECTORIES:
            (root / name).mkdir()
        shutil.copy(busybox, root / "bin/busybox")
        for applet in APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        order = early(root / "early", tree, release, modules)
        (root / "early/order").write_text("".join(f"{name}\n" for name in order))
        (root / "init").write_text(init)
        (root / "init").chmod(0o755)
        names = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
        # Not compressed: the guest unpacks it in software emulation.
        archive = ("cpio", "--quiet", "-o", "-H", "newc")
        packed = subprocess.run(archive, input=names.encode(), cwd=root, stdout=subprocess.PIPE, check=True)
        file.write_bytes(packed.stdout)


def early(directory: Path, tree: Path, release: str, modules: Sequence[str]) -> tuple[str, ...]:
    """Copies modules and what they need; returns the names of the files in the order in which they can be loaded."""
    order: dict[str, None] = {}
    for module in modules:
        needed = output("modprobe", "-d", str(tree), "-S", release, "--show-depends", module)
        for line in needed.splitlines():
            if line.startswith("insmod "):
                file = Path(line.split()[1])
                shutil.copy(file, directory / file.name)
                order[file.name] = None
    return tuple(order)


def output(*command: str, cwd: Path | None = None, seconds: float = 300) -> str:
    """The output of a program.

    Raises:
        CannotStart: it failed; with the last line that it wrote.
    """
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env=environment, timeout=seconds, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotStart(f"lab: {' '.join(command[:3])} failed: {said[-1] if said else done.returncode}")
    return done.stdout
