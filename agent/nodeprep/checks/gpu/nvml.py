"""Does NVIDIA's library find every GPU, and find nothing wrong with it?"""

# It adds findings and takes none back: what it says comes from a library, or from another pod's file.

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.machine import nvml
from nodeprep.facts.machine.gpu import GpuDriver
from nodeprep.facts.machine.nvml import Nvml, NvmlGpu
from nodeprep.facts.machine.pci import NVIDIA, Pci, PciDevice
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Unreadable,
    Verdict,
    Why,
    raw,
)

DRIVER = "nvidia"
RESET = "Drain the node, then nvidia-smi --gpu-reset -i {place}; if it does not help, reboot it."
RELOAD = "Drain and reboot the node, so that the new driver is loaded. If it stays: ldconfig -p | grep libnvidia-ml"
REPLACE = "Drain the node. nvidia-bug-report.sh, then replace the GPU: its memory has no spare rows left."


def judge(seen: Seen) -> Iterator[Verdict]:
    told = seen[Nvml]
    if not told.asked or told.code == nvml.DRIVER_NOT_LOADED:
        return  # gpu.driver says so
    if told.code == nvml.LIBRARY_NOT_FOUND:
        raise CannotLook(Unreadable(Why.MISSING_TOOL, nvml.LIBRARY, detail=told.error))
    if told.code != nvml.SUCCESS:
        yield not_started(told, seen)
        return
    found = {gpu.address: gpu for gpu in told.gpus if gpu.address}
    for device in usable(seen):
        gpu = found.get(device.address)
        yield lost(device, told) if gpu is None else verdict(gpu, device.subject, told)


def not_started(told: Nvml, seen: Seen) -> Verdict:
    """NVML itself did not start."""
    driver = seen.explaining(GpuDriver)
    loaded = driver.release if driver is not None and isinstance(raw(driver)["version"], str) else ""
    if told.code == nvml.MISMATCH:
        what = f"the loaded driver {loaded}" if loaded else "the loaded driver"
        message = (
            f"{nvml.LIBRARY} is of another version than {what}: the driver was upgraded, or an old library is left"
        )
        return Verdict(NODE, Status.FAIL, "DriverMismatch", message, None, "another version", loaded or "one version")
    message = f"NVML does not start: {told.error or 'no text'} ({told.code}); every program that uses a GPU fails"
    return Verdict(NODE, Status.FAIL, "NotStarted", message, None, str(told.code), "0")


def usable(seen: Seen) -> list[PciDevice]:
    """NVIDIA's GPUs that its driver has and that nobody told it to leave alone."""
    driver = seen.explaining(GpuDriver)
    gpus = raw(driver)["gpus"] if driver is not None else None
    excluded = {one.address for one in gpus or () if raw(one)["excluded"] is True}
    return [
        one
        for one in seen[Pci].gpus
        if str(raw(one)["id"]).startswith(NVIDIA) and raw(one)["driver"] == DRIVER and one.address not in excluded
    ]


def lost(device: PciDevice, told: Nvml) -> Verdict:
    """A GPU that gives no handle has no address there: what is on the bus and is not named is it."""
    why = next((gpu.error for gpu in told.gpus if not gpu.address and gpu.error), "")
    message = f"{device.label} is on the bus, and NVML names {len(told.gpus)} GPUs without it"
    return Verdict(device.subject, Status.FAIL, "GpuLost", f"{message}: {why}" if why else message, None, "not named")


def verdict(gpu: NvmlGpu, subject: Subject, told: Nvml) -> Verdict:
    """The worst of what is wrong with a GPU gives the reason; the message has all of it."""
    wrong = list(faults(gpu))
    if not wrong:
        parts = [gpu.uuid or "no UUID", f"driver {told.driver}" if told.driver else ""]
        parts.append(f"MIG into {gpu.mig_devices}" if gpu.mig else "")
        return Verdict(subject, Status.OK, "Healthy", f"{subject.name}: {', '.join(filter(None, parts))}")
    worst = next((one for one in wrong if one[0] is Status.FAIL), wrong[0])
    message = f"{subject.name}: {'; '.join(words for _, _, words in wrong)}"
    return Verdict(subject, worst[0], worst[1], message, None, worst[1])


def faults(gpu: NvmlGpu) -> Iterator[tuple[Status, str, str]]:
    """What is wrong with a GPU: status, reason and words."""
    error = f"{gpu.error or 'error'} ({gpu.code})"
    if gpu.code == nvml.LOST:
        yield Status.FAIL, "GpuLost", f"NVML calls it lost: {error}"
    elif gpu.code == nvml.RESET_REQUIRED:
        yield Status.FAIL, "ResetRequired", f"NVML wants it reset: {error}"
    elif gpu.code:
        yield Status.WARN, "Error", f"NVML fails on it: {error}"
    if gpu.remap_failed:
        yield Status.FAIL, "RemapFailed", "a row of its memory could not be remapped"
    if gpu.uncorrected:
        yield (
            Status.FAIL,
            "UncorrectedMemory",
            f"{gpu.uncorrected} uncorrected memory errors since its driver started",
        )
    if gpu.fabric_state == nvml.FABRIC_COMPLETED and gpu.fabric_status:
        yield Status.FAIL, "FabricFailed", f"it did not join the NVLink fabric (status {gpu.fabric_status})"
    if gpu.fabric_state in (nvml.FABRIC_NOT_STARTED, nvml.FABRIC_IN_PROGRESS):
        yield Status.WARN, "FabricNotReady", "it has not joined the NVLink fabric yet"
    if gpu.remap_pending or gpu.retired_pending:
        what = "rows" if gpu.remap_pending else "pages"
        yield Status.WARN, "MemoryPending", f"{what} of its memory are replaced at its next reset"
    if gpu.slowed_by:
        yield Status.WARN, "Slowed", f"slowed by {' and '.join(gpu.slowed_by)}"


CHECK = Check(
    id="gpu.nvml",
    question="Does NVIDIA's library find every GPU, and find nothing wrong with it?",
    why="Memory errors, a lost GPU and a library that does not fit its driver show only there. A job dies on the first "
    "one that it meets.",
    fix="nvidia-smi -q -i {place}",
    reasons=(
        Reason("Healthy", Status.OK),
        Reason("DriverMismatch", Status.FAIL, RELOAD),
        Reason("NotStarted", Status.FAIL, "nvidia-smi, then dmesg | grep NVRM. Drain and reboot the node."),
        Reason("GpuLost", Status.FAIL, "dmesg | grep -E 'NVRM.*{place}'. Drain and reboot the node (power cycle)."),
        Reason("ResetRequired", Status.FAIL, RESET),
        Reason("Error", Status.WARN),
        Reason("RemapFailed", Status.FAIL, REPLACE),
        Reason("UncorrectedMemory", Status.FAIL, RESET),
        Reason("FabricFailed", Status.FAIL, "docs/runbooks/fabric-manager.md, then nvidia-smi -q -i {place}: Fabric."),
        Reason("FabricNotReady", Status.WARN, "docs/runbooks/fabric-manager.md"),
        Reason("MemoryPending", Status.WARN, RESET),
        Reason("Slowed", Status.WARN, "nvidia-smi -q -d PERFORMANCE -i {place}; see fans and power supplies."),
    ),
    source="nvml.h (nvmlReturn_t, clocks event reasons, row remapping); DCGM health (uncorrected ECC, row remapping); "
    "facebookresearch/gcm; leptonai/gpud",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Nvml, Pci),
    uses=(GpuDriver,),
    after=("gpu.driver",),
    judge=judge,
)
