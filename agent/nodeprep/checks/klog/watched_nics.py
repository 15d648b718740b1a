"""The RDMA NICs of a node, and what the kernel log says about each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine import printk
from nodeprep.facts.machine.kernel_log import WARNING, KernelLogLine
from nodeprep.facts.machine.pci import ADDRESS, Pci
from nodeprep.facts.machine.printk import LineClass
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Seen, Subject
from nodeprep.pattern import Pattern
from nodeprep.values import Value

# Drivers that speak of the same function: the one that is bound to it, then those on top of it.
ON_TOP: Mapping[str, tuple[str, ...]] = {
    "bnxt_en": ("bnxt_re",),
    "hns3": ("hns_roce", "hns_roce_hw_v2"),
    "ice": ("irdma",),
    "mlx4_core": ("mlx4_en", "mlx4_ib"),
    "mlx5_core": ("mlx5_ib",),
}
CONTAINMENT = "DPC: "  # drivers/pci/pcie/dpc.c
# drivers/base/dd.c until Linux 6.9, mlx4/main.c: a driver begins the line, and the address follows
PROBE_FAILED_LINE = Pattern(rf"\A[\w.-]+: (?:probe of |ERROR: mlx4_load_one failed, pci_name=){ADDRESS.pattern}")
NOBODY = r"(?!)"  # matches nothing


class Nic(Value):
    """An RDMA NIC as the kernel log may speak of it. `cabled`: somebody wants one of its ports up.

    `names` are those of its netdevs and RDMA devices, `bridges` the PCI addresses above it.
    """

    subject: Subject
    names: tuple[str, ...]
    driver: str | None
    cabled: bool
    bridges: tuple[str, ...] = ()

    @property
    def drivers(self) -> tuple[str, ...]:
        return (self.driver, *ON_TOP.get(self.driver, ())) if self.driver else ()


class ToldLine(Value):
    """A line about a NIC with its class; None if no format of the table matches it."""

    line: KernelLogLine
    kind: LineClass | None

    @property
    def unknown(self) -> bool:
        """Whether it is a warning or worse that nobody knows the meaning of."""
        return self.kind is None and self.line.level <= WARNING


class Told(Value):
    """What stands in the log: lines by the address of the NIC, oldest first, and those that name only a driver."""

    by_place: Mapping[str, list[ToldLine]]
    nameless: list[KernelLogLine]

    def of(self, nic: Nic, *kinds: LineClass) -> list[KernelLogLine]:
        return [told.line for told in self.by_place[nic.subject.place] if told.kind in kinds]


def watched(seen: Seen) -> tuple[Nic, ...]:
    """NICs that carry RDMA or are expected to, those that left the bus included."""
    pci, rdma, expected = seen[Pci], seen[Rdma], seen[Expected]
    found = {one.bdf: Nic(one.subject, (one.name,), None, cabled=False) for one in rdma.devices if one.bdf}
    found |= {one.subject.place: Nic(one.subject, (), None, cabled=True) for one in expected.missing_devices}
    cabled = {port.bdf for port in rdma.ports if expected.of(port)}
    for nic in pci.nics:
        if nic.offers_rdma or nic.address in found or nic.address in expected.devices:
            names = (*nic.netdevs, *nic.rdma)
            found[nic.address] = Nic(nic.subject, names, nic.driver, nic.address in cabled, nic.bridges)
    return tuple(found[place] for place in sorted(found))


def told(nics: tuple[Nic, ...], lines: Iterable[KernelLogLine]) -> Told:
    """What the lines say about the NICs. A NIC that was set up again leaves behind what was said about it before.

    A line is about the NIC whose address it has. One that has only the address of a bridge is about each NIC below, as
    is one about the containment of an error, which takes the link below the bridge down, whoever made the error.
    One without address is about the NIC that it names: NETDEV WATCHDOG: eth2 (...) until Linux 6.7, infiniband mlx5_0:.
    A device or its driver must begin the line. Of others it is only counted that they name the NIC.
    """
    by_place: dict[str, list[ToldLine]] = {nic.subject.place: [] for nic in nics}
    below = by_key((bridge, nic) for nic in nics for bridge in nic.bridges)
    named = by_key((name, nic) for nic in nics for name in nic.names)
    drivers = any_of(driver for nic in nics for driver in nic.drivers)
    # ibdev_printk without a parent; net/sched/sch_generic.c dev_watchdog; a driver's own prefix; netdev_printk
    names = Pattern(rf"\A(?:infiniband |NETDEV WATCHDOG: |(?:{drivers}):? )?({any_of(named)})(?:: | \()")
    speaks = Pattern(rf"\A<?(?:{drivers})>?:? ")
    nameless: list[KernelLogLine] = []
    for line in lines:
        addresses = frozenset(line.addresses)
        if addresses:
            places = [address for address in addresses if address in by_place]
            if places and line.sets_up:
                by_place.get(line.bdf, []).clear()
            if len(addresses) == 1 or CONTAINMENT in line.text:
                places += below.get(line.bdf, [])
        else:
            name = names.match(line.text)
            places = list(named[name[1]]) if name else []
            if not places and speaks.match(line.text) and printk.class_of(line.text) is LineClass.GONE:
                nameless.append(line)
        if places:
            begins = not addresses or line.by_device or PROBE_FAILED_LINE.match(line.text)
            found = ToldLine(line, printk.class_of(line.text) if begins else None)
            for place in dict.fromkeys(places):
                if place in addresses or not addresses or found.kind:
                    by_place[place].append(found)
    return Told(by_place, nameless)


def any_of(words: Iterable[str]) -> str:
    """The regular expression of one of these words."""
    return "|".join(map(re.escape, dict.fromkeys(words))) or NOBODY


def by_key(pairs: Iterable[tuple[str, Nic]]) -> dict[str, list[str]]:
    """The addresses of NICs by what leads to them."""
    found: dict[str, list[str]] = {}
    for key, nic in pairs:
        found.setdefault(key, []).append(nic.subject.place)
    return found


def message(name: str, lines: list[KernelLogLine]) -> str:
    last = lines[-1]
    more = f" ({len(lines)} such lines)" if len(lines) > 1 else ""
    return f"{name}: the kernel said {last.at:.0f} s after boot: {last.text}{more}"
