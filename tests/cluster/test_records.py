"""Faults in what Kubernetes has of a node whose pods share ENIs, made in a real API server, and `nodeprep check` on it.

What is wrong is compared whole, so that each fault also shows that the finding of the one before went with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.api_objects import ago, status
from tests.cluster.known_node import SHARED_ENIS, Fault, Known
from tests.rigs.netns_node import veth
from tests.rigs.netns_records import EXCLUSIVE, limits, settings

POD = SHARED_ENIS.pod(0)
SHARED, TRUNK = "tcp-shared-eni", "mpijob-trunk-eni"


def labelled(labels: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels)}}


def eni(number: int, **different: Any) -> dict[str, Any]:
    """A change of Terway's record of an ENI."""
    return {"status": {"networkInterfaces": {f"eni-{number}": different}}}


def address(one: str, **different: Any) -> dict[str, Any]:
    return eni(1, ipv4={one: different or None})


def trunk_on(one: str, **different: int) -> dict[str, Any]:
    """A change of the Node: its trunk ENI, and other limits of its instance type."""
    annotations = limits(**different)["metadata"]["annotations"]
    return {"metadata": {"annotations": {**annotations, "k8s.aliyun.com/trunk-on": one}}}


def condition(**different: str) -> dict[str, Any]:
    """Terway's word on addresses, which it says now: after 15 minutes it would be stale."""
    usual = {"type": "SufficientIP", "status": "True", "reason": "SufficientIP", "lastHeartbeatTime": ago(0)}
    return {"status": {"conditions": [usual | different]}}


