"""eni.record: what terway-cli's migrate check asks, and ENIs that no record has."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.record import CHECK, Want
from tests.cluster_values import eni_address, erdma_device, erdma_record, pod_eni, terway_node
from tests.cni_values import terway
from tests.eni_values import DENIED, SILENT, erdma, eth0, eth1, eth2, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds
from tests.values import rdma, say, verdicts

OTHER = "00:16:3e:aa:bb:99"
RECORDS: list[tuple[dict[str, Any], str]] = [
    ({}, "ok Settled"),
    ({"status": "Attaching"}, "warn NotInUse"),
    ({"troubles": ("InsufficientIP: vsw-1 ip is not enough",)}, "warn Troubled"),
    ({"addresses": (eni_address(status="Invalid"),)}, "warn AddressNotValid"),
    ({"addresses": (eni_address(status="Deleting"),)}, "warn AddressNotValid"),
    ({"addresses": ()}, "ok Settled"),
    ({"addresses": DENIED}, "unknown CannotLook"),
]


@pytest.mark.parametrize(("record", "says"), RECORDS)
def test_says_of_a_record(record: dict[str, Any], says: str) -> None:
    assert say(CHECK, imds(), kernel(), recorded(known(**record)), terway()) == says


ENIS = [
    # links                     Kubernetes                                                says
    (kernel(), recorded(known(), known(id="eni-old", mac=OTHER)), "ok Settled; warn StaleRecord"),
    (
        kernel(),
        recorded(known(), known(id="eni-x", mac=OTHER), pod_enis=(pod_eni(mac=OTHER),)),
        "ok Settled; ok Settled",
    ),
    (kernel(eth0()), recorded(), "ok Settled"),  # eni.missing-link
    (kernel(eth0(), eth1(), eth2()), recorded(), "ok Settled"),  # eni.ghost-link
    (kernel(), recorded(terway=terway_node(known(mac=OTHER, status="Detaching"))), "warn NotInUse; warn NoRecord"),
    (kernel(eth0(), eth1(name="veth0123abcd")), recorded(terway=terway_node(known(mac=OTHER))), "warn StaleRecord"),
    (kernel(), recorded(known(mac=OTHER), pod_enis=(pod_eni(mac=SHARED_MAC),)), "warn StaleRecord"),
    (kernel(), recorded(known(mac=OTHER), erdma=erdma_record(erdma_device(mac=SHARED_MAC))), "warn StaleRecord"),
    (kernel(), recorded(known(mac=OTHER), erdma=DENIED), "warn StaleRecord; unknown CannotLook"),
    (kernel(), recorded(terway=None), "absent Nothing"),
    (kernel(), recorded(terway=DENIED), "unknown CannotLook"),
]


@pytest.mark.parametrize(("links", "kubernetes", "says"), ENIS)
def test_says_by_the_other_books(links: object, kubernetes: object, says: str) -> None:
    assert say(CHECK, imds(), links, kubernetes, terway()) == says


def test_an_eri_needs_no_record_of_terways() -> None:
    device = rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),))
    assert say(CHECK, imds(), kernel(), recorded(known(mac=OTHER)), terway(), device) == "warn StaleRecord"


AGES = [(None, "ok Settled"), (48 * 3600.0, "ok Settled"), (49 * 3600.0, "warn NotSynced; ok Settled")]


@pytest.mark.parametrize(("age", "says"), AGES)
def test_says_by_the_age_of_the_record(age: float | None, says: str) -> None:
    kubernetes = recorded(terway=terway_node(known(), synced=age))
    assert say(CHECK, imds(), kernel(), kubernetes, terway()) == says


def test_an_operator_may_want_it_younger() -> None:
    kubernetes = recorded(terway=terway_node(known(), synced=3 * 3600.0))
    found, _ = verdicts(CHECK, imds(), kernel(), kubernetes, terway(), want=Want(synced_within=2))
    assert (found.reason, found.observed, found.expected) == ("NotSynced", "3 h", "2 h")


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, kernel(), recorded(), terway()) == "absent Nothing"
    assert say(CHECK, imds(SILENT), kernel(), recorded(), terway()) == "unknown CannotLook"


def test_messages() -> None:
    (trouble,) = verdicts(CHECK, imds(), kernel(), recorded(known(troubles=("OperationErr: quota",))), terway())
    assert trouble.message == ("Terway's record of eni-shared1 (00:16:3e:aa:bb:01) has trouble: OperationErr: quota")
    stale, none = verdicts(CHECK, imds(), kernel(), recorded(known(id="eni-old", mac=OTHER)), terway())
    assert stale.message == (
        "Terway's record of eni-old (00:16:3e:aa:bb:99) is InUse, and neither the metadata nor the kernel has it: "
        "the record is stale"
    )
    assert none.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0 is attached and is in no record of Terway's, no "
        "pod holds "
        "it, and it is no ERI: pods get none of its addresses; somebody attached it by hand, or a tag filter "
        "leaves it out"
    )
