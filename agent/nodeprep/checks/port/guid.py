"""Has every RDMA device an identity of its own, and every InfiniBand port a LID and a subnet manager?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Port, Rdma, RdmaDevice
from nodeprep.link_layers import INFINIBAND
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict
from nodeprep.shown import field_of

SET_GUID = "Set the VF's GUID (ip link set PF vf N node_guid GUID port_guid GUID), or reset the card."
REFLASH_GUID = (
    "Re-flash the copied GUID: mstflint -d {place} query, then mstflint -d {place} sg with the one on the card's label."
)
SEE_MANAGER = "See the subnet manager: sminfo, then its log; ibstat {device} shows the LID when it came."
SEE_ITS_LOG = "See the subnet manager: sminfo, then the log of the node or switch that runs it."
ZERO = "0000:0000:0000:0000"


def judge(seen: Seen) -> Iterator[Verdict]:
    expected, rdma = seen[Expected], seen[Rdma]
    wanted = {port.device: by for port in rdma.ports if (by := expected.of(port)) is not None}
    # A management device has the GUID of the other device on its PCI function.
    shared = Counter(guid for guid, _ in {(field_of(device, "node_guid"), device.place) for device in rdma.devices})

    def status(device: RdmaDevice) -> Status:
        return Status.FAIL if device.name in wanted or expected.is_needed(device.place) else Status.WARN

    yield from seen.each(rdma.devices, lambda one: of_device(one, wanted.get(one.name), shared, status(one)))
    fabric = [port for port in rdma.ports if inventory.may_be_active(port) and expected.of_use(port) is not None]
    yield from seen.each(fabric, lambda port: of_port(port, expected))


def of_device(device: RdmaDevice, wanted_by: str | None, shared: Counter[str | None], bad: Status) -> Verdict | None:
    if wanted_by is None and (device.virtual_function or isinstance(field_of(device, "node_guid"), Unreadable)):
        return None
    guid = device.node_guid
    if guid is None:
        return None
    asks = f"; wanted by {wanted_by}" if wanted_by else ""
    if guid == ZERO:
        message = f"{device.where} has no node GUID (all zeros): firmware or hypervisor did not set it up{asks}"
        return Verdict(device.subject, bad, "ZeroGuid", message, observed=guid, expected="not zero")
    if shared[guid] > 1:
        message = (
            f"{device.where} has the node GUID {guid}, as has another device of this node{asks}: mlxconfig, mstflint"
        )
        return Verdict(device.subject, bad, "SharedGuid", message, observed=guid, expected="one device")
    return Verdict(device.subject, Status.OK, "Guid", f"{device.where} has the node GUID {guid}", observed=guid)


def of_port(port: Port, expected: Expected) -> Verdict | None:
    wanted_by = expected.of_use(port)
    status = Status.WARN if expected.of(port) is None else Status.FAIL  # another port of a spare's card stands in
    if port.layer != INFINIBAND:
        return None
    for reason, what, lid in (("NoLid", "LID", port.lid), ("NoSubnetManager", "LID of a subnet manager", port.sm_lid)):
        if lid is not None and not int(lid, 16):
            message = (
                f"{port.where} is ACTIVE without a {what} ({lid}); wanted by {wanted_by}: see the SM (sminfo, ibstat)"
            )
            about = {"device": port.device}
            return Verdict(port.subject, status, reason, message, None, lid, "not 0x0", args=about)
    if port.lid is None:
        return None
    return Verdict(
        port.subject, Status.OK, "Lid", f"{port.where} has LID {port.lid}, SM {port.sm_lid}", observed=port.lid
    )


CHECK = Check(
    id="port.guid",
    question="Has every RDMA device an identity of its own, and every InfiniBand port a LID and a subnet manager?",
    why="The fabric routes by LID and tells nodes apart by GUID: two of the same steal each other's traffic.",
    fix="ibstat, and mstflint -d {place} query.",
    reasons=(
        Reason("ZeroGuid", Status.FAIL, SET_GUID),
        Reason("ZeroGuid", Status.WARN, SET_GUID),
        Reason("SharedGuid", Status.FAIL, REFLASH_GUID),
        Reason("SharedGuid", Status.WARN, REFLASH_GUID),
        Reason("Guid", Status.OK),
        Reason("NoLid", Status.FAIL, SEE_MANAGER),
        Reason("NoLid", Status.WARN, SEE_MANAGER),
        Reason("NoSubnetManager", Status.FAIL, SEE_ITS_LOG),
        Reason("NoSubnetManager", Status.WARN, SEE_ITS_LOG),
        Reason("Lid", Status.OK),
    ),
    source="InfiniBand Architecture Specification 1, 14.2.5 (NodeInfo, PortInfo); drivers/infiniband/core/sysfs.c",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected),
    after=("port.present",),
    judge=judge,
)
