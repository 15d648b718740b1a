"""The machine itself: name, kernel, boot, and whether it is a virtual one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Unreadable, guarded, shown, stands_for_all
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

CPUINFO_HEAD = 16 << 10  # bytes; they hold the flags of the first processor, with any number of processors
# What checks read of the kernel's command line: a parameter and, of it, the options that begin so. The rest stays on
# the node: `rd.luks.key`, `systemd.setenv` and `ip` hold keys, passwords and addresses.
PARAMETERS = {"pci": ("config_acs=", "disable_acs_redir=")}
WORD = Pattern(r'(?:[^\s"]|"[^"]*"?)+')  # lib/cmdline.c: quotes hold spaces together
FLAGS = Pattern(rb"^flags\s*:(.*)$", re.MULTILINE)  # x86; the Features of arm64 never name a hypervisor


@shown
class System(Shown):
    """`virtual` is None where the node shows no CPU flags; `vendor` and `product` are SMBIOS words.

    `cmdline` are the kernel parameters that checks read (PARAMETERS), as they stand on its command line.
    """

    at: float
    name: str
    kernel: str
    boot_id: str
    virtual: bool | None
    vendor: str
    product: str
    cmdline: str

    possible = stands_for_all(virtual=(None,), cmdline=("",))  # flags that cannot be read tell what missing ones tell

    def kernel_at_least(self, major: int, minor: int) -> bool | None:
        """Whether the kernel is that new; None if its release does not say."""
        match = re.match(r"(\d+)\.(\d+)", self.kernel)
        return None if match is None else (int(match[1]), int(match[2])) >= (major, minor)


def observe(host: Host) -> System:
    files = host.files
    return System(
        at=host.now(),
        name=guarded(files.text("/proc/sys/kernel/hostname") or ""),
        kernel=guarded(files.text("/proc/sys/kernel/osrelease") or ""),
        boot_id=guarded(files.text("/proc/sys/kernel/random/boot_id") or ""),
        virtual=guarded(_virtual(files.data("/proc/cpuinfo", CPUINFO_HEAD, head=True))),
        vendor=guarded(files.text("/sys/class/dmi/id/sys_vendor") or ""),
        product=guarded(files.text("/sys/class/dmi/id/product_name") or ""),
        cmdline=guarded(_parameters(files.text("/proc/cmdline") or "")),
    )


def _parameters(cmdline: str | Unreadable) -> str | Unreadable:
    """The parameters that checks read; what follows `--` is for init."""
    if isinstance(cmdline, Unreadable):
        return cmdline
    found: list[str] = []
    for word in WORD.findall(cmdline):
        if word == "--":
            break
        name, _, value = word.strip('"').partition("=")
        options = [one for one in value.strip('"').split(",") if one.startswith(PARAMETERS.get(name, ("\0",)))]
        found += [f"{name}={','.join(options)}"] if options else []
    return " ".join(found)


def _virtual(cpuinfo: bytes | None | Unreadable) -> bool | None | Unreadable:
    if not isinstance(cpuinfo, bytes):
        return cpuinfo
    flags = FLAGS.search(cpuinfo)
    return None if flags is None else b"hypervisor" in flags[1].split()


FACT = Fact(System, observe, every=60.0)
