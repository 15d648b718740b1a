"""eni.ghost-link: ENIs that the kernel has and the metadata does not."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.ghost_link import CHECK
from tests.cluster_values import erdma_device, erdma_record
from tests.eni_values import DENIED, ERI_MAC, SILENT, eth0, eth1, eth2, kernel, known, recorded
from tests.imds_values import NOT_ECS, imds, instance
from tests.values import say, verdicts

FABRIC = "b8:3f:d2:00:00:01"
ROWS = [
    # links                                                  says
    (kernel(), "ok Listed; ok Listed"),
    (kernel(eth0()), "ok Listed"),
    (kernel(eth0(), eth2()), "ok Listed; warn NotInMetadata"),
    (kernel(eth2(name="veth0123abcd")), "warn NotInMetadata"),
    (kernel(eth0(), eth2(mac=FABRIC)), "ok Listed"),  # a bare-metal instance's own fabric is no ENI
    (kernel(eth0(), eth2(kind="macvlan", physical=False)), "ok Listed"),
]


@pytest.mark.parametrize(("links", "says"), ROWS)
def test_says(links: object, says: str) -> None:
    assert say(CHECK, imds(), links) == says


KNOWN = [
    (recorded(), "absent Nothing"),
    (recorded(known(mac=FABRIC)), "warn NotInMetadata"),
    (recorded(erdma=erdma_record(erdma_device(mac=FABRIC))), "warn NotInMetadata"),
    (recorded(terway=DENIED), "unknown CannotLook"),
]


@pytest.mark.parametrize(("kubernetes", "says"), KNOWN)
def test_other_books_know_enis_with_other_addresses(kubernetes: object, says: str) -> None:
    assert say(CHECK, imds(), kernel(eth2(mac=FABRIC)), kubernetes) == says


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, kernel()) == "absent Nothing"
    assert say(CHECK, imds(SILENT), kernel()) == "unknown CannotLook"
    assert say(CHECK, imds(instance(interfaces=())), kernel(eth1())) == "warn NotInMetadata"


def test_messages() -> None:
    (plain,) = verdicts(CHECK, imds(), kernel(eth2()))
    assert plain.message == (
        "the kernel has the ENI (00:16:3e:aa:bb:03) eth2 at 0000:00:07.0 and the metadata does not list it; no other "
        "book that was read knows it: detached in the cloud and still plugged in here, if it stays; "
        "see curl 100.100.100.200/latest/meta-data/network/interfaces/macs/"
    )
    both = recorded(known(mac=ERI_MAC), erdma=erdma_record(erdma_device(mac=ERI_MAC)))
    (known_to,) = verdicts(CHECK, imds(), kernel(eth2()), both)
    assert "Terway's record and erdma-controller's still has it" in known_to.message
