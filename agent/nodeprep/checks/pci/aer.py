"""Do NICs and GPUs report PCIe errors?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.machine.pci import Aer, Pci, PciDevice
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw
from nodeprep.values import Value


class Want(Value):
    """How many corrected errors are too many."""

    correctable_per_minute: Annotated[
        float,
        "errors a minute above which the link is bad (ours: no source gives a number).",
    ] = 100.0
    correctable_at_least: Annotated[
        int,
        "fewer errors than this between two looks say nothing about a rate (ours).",
    ] = 10


def judge(seen: Seen) -> Iterator[Verdict]:
    before = seen.before
    if before is None:
        return
    earlier, want = before[Pci], seen[Want]
    limit = f"at most {want.correctable_per_minute:g} a minute are wanted {seen.wanted_by('correctable-per-minute')}"

    def one(device: PciDevice) -> Verdict | None:
        return verdict(device, earlier.at_address(device.address), seen.seconds, want, limit)

    yield from seen.each(seen[Pci].devices, one)


def verdict(device: PciDevice, then: PciDevice | None, seconds: float, want: Want, limit: str) -> Verdict | None:
    if then is None or device.aer is None or then.aer is None:
        return None
    growth = {kind: grown(then.aer, device.aer, kind) for kind in ("fatal", "nonfatal", "correctable")}
    observed = ", ".join(f"{kind} {'unreadable' if more is None else more}" for kind, more in growth.items())
    shows = f"{device.label} reported in {seconds:.3g} s: {observed}"
    if growth["fatal"]:
        return says(device, Status.FAIL, "Fatal", f"{shows}; after a fatal error its link is reset", observed)
    for aer in (then.aer, device.aer):
        _ = (aer.fatal, aer.nonfatal, aer.correctable)  # raises for one that could not be read
    nonfatal, correctable = growth["nonfatal"] or 0, growth["correctable"] or 0
    if nonfatal:
        return says(device, Status.WARN, "Nonfatal", f"{shows}; transfers were lost", observed)
    if correctable >= want.correctable_at_least and correctable * 60 > want.correctable_per_minute * seconds:
        return says(device, Status.WARN, "ManyCorrectable", f"{shows}; {limit}; the link is marginal", observed)
    return says(device, Status.OK, "Quiet", shows, observed)


def grown(then: Aer, now: Aer, kind: str) -> int | None:
    """How far a total grew, None if it could not be read.

    A smaller total began again at 0, because the device was set up again.
    """
    before, after = raw(then)[kind], raw(now)[kind]
    if isinstance(before, Unreadable) or isinstance(after, Unreadable):
        return None
    more: int = after - before if after >= before else after
    return more


def says(device: PciDevice, status: Status, reason: str, message: str, observed: str) -> Verdict:
    return Verdict(device.subject, status, reason, message, None, observed, "fatal 0, nonfatal 0")


CHECK = Check(
    id="pci.aer",
    question="Do NICs and GPUs report PCIe errors?",
    why="A PCIe link that retransmits slows every transfer through it; one that fails fatally takes its device down.",
    fix="Drain the node; reseat board and riser, update firmware, replace what keeps reporting (lspci -vv -s {place}, "
    "dmesg | grep {place}).",
    reasons=(
        Reason("Fatal", Status.FAIL),
        Reason("Nonfatal", Status.WARN),
        Reason(
            "ManyCorrectable",
            Status.WARN,
            "lspci -vv -s {place}, dmesg | grep {place}; at the next drain reseat board and riser, update firmware, "
            "replace what keeps reporting.",
        ),
        Reason("Quiet", Status.OK),
    ),
    source="Linux Documentation/PCI/pcieaer-howto.rst, ABI/testing/sysfs-bus-pci-devices-aer_stats; limits are ours",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci,),
    want=Want,
    rates=True,
    judge=judge,
)
