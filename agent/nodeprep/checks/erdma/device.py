"""Has every Elastic RDMA interface that its driver took an RDMA device?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba.erdma import VENDOR_DEVICE, Erdma
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Check, Confirmation, Reason, Remedy, Seen, Severity, Stage, Status, Subject, Verdict

DEVICE = "an RDMA device"


def judge(seen: Seen) -> Iterator[Verdict]:
    functions = [Subject(address, None, f"{address} ({VENDOR_DEVICE})") for address in seen[Erdma].functions]
    yield from seen.each(functions, lambda function: verdict(function, seen), lambda function: function)


def verdict(function: Subject, seen: Seen) -> Verdict | None:
    device = next((one.name for one in seen[Rdma].devices if one.bdf == function.place), None)
    if device is not None:
        return Verdict(function, Status.OK, "Device", f"{function.name} is {device}", None, device, DEVICE)
    if function.place in (seen[Erdma].deferred or ()):
        message = (
            f"{function.name} has no RDMA device: erdma waits for the network interface of the same MAC "
            "(/sys/kernel/debug/devices_deferred), which is in a pod's network namespace or not plugged in; ip -d link"
        )
        return Verdict(function, Status.FAIL, "Deferred", message, None, "deferred", DEVICE)
    nic = seen[Pci].at_address(function.place)
    if nic is None or nic.driver is None:
        return None  # of one without a driver, pci.driver-bound says why
    told = seen.get(RdmaNetlink)
    if told is not None and told.netns_mode == "exclusive":
        message = f"{function.name} shows no RDMA device, and RDMA namespaces are exclusive: a pod has it"
        return Verdict(function, Status.OK, "InAnotherNamespace", message)
    message = f"{function.name} is bound to {nic.driver} and shows no RDMA device: dmesg | grep erdma"
    return Verdict(function, Status.FAIL, "NoRdmaDevice", message, Remedy("erdma_load"), "none", DEVICE)


CHECK = Check(
    id="erdma.device",
    question="Has every Elastic RDMA interface that its driver took an RDMA device?",
    why="The device plugin counts ERIs, not RDMA devices: a pod gets aliyun/erdma and finds nothing to open.",
    fix="dmesg | grep erdma.",
    reasons=(
        Reason("Device", Status.OK),
        Reason(
            "Deferred",
            Status.FAIL,
            "Bring the ERI's network interface back into the host's namespace (end the pod that holds it), or echo 1 "
            "> /sys/bus/pci/rescan if it never came; the driver then tries again.",
        ),
        Reason("InAnotherNamespace", Status.OK),
        Reason(
            "NoRdmaDevice",
            Status.FAIL,
            "dmesg | grep erdma; then, while no job holds /dev/infiniband, reload it: rmmod erdma && modprobe erdma.",
        ),
    ),
    source="Linux drivers/infiniband/hw/erdma/erdma_main.c (-EPROBE_DEFER without a netdev of that MAC in init_net)",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Erdma, Pci, Rdma),
    uses=(RdmaNetlink,),
    after=("pci.driver-bound",),
    remedies=("erdma_load",),
    judge=judge,
)
