"""Are RDMA devices exclusive to network namespaces where a chain moves them into pods?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.network.cni import Cni, CniFile, CniNetwork
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
    raw,
)

PLUGIN, WANTED = "rdma", "exclusive"
MODE_COMMAND = "SYS_GET"  # the question that tells the mode


def judge(seen: Seen) -> Iterator[Verdict]:
    asking = [file.name[:60] for file in seen[Cni].files or () if asks(file)]
    if not asking:
        return
    told = seen[RdmaNetlink]
    mode = told.netns_mode
    if mode is None:
        if MODE_COMMAND in told.denied:
            yield cannot_look(NODE, Unreadable(Why.DENIED, f"netlink rdma {MODE_COMMAND}"))
        return  # no RDMA, or Linux before 5.2, which knows no modes
    shows = f"RDMA devices are {mode} between network namespaces; {WANTED} is wanted by the rdma plugin in {asking[0]}"
    if mode == WANTED:
        yield Verdict(NODE, Status.OK, "Exclusive", shows, None, mode, WANTED)
        return
    message = f"{shows}, else it fails each pod: set netns_mode=0 of ib_core in /etc/modprobe.d and reboot"
    yield Verdict(NODE, Status.WARN, "Shared", message, None, mode, WANTED)


def asks(file: CniFile) -> bool:
    network = raw(file)["network"]
    return isinstance(network, CniNetwork) and PLUGIN in network.types


CHECK = Check(
    id="cni.rdma-netns",
    question="Are RDMA devices exclusive to network namespaces where a chain moves them into pods?",
    why="The rdma plugin moves an RDMA device into the pod's namespace, which the kernel only does in exclusive mode.",
    fix="options ib_core netns_mode=0 in /etc/modprobe.d, then reboot; or take the rdma plugin out of the chain.",
    reasons=(
        Reason("Exclusive", Status.OK),
        Reason("Shared", Status.WARN),
    ),
    source="k8snetworkplumbingwg/rdma-cni README; Linux drivers/infiniband/core/device.c",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Cni, RdmaNetlink),
    judge=judge,
)
