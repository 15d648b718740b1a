"""Does the erdma driver run in the mode that this node's jobs need?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from nodeprep.facts.alibaba.erdma import COMPAT, VENDOR_DEVICE, Erdma
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Subject, Verdict
from nodeprep.values import Value

# enum rdma_node_type (include/rdma/ib_verbs.h): iWARP devices say RNIC, RoCE devices CA.
MODES = {"1": "compat", "4": "default"}


class Want(Value):
    """The mode in which the driver must run."""

    mode: Annotated[
        Literal["default", "compat"] | None,
        '"compat" (RoCEv2-like: NCCL and other users of verbs) or "default" (iWARP: SMC-R and RDMA_CM). '
        "Unset has no opinion.",
    ] = None


def judge(seen: Seen) -> Iterator[Verdict]:
    functions = [Subject(address, None, f"{address} ({VENDOR_DEVICE})") for address in seen[Erdma].functions]
    if seen[Erdma].loaded:
        yield from seen.each(functions, lambda function: verdict(function, seen), lambda function: function)


def verdict(function: Subject, seen: Seen) -> Verdict | None:
    wanted = seen[Want].mode
    mode, shown_by = shown(function.place, seen)
    if not mode:
        return None  # without a device nothing shows the mode, and erdma.device says that there is none
    shows = f"{function.name}: erdma runs in {mode} mode ({shown_by})"
    if wanted is None:
        return Verdict(function, Status.OK, "NothingWanted", f"{shows}; nothing asks for either", None, mode)
    if mode == wanted:
        return Verdict(function, Status.OK, "AsWanted", f"{shows}, as wanted", None, mode, wanted)
    parameter = "Y" if wanted == "compat" else "N"
    message = (
        f"{shows}; {wanted} is wanted {seen.wanted_by('mode')}: when no job holds /dev/infiniband, "
        f"rmmod erdma && modprobe erdma compat_mode={parameter}, and the same in /etc/modprobe.d"
    )
    return Verdict(function, Status.FAIL, "OtherMode", message, None, mode, wanted, args={"parameter": parameter})


def shown(address: str, seen: Seen) -> tuple[str, str]:
    """The mode of a function and what shows it: the driver's parameter, else the kind of its RDMA device."""
    compat = seen[Erdma].compat
    if compat is not None:
        return ("compat" if compat else "default"), f"{COMPAT} is {'Y' if compat else 'N'}"
    rdma = seen.get(Rdma)
    device = next(iter(rdma.at_address(address)), None) if rdma else None
    node_type = (device.node_type or "") if device else ""
    return MODES.get(node_type.partition(":")[0], ""), f"{device.name if device else ''} is {node_type!r}"


CHECK = Check(
    id="erdma.mode",
    question="Does the erdma driver run in the mode that this node's jobs need?",
    why="NCCL finds no usable device in default mode, and SMC-R and RDMA_CM none in compat mode: jobs fail or use TCP.",
    fix="Drain the node, rmmod erdma, modprobe erdma compat_mode={parameter} (Y: compat, N: default), and keep it in "
    "/etc/modprobe.d/. A mainline driver takes its mode from the device and cannot be told.",
    reasons=(
        Reason("NothingWanted", Status.OK),
        Reason("AsWanted", Status.OK),
        Reason("OtherMode", Status.FAIL),
    ),
    source="alibabacloud-erdma-controller internal/drivers (compat_mode); Linux drivers/infiniband/hw/erdma",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Erdma,),
    uses=(Rdma,),
    after=("erdma.module",),
    judge=judge,
    want=Want,
)
