"""Are RDMA devices shared between network namespaces as this node's plugins need it?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    cannot_look,
)
from nodeprep.values import Value

MODE_COMMAND = "SYS_GET"  # the question that tells the mode


class Want(Value):
    """The mode that the plugins of this node need."""

    mode: Annotated[
        Literal["shared", "exclusive"] | None,
        '"shared" (the kernel\'s default; the shared RDMA device plugin) or "exclusive" (the rdma CNI plugin). '
        "Unset has no opinion.",
    ] = None


def judge(seen: Seen) -> Iterator[Verdict]:
    told, wanted = seen[RdmaNetlink], seen[Want].mode
    mode = told.netns_mode
    if mode is None and wanted and MODE_COMMAND in told.denied:
        yield cannot_look(NODE, Unreadable(Why.DENIED, f"netlink rdma {MODE_COMMAND}"))
    if mode is None:
        return  # no RDMA, or Linux before 5.2, which knows no modes
    shows = f"RDMA devices are {mode} between network namespaces"
    if wanted is None:
        yield Verdict(NODE, Status.OK, "NothingWanted", f"{shows}; nothing asks for either", None, mode)
    elif mode == wanted:
        yield Verdict(NODE, Status.OK, "AsWanted", f"{shows}, as wanted", None, mode, wanted)
    else:
        value = str(int(wanted == "shared"))
        message = (
            f"{shows}; {wanted} is wanted {seen.wanted_by('mode')}: set netns_mode={value} of "
            "ib_core in /etc/modprobe.d and reboot"
        )
        yield Verdict(NODE, Status.WARN, "OtherMode", message, None, mode, wanted, args={"value": value})


CHECK = Check(
    id="rdma.netns-mode",
    question="Are RDMA devices shared between network namespaces as this node's plugins need it?",
    why="The rdma CNI moves devices into pods, which only works in exclusive mode; the shared plugin needs the other.",
    fix="options ib_core netns_mode={value} (0: exclusive, 1: shared) in /etc/modprobe.d, then reboot.",
    reasons=(
        Reason("NothingWanted", Status.OK),
        Reason("AsWanted", Status.OK),
        Reason("OtherMode", Status.WARN),
    ),
    source="k8snetworkplumbingwg/rdma-cni README; Linux drivers/infiniband/core/device.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(RdmaNetlink,),
    want=Want,
    judge=judge,
)
