"""What a repair asks of the API server, on the real one: Node and pods, the fleet's Leases, slots that others want."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.decide.repair_slots import SlotChoice
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.publish import repair_requests
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.repair_requests import RepairRequests
from nodeprep.values import replace
from tests.admission_policy_writes import node
from tests.cluster import accounts
from tests.rigs.cluster import Cluster

NAMESPACE, OWN, OTHER = "repairs", "repair-1", "repair-2"
NODES, LEASES = "/api/v1/nodes", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
SLOT = "nodeprep-slot-0"


@pytest.fixture(scope="module")
def access(cluster: Cluster) -> ApiAccess:
    """Of whom RBAC lets do it: what the policies deny, tests/cluster/test_admission_policy.py shows."""
    cluster.namespace(NAMESPACE)
    for name in (OWN, OTHER):
        cluster.create(NODES, node(name))
    peer = Peer(f"https://127.0.0.1:{cluster.port}", authority=str(cluster.authority))
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "patch"]},
    ]
    who = {"Authorization": f"Bearer {accounts.account(cluster, 'repairs', rules)}"}
    return ApiAccess(OWN, peer, lambda: who, namespace=NAMESPACE, connect=30.0, read=30.0)


@pytest.fixture
def asks(access: ApiAccess) -> RepairRequests:
    return RepairRequests(access, FleetNote())


@pytest.fixture
def slot(cluster: Cluster) -> Iterator[str]:
    cluster.create(LEASES, {"metadata": {"name": SLOT}})
    yield SLOT
    cluster.call("DELETE", f"{LEASES}/{SLOT}")


@pytest.fixture
def own_lease(cluster: Cluster) -> Iterator[str]:
    cluster.create(LEASES, {"metadata": {"name": f"agent-{OWN}"}, "spec": {"holderIdentity": OWN}})
    yield f"agent-{OWN}"
    cluster.call("DELETE", f"{LEASES}/agent-{OWN}")


def test_the_node_is_read_as_it_is_now(cluster: Cluster, asks: RepairRequests) -> None:
    taint = {"key": "nodeprep.io/unhealthy", "value": "x", "effect": "NoSchedule"}
    annotated = {"metadata": {"annotations": {"nodeprep.io/pause": "cable"}}}
    cluster.call("PATCH", f"{NODES}/{OWN}", annotated | {"spec": {"taints": [taint], "unschedulable": True}})
    before = clock.now()
    read = asks.node()
    assert before <= read.began <= clock.now()
    assert read.node is not None
    assert ("nodeprep.io/unhealthy", "NoSchedule") in read.node.taints
    assert (read.node.unschedulable, read.node.annotations["nodeprep.io/pause"]) == (True, "cable")
    assert read.node.uid == cluster.call("GET", f"{NODES}/{OWN}")[1]["metadata"]["uid"]


def test_a_node_that_is_not_there_is_none(asks: RepairRequests) -> None:
    gone = RepairRequests(replace(asks.access, node="no-such-node"), FleetNote())
    assert (gone.node().node, gone.node_and_pods().pods) == (None, None)
    assert "HTTP 404" in gone.node().failure


def test_only_the_pods_of_this_node_are_told(cluster: Cluster, asks: RepairRequests) -> None:
    for name, place in (("here", OWN), ("there", OTHER)):
        container = {"name": "x", "image": "x", "resources": {"limits": {"rdma/hca": "1"}}}
        spec = {"nodeName": place, "containers": [container], "serviceAccountName": "default"}
        cluster.create(f"/api/v1/namespaces/{NAMESPACE}/pods", {"metadata": {"name": name}, "spec": spec})
    read = asks.node_and_pods()
    assert read.node is not None
    assert [(one.where, dict(one.requests)) for one in read.pods or ()] == [(f"{NAMESPACE}/here", {"rdma/hca": 1})]


def test_nobody_was_told_where_there_is_no_own_lease(asks: RepairRequests) -> None:
    read = asks.fleet()
    assert (read.is_told, read.leases) == (False, None)
    assert "HTTP 404" in read.failure


def by_name(leases: tuple[FleetLease, ...] | None) -> dict[str, FleetLease]:
    return {one.name: one for one in leases or ()}


def test_the_note_is_there_before_the_leases_are_listed(
    cluster: Cluster, asks: RepairRequests, own_lease: str, slot: str
) -> None:
    cluster.create(LEASES, {"metadata": {"name": "nodeprep-repair", "annotations": {"nodeprep.io/pause": "cable"}}})
    asks.note.text = '{"trying":{"link_up":5}}'
    read = asks.fleet()
    assert read.is_told
    assert read.date is not None
    assert abs(read.date - time.time()) < 60, "the server's clock is that of this machine"
    found = by_name(read.leases)
    assert found[own_lease].note == RepairNote(trying={"link_up": 5.0})
    assert found["nodeprep-repair"].orders["nodeprep.io/pause"] == "cable"
    assert (found[slot].holder, found[slot].renewed) == ("", None)
    assert asks.note.told == asks.note.text
    asks.note.text = ""
    assert asks.tell().is_told
    assert by_name(asks.fleet().leases)[own_lease].note == RepairNote()


def test_all_pages_are_read(cluster: Cluster, asks: RepairRequests, own_lease: str) -> None:
    more = repair_requests.PAGE_LEASES + 3
    names = [f"agent-page-{number}" for number in range(more)]
    for name in names:
        cluster.create(LEASES, {"metadata": {"name": name}})
    try:
        assert by_name(asks.fleet().leases).keys() >= {own_lease, *names}
    finally:
        cluster.call("DELETE", LEASES)


def take(asks: RepairRequests, seconds: float = 180.0) -> Any:
    with asks._connected() as api:
        lease = api.request("GET", f"{LEASES}/{SLOT}")
    return asks.take(SlotChoice(SLOT, lease.body["metadata"]["resourceVersion"]), seconds)


def test_a_slot_is_taken_kept_and_given_back(cluster: Cluster, asks: RepairRequests, slot: str) -> None:
    assert take(asks).is_taken
    spec = cluster.call("GET", f"{LEASES}/{slot}")[1]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (OWN, 180)
    assert asks.keep(slot, 600.0).is_kept
    after = cluster.call("GET", f"{LEASES}/{slot}")[1]
    assert after["spec"]["leaseDurationSeconds"] == 600
    assert after["spec"]["renewTime"] > spec["renewTime"]
    assert len(after["metadata"]["managedFields"]) == 1, "by which the admission policy knows the time (ADR 0020)"
    assert asks.give_back(slot).is_returned
    assert "holderIdentity" not in cluster.call("GET", f"{LEASES}/{slot}")[1].get("spec", {})
    assert asks.give_back(slot).is_returned


def test_who_comes_second_is_denied(access: ApiAccess, asks: RepairRequests, slot: str) -> None:
    other = RepairRequests(replace(access, node=OTHER), FleetNote())
    with asks._connected() as api:
        seen = SlotChoice(slot, api.request("GET", f"{LEASES}/{slot}").body["metadata"]["resourceVersion"])
    assert other.take(seen, 180.0).is_taken
    late = asks.take(seen, 180.0)
    assert not late.is_taken
    assert "HTTP 409" in late.failure


def test_what_another_node_holds_is_neither_kept_nor_given_back(
    cluster: Cluster, access: ApiAccess, asks: RepairRequests, slot: str
) -> None:
    other = RepairRequests(replace(access, node=OTHER), FleetNote())
    assert take(other).is_taken
    kept = asks.keep(slot, 180.0)
    assert not kept.is_kept
    assert kept.failure == f"{slot} is held by {OTHER}, wanted {OWN}"
    assert asks.give_back(slot).is_returned, "it is not ours"
    assert cluster.call("GET", f"{LEASES}/{slot}")[1]["spec"]["holderIdentity"] == OTHER


def test_who_may_not_read_leases_any_more_has_nothing_to_give_back(
    cluster: Cluster, access: ApiAccess, slot: str
) -> None:
    """As where components/repair was removed: the slot's own time ends it, and nobody asks for ever."""
    who = {"Authorization": f"Bearer {accounts.account(cluster, 'repairs-none', [])}"}
    without = RepairRequests(replace(access, credential=lambda: who), FleetNote())
    returned = without.give_back(slot)
    assert returned.is_returned
    assert "HTTP 403" in returned.failure
    assert without.fleet().leases is None


def test_a_server_that_is_gone_is_no_answer(access: ApiAccess) -> None:
    gone = RepairRequests(replace(access, peer=replace(access.peer, url="https://127.0.0.1:1")), FleetNote())
    assert gone.node().node is None
    assert gone.node_and_pods().pods is None
    assert not gone.fleet().is_told
    assert not gone.take(SlotChoice(SLOT, "1"), 60.0).is_taken
    assert not gone.keep(SLOT, 60.0).is_kept
    assert not gone.give_back(SLOT).is_returned
    assert "127.0.0.1:1" in gone.node().failure
