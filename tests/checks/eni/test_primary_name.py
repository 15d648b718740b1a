"""eni.primary-name: the primary ENI's link is eth0, wherever Terway runs."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.primary_name import CHECK
from tests.cni_values import terway
from tests.eni_values import SILENT, eth0, eth1, kernel
from tests.imds_values import NOT_ECS, imds
from tests.values import say, verdicts

ROWS = [
    # metadata       links                                                        Terway                  says
    (imds(), kernel(), terway(), "ok Eth0"),
    (imds(), kernel(eth0(name="eth2"), eth1(name="eth0")), terway(), "fail OtherName"),
    (imds(), kernel(eth0(name="ens5")), terway(), "fail OtherName"),
    (imds(), kernel(eth0(name="ens5")), terway(present=False), "absent Nothing"),
    (imds(), kernel(eth1()), terway(), "absent Nothing"),  # eni.missing-link
    (NOT_ECS, kernel(eth0(name="ens5")), terway(), "absent Nothing"),
    (imds(SILENT), kernel(), terway(), "unknown CannotLook"),
    (imds(), kernel(), SILENT, "unknown CannotLook"),
]


@pytest.mark.parametrize(("metadata", "links", "cni", "says"), ROWS)
def test_says(metadata: object, links: object, cni: object, says: str) -> None:
    if cni is SILENT:
        cni = terway(present=SILENT)
    assert say(CHECK, metadata, links, cni) == says


def test_message() -> None:
    (found,) = verdicts(CHECK, imds(), kernel(eth0(name="eth2")), terway())
    assert found.message == (
        "the primary eni-primary (00:16:3e:00:00:01) eth2 at 0000:00:05.0 is not called eth0: "
        "Terway's init container ends at its sysctl; see dmesg | grep renamed"
    )
    assert (found.observed, found.expected) == ("eth2", "eth0")
