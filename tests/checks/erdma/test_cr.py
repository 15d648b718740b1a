"""erdma.cr: the record against RDMA devices and links."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.erdma.cr import CHECK
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, erdma_agent, erdma_device, erdma_record, node_object, pod_eni
from tests.erdma_values import FIRST, MAC, SECOND, erdma, erdma_0
from tests.values import link, links, rdma, say, verdicts

DENIED = Unreadable(Why.DENIED, "erdmadevices", detail="403")
NOWHERE = node_object(annotations={"alibabacloud.com/instance-type-info": ""})
OTHER = "0216:3eff:feaa:bb09"
AGENT = erdma_agent()
ONE, TWO = erdma(), erdma(functions=(FIRST, SECOND))


def record(**different: Any) -> dict[str, Any]:
    return {"erdma": erdma_record(erdma_device(**different))}


NO_RDMA_DEVICE = "fail NoRdmaDevice; warn NotRecorded"
ROWS = [
    # Kubernetes                                    functions  devices                       says
    (record(), ONE, (erdma_0(),), "ok Ready"),
    (record(mac=MAC.upper()), ONE, (erdma_0(),), "ok Ready"),
    (record(status="Pending"), ONE, (erdma_0(),), "fail NotReady"),
    (record(status=""), ONE, (erdma_0(),), "fail NotReady"),
    (record(status="Failed"), ONE, (erdma_0(),), "fail Failed"),
    (record(), ONE, (erdma_0(node_guid=OTHER),), NO_RDMA_DEVICE),
    (record(), ONE, (erdma_0(node_guid="946d:ae03:00cd:e700"),), NO_RDMA_DEVICE),
    (record(), ONE, (erdma_0(node_guid=DENIED),), "unknown CannotLook; unknown CannotLook"),
    (record(status="Failed"), ONE, (erdma_0(node_guid=DENIED),), "fail Failed; unknown CannotLook"),
    # An ERI on the bus without a device is erdma.device's affair.
    (record(), ONE, (), "ok Ready"),
    (record(), TWO, (erdma_0(node_guid=OTHER),), "ok Ready; warn NotRecorded"),
    (record(), erdma(functions=()), (), "fail NoRdmaDevice"),
    (record() | {"pod_enis": (pod_eni(mac=MAC.upper()),)}, erdma(functions=()), (), "ok InPod"),
    (record() | {"pod_enis": (pod_eni(),)}, erdma(functions=()), (), "fail NoRdmaDevice"),
    # A device of another make is not held against the record.
    (record(), ONE, (erdma_0(), erdma_0(name="mlx5_0", bdf=SECOND, node_guid=OTHER)), "ok Ready"),
    # Without a record
    ({}, ONE, (erdma_0(),), "absent Nothing"),
    ({"pods": (AGENT,)}, ONE, (erdma_0(),), "warn NoRecord"),
    ({"pods": (erdma_agent(namespace="users"), erdma_agent(owner=None))}, ONE, (erdma_0(),), "absent Nothing"),
    ({"pods": (AGENT,), "node": NOWHERE}, ONE, (erdma_0(),), "absent Nothing"),
    ({"erdma": DENIED}, ONE, (erdma_0(),), "unknown CannotLook"),
    ({"erdma": DENIED}, erdma(functions=()), (), "unknown CannotLook"),
    ({"erdma": DENIED, "node": NOWHERE}, erdma(functions=()), (), "absent Nothing"),
    ({"erdma": DENIED, "node": DENIED}, erdma(functions=()), (), "absent Nothing"),
    ({"erdma": DENIED, "node": NOWHERE}, ONE, (), "unknown CannotLook"),
]


@pytest.mark.parametrize(("different", "functions", "devices", "says"), ROWS)
def test_says(different: dict[str, Any], functions: object, devices: Any, says: str) -> None:
    assert say(CHECK, cluster(**different), functions, rdma(devices=devices), links()) == says


def test_without_facts_of_the_node_the_record_speaks_alone() -> None:
    assert say(CHECK, cluster(**record())) == "ok Ready"
    assert say(CHECK, cluster(**record(status="Failed"))) == "fail Failed"
    assert say(CHECK, cluster(erdma=DENIED, node=NOWHERE)) == "absent Nothing"


NETDEVS = [
    (links(), "nor has it a network interface here"),
    (links(link(permanent_mac=MAC)), "its network interface eth2 is here"),
    (links(link(permanent_mac=None, mac=MAC.upper())), "its network interface eth2 is here"),
    (links(link(mac=MAC)), "nor has it a network interface here"),  # a MAC that was lent: the permanent one counts
]


@pytest.mark.parametrize(("seen", "words"), NETDEVS)
def test_the_message_says_whether_its_netdev_is_here(seen: object, words: str) -> None:
    (verdict,) = verdicts(CHECK, cluster(**record()), erdma(functions=()), rdma(), seen)
    assert verdict.message == (
        "ERI eni-bp1eri (00:16:3e:aa:bb:03) is Ready for erdma-controller and no RDMA device is made of its MAC; "
        f"{words}: ip -d link, rdma dev"
    )
    assert verdict.subject.place == MAC


def test_other_messages() -> None:
    (verdict,) = verdicts(CHECK, cluster(**record(status="Failed", message="quota exceeded")))
    assert verdict.message == (
        "ERI eni-bp1eri (00:16:3e:aa:bb:03): erdma-controller says Failed (quota exceeded): "
        "kubectl describe erdmadevice NODE"
    )
    (_, verdict) = verdicts(CHECK, cluster(**record()), ONE, rdma(devices=(erdma_0(node_guid=OTHER),)))
    assert verdict.message == (
        "erdma_0 at 0000:00:07.0 (00:16:3e:aa:bb:09) is an ERI that erdma-controller has no record of"
    )
    (verdict,) = verdicts(CHECK, cluster(pods=(AGENT,)), ONE, rdma())
    assert verdict.message == (
        "kube-system/alibabacloud-erdma-agent-7xk2p runs here and the instance type has 2 ERIs, but there is no "
        "ErdmaDevice of this node: it is not selected, or the controller failed; see its log"
    )
