"""eni.eri-address: an ERI's own address and prefix, against the node's that Terway puts on what it takes."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.eri_address import CHECK
from nodeprep.facts.network.links import Address
from tests.cluster_values import erdma_device, erdma_record
from tests.cni_values import terway
from tests.eni_values import DENIED, ERI_MAC, SILENT, address, erdma, eth0, eth1, eth2, kernel, recorded
from tests.imds_values import NOT_ECS, PRIMARY_MAC, imds, instance, interface, shared
from tests.values import rdma, say, verdicts

ERI = interface(mac=ERI_MAC, eni="eni-eri", primary_address="192.168.0.140", addresses=("192.168.0.140",))
CLOUD = imds(instance(interface(), shared(), ERI))
OWN = address(netdev="eth2", address="192.168.0.140", prefix=24)
TAKEN = address(netdev="eth2")
DEVICE = rdma(devices=(erdma(),))
LINKS = (eth0(), eth1(), eth2())

ROWS = [
    # addresses on eth2                                     says
    ((OWN,), "ok OwnAddress"),
    ((OWN, TAKEN), "ok OwnAddress"),
    ((address(netdev="eth2", address="192.168.0.140", prefix=32),), "warn OtherPrefix"),
    ((TAKEN,), "fail TakenByTerway"),
    ((), "fail NoOwnAddress"),
    ((address(netdev="eth2", address="10.0.0.1", prefix=24),), "fail NoOwnAddress"),
    ((address(netdev="eth2", address="fe80::1", prefix=64, scope="link"),), "fail NoOwnAddress"),
]


@pytest.mark.parametrize(("addresses", "says"), ROWS)
def test_says(addresses: tuple[Address, ...], says: str) -> None:
    assert say(CHECK, CLOUD, kernel(*LINKS, addresses=addresses), DEVICE) == says


def test_a_netmask_that_the_metadata_does_not_tell_is_no_other_one() -> None:
    cloud = imds(instance(interface(), interface(mac=ERI_MAC, primary_address="192.168.0.140", prefix=None)))
    assert say(CHECK, cloud, kernel(*LINKS, addresses=(OWN,)), DEVICE) == "ok OwnAddress"


RECORD = recorded(erdma=erdma_record(erdma_device(mac=ERI_MAC)))
KNOWN = [
    # what knows it                                          says of one that holds the node's address
    ((rdma(),), "absent Nothing"),
    ((rdma(), RECORD), "fail TakenByTerway"),
    ((rdma(devices=(erdma(id="15b3:1021"),)),), "absent Nothing"),
    ((DEVICE, terway()), "fail TakenByTerway"),
    ((DEVICE, terway(capabilities=None)), "fail TakenByTerway"),
    ((DEVICE, terway(capabilities={"erdma": "true"})), "ok TerwayOwns"),  # enable_erdma
    ((DEVICE, recorded(erdma=DENIED)), "fail TakenByTerway"),
]


@pytest.mark.parametrize(("others", "says"), KNOWN)
def test_says_by_who_knows_it(others: tuple[object, ...], says: str) -> None:
    cloud = imds(instance(interface(), ERI))
    assert say(CHECK, cloud, kernel(eth0(), eth2(), addresses=(TAKEN,)), *others) == says


def test_a_record_that_may_not_be_read_leaves_it_open() -> None:
    assert say(CHECK, imds(), kernel(), rdma(), recorded(erdma=DENIED)) == "unknown CannotLook"


def test_the_primary_may_be_one_and_has_the_nodes_address() -> None:
    primary = recorded(erdma=erdma_record(erdma_device(mac=PRIMARY_MAC, primary=True)))
    assert say(CHECK, imds(), kernel(), rdma(), primary) == "absent Nothing"


def test_elsewhere_and_blind() -> None:
    taken = kernel(*LINKS, addresses=(TAKEN,))
    assert say(CHECK, NOT_ECS, taken, DEVICE) == "absent Nothing"
    assert say(CHECK, imds(SILENT), taken, DEVICE) == "unknown CannotLook"


def test_messages() -> None:
    (found,) = verdicts(CHECK, CLOUD, kernel(*LINKS, addresses=(TAKEN,)), DEVICE)
    assert found.message == (
        "eni-eri (00:16:3e:aa:bb:03) eth2 at 0000:00:07.0, an ERI by its RDMA device erdma_0, holds "
        "192.168.0.116/32, the node's address, and not its own 192.168.0.140/24: Terway took it for pods; exclude it "
        "(tag terway.alibabacloud.com/excluded=true, or eni_tag_filter), then detach and attach it"
    )
    assert found.subject.place == ERI_MAC
    (bare,) = verdicts(CHECK, CLOUD, kernel(*LINKS, addresses=()), rdma(), RECORD)
    assert "an ERI by the ErdmaDevice record, holds no address" in bare.message
