"""Does every NIC on the PCI bus answer?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.expected.soundness import POWERED_OFF
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict


def judge(seen: Seen) -> Iterator[Verdict]:
    expected = seen[Expected]
    yield from seen.each(seen[Pci].nics, lambda nic: verdict(nic, expected))


def verdict(nic: PciDevice, expected: Expected) -> Verdict | None:
    if nic.answers is False:
        shows = f"{nic.label} is listed, but its configuration space reads as all ones: it has left the bus"
        return Verdict(nic.subject, Status.FAIL, "NoAnswer", shows, None, "ff ff ff ff", "vendor and device")
    # A NIC without a cable or without a driver may sleep. A NIC that carries RDMA may not.
    if nic.power == POWERED_OFF and nic.driver and (nic.address in expected.devices or nic.offers_rdma):
        shows = f"{nic.label} is bound to {nic.driver} and in power state {nic.power}: it has no power"
        needed = nic.address in expected.devices or expected.is_needed(nic.address)
        status = Status.FAIL if needed else Status.WARN
        return Verdict(nic.subject, status, "NoPower", shows, None, nic.power, "D0")
    if nic.answers is None:
        return None
    return Verdict(nic.subject, Status.OK, "Answers", f"{nic.label} answers", None, nic.power or "")


CHECK = Check(
    id="pci.answers",
    question="Does every NIC on the PCI bus answer?",
    why="A device whose link went down stays listed; every access to it fails, and its driver may hang.",
    fix="Drain and reboot the node (power cycle); if {place} comes back dead, reseat or replace the board.",
    reasons=(
        Reason("NoAnswer", Status.FAIL),
        Reason("NoPower", Status.FAIL),
        Reason("NoPower", Status.WARN),
        Reason("Answers", Status.OK),
    ),
    source="PCI Express base specification (a read without an answer is all ones); NVSentinel nic-health-monitor",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, Expected),
    after=("pci.expected-nic",),
    judge=judge,
)
