"""Did NVIDIA's driver set up every GPU that it keeps ready?"""

# The driver shows a UUID from a GPU's first start on, until it is loaded again. NVML starts every GPU: after one run of
# nvidia-smi or of the device plugin, a GPU without a UUID is one that did not start.

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.machine import xid
from nodeprep.facts.machine.gpu import GpuDriver, GpuInformation
from nodeprep.facts.machine.kernel_log import KernelLog
from nodeprep.facts.machine.limits import PERSISTENCED, Limits
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.xid import GpuEvent
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw

DAEMON = "nvidia-persistenced"


def judge(seen: Seen) -> Iterator[Verdict]:
    driver = seen[GpuDriver]
    if driver.version is None or raw(driver)["gpus"] is None:
        return  # gpu.driver says so
    listed = [one for one in driver.gpus or () if raw(one)["excluded"] is not True]
    ready = sum(isinstance(raw(one)["uuid"], str) for one in listed)
    failures = failed_starts(seen)
    yield from seen.each(
        listed,
        lambda gpu: verdict(gpu, kept_by(seen, ready), ready, failures),
        lambda gpu: subject(gpu, seen[Pci]),
    )


def subject(gpu: GpuInformation, pci: Pci | None = None) -> Subject:
    there = pci.at_address(gpu.address) if pci is not None else None
    return there.subject if there is not None else Subject(gpu.address, None, gpu.address)


def failed_starts(seen: Seen) -> tuple[GpuEvent, ...]:
    """What the kernel log says of GPUs that did not start, as far as it can be read."""
    log = seen.explaining(KernelLog)
    return xid.failed_starts(log.heard()) if log is not None else ()


def kept_by(seen: Seen, ready: int) -> str:
    """Who keeps the GPUs set up while nobody uses them, "" if nobody is seen to.

    The daemon has each GPU open, unless it was started with --no-persistence-mode. The old persistence mode leaves one
    trace: GPUs are set up, and nobody has one open.
    """
    limits, driver = seen.explaining(Limits), seen[GpuDriver]
    daemons = (raw(limits)["daemons"] if limits is not None else None) or ()
    if raw(driver)["users"] == 0:
        return "persistence mode" if ready else ""
    return DAEMON if driver.persistence or any(one.name == PERSISTENCED for one in daemons) else ""


def verdict(gpu: GpuInformation, keeper: str, ready: int, failures: tuple[GpuEvent, ...]) -> Verdict:
    name = f"{gpu.address} ({gpu.model})" if gpu.model else gpu.address
    about = Subject(gpu.address, None, name)
    if gpu.uuid is not None:
        return Verdict(about, Status.OK, "Ready", f"{name} is set up as {gpu.uuid}", None, gpu.uuid)
    shows = f"{name} has no UUID yet: the driver has not set it up"
    failed = [one.line for one in failures if one.is_about(gpu.address)]
    if failed:
        message = f"{shows}; {failed[-1].at:.0f} s after boot the kernel said: {failed[-1].text}"
        return Verdict(about, Status.FAIL, "NotInitialised", message, None, "GPU-????", "a UUID")
    if not keeper and not ready:
        message = f"{shows}, nor any other; nobody uses a GPU, and without {DAEMON} that is usual"
        return Verdict(about, Status.OK, "NotOpened", message, None, "GPU-????")
    if keeper and ready:
        message = f"{shows}, while {keeper} keeps {ready} others ready: the driver failed to start it"
        return Verdict(about, Status.FAIL, "NotInitialised", message, None, "GPU-????", "a UUID")
    beside = f"{keeper} runs and keeps none ready" if keeper else f"{ready} others are; usual if nobody uses this one"
    return Verdict(about, Status.WARN, "NotInitialised", f"{shows}; {beside}", None, "GPU-????", "a UUID")


CHECK = Check(
    id="gpu.initialised",
    question="Did NVIDIA's driver set up every GPU that it keeps ready?",
    why="A GPU that its driver could not start is on the bus and has its driver. Every program that opens it fails.",
    fix="nvidia-smi -i {place}, then dmesg | grep -E 'NVRM.*{place}': RmInitAdapter failed says why. Drain and reboot "
    "the node.",
    reasons=(
        Reason("Ready", Status.OK),
        Reason("NotOpened", Status.OK),
        Reason("NotInitialised", Status.FAIL),
        Reason(
            "NotInitialised",
            Status.WARN,
            "nvidia-smi -i {place} makes the driver set it up; dmesg | grep -E 'NVRM.*{place}' says why it could not. "
            "systemctl enable --now nvidia-persistenced keeps GPUs ready.",
        ),
    ),
    source="NVIDIA driver README (proc interface: GPU UUID; nvidia-persistenced)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(GpuDriver, Pci),
    uses=(Limits, KernelLog),
    after=("gpu.driver",),
    judge=judge,
)
