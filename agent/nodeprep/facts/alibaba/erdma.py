"""Elastic RDMA: the functions 1ded:107f, the driver's mode, and what keeps it from binding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import ADDRESS, DEVICES
from nodeprep.model import Fact, Shown, Topic, Unreadable, Why, guarded, not_recorded, shown, stands_for_all
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

VENDOR_DEVICE = "1ded:107f"  # erdma_pci_tbl (drivers/infiniband/hw/erdma/erdma_main.c)
MODULE = "/sys/module/erdma"
COMPAT = f"{MODULE}/parameters/compat_mode"  # of the driver that Alibaba Cloud hands out; mainline has no parameter
DEFERRED_FILE = "/sys/kernel/debug/devices_deferred"  # "0000:00:07.0<TAB>why", a line each (drivers/base/dd.c)
BOOLEAN_WORDS = {"Y": True, "N": False}  # how the kernel writes a bool parameter (kernel/params.c)
INDEX_LIMIT = 16 << 20  # bytes, as in facts/machine/modules
MODULE_LISTED = Pattern(r"^(?:[^:\n]*/)?erdma\.ko\b", re.MULTILINE)  # a line of modules.dep and of modules.builtin


@shown
class Erdma(Shown):
    """`compat` is the module parameter compat_mode, None where the driver has none (mainline).

    `loaded` is whether the module erdma is loaded, `installed` whether one is built for the running kernel;
    `deferred` are the PCI addresses that wait for something (devices_deferred), None where debugfs does not show them.
    Of a node without such functions nothing else is read: it has neither driver nor mode.
    """

    at: float
    functions: tuple[str, ...]
    loaded: bool
    installed: bool
    compat: bool | None
    deferred: tuple[str, ...] | None

    possible = stands_for_all(compat=(None,))  # the kind of the RDMA device says the mode too


def mac_of(guid: str | None) -> str | None:
    """The MAC that a node GUID was made of, in lower case; None for one that was not (RFC 4291 appendix A).

    "0216:3eff:feaa:bb01" is made of 00:16:3e:aa:bb:01, as the driver does it (addrconf_addr_eui48).
    """
    digits = (guid or "").replace(":", "").lower()
    if not re.fullmatch(r"[0-9a-f]{6}fffe[0-9a-f]{6}", digits):
        return None
    octets = bytes.fromhex(digits)
    return ":".join(f"{octet:02x}" for octet in (octets[0] ^ 0x02, *octets[1:3], *octets[5:]))


def observe(host: Host) -> Erdma | Unreadable:
    files = host.files
    addresses = files.names(DEVICES)
    if isinstance(addresses, Unreadable):
        return addresses
    if addresses is None and not host.live:
        return not_recorded(DEVICES)
    functions = tuple(address for address in addresses or () if ADDRESS.fullmatch(address) and _is_one(files, address))
    if not functions:
        return Erdma(host.now(), (), loaded=False, installed=False, compat=None, deferred=None)
    release = files.text("/proc/sys/kernel/osrelease")
    index = f"/lib/modules/{release}" if isinstance(release, str) and release else ""
    built_in = _names_it(files, f"{index}/modules.builtin") if index else None
    return Erdma(
        at=host.now(),
        functions=functions,
        loaded=built_in is True or _is_live(files),
        installed=guarded(True if built_in is True else _installed(files, index)),
        compat=guarded(_compat(files.text(COMPAT))),
        deferred=_deferred(files.text(DEFERRED_FILE)),
    )


def _is_one(files: Files, address: str) -> bool:
    """False where its ids cannot be read: on other nodes this would be a false alarm."""
    return pci.id_of(files, f"{DEVICES}/{address}") == VENDOR_DEVICE


def _is_live(files: Files) -> bool:
    return files.exists(MODULE) and files.text(f"{MODULE}/initstate") not in ("coming", "going")


def _installed(files: Files, index: str) -> bool | Unreadable:
    found = _names_it(files, f"{index}/modules.dep") if index else None
    return not_recorded(f"{index or '/lib/modules'}/modules.dep") if found is None else found


def _names_it(files: Files, listing: str) -> bool | None | Unreadable:
    text = files.text(listing, INDEX_LIMIT)
    return MODULE_LISTED.search(text) is not None if isinstance(text, str) else text


def _compat(text: str | None | Unreadable) -> bool | None | Unreadable:
    if text is None or isinstance(text, Unreadable):
        return text
    return BOOLEAN_WORDS.get(text, Unreadable(Why.MALFORMED, COMPAT, detail=f"{text[:40]!r} is neither Y nor N"))


def _deferred(text: str | None | Unreadable) -> tuple[str, ...] | None:
    """Only an explanation. A missing driver is found elsewhere, so a file that cannot be read here loses nothing."""
    if not isinstance(text, str):
        return None
    words = (line.split()[0] for line in text.splitlines() if line.strip())
    return tuple(word for word in words if ADDRESS.fullmatch(word))


FACT = Fact(Erdma, observe, woken_by=frozenset({Topic.DEVICE}), every=60.0)
