"""Builds and keeps the image of a lab guest: Debian's kernel, its modules, and an initramfs that ends on this root.

Nothing is installed: the kernel's package is unpacked under the user's cache, one directory for each set of inputs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import lab_initramfs
from tests.rigs.lab_initramfs import CannotStart, output

# Debian packages, each with a program or a file that shows that it is installed. The guest runs on this machine's root,
# so the programs that tests call inside must be installed here too.
PACKAGES = {
    "qemu-system-x86": "qemu-system-x86_64",
    "busybox-static": "busybox",
    "cpio": "cpio",
    "kmod": "depmod",
    "procps": "pgrep",
    "iproute2": "rdma",
    "rdma-core": "rdma-ndd",
    "ibverbs-providers": "/etc/libibverbs.d/rxe.driver",
    "ibverbs-utils": "ibv_devinfo",
    "ethtool": "ethtool",
    "util-linux": "setpriv",
}
KERNEL = "linux-image-amd64"
# Modules that the guest needs before it has a root: for the root over 9p, a writable layer, the channel to the host.
EARLY_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")
KEPT = 2  # images, at about 400 MB each

# LAB_* come from the kernel's command line: the kernel gives unknown words to init as environment.
# 9p: cache=loose, because nobody changes a file of the host during a test. lib/modules is a mount, so that denied
# modules are nowhere. The image itself is hidden for the same reason. A training node gives its containers unlimited
# locked memory, because RDMA registers all its buffers.
INIT = """\
#!/bin/busybox sh
set -e
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
while read module; do insmod /early/$module; done < /early/order
share() { mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose $1 $2; }
share root /lower
mount -t tmpfs tmpfs /upper; mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /newroot
mkdir -p /newroot/lib/modules /newroot/run
share modules /newroot/lib/modules
mount -t tmpfs tmpfs "/newroot$LAB_IMAGE"
mount -t tmpfs -o mode=755 tmpfs /newroot/run
for directory in proc sys dev; do mount --move /$directory /newroot/$directory; done
mkdir -p /newroot/dev/pts /newroot/dev/shm
ln -s /proc/self/fd /newroot/dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${stream%:*} /newroot/dev/${stream#*:}; done
mount -t devpts devpts /newroot/dev/pts; mount -t tmpfs tmpfs /newroot/dev/shm
mount -t cgroup2 cgroup2 /newroot/sys/fs/cgroup
echo lab > /newroot/proc/sys/kernel/hostname
ulimit -l unlimited
exec switch_root /newroot /bin/sh -c '"$LAB_PYTHON" -I -S "$LAB_AGENT"; echo o > /proc/sysrq-trigger; sleep 60'
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A directory of the cache, locked so that no other process removes it."""

    directory: Path
    modules: Path
    lock: int

    @property
    def kernel(self) -> Path:
        return next(self.directory.glob("tree/boot/vmlinuz-*"))

    @property
    def initramfs(self) -> Path:
        return self.directory / "initramfs"

    def release(self) -> None:
        os.close(self.lock)


def held(denied: frozenset[str] = frozenset()) -> Image:
    """The image for today's kernel package, built if needed, without the modules `denied`.

    Raises:
        CannotStart: a package is missing, or apt knows no kernel.
        ValueError: a name in `denied` is not a module of this kernel, or the lab cannot boot without it.
    """
    missing = missing_packages()
    if missing:
        raise CannotStart(f"lab: not installed: {' '.join(missing)}; run: apt-get install -y {' '.join(PACKAGES)}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodeprep"
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lab.lock"):
        package, version = kernel_package()
        source = hashlib.sha256(Path(__file__).read_bytes() + Path(lab_initramfs.__file__).read_bytes())
        directory = cache / f"lab-{version}-{source.hexdigest()[:12]}"
        if not directory.is_dir():
            build(directory, f"{package}={version}")
        modules = directory / "tree/lib/modules"
        if denied:
            modules = without(directory, denied)
        lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(directory)
        remove_old(cache)
    return Image(directory, modules, lock)


def missing_packages() -> tuple[str, ...]:
    """Packages that are not installed. A program in /usr/sbin counts, although a user's PATH may lack it."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    return tuple(
        package
        for package, shown_by in PACKAGES.items()
        if not (Path(shown_by).exists() if shown_by.startswith("/") else shutil.which(shown_by, path=path))
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Locks the cache. A second builder waits, then finds the image built."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def kernel_package() -> tuple[str, str]:
    """Name and version of the package that `linux-image-amd64` stands for."""
    depends = output("apt-cache", "depends", "--important", KERNEL)
    names = [line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    if not names:
        raise CannotStart(f"lab: apt knows no {KERNEL}; run: apt-get update")
    shown = output("apt-cache", "show", "--no-all-versions", names[0])
    return names[0], next(line.split()[1] for line in shown.splitlines() if line.startswith("Version: "))


def build(directory: Path, package: str) -> None:
    """Unpacks and completes the kernel beside `directory`, then moves it into place in one step.

    The caller holds the cache's lock, so an unfinished directory belongs to a builder that died.
    """
    for unfinished in directory.parent.glob("lab-*.partial"):
        shutil.rmtree(unfinished)
    partial = directory.with_name(directory.name + ".partial")
    tree = partial / "tree"
    tree.mkdir(parents=True)
    # The sandbox user cannot write to a directory in someone's home; without root the option has no effect.
    output("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package, cwd=partial)
    archive = next(partial.glob("*.deb"))
    output("dpkg", "-x", str(archive), str(tree))
    archive.unlink()
    release = next((tree / "lib/modules").iterdir()).name
    output("depmod", "-b", str(tree), release)
    lab_initramfs.pack(partial / "initramfs", tree, release, EARLY_MODULES, INIT)
    partial.rename(directory)


def without(directory: Path, denied: frozenset[str]) -> Path:
    """A second module tree of hard links that lacks `denied` in its files and in its indices."""
    wanted = {name.replace("-", "_") for name in denied}
    if wanted & set(EARLY_MODULES):
        raise ValueError(f"lab: LAB_MODULES_DENY names {', '.join(wanted & set(EARLY_MODULES))}: the lab boots with it")
    base = directory / f"without-{'+'.join(sorted(wanted))}"
    modules = base / "lib/modules"
    if base.is_dir():
        return modules
    files = {
        file.relative_to(directory / "tree"): file.name.partition(".")[0].replace("-", "_")
        for file in (directory / "tree").rglob("*.ko*")
    }
    unknown = wanted - set(files.values())
    if unknown:
        raise ValueError(f"lab: LAB_MODULES_DENY names {', '.join(sorted(unknown))}: the kernel has no such module")
    partial = base.with_name("without.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(directory / "tree/lib/modules", partial / "lib/modules", copy_function=os.link, symlinks=True)
    for file, name in files.items():
        if name in wanted:
            (partial / file).unlink()
    output("depmod", "-b", str(partial), next((partial / "lib/modules").iterdir()).name)
    partial.rename(base)
    return modules


def remove_old(cache: Path) -> None:
    """Keeps the last used images. An image that a running guest holds is left for a later call."""
    images = sorted(cache.glob("lab-*/"), key=lambda path: path.stat().st_mtime, reverse=True)
    for image in images[KEPT:]:
        descriptor = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(image)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