def not_ready(**statuses: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": "False"}], **statuses}}


def refused(words: str) -> dict[str, Any]:
    """terway-init ended with these words, and will again."""
    last = {"terminated": {"exitCode": 1, "reason": "Error", "message": words}}
    init = status("terway-init", {"waiting": {"reason": "CrashLoopBackOff"}}, restarts=4) | {"lastState": last}
    return not_ready(phase="Pending", initContainerStatuses=[init])


def eri(**different: str) -> dict[str, Any]:
    return {"status": {"devices": [{"id": "eni-eri", "status": "Ready", **different}]}}


ZONE_LABEL, TYPE_LABEL = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
LINGJUN = {"alibabacloud.com/lingjun-worker": "true"}
OTHER_ZONE = {"vswitches": {"cn-hangzhou-k": ["vsw-bp1other"]}}
GROUPS = [f"sg-{number}" for number in range(11)]
UNRECORDED = {"status": {"networkInterfaces": {"eni-2": None}}}
NO_ADDRESS = {"status": {"podIP": None, "podIPs": None}}
IN_TRUNK = eni(2, networkInterfaceType="Trunk")
HAS_AGENT: dict[str, Any] = {"agent": {}}
SOCKETS = "/var/lib/kubelet/device-plugins"
TWO_SOCKETS = f"touch {SOCKETS}/1763740000-erdma-eni.sock {SOCKETS}/1763740001-erdma.sock"
FAULTS = [
    Fault(
        "another instance's Node",
        ("fail imds.identity OtherInstance",),
        {"node": {"spec": {"providerID": "cn-hangzhou.i-bp1other"}}},
    ),
    Fault(
        "a resized instance",
        ("warn imds.identity OtherType",),
        {"node": labelled({TYPE_LABEL: "ecs.g8i.xlarge"})},
    ),
    Fault(
        "a label of another zone",
        ("warn imds.identity OtherZone", "warn terway.config NoVswitch"),
        {"node": labelled({ZONE_LABEL: "cn-hangzhou-k"})},
    ),
    Fault(
        "an address that the cloud does not have",
        ("fail eni.addresses DeadAddress",),
        {"terway": address("192.168.0.199", ip="192.168.0.199", status="Valid")},
    ),
    Fault("an address that Terway does not know", ("warn eni.addresses LeakedAddress",), {"terway": address(POD)}),
    Fault(
        "a record that is old",
        ("warn eni.record NotSynced",),
        {"terway": {"status": {"lastSyncOpenAPITime": ago(72 * 3600)}}},
    ),
    Fault("an ENI that is being attached", ("warn eni.record NotInUse",), {"terway": eni(1, status="Attaching")}),
    Fault(
        "a record of an ENI that is no more",
        ("warn eni.record StaleRecord",),
        {"terway": eni(9, id="eni-9", macAddress="00:16:3e:aa:bb:09", status="InUse")},
    ),
    Fault(
        "an ENI that the cloud complains about",
        ("warn eni.record Troubled",),
        {"terway": eni(1, conditions={"InsufficientIP": {"message": "InvalidVSwitchId.IpNotEnough"}})},
    ),
    Fault(
        "an address that is being taken away",
        ("warn eni.record AddressNotValid",),
        {"terway": address(POD, status="Deleting")},
    ),
    Fault(
        "an ENI without a record",
        ("warn eni.record NoRecord",),
        {"terway": UNRECORDED},
    ),
    Fault("no trunk ENI", ("fail eni.trunk NoTrunk",), profile=TRUNK),
    Fault(
        "a trunk ENI that is not attached",
        ("warn eni.record StaleRecord", "fail eni.trunk NotAttached"),
        {
            "node": trunk_on("eni-9"),
            "terway": eni(9, id="eni-9", macAddress="00:16:3e:aa:bb:09", status="InUse", networkInterfaceType="Trunk"),
        },
        TRUNK,
    ),
    Fault("a trunk ENI without a record", ("fail eni.trunk NotRecorded",), {"node": trunk_on("eni-9")}, TRUNK),
    Fault("a trunk ENI that is none", ("fail eni.trunk NotTrunk",), {"node": trunk_on("eni-2")}, TRUNK),
    Fault(
        "a trunk ENI that is being attached",
        ("warn eni.record NotInUse", "fail eni.trunk NotInUse"),
        {"node": trunk_on("eni-2"), "terway": eni(2, networkInterfaceType="Trunk", status="Attaching")},
        TRUNK,
    ),
    Fault(
        "pods hold all member ENIs",
        ("warn eni.free NoneFree",),
        {"node": trunk_on("eni-2", EniTotalQuantity=5), "terway": IN_TRUNK, "member": {}},
        TRUNK,
    ),
    Fault(
        "a node that was made exclusive by its label",
        ("fail terway.mode ModeMismatch",),
        {"node": labelled(EXCLUSIVE)},
    ),
    Fault("a node of another pool", ("fail terway.mode OtherMode",), profile="mpijob-exclusive-eni"),
    Fault("no Terway", ("fail terway.pod NoPod",), {"terway-pod": None}),
    Fault(
        "a daemon that does not get ready",
        ("fail terway.pod NotReady",),
        {"terway-pod": not_ready(containerStatuses=[status("main", {"running": {"startedAt": ago(60)}})])},
    ),
    *(
        Fault(words, (f"fail terway.pod {reason}",), {"terway-pod": refused(words)})
        for words, reason in {
            "Error: unsupport kernel version 4.19, require >=5.10": "KernelTooOld",
            "Error: ipvlan is unsupported": "IpvlanUnsupported",
            "Error: failed process input: invalid": "ConfigurationRefused",
            "Error: exclusive eni mode changed from default to eniOnly": "ModeChanged",
            "Error: mount failed: permission denied": "MountFailed",
            "Error: no such thing": "InitNotDone",
        }.items()
    ),
    Fault(
        "no address left",
        ("fail terway.ip-sufficient InsufficientIP",),
        lambda: {"node": condition(status="False", reason="InsufficientIP", message="no vSwitch has an address")},
    ),
    Fault(
        "Terway is silent",
        ("warn terway.ip-sufficient Stale",),
        lambda: {"node": condition(lastHeartbeatTime=ago(7200))},
    ),
    Fault(
        "Terway does not know",
        ("warn terway.ip-sufficient NotKnown",),
        lambda: {"node": condition(status="Unknown", reason="Unknown")},
    ),
    Fault("no configuration", ("warn terway.config NoConfig",), {"eni-config": None}),
    Fault("a slip of the editor", ("warn terway.config NotJson",), {"eni-config": {"data": {"eni_conf": "{,}"}}}),
    Fault("no vSwitch in the zone", ("warn terway.config NoVswitch",), {"eni-config": settings(**OTHER_ZONE)}),
    Fault("eleven groups", ("warn terway.config TooManyGroups",), {"eni-config": settings(security_groups=GROUPS)}),
    Fault("a pool of less than none", ("warn terway.config PoolSizes",), {"eni-config": settings(min_pool_size=9)}),
    Fault("a stack that is none", ("warn terway.config IpStack",), {"eni-config": settings(ip_stack="ipv5")}),
    Fault(
        "Lingjun without a vSwitch in the zone",
        ("fail lingjun.zone ZoneNotListed",),
        {"node": labelled(LINGJUN), "eni-config": settings(**OTHER_ZONE)},
    ),
    Fault(
        "Lingjun without a zone",
        ("fail lingjun.zone NoZone",),
        {
            "node": labelled({**LINGJUN, ZONE_LABEL: None}),
            "terway": {"spec": {"nodeMetadata": {"zoneID": ""}}},
        },
    ),
    Fault(
        "both serve aliyun/erdma",
        ("warn erdma.cr NoRecord", "fail terway.two-erdma-owners TwoOwners"),
        {"eni-config": settings(enable_erdma=True), **HAS_AGENT},
    ),
    Fault(
        "one that served aliyun/erdma is gone",
        # Each of both files is nobody's.
        ("warn terway.two-erdma-owners SocketLeft", "warn plugin.sockets Unclaimed", "warn plugin.sockets Unclaimed"),
        make=TWO_SOCKETS,
        undo=f"rm {SOCKETS}/*",
    ),
    Fault(
        "a pod without its veth",
        ("warn terway.veth NoVeth",),
        {"newcomer": NO_ADDRESS},
    ),
    Fault(
        "a veth that is down",
        ("warn terway.veth VethDown", "fail route.reverse-path NoRouteToPod"),
        make=f"ip link set {veth(0)} down",
        undo=f"ip link set {veth(0)} up; ip route replace {POD}/32 dev {veth(0)} scope link",
    ),
    Fault(
        "a pod that Terway made no rules for",
        ("warn terway.veth NoVeth", "fail route.rules RuleMissing"),
        {"newcomer": {}},
    ),
    Fault(
        "a pod that is no more",
        ("warn route.rules RuleLeftOver",),
        {"worker-0": None},
    ),
    Fault(
        "a rule that somebody took away",
        ("fail route.rules RuleMissing", "fail route.out OtherInterface < route.rules"),
        make=f"ip rule del pref 2048 from {POD}",
        undo=f"ip rule add pref 2048 from {POD} lookup {{table}}",
    ),
    Fault("an ERI that failed", ("fail erdma.cr Failed",), {"erdma": eri(status="Failed"), **HAS_AGENT}),
    Fault("an ERI that waits", ("fail erdma.cr NotReady",), {"erdma": eri(status="Pending"), **HAS_AGENT}),
    Fault("an ERI without a device", ("fail erdma.cr NoRdmaDevice",), {"erdma": {}, **HAS_AGENT}),
    Fault("ERIs that nobody asked for", ("warn erdma.cr NoRecord",), HAS_AGENT),
    Fault(
        "an ERI without an agent",
        ("fail erdma.cr NotReady", "warn erdma.agent NoAgent"),
        {"erdma": eri(status="Pending")},
    ),
    Fault(
        "an agent that does not get ready",
        ("fail erdma.cr NotReady", "warn erdma.agent NotReady"),
        {"erdma": eri(status="Pending"), "agent": not_ready(containerStatuses=[status("main", {"running": {}})])},
    ),
]


def test_a_node_as_it_should_be(shared_node: Known) -> None:
    said = shared_node.check(SHARED)
    assert (said.bad, said.code, said.report["verdict"]) == ((), 0, "passed")
    assert [one["check"] for one in said.report["skipped"]] == ["time.sync"]
    answered = {one["check"] for one in said.findings("ok")}
    assert answered.issuperset(one for one in said.report["gates"] if one.startswith(("imds.", "eni.", "route.")))
    assert answered.issuperset(("terway.mode", "terway.pod", "terway.ip-sufficient", "terway.config", "terway.veth"))


def test_a_node_with_a_trunk_eni(shared_node: Known) -> None:
    with shared_node.having(Fault("", (), {"node": trunk_on("eni-2"), "terway": IN_TRUNK, "member": {}})):
        said = shared_node.check(TRUNK)
    assert (said.bad, said.code, said.report["verdict"]) == ((), 0, "passed")
    assert {"eni.trunk", "eni.free"} <= {one["check"] for one in said.findings("ok")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault(shared_node: Known, fault: Fault) -> None:
    with shared_node.having(fault):
        assert shared_node.check(fault.profile).bad == fault.says


def test_all_faults_are_gone(shared_node: Known) -> None:
    assert shared_node.check(SHARED).bad == ()


def test_two_sockets_without_access(shared_node: Known) -> None:
    with shared_node.having(Fault("", (), make=TWO_SOCKETS, undo=f"rm {SOCKETS}/*")):
        said = shared_node.alone(SHARED)
    assert "fail terway.two-erdma-owners TwoSockets" in said.bad
