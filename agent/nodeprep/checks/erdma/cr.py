"""Does erdma-controller's record of this node agree with its Elastic RDMA interfaces?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import erdma as erdma_facts
from nodeprep.facts.alibaba.erdma import Erdma
from nodeprep.facts.kubernetes.cluster import Cluster, ErdmaDevice, KubeNode
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma, RdmaDevice
from nodeprep.model import (
    NODE,
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
    raw,
)

READY = "Ready"  # status.devices[].status of ErdmaDevice
FAILED = "Failed"
PENDING = "Pending"
ERIS = "EriQuantity"  # of the ECS instance type


def judge(seen: Seen) -> Iterator[Verdict]:
    cluster = seen[Cluster]
    if isinstance(raw(cluster)["erdma"], Unreadable) and not (functions(seen) or quantity(cluster)):
        return  # no ERI and no instance type that has any: on other nodes these records may be forbidden
    record = cluster.erdma
    if record is None:
        yield from without(seen)
        return
    yield from seen.each(record.devices, lambda eri: verdict(eri, seen), subject)
    known = {eri.mac.lower() for eri in record.devices}
    yield from seen.each(devices(seen), lambda device: unrecorded(device, known))


def subject(eri: ErdmaDevice) -> Subject:
    return Subject(eri.mac.lower(), None, f"ERI {eri.eni[:60]} ({eri.mac.lower()})")


def verdict(eri: ErdmaDevice, seen: Seen) -> Verdict:
    name, status = subject(eri).name, eri.status or PENDING
    said = f" ({eri.message[:120]})" if eri.message else ""
    if status != READY:
        message = f"{name}: erdma-controller says {status[:40]}{said}: kubectl describe erdmadevice NODE"
        return Verdict(
            subject(eri), Status.FAIL, "Failed" if status == FAILED else "NotReady", message, None, status, READY
        )
    mac, present = eri.mac.lower(), devices(seen)
    if (
        seen.get(Rdma) is None
        or is_explained(present, seen)
        or any(erdma_facts.mac_of(one.node_guid) == mac for one in present)
    ):
        return Verdict(subject(eri), Status.OK, "Ready", f"{name} is Ready", None, status, READY)
    holder = next((one.record for one in seen[Cluster].pod_enis if one.mac.lower() == mac), None)
    if holder:
        return Verdict(subject(eri), Status.OK, "InPod", f"{name} is Ready and {holder} holds it", None, status, READY)
    link = link_of(mac, seen.explaining(Links))
    has = f"its network interface {link} is here" if link else "nor has it a network interface here"
    message = f"{name} is Ready for erdma-controller and no RDMA device is made of its MAC; {has}: ip -d link, rdma dev"
    return Verdict(subject(eri), Status.FAIL, "NoRdmaDevice", message, None, "none", "an RDMA device")


def unrecorded(device: RdmaDevice, known: set[str]) -> Verdict | None:
    mac = erdma_facts.mac_of(device.node_guid)
    if mac in known:
        return None
    message = f"{device.where} ({mac or device.node_guid}) is an ERI that erdma-controller has no record of"
    return Verdict(device.subject, Status.WARN, "NotRecorded", message, None, mac or "", "a record")


def without(seen: Seen) -> Iterator[Verdict]:
    """An instance type with ERIs and erdma-controller at work on it, but no record: it waits for something."""
    many = quantity(seen[Cluster])
    agent = next((pod for pod in seen[Cluster].pods if pod.is_erdma_agent), None)
    if many and agent:
        message = (
            f"{agent.where} runs here and the instance type has {many} ERIs, but there is no ErdmaDevice of this node: "
            "it is not selected, or the controller failed; see its log"
        )
        yield Verdict(NODE, Status.WARN, "NoRecord", message, None, "none", "an ErdmaDevice")


def quantity(cluster: Cluster) -> int:
    """The ERIs that the instance type can have; 0 where that is not known."""
    node = raw(cluster)["node"]
    return (node.limit(ERIS) or 0) if isinstance(node, KubeNode) else 0


def functions(seen: Seen) -> tuple[str, ...]:
    erdma = seen.get(Erdma)
    return erdma.functions if erdma else ()


def devices(seen: Seen) -> tuple[RdmaDevice, ...]:
    """The RDMA devices of ERIs."""
    rdma, addresses = seen.get(Rdma), functions(seen)
    return tuple(one for one in rdma.devices if one.bdf in addresses) if rdma else ()


def is_explained(present: tuple[RdmaDevice, ...], seen: Seen) -> bool:
    """Whether some ERI on the bus has no RDMA device: this is said once, and not again for its MAC."""
    return len({device.bdf for device in present}) < len(functions(seen))


def link_of(mac: str, links: Links | None) -> str | None:
    known = ((link, raw(link)["permanent_mac"] or raw(link)["mac"]) for link in (links.links if links else ()))
    macs = ((link.name, mac.lower()) for link, mac in known if isinstance(mac, str))
    return next((name for name, own in macs if own == mac), None)


CHECK = Check(
    id="erdma.cr",
    question="Does erdma-controller's record of this node agree with its Elastic RDMA interfaces?",
    why="The record is the cloud's view: an ERI that it calls Ready may have no device here, and pods are sent to it.",
    fix="kubectl describe erdmadevice NODE, then the controller's log.",
    reasons=(
        Reason("Failed", Status.FAIL),
        Reason("NotReady", Status.FAIL),
        Reason("Ready", Status.OK),
        Reason("InPod", Status.OK),
        Reason(
            "NoRdmaDevice",
            Status.FAIL,
            "ip -d link, rdma dev; then rescan the bus (echo 1 > /sys/bus/pci/rescan).",
        ),
        Reason(
            "NotRecorded",
            Status.WARN,
            "Nothing, if {name} was attached by hand or the agent runs in local mode; else the controller's log.",
        ),
        Reason("NoRecord", Status.WARN, "See whether erdma-controller selects this node, then its log."),
    ),
    source="alibabacloud-erdma-controller api/v1 (ErdmaDevice), internal/controller/eri.go",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Cluster,),
    uses=(Erdma, Rdma, Links),
    judge=judge,
)
