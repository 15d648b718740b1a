"""Is every GPU that this node needs on its PCI bus?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.job_profile import GpuCount
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict, raw

SEVERAL_GPUS = Subject("*", None, "GPUs")


def judge(seen: Seen) -> Iterator[Verdict]:
    pci, expected = seen[Pci], seen[Expected]
    yield from (missing(gpu, pci) for gpu in expected.missing_gpus)
    if expected.gpu_count is not None:
        yield counted(pci, expected.gpu_count, expected.by)
    yield from seen.each(pci.gpus, lambda gpu: present(gpu, expected))


def missing(gpu: MissingDevice, pci: Pci) -> Verdict:
    there = pci.at_address(gpu.subject.place)
    wanted = gpu.id or gpu.subject.place
    if there is not None:
        shows = f"{there.label} is a device of class {raw(there)['pci_class']}, in the place of {gpu.subject.name}"
        return Verdict(
            gpu.subject, Status.FAIL, "Replaced", f"{shows}, which {gpu.by} expects", None, there.label, wanted
        )
    shows = f"the PCI bus does not list the GPU {gpu.subject.name}, which {gpu.by} expects; it lists {len(pci.gpus)}"
    return Verdict(gpu.subject, Status.FAIL, "Missing", shows, None, "absent", wanted)


def counted(pci: Pci, count: GpuCount, by: str) -> Verdict:
    """A count means GPUs that answer and that no virtual machine has. One that cannot be read counts as there."""
    suited = [one for one in pci.gpus if count.id in (None, raw(one)["id"]) and is_for_jobs(one)]
    what = f"{count.id} GPUs" if count.id else "GPUs"
    shows = f"{len(suited)} of at least {count.count} {what} are on the bus; wanted by {by}"
    status, reason = (Status.OK, "Enough") if len(suited) >= count.count else (Status.FAIL, "TooFewGpus")
    return Verdict(SEVERAL_GPUS, status, reason, shows, None, str(len(suited)), f"at least {count.count}")


def is_for_jobs(gpu: PciDevice) -> bool:
    return raw(gpu)["answers"] is not False and not kinds.handed_on_to(gpu)


def present(gpu: PciDevice, expected: Expected) -> Verdict:
    if gpu.answers is False:
        shows = f"{gpu.label} is listed, but its configuration space reads as all ones: it has fallen off the bus"
        return Verdict(gpu.subject, Status.FAIL, "NoAnswer", shows, None, "ff ff ff ff", "vendor and device")
    want = expected.gpus.get(gpu.address)
    model = want.id if want is not None and want.id else ""
    if model and gpu.id != model:
        shows = f"{gpu.label} is in the place of the {model} that {expected.by} expects: was a board changed?"
        return Verdict(gpu.subject, Status.WARN, "OtherGpu", shows, None, gpu.id, model)
    return Verdict(gpu.subject, Status.OK, "Present", f"{gpu.label} is on the bus", None, gpu.id, model)


CHECK = Check(
    id="gpu.expected",
    question="Is every GPU that this node needs on its PCI bus?",
    why="The device plugin counts GPUs when it starts. A job that gets a GPU which fell off the bus since dies at its "
    "first call of CUDA.",
    fix="dmesg | grep {place} says whether it fell off the bus (Xid 79). Drain the node and power cycle it; if {place} "
    "stays away, reseat or replace the board.",
    reasons=(
        Reason("Missing", Status.FAIL),
        Reason(
            "Replaced",
            Status.FAIL,
            "lspci -nn -s {place} shows what is there. Capture the profile again if it was changed on purpose "
            "(nodeprep profile capture); else put the {expected} back.",
        ),
        Reason(
            "TooFewGpus",
            Status.FAIL,
            "lspci -nn | grep -iE 'nvidia|amd' beside that of a good sibling, and dmesg | grep -iE 'xid|amdgpu'. Drain "
            "the node and power cycle it.",
        ),
        Reason("Enough", Status.OK),
        Reason("NoAnswer", Status.FAIL),
        Reason(
            "OtherGpu",
            Status.WARN,
            "Capture the profile again if the board at {place} was changed on purpose (nodeprep profile capture); else "
            "put the {expected} back.",
        ),
        Reason("Present", Status.OK),
    ),
    source="Linux Documentation/ABI/testing/sysfs-bus-pci; pci.ids (classes 0300, 0302, 0380, 1200); NVIDIA, Xid 79",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Pci, Expected),
    judge=judge,
)
