"""Kernel modules: which are live, which the running kernel has, and which would drive a device that has no driver."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nodeprep.facts.machine import pci
from nodeprep.facts.machine.pci import ADDRESS, DEVICES, NETWORK
from nodeprep.model import Fact, Shown, Topic, Unreadable, guarded, not_recorded, raw, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

MODULES = "/sys/module"
INDEX_LIMIT = 16 << 20  # bytes; Debian 12's modules.alias is 1.3 MB, distributions with more drivers have more
OFED = "mlx_compat"  # exists only where MLNX_OFED or DOCA-OFED replaced the inbox stack
# Those whose state can matter to a NIC; a server has hundreds of others.
WATCHED_MODULES = Pattern(r"ib_|rdma_|iw_|mlx|nvidia|erdma|efa|irdma|bnxt|ice|siw")
WILDCARD = Pattern(r"[*?[]")
BUSES = ("pci:", "virtio:")
VERSIONED = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "irdma", "bnxt_re", "efa", "erdma", "nvidia")


@shown
class Modules(Shown):
    """`loaded` are modules that are live or built in, `available` those that the running kernel's index names.

    `available` is None where the index is not shown. `versions` holds those that say one (out-of-tree modules do).
    `wanted` gives, for each modalias of a NIC without a driver, the modules that claim it.
    """

    at: float
    loaded: tuple[str, ...]
    loading: tuple[str, ...]
    available: tuple[str, ...] | None
    versions: tuple[tuple[str, str], ...]
    wanted: tuple[tuple[str, tuple[str, ...]], ...]

    def is_loaded(self, name: str) -> bool:
        return name.replace("-", "_") in self.loaded

    def has(self, name: str) -> bool | None:
        """Whether modprobe could find it; None where that cannot be told: the index is not shown, or unreadable."""
        index = raw(self)["available"]
        return name.replace("-", "_") in index if isinstance(index, tuple) else None

    def for_modalias(self, modalias: str) -> tuple[str, ...]:
        return next((modules for alias, modules in self.wanted if alias == modalias), ())


def observe(host: Host) -> Modules | Unreadable:
    files = host.files
    names = files.names(MODULES)
    if isinstance(names, Unreadable):
        return names
    if names is None:
        return not_recorded(MODULES)
    states = {name: files.text(f"{MODULES}/{name}/initstate") for name in names if WATCHED_MODULES.match(name)}
    loading = tuple(name for name, state in states.items() if state in ("coming", "going"))
    versions = ((name, files.text(f"{MODULES}/{name}/version")) for name in VERSIONED if name in names)
    release = files.text("/proc/sys/kernel/osrelease")
    index = f"/lib/modules/{release}" if isinstance(release, str) and release else ""
    # A built-in module without parameters has no directory in sysfs.
    built_in = _named(files.text(f"{index}/modules.builtin", INDEX_LIMIT) if index else None)
    return Modules(
        at=host.now(),
        loaded=tuple(sorted({*names, *built_in} - set(loading))),
        loading=loading,
        available=guarded(_available(files, index, built_in)),
        versions=tuple((name, version) for name, version in versions if isinstance(version, str)),
        wanted=_wanted(files, index),
    )


def _available(files: Files, index: str, built_in: frozenset[str]) -> tuple[str, ...] | None | Unreadable:
    listing = files.text(f"{index}/modules.dep", INDEX_LIMIT) if index else None
    return tuple(sorted(_named(listing) | built_in)) if isinstance(listing, str) else listing


def _named(listing: str | None | Unreadable) -> frozenset[str]:
    """The modules of a list of files such as kernel/net/ib-x.ko.xz: with the kernel's underscores, without the rest."""
    lines = listing.splitlines() if isinstance(listing, str) else []
    names = (line.partition(":")[0].rpartition("/")[2].partition(".ko")[0] for line in lines)
    return frozenset(name.replace("-", "_") for name in names if name)


def _wanted(files: Files, index: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Matched as modprobe does; read only when some NIC has no driver, for the index is large."""
    driverless = _driverless(files)
    aliases = _aliases(files, index) if driverless and index else []
    return tuple(
        (modalias, tuple(sorted({module for pattern, module in aliases if _fits(modalias, pattern)})))
        for modalias in driverless
        if aliases
    )


def _fits(modalias: str, pattern: str) -> bool:
    # Comparing the start first spares compiling ten thousand patterns.
    return modalias.startswith(WILDCARD.split(pattern, maxsplit=1)[0]) and fnmatchcase(modalias, pattern)


def _aliases(files: Files, index: str) -> list[tuple[str, str]]:
    """Pattern and module; those that are built into the kernel have an index of their own."""
    listing = files.text(f"{index}/modules.alias", INDEX_LIMIT)
    lines = (line.split() for line in listing.splitlines()) if isinstance(listing, str) else ()
    found = [(words[1], words[2]) for words in lines if len(words) == 3 and words[1].startswith(BUSES)]
    built_in = files.data(f"{index}/modules.builtin.modinfo", INDEX_LIMIT)
    records = built_in.decode(errors="replace").split("\0") if isinstance(built_in, bytes) else ()
    pairs = (record.partition(".alias=") for record in records)
    return found + [(pattern, module) for module, _, pattern in pairs if pattern.startswith(BUSES)]


def _driverless(files: Files) -> tuple[str, ...]:
    addresses = files.names(DEVICES)
    found = set()
    for address in addresses if isinstance(addresses, tuple) else ():
        here = f"{DEVICES}/{address}"
        if not (ADDRESS.fullmatch(address) and pci.class_of(files, here).startswith(NETWORK)):
            continue
        modalias = files.text(f"{here}/modalias") if pci.driver_of(files, here) is None else None
        if isinstance(modalias, str):
            found.add(modalias)
    return tuple(sorted(found))


# The index of modules is megabytes: on a busy or emulated machine it alone takes more than a second.
FACT = Fact(Modules, observe, woken_by=frozenset({Topic.DEVICE}), every=60.0, deadline=5.0)
