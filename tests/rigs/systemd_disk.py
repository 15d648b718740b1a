"""Builds and keeps the disk of a guest whose first process is Debian's systemd: a node that nobody has set up yet.

debootstrap makes the system, Debian's kernel gives the modules, and mke2fs writes the file system from them. The user's
cache keeps the result under the hash of its inputs. A guest writes to a layer over it (tests/rigs/systemd_guest.py).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.rigs import bare_debian, cache, lab_image, lab_initramfs, lab_setup
from tests.rigs.lab_initramfs import CannotStart, output
from tests.rigs.lab_setup import Nic
from tests.rigs.progress import say

# Debian packages that this machine needs, each with a program that shows that it is installed.
PACKAGES = {**bare_debian.PACKAGES, "e2fsprogs": "mke2fs"}
# What is in the guest. rdma-core is not: its udev rules load RDMA modules, and a node from zero has none.
INCLUDED = (
    *("systemd-sysv", "udev", "dbus", "kmod", "procps", "iproute2", "ethtool", "python3"),
    *("ibverbs-utils", "ibverbs-providers", "containerd", "strace"),
)
PYTHON = (3, 11)  # of Debian 12
NAME = "systemd-guest"
SIZE = 4 << 30  # bytes; the file has holes
OPTIONS = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
SOURCES = (sys.modules[__name__], lab_initramfs, lab_setup)  # of this rig, on which the disk depends
TIMEOUT = 1800.0  # seconds for a program that writes the whole disk, beside other work

CHECKOUT = "/srv/nodeprep"  # where the guest has this checkout
SITE = "/srv/site-packages"  # and the packages of this machine's .venv
# A second rail, so that one of two can be bad.
SECOND_RAIL = Nic("rail2", "00:16:3e:aa:bb:02", 3, "eth2", "10.0.4.0/24", "10.0.4.15/24")
RAILS = (lab_setup.RAIL, SECOND_RAIL)
NICS = (*lab_setup.NICS, SECOND_RAIL)

# For the root on the disk, the checkout over 9p and the channel of commands: udev would come too late for these.
EARLY_MODULES = ("virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p", "virtio_console")
INIT = """\
#!/bin/busybox sh
set -e
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
while read module; do insmod /early/$module; done < /early/order
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 -o noinit_itable /dev/vda /newroot
for directory in proc sys dev; do mount --move /$directory /newroot/$directory; done
exec switch_root /newroot /sbin/init
"""

# Of a kernel's 400 MB of modules: what no machine of this kind has.
LEFT_OUT = (
    *("sound", "net/wireless", "net/mac80211", "net/bluetooth"),
    *(f"drivers/{kind}" for kind in ("gpu", "media", "staging", "iio", "net/wireless", "usb", "hid", "bluetooth")),
)
# Of Debian: what nobody reads in a guest, and what runs beside a test by the clock, or waits for a person.
REMOVED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-pstore.service"),
    *("systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount"),
)
ENABLED = ("systemd-networkd.service", "lab-agent.service")

# A line of fstab. cache=loose: nobody changes a file of the checkout during a test.
SHARE = "{tag} {path} 9p ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose 0 0\n"
RAIL = """\
[Match]
PermanentMACAddress={mac}
[Link]
MTUBytes={mtu}
[Network]
Address={address}
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
"""
# The default route leads to a gateway that drops all packets (lab_qemu, restrict=on).
FRONT_END = RAIL + "Gateway={gateway}\n"
AGENT = """\
[Unit]
Description=Runs the commands of a test
[Service]
ExecStart=/usr/bin/python3 -I -S {checkout}/tests/rigs/lab_agent.py
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
PROGRAM = """\
#!/usr/bin/python3
import sys
from {module} import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """A directory of the cache: the disk of a node from zero, and what boots it."""

    directory: Path

    @property
    def image(self) -> Path:
        """The raw image of the root file system."""
        return self.directory / "disk"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        return self.directory / "initramfs"


def built() -> Disk:
    """The disk of today's inputs, built if needed.

    Raises:
        CannotStart: no root, a package is missing, or a package source does not answer.
    """
    if os.geteuid() != 0:
        raise CannotStart("systemd guest: the owners of its files need root here; run it with sudo")
    missing = [package for package, program in PACKAGES.items() if not shutil.which(program, path=bare_debian.PATH)]
    if missing:
        raise CannotStart(
            f"systemd guest: not installed: {' '.join(missing)}; run: apt-get install {' '.join(missing)}"
        )
    kernel = lab_image.held()
    try:
        command = bare_debian.debootstrap_command(INCLUDED)
        with cache.locked(NAME) as directory:
            system = cache.built(directory, f"{NAME}-root", repr(command).encode(), lambda to: debootstrap(to, command))
            made_from = repr((kernel.directory.name, system.name, *map(source, SOURCES))).encode()
            return Disk(cache.built(directory, f"{NAME}-disk", made_from, lambda to: build(to, kernel, system)))
    except bare_debian.CannotStart as error:
        raise CannotStart(str(error)) from error
    finally:
        kernel.release()


def source(module: ModuleType) -> bytes:
    return Path(module.__file__ or "").read_bytes()


def debootstrap(target: Path, command: tuple[str, ...]) -> None:
    say(f"rig: debootstrap makes the system of a guest in {target}: minutes")
    bare_debian.debootstrap(target, command)
    for name in REMOVED:
        shutil.rmtree(target / name, ignore_errors=True)


def build(target: Path, kernel: lab_image.Image, system: Path) -> None:
    """Adds the modules and the node's files to a copy of the system, and makes the disk of it."""
    say(f"rig: writing the disk of a guest in {target}")
    target.mkdir()
    root = target / "root"
    output("cp", "-a", str(system), str(root), seconds=TIMEOUT)
    release = add_modules(root, kernel)
    for name, text in files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    for mount_point in (CHECKOUT, SITE):
        (root / mount_point.lstrip("/")).mkdir()
    output("chroot", str(root), "systemctl", "--quiet", "mask", *MASKED)
    output("chroot", str(root), "systemctl", "--quiet", "enable", *ENABLED)
    with (target / "disk").open("wb") as file:
        file.truncate(SIZE)
    output("mke2fs", "-q", "-F", "-t", "ext4", *OPTIONS, "-d", str(root), str(target / "disk"), seconds=TIMEOUT)
    lab_initramfs.pack(target / "initramfs", root / "usr", release, EARLY_MODULES, INIT)
    shutil.copy(kernel.kernel, target / "vmlinuz")
    shutil.rmtree(root)


