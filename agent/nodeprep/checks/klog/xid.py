"""Has NVIDIA's driver given up on a GPU or an NVSwitch?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nodeprep.checks.klog import gpu_events
from nodeprep.checks.klog.gpu_events import HARMLESS
from nodeprep.checks.klog.nic import Want
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine import xid
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.xid import GpuEvent, XidClass
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict

Events = tuple[GpuEvent, ...]
# How a GPU failed, the worst first.
FAILED = {
    XidClass.REBOOT: "FellOffBus",
    XidClass.SERVICE: "ServiceNeeded",
    XidClass.RECOVERY: "RecoveryNeeded",
    XidClass.RESET: "ResetNeeded",
    XidClass.LINK: "LinkFailed",
}
HOLDS_UNTIL = (
    "held until the node boots, its driver is loaded again, or Xid 154 says that no recovery is needed; after a reset "
    "of the GPU: dmesg --clear, then nodeprep reset"
)


def judge(seen: Seen) -> Iterator[Verdict]:
    devices = gpu_events.devices(seen)
    # On a node without GPUs a refused log is irrelevant. One that can be read may tell that the last of them is gone.
    log = seen[KernelLog] if devices else seen.explaining(KernelLog)
    lines = log.heard(seen[Want].accept_userspace) if log is not None else ()
    heard = gpu_events.heard(devices, lines, seen[Pci])
    for about, events in heard.by_device:
        yield switch(about, events) if any(one.of_switch for one in events) else gpu(about, events)
    if devices and heard.others:
        yield of_node(heard.others)


def gpu(about: Subject, events: Events) -> Verdict:
    last = {one.kind: one for one in events if not gpu_events.is_mild(one)}
    for kind, reason in FAILED.items():
        if kind in last:
            return says(about, Status.FAIL, reason, events, last[kind])
    warned = [one for one in events if one.kind not in HARMLESS]
    if warned:
        return says(about, Status.WARN, "Warned", events, warned[-1])
    counts = Counter(one.code or 0 for one in events)
    beside = ", ".join(f"{number} of Xid {which}" for which, number in sorted(counts.items()))
    holds = f"only what programs did or what it survived: {beside}" if beside else "nothing against it"
    return Verdict(about, Status.OK, "Quiet", f"{about.name}: the kernel log holds {holds}")


def switch(about: Subject, events: Events) -> Verdict:
    fatal = [one for one in events if one.fatal]
    if fatal:
        return says(about, Status.FAIL, "SwitchFailed", events, fatal[-1])
    warned = [one for one in events if one.kind not in HARMLESS]
    if warned:
        return says(about, Status.WARN, "SwitchWarned", events, warned[-1])
    return Verdict(about, Status.OK, "Quiet", f"{about.name}: {len(events)} errors that it survived")


def of_node(others: Events) -> Verdict:
    """What names no device of this node: it convicts nobody."""
    peers = [one for one in others if one.kind is XidClass.PEER_MEMORY]
    if peers:
        return says(NODE, Status.WARN, "PeerMemoryFailed", others, peers[-1])
    gone = [one for one in others if one.fatal or (one.kind in FAILED and not gpu_events.is_mild(one))]
    count = f"{len(others)} lines of NVIDIA's drivers name no GPU or NVSwitch of this node"
    if gone:
        message = f"{count}, one of them a failed one: {gone[-1].line.text}"
        return Verdict(NODE, Status.WARN, "NotListed", message, None, gpu_events.code(gone[-1]))
    message = f"{count}, or say nothing that is known; the last: {others[-1].line.text}"
    return Verdict(NODE, Status.OK, "Unmatched", message, None, str(len(others)))


def says(about: Subject, status: Status, reason: str, events: Events, one: GpuEvent) -> Verdict:
    held = f"; {HOLDS_UNTIL}" if status is Status.FAIL else ""
    return Verdict(about, status, reason, gpu_events.told(about.name, events, one) + held, None, gpu_events.code(one))


RESET = (
    "Drain the node. nvidia-smi --gpu-reset -i {place}, then dmesg --clear and nodeprep reset, for nothing else shows "
    "that it was reset; or reboot the node."
)
CLEAR = "dmesg --clear says that it has been dealt with."
CHECK = Check(
    id="klog.xid",
    question="Has NVIDIA's driver given up on a GPU or an NVSwitch?",
    why="After such a line each job on the GPU dies or hangs, while the device plugin may still advertise it.",
    fix=RESET,
    reasons=(
        Reason(
            "FellOffBus",
            Status.FAIL,
            "Drain the node and power cycle it; if it comes again, reseat or replace the board at {place}.",
        ),
        Reason("ServiceNeeded", Status.FAIL, "See to the power cable of the board at {place}, then power cycle."),
        Reason("RecoveryNeeded", Status.FAIL, "Drain the node and do what the line asks for. nvidia-smi -q -i {place}"),
        Reason("ResetNeeded", Status.FAIL),
        Reason("LinkFailed", Status.FAIL, f"nvidia-smi nvlink -e -i {{place}} shows which link. {RESET}"),
        Reason("Warned", Status.WARN, f"nvidia-smi -q -i {{place}}, and the line in NVIDIA's Xid catalog. {CLEAR}"),
        Reason(
            "SwitchFailed",
            Status.FAIL,
            "Drain the node and reboot it: that resets all NVSwitches and GPUs. If it comes again, nvidia-smi nvlink "
            "-e shows which link; replace the baseboard.",
        ),
        Reason("SwitchWarned", Status.WARN, f"The line in NVIDIA's Fabric Manager user guide. {CLEAR}"),
        Reason("PeerMemoryFailed", Status.WARN, f"End the jobs, unload nvidia_peermem, and load it again. {CLEAR}"),
        Reason("NotListed", Status.WARN, f"lspci -nn | grep -i nvidia beside that of a good sibling. {CLEAR}"),
        Reason("Unmatched", Status.OK),
        Reason("Quiet", Status.OK),
    ),
    source="NVIDIA Xid catalog and Fabric Manager user guide (SXids), by docs/kernel_log/xids.tsv; leptonai/gpud",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.LATCHED,
    needs=(Pci, Expected, KernelLog),
    want=Want,
    frees=xid.frees,
    judge=judge,
)
