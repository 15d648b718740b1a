"""Is the erdma module loaded that this node's Elastic RDMA interfaces need?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE, Erdma
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Remedy,
    Seen,
    Severity,
    Stage,
    Status,
    Subject,
    Verdict,
    raw,
)
from nodeprep.values import Value


class Want(Value):
    """Whether an Elastic RDMA interface is demanded."""

    required: Annotated[
        bool,
        "whether this node must have an Elastic RDMA interface; else one without is not asked for any.",
    ] = False


def judge(seen: Seen) -> Iterator[Verdict]:
    if seen[Want].required and not seen[Erdma].functions:
        message = (
            f"no function {VENDOR_DEVICE} is on the PCI bus; an Elastic RDMA interface is wanted "
            f"{seen.wanted_by('required')}: is this an instance type with ERIs, and is one attached?"
        )
        yield Verdict(NODE, Status.FAIL, "NoInterface", message, None, "none", VENDOR_DEVICE)
    # One verdict for each function: its other faults follow from this one, and those of other NICs do not.
    yield from (verdict(address, seen[Erdma]) for address in seen[Erdma].functions)


def verdict(address: str, erdma: Erdma) -> Verdict:
    subject = Subject(address, None, f"{address} ({VENDOR_DEVICE})")
    if erdma.loaded:
        return Verdict(
            subject, Status.OK, "Loaded", f"{subject.name}: module erdma is loaded", None, "loaded", "loaded"
        )
    shows = f"{subject.name} is an Elastic RDMA interface and the module erdma is not loaded"
    if raw(erdma)["installed"] is False:
        message = f"{shows}: the running kernel has none; install the eRDMA driver for it (uname -r, dkms status)"
        install = Remedy("erdma_install")
        return Verdict(subject, Status.FAIL, "NotInstalled", message, install, "not installed", "loaded")
    message = f"{shows}: modprobe erdma on the host, then dmesg | grep erdma"
    return Verdict(subject, Status.FAIL, "NotLoaded", message, Remedy("erdma_load"), "not loaded", "loaded")


CHECK = Check(
    id="erdma.module",
    question="Is the erdma module loaded that this node's Elastic RDMA interfaces need?",
    why="Without it an ERI carries TCP only, while the device plugin goes on to advertise aliyun/erdma as Healthy.",
    fix="Load the driver on the host: modprobe erdma, then dmesg | grep erdma.",
    reasons=(
        Reason(
            "NoInterface",
            Status.FAIL,
            "Attach an ERI, or run the job on a node pool whose instance type has them.",
        ),
        Reason("Loaded", Status.OK),
        Reason(
            "NotInstalled",
            Status.FAIL,
            "Install the driver for this kernel again, with its headers (uname -r, dkms status); after a new kernel "
            "dkms has to build it.",
        ),
        Reason(
            "NotLoaded",
            Status.FAIL,
            "modprobe erdma on the host (not in a container, whose kmod may not know the module's compression), then "
            "dmesg | grep erdma.",
        ),
    ),
    source="Linux drivers/infiniband/hw/erdma/erdma_main.c (1ded:107f); alibabacloud-erdma-controller internal/drivers",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Erdma,),
    remedies=("erdma_load", "erdma_install"),
    judge=judge,
    want=Want,
)