def add_modules(root: Path, kernel: lab_image.Image) -> str:
    """Copies the kernel's modules; returns its release."""
    release = next(kernel.modules.iterdir()).name
    left_out = {kernel.modules / release / "kernel" / name for name in LEFT_OUT}
    shutil.copytree(
        kernel.modules / release,
        root / "usr/lib/modules" / release,
        symlinks=True,
        ignore=lambda directory, names: {name for name in names if Path(directory, name) in left_out},
    )
    output("depmod", "-b", str(root), release)
    return release


def files() -> Mapping[str, str]:
    """The files of the node, by their paths: a network, a way for a test's commands, and nothing for RDMA."""
    shares = "".join(SHARE.format(tag=tag, path=path) for tag, path in (("checkout", CHECKOUT), ("site", SITE)))
    return {
        "etc/fstab": f"/dev/vda / ext4 rw,noinit_itable 0 0\n{shares}",
        "etc/hostname": "node\n",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 node\n::1 localhost\n",
        "etc/resolv.conf": "",
        # With an id, systemd does not take each boot for the first one, which enables all units.
        "etc/machine-id": "6e6f64657072657073797374656d6431\n",
        **{f"etc/systemd/network/10-{nic.id}.network": network(nic) for nic in NICS},
        "etc/systemd/system/lab-agent.service": AGENT.format(checkout=CHECKOUT),
        # As the .venv of a checkout has it: programs, and packages where each interpreter finds them.
        "usr/local/lib/python3.11/dist-packages/nodeprep.pth": f"{CHECKOUT}/agent\n{SITE}\n",
        "usr/local/bin/nodeprep": PROGRAM.format(module="nodeprep.__main__"),
        **{
            f"usr/local/bin/{name}": PROGRAM.format(module=f"ansible.cli.{module}")
            for name, module in (("ansible", "adhoc"), ("ansible-playbook", "playbook"))
        },
    }


def network(nic: Nic) -> str:
    """networkd's file of a NIC: it gives the address again when a driver was bound anew."""
    words = {"mac": nic.mac, "mtu": lab_setup.MTU, "address": nic.address, "gateway": lab_setup.GATEWAY}
    return (FRONT_END if nic is lab_setup.FRONT_END else RAIL).format(**words)
