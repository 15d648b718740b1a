"""May GPUs and RDMA NICs talk to each other without a detour through the root complex?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

ACS_REDIRECT_BITS = 0x4 | 0x8  # P2P request and completion redirect (PCI_ACS_RR, PCI_ACS_CR in pci_regs.h)
ON_PURPOSE = "config_acs="  # kernel parameter pci=config_acs=...: the operator has laid out every bridge
IDENTITY = "identity"
BRIDGES_IN_MESSAGE = 8  # bridges named in the message


def judge(seen: Seen) -> Iterator[Verdict]:
    # In a virtual machine, and where that is unknown, redirection must stay: it isolates the guests.
    system, pci = seen[System], seen[Pci]
    if system.virtual is not False:
        return
    nics, gpus = tuple(nic for nic in pci.nics if nic.offers_rdma), pci.gpus
    if not nics or not gpus:
        return
    above = {address for device in (*nics, *gpus) for address in device.bridges}
    bridges = [bridge for bridge in pci.bridges if bridge.address in above]
    redirecting = [bridge.address for bridge in bridges if bridge.acs is not None and bridge.acs & ACS_REDIRECT_BITS]
    translated = sorted({nic.iommu for nic in nics if nic.iommu and nic.iommu != IDENTITY})
    iommu = f"; NICs are in IOMMU groups of type {', '.join(translated)}, not {IDENTITY}" if translated else ""
    if redirecting and ON_PURPOSE not in system.cmdline:
        shows = (
            f"{len(redirecting)} of {len(bridges)} bridges above GPUs and RDMA NICs redirect peer-to-peer traffic: "
            f"{', '.join(redirecting[:BRIDGES_IN_MESSAGE])}{', ...' if redirecting[BRIDGES_IN_MESSAGE:] else ''}{iommu}"
        )
        yield Verdict(NODE, Status.WARN, "Redirected", shows, None, " ".join(redirecting), "no redirection")
        return
    how = f"as {ON_PURPOSE} on the kernel command line asks" if redirecting else "none redirects peer-to-peer traffic"
    yield Verdict(NODE, Status.OK, "Direct", f"{len(bridges)} bridges above GPUs and RDMA NICs: {how}{iommu}")


CHECK = Check(
    id="pci.acs-iommu",
    question="May GPUs and RDMA NICs talk to each other without a detour through the root complex?",
    why="ACS redirection sends GPUDirect traffic up to the CPU and back: a fraction of the bandwidth, on bare metal "
    "for nothing.",
    fix="Never on a running node: drain, then disable_acs_redir= or config_acs= on the kernel command line (rdma_topo "
    "check; rdma_topo write-grub-acs), or the firmware's setting; iommu=pt for identity groups. Reboot.",
    reasons=(
        Reason("Redirected", Status.WARN),
        Reason("Direct", Status.OK),
    ),
    source="PCI Express base specification 7.7.11; rdma-core kernel-boot/rdma_topo; leptonai/gpud components/pci",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Pci, System),
    judge=judge,
)
