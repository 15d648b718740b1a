"""The ENI ledger: books are matched by MAC address, and one that cannot be read spoils what needs it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.facts.alibaba import ledger
from nodeprep.facts.alibaba.ledger import EniRow, Ledger
from nodeprep.model import CannotLook, Seen
from tests.cluster_values import erdma_device, erdma_record, node_object, pod_eni, terway_node
from tests.cni_values import terway
from tests.eni_values import (
    DENIED,
    ERI_MAC,
    SILENT,
    address,
    erdma,
    eth0,
    eth1,
    eth2,
    kernel,
    known,
    recorded,
)
from tests.imds_values import NOT_ECS, PRIMARY_MAC, SHARED_MAC, imds, instance, interface, shared
from tests.route_values import routes
from tests.values import link, rdma


def opened(*facts: object) -> Ledger:
    values: dict[type, object] = {type(fact): fact for fact in (imds(), kernel(), terway(), *facts)}
    books = ledger.ledger(Seen(values))
    assert books is not None
    return books


def row(mac: str, *facts: object) -> EniRow:
    (found,) = (one for one in opened(*facts).rows if one.mac == mac)
    return found


def test_elsewhere_there_is_no_ledger() -> None:
    assert ledger.ledger(Seen({type(NOT_ECS): NOT_ECS})) is None


def test_an_instance_that_does_not_answer_is_not_passed_over() -> None:
    silent = imds(SILENT)
    with pytest.raises(CannotLook):
        ledger.ledger(Seen({type(silent): silent}))


def test_rows_are_the_metadata_and_then_the_rest_of_the_kernel() -> None:
    books = opened(kernel(eth2(), eth1()))
    assert [(one.mac, one.metadata is not None, one.link is not None) for one in books.rows] == [
        (PRIMARY_MAC, True, False),
        (SHARED_MAC, True, True),
        (ERI_MAC, False, True),
    ]
    assert [one.mac for one in books.attached] == [SHARED_MAC]


LINKS: list[tuple[dict[str, Any], bool]] = [
    ({"name": "rail0"}, True),
    ({"mac": "00:16:3E:AA:BB:01", "permanent_mac": None}, True),
    ({"mac": "02:00:00:00:00:01", "permanent_mac": SHARED_MAC}, True),  # the present one is a bond's, or by hand
    ({"mac": SHARED_MAC, "permanent_mac": "02:00:00:00:00:01"}, False),
    ({"physical": False, "kind": "ipvlan"}, False),
    ({"mac": None, "permanent_mac": None}, False),
]


@pytest.mark.parametrize(("different", "found"), LINKS)
def test_a_link_is_known_by_the_address_it_was_made_with(different: dict[str, Any], found: bool) -> None:
    one = row(SHARED_MAC, kernel(eth0(), eth1(**different)))
    assert (one.link is not None) is found


def test_of_two_links_with_one_address_the_first_counts() -> None:
    one = row(SHARED_MAC, kernel(eth1(), eth1(name="eth9")))
    assert one.link is not None
    assert one.link.name == "eth1"


def test_what_a_row_is_called() -> None:
    assert row(SHARED_MAC).where == "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0"
    assert row(SHARED_MAC).subject.place == SHARED_MAC
    ghost = row(ERI_MAC, kernel(eth2(bdf="")))
    assert (ghost.where, ghost.name) == ("the ENI (00:16:3e:aa:bb:03) eth2", "eth2")
    assert row(SHARED_MAC, kernel(eth0())).where == "eni-shared1 (00:16:3e:aa:bb:01)"
    nameless = imds(instance(interface(), shared(eni=SILENT)))
    assert row(SHARED_MAC, nameless).where == "the ENI (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0"
    assert row(SHARED_MAC, nameless, kernel(eth0())).subject.name == SHARED_MAC


ERIS = [
    # facts                                                                              is an ERI
    ((rdma(devices=(erdma(),)),), True),
    ((rdma(devices=(erdma(id=""),)),), False),  # rxe over an ENI makes the same GUID
    ((rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),)),), False),
    ((recorded(erdma=erdma_record(erdma_device(mac=ERI_MAC.upper()))),), True),
    ((recorded(known(mac=ERI_MAC, traffic_mode="HighPerformance")),), True),
    ((recorded(known(mac=ERI_MAC)),), False),
    ((), False),
]


@pytest.mark.parametrize(("facts", "is_eri"), ERIS)
def test_an_eri_is_known_by_any_book_but_the_metadata(facts: tuple[object, ...], is_eri: bool) -> None:
    eri = interface(mac=ERI_MAC, eni="eni-eri", primary_address="192.168.0.140")
    one = row(ERI_MAC, imds(instance(interface(), eri)), kernel(eth0(), eth2()), *facts)
    assert one.is_eri is is_eri


def test_of_two_holders_the_bound_one_counts() -> None:
    old, new = pod_eni(mac=SHARED_MAC, phase="Deleting", record="a/old"), pod_eni(mac=SHARED_MAC, record="a/new")
    holder = row(SHARED_MAC, recorded(pod_enis=(old, new))).holder
    assert holder is not None
    assert holder.record == "a/new"


FOR_PODS = [
    # mac          facts                                             for pods
    (SHARED_MAC, (), True),
    (SHARED_MAC, (recorded(),), True),
    (SHARED_MAC, (recorded(terway=None),), True),  # no CRD IPAM: no record
    (SHARED_MAC, (recorded(known(mac=ERI_MAC)),), False),
    (SHARED_MAC, (recorded(known(traffic_mode="HighPerformance")),), False),
    (SHARED_MAC, (terway(present=False),), False),
    (SHARED_MAC, (terway(present=False), recorded()), False),
    (SHARED_MAC, (kernel(eth0(), eth1(name="veth0123abcd")),), False),
    (PRIMARY_MAC, (), False),
    (ERI_MAC, (kernel(eth0(), eth1(), eth2()),), False),
]


@pytest.mark.parametrize(("mac", "facts", "for_pods"), FOR_PODS)
def test_which_enis_pods_get_addresses_of(mac: str, facts: tuple[object, ...], for_pods: bool) -> None:
    assert row(mac, *facts).is_for_pods is for_pods


PODS = [
    ((), ()),
    ((routes(),), ("192.168.0.134/32",)),
    ((routes(rules=()),), ()),
    ((recorded(),), ("default/client-b6989bf87-2bgtc",)),
    ((recorded(), routes(rules=())), ("default/client-b6989bf87-2bgtc",)),
    ((recorded(), routes()), ("192.168.0.134/32",)),
    ((kernel(eth0(), eth1(index=7)), routes()), ()),  # the rules are of another link's table
    ((kernel(eth0(), eth1(index=None)), routes()), ()),
]


@pytest.mark.parametrize(("facts", "pods"), PODS)
def test_whom_a_link_carries(facts: tuple[object, ...], pods: tuple[str, ...]) -> None:
    assert row(SHARED_MAC, *facts).pods() == pods


def test_addresses_are_those_that_others_can_reach() -> None:
    local = address(address="fe80::1", prefix=64, scope="link")
    other = address(netdev="eth0", prefix=24)
    assert row(SHARED_MAC, kernel(addresses=(address(), local, other))).addresses() == (address(),)
    assert row(SHARED_MAC, kernel(addresses=None)).addresses() == ()
    assert row(SHARED_MAC, kernel(eth0())).addresses() == ()


EXCLUSIVE = [
    ((), False),
    ((terway(capabilities={"cni_exclusive_eni": "eniOnly"}),), True),
    ((terway(capabilities=None),), False),
    ((kernel(eth0(), eth1(name="veth0123abcd")),), True),
    ((kernel(eth0(), eth1(), link(name="veth0123abcd", kind="veth", physical=False)),), False),
    ((terway(capabilities={"cni_exclusive_eni": "eniOnly"}), recorded()), False),
    ((recorded(node=node_object(labels={"k8s.aliyun.com/exclusive-mode-eni-type": "eniOnly"})),), True),
]


@pytest.mark.parametrize(("facts", "exclusive"), EXCLUSIVE)
def test_whether_pods_may_hold_whole_enis(facts: tuple[object, ...], exclusive: bool) -> None:
    assert opened(*facts).may_be_exclusive is exclusive


def test_a_book_that_cannot_be_read_spoils_only_what_needs_it() -> None:
    one = row(SHARED_MAC, recorded(terway=DENIED, pod_enis=(pod_eni(mac=SHARED_MAC),)))
    assert one.holder is not None
    assert one.link is not None
    with pytest.raises(CannotLook):
        _ = one.record
    with pytest.raises(CannotLook):
        _ = one.is_for_pods


def test_without_kubernetes_its_books_are_empty() -> None:
    one = row(SHARED_MAC)
    assert (one.record, one.holder, one.eri, one.books.terway) == (None, None, None, None)
    assert not one.books.is_shown_kubernetes


def test_a_record_is_found_whatever_its_case() -> None:
    record = known(mac=SHARED_MAC.upper())
    assert row(SHARED_MAC, recorded(terway=terway_node(record))).record == record
    assert row(SHARED_MAC, imds(instance(interface(), shared()))).record is None
