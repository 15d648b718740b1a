"""Can user space reach every RDMA device?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.rdma.devnodes import ClassEntry, DevNodes
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.link_layers import ETHERNET, INFINIBAND
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)
from nodeprep.values import Value

LOAD_UVERBS, LOAD_UMAD = (Remedy("kernel_modules", {"module": name}) for name in ("ib_uverbs", "ib_umad"))
RELOAD = "See the kernel log: dmesg | grep -e {name} -e {place}; then drain the node and reload its driver."
RNIC = "4"  # enum rdma_node_type: iWARP has no management datagrams, so no umad entries


class Want(Value):
    """What must be reachable beside verbs.

    The shared RDMA device plugin wants `umad`: without ib_umad it rejects every NIC, and the node offers no RDMA at all
    (k8s-rdma-shared-dev-plugin, rdma_device_spec.go). Nothing else on a RoCE node does.
    """

    umad: Annotated[bool, "RoCE ports need a umad entry, as InfiniBand ports always do."] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    devices, entries = seen[Rdma].devices, seen[DevNodes].verbs
    if not devices:
        return
    if entries or seen[DevNodes].live or shows_that_verbs_are_missing(seen):
        if entries is None:
            by = seen[Expected].by if seen[Expected].verbs else f"{len(devices)} RDMA devices"
            message = (
                f"no /sys/class/infiniband_verbs, wanted by {by}: ib_uverbs is not loaded; try: modprobe ib_uverbs"
            )
            yield Verdict(NODE, Status.FAIL, "VerbsNotLoaded", message, LOAD_UVERBS, "no class", "ib_uverbs")
            return
        names = owners(entries)
        reachable = {device.place for device in devices if device.name in names}
        yield from seen.each(devices, lambda device: reached(device, names, reachable, seen[Expected]))
        yield from too_few(entries, [one.where for one in devices if one.place not in reachable])
    yield from umads(seen)


def shows_that_verbs_are_missing(seen: Seen) -> bool:
    """Whether a dead tree proves it. A class that is missing or empty may not have been copied."""
    if seen[DevNodes].verbs is not None:
        return False
    modules = seen.explaining(Modules)
    shown = modules is not None and modules.is_loaded("ib_core") and not modules.is_loaded("ib_uverbs")
    return shown or (bool(seen[Expected].verbs) and modules is not None and not modules.is_loaded("ib_uverbs"))


def owners(entries: tuple[ClassEntry, ...]) -> dict[object, str]:
    """The first entry of each device; None or an Unreadable stands for a device where the entry does not tell."""
    return {raw(entry)["device"]: entry.name for entry in reversed(entries)}


def reached(device: RdmaDevice, names: dict[object, str], reachable: set[str], expected: Expected) -> Verdict | None:
    entry = names.get(device.name)
    if entry is not None:
        return Verdict(device.subject, Status.OK, "Reachable", f"{device.where} is {entry}", observed=entry)
    if device.place in reachable:
        message = f"{device.where} is a management device beside another on its PCI function, and needs no entry"
        return Verdict(device.subject, Status.OK, "BesideAnother", message)
    for owner in (one for one in names if not isinstance(one, str)):
        if isinstance(owner, Unreadable):
            raise CannotLook(owner)
        return None  # a copy that lost what its entries point to
    message = (
        f"{device.where} has no entry in /sys/class/infiniband_verbs though ib_uverbs is loaded: no process can open "
        "it; its driver did not finish, see the kernel log"
    )
    status = Status.FAIL if expected.is_needed(device.place) else Status.WARN
    return Verdict(device.subject, status, "NoEntry", message, observed="no entry", expected="an uverbs entry")


def too_few(entries: tuple[ClassEntry, ...], lacking: list[str]) -> Iterator[Verdict]:
    """Fewer entries of a device that cannot be read than devices without one: whose they are, one has none."""
    unnamed = sum(not isinstance(raw(entry)["device"], str) for entry in entries)
    if 0 < unnamed < len(lacking):
        shows = f"{', '.join(lacking)}: entries in /sys/class/infiniband_verbs for only {unnamed} of these"
        message = f"{shows}, and whose they are cannot be read; see the kernel log"
        yield Verdict(NODE, Status.FAIL, "TooFewEntries", message, None, str(unnamed), str(len(lacking)))


def umads(seen: Seen) -> Iterator[Verdict]:
    entries, ports = seen[DevNodes].mads, seen[Rdma].ports
    if entries is None:
        asked = {port.name: umad_wish(port, seen) for port in ports if seen[DevNodes].live}
        needy = {name: asks for name, asks in asked.items() if asks is not None}
        if needy:
            message = (
                f"no /sys/class/infiniband_mad, wanted{max(needy.values())} for {', '.join(needy)}: ib_umad is not "
                "loaded; try: modprobe ib_umad"
            )
            yield Verdict(NODE, Status.WARN, "UmadNotLoaded", message, LOAD_UMAD, "no class", "ib_umad")
        return
    if all(isinstance(owner, str) for owner in owners(entries)) and (entries or seen[DevNodes].live):
        held = {(entry.device, raw(entry)["port"]) for entry in entries}
        lacking = (port for port in ports if not held & {(port.device, port.number), (port.device, None)})
        yield from seen.each(lacking, lambda port: umad_missing(port, seen))


def umad_wish(port: Port, seen: Seen) -> str | None:
    """Who wants a umad entry: "" for an InfiniBand port, which always needs one; None if nobody does."""
    if port.layer == INFINIBAND:
        return ""
    is_rnic = ((device := seen[Rdma].device(port.device)) is not None) and (device.node_type or "").startswith(RNIC)
    return f" {seen.wanted_by('umad')}" if seen[Want].umad and port.layer == ETHERNET and not is_rnic else None


def umad_missing(port: Port, seen: Seen) -> Verdict | None:
    asks = umad_wish(port, seen)
    if asks is None:
        return None
    message = (
        f"{port.where} has no umad entry though ib_umad is loaded{asks and f'; one is wanted{asks}'}: subnet tools and "
        "the device plugin cannot use it"
    )
    return Verdict(port.subject, Status.WARN, "NoUmad", message, observed="no entry", expected="a umad entry")


CHECK = Check(
    id="rdma.verbs-class",
    question="Can user space reach every RDMA device?",
    why="Processes open RDMA devices through ib_uverbs: without an entry there NCCL does not see the device at all.",
    fix="dmesg | grep -i infiniband.",
    reasons=(
        Reason("VerbsNotLoaded", Status.FAIL, "modprobe ib_uverbs; keep it with a line in /etc/modules-load.d/."),
        Reason("Reachable", Status.OK),
        Reason("BesideAnother", Status.OK),
        Reason("NoEntry", Status.FAIL, RELOAD),
        Reason("NoEntry", Status.WARN, RELOAD),  # of the front end, and of a spare
        Reason("TooFewEntries", Status.FAIL),
        Reason("UmadNotLoaded", Status.WARN, "modprobe ib_umad; keep it with a line in /etc/modules-load.d/."),
        Reason("NoUmad", Status.WARN, "See the kernel log: dmesg | grep {place}; rmmod ib_umad && modprobe ib_umad."),
    ),
    source="NVSentinel's check of character devices; k8s-rdma-shared-dev-plugin rdma_device_spec.go; NHC check_hw_ib",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Rdma, DevNodes, Expected),
    uses=(Modules,),
    after=("module.core", "pci.rdma-driver"),
    remedies=("kernel_modules",),
    want=Want,
    judge=judge,
)
