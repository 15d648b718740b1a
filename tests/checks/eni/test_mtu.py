"""eni.mtu: alike, and no smaller than the pods'."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.eni.mtu import CHECK
from nodeprep.facts.network.cni import CniFile
from nodeprep.model import Unreadable, Why
from tests.cni_values import cni, cni_file, network, plugin, terway
from tests.eni_values import DENIED, SILENT, erdma, eth0, eth1, kernel, known, recorded
from tests.imds_values import NOT_ECS, imds
from tests.values import rdma, say, verdicts

MALFORMED = Unreadable(Why.MALFORMED, "/etc/cni/net.d/10-terway.conflist", detail="line 1, column 2: no key")


def conflist(**options: Any) -> object:
    return cni(CniFile("10-terway.conflist", network(plugin("terway", **options), plugin("cilium-cni"))))


ROWS = [
    # eth0  eth1  CNI                                      says
    (1500, 1500, conflist(), "ok Mtu; ok Mtu"),
    (1500, 1500, conflist(mtu=0), "ok Mtu; ok Mtu"),
    (1500, 1400, conflist(), "ok Mtu; warn BelowPods"),
    (8500, 8500, conflist(mtu=8500), "ok Mtu; ok Mtu"),
    (8500, 1500, conflist(mtu=8500), "ok Mtu; warn BelowPods"),
    (1500, 1500, conflist(mtu=8500), "warn BelowPods; warn BelowPods"),
    (8500, 1500, conflist(), "ok Mtu; warn Uneven"),
    (1500, 8500, conflist(), "ok Mtu; warn Uneven"),
    (1400, 1400, cni(cni_file("05-flannel.conflist", "flannel")), "ok Mtu; ok Mtu"),
    (1400, 1400, cni(cni_file("00-multus.conf", "multus"), conflist().files[0]), "warn BelowPods; warn BelowPods"),  # type: ignore[attr-defined]
    (1500, 1500, cni(files=None), "ok Mtu; ok Mtu"),
    (1500, 1500, cni(CniFile("10-terway.conflist", DENIED)), "unknown CannotLook"),  # type: ignore[arg-type]
    (1500, 1500, cni(CniFile("10-terway.conflist", MALFORMED)), "ok Mtu; ok Mtu"),  # type: ignore[arg-type]
    (1400, 1400, cni(CniFile("00-stray.conf", MALFORMED), conflist().files[0]), "warn BelowPods; warn BelowPods"),  # type: ignore[attr-defined, arg-type]
    (DENIED, 1500, conflist(), "unknown CannotLook"),
    (1500, DENIED, conflist(), "ok Mtu; unknown CannotLook"),
]


@pytest.mark.parametrize(("first", "second", "chain", "says"), ROWS)
def test_says(first: Any, second: Any, chain: object, says: str) -> None:
    assert say(CHECK, imds(), kernel(eth0(mtu=first), eth1(mtu=second)), terway(), chain) == says


OTHERS = [
    ((rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),)),), "ok Mtu"),  # an ERI is port.mtu's
    ((recorded(known(mac="00:16:3e:aa:bb:99")),), "ok Mtu"),
    ((recorded(),), "ok Mtu; warn Uneven"),
]


@pytest.mark.parametrize(("others", "says"), OTHERS)
def test_only_enis_with_pods_count(others: tuple[object, ...], says: str) -> None:
    assert say(CHECK, imds(), kernel(eth0(), eth1(mtu=9000)), terway(), *others) == says


def test_without_the_primary_the_pods_are_the_measure() -> None:
    assert say(CHECK, imds(), kernel(eth1(mtu=9000)), terway(), conflist()) == "ok Mtu"


def test_elsewhere_and_blind() -> None:
    small = kernel(eth0(mtu=1280))
    assert say(CHECK, NOT_ECS, small, terway(), cni()) == "absent Nothing"
    assert say(CHECK, imds(), small, terway(present=False), cni()) == "absent Nothing"
    assert say(CHECK, imds(SILENT), small, terway(), cni()) == "unknown CannotLook"


def test_messages() -> None:
    primary, second = verdicts(CHECK, imds(), kernel(eth0(mtu=8500), eth1()), terway(), conflist(mtu=8500))
    assert second.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0 has MTU 1500; pods get 8500 by Terway's CNI "
        "configuration: their large packets are lost on the way out"
    )
    assert (primary.observed, second.observed, second.expected) == ("8500", "1500", "at least 8500")
