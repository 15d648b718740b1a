"""Is every NIC that this node needs on its PCI bus?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Verdict, raw


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    yield from (missing(device, expected, seen[Pci]) for device in expected.missing_devices)
    yield from seen.each(seen[Pci].nics, lambda nic: present(nic, expected))


def missing(device: MissingDevice, expected: Expected, pci: Pci) -> Verdict:
    there = pci.at_address(device.subject.place)
    if there is not None:  # not counted as a NIC that may be expected
        what = "a virtual function" if there.virtual_function else f"a device of class {raw(there)['pci_class']}"
        shows = f"{there.label} is {what}, in the place of {device.subject.name}, which {device.by} expects"
        wanted = device.id or device.subject.place
        return Verdict(device.subject, Status.FAIL, "Replaced", shows, None, there.label, wanted)
    shows = f"the PCI bus does not list {device.subject.name}, which {device.by} expects"
    if expected.moved:
        shows += "; that node's slots are other than this one's: one like it is gone, which one cannot be told"
    rescan = Remedy("pci_rescan", {"bdf": device.subject.place})
    return Verdict(device.subject, Status.FAIL, "Missing", shows, rescan, "absent", device.id or device.subject.place)


def present(nic: PciDevice, expected: Expected) -> Verdict | None:
    if nic.address not in expected.devices:
        return None
    want = expected.device(nic, lambda device: device.id)
    # A profile of a copy without PCI ids names the chip, which cannot be compared with an id.
    if want is not None and ":" in want.value and nic.id and nic.id != want.value:
        shows = f"{nic.label} is in the place of the {want.value} that {want.by} expects: was a board changed?"
        return Verdict(nic.subject, Status.WARN, "OtherDevice", shows, None, nic.id, want.value)
    return Verdict(
        nic.subject, Status.OK, "Present", f"{nic.label} is on the bus", None, nic.id, want.value if want else ""
    )


CHECK = Check(
    id="pci.expected-nic",
    question="Is every NIC that this node needs on its PCI bus?",
    why="A NIC that fell off the bus, or was never attached, takes its rail with it: the job waits for it for ever.",
    fix="Cloud: rescan the bus (echo 1 > /sys/bus/pci/rescan), then look at the attachment. Metal: drain the node, "
    "rescan, power cycle, reseat the board.",
    reasons=(
        Reason("Missing", Status.FAIL),
        Reason(
            "Replaced",
            Status.FAIL,
            "lspci -nn -s {place} shows what is there. Capture the profile again if it was changed on purpose "
            "(nodeprep profile capture); else put the {expected} back.",
        ),
        Reason(
            "OtherDevice",
            Status.WARN,
            "Capture the profile again if the board at {place} was changed on purpose (nodeprep profile capture); else "
            "put the {expected} back.",
        ),
        Reason("Present", Status.OK),
    ),
    source="Linux Documentation/ABI/testing/sysfs-bus-pci; NVSentinel nic-health-monitor; facebookresearch/gcm",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, Expected),
    remedies=("pci_rescan",),
    judge=judge,
)
