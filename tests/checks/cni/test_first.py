"""cni.first by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.cni.first import CHECK
from nodeprep.facts.network.cni import CniFile, CniNetwork
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import cni, cni_file, network, plugin, terway
from tests.values import say, verdicts


def unreadable(name: str, why: Why = Why.MALFORMED) -> CniFile:
    blind: CniNetwork = guarded(
        Unreadable(why, f"/etc/cni/net.d/{name}", detail="line 3, column 17: a comma is missing")
    )
    return CniFile(name, blind)


def multus(name: str = "00-multus.conf", cluster: str = "", delegates: tuple[str, ...] = ()) -> CniFile:
    return CniFile(name, network(plugin("multus-shim", clusterNetwork=cluster), name="m", delegates=delegates))


TERWAY = CniFile("10-terway.conflist", network())
CALICO = cni_file("10-calico.conflist", "calico", "bandwidth", "portmap")
FLANNEL = cni_file("10-flannel.conflist", "flannel", "portmap")
CILIUM = cni_file("05-cilium.conflist", "cilium-cni")
ON_AWS = cni_file("05-cilium.conflist", "aws-cni", "cilium-cni")
AWS = cni_file("10-aws.conflist", "aws-cni", "egress-cni", "portmap")
BRIDGE = cni_file("10-containerd-net.conflist", "bridge", "portmap")
PODMAN = cni_file("87-podman-bridge.conflist", "bridge", "portmap")

WITH_TERWAY = [
    # files                                          says
    ((TERWAY,), "ok TerwayFirst"),
    ((unreadable("10-terway.conflist"),), "ok TerwayFirst"),
    ((cni_file("10-terway.conf", "terway"), TERWAY), "ok TerwayFirst"),
    ((TERWAY, cni_file("99-loopback.conf", "loopback")), "ok TerwayFirst"),
    ((multus(cluster="/host/etc/cni/net.d/10-terway.conflist"), TERWAY), "warn MultusBeforeTerway"),
    ((multus(cluster="terway-chainer"), TERWAY), "warn MultusBeforeTerway"),
    ((multus(delegates=("terway",)), TERWAY), "warn MultusBeforeTerway"),
    ((multus(cluster="k8s-pod-network"), CALICO, TERWAY), "fail TerwayBypassed"),
    ((multus(cluster=""), TERWAY), "fail TerwayBypassed"),
    ((CALICO, TERWAY), "fail TerwayBypassed"),
    ((cni_file("00-copy.conflist", "terway"), TERWAY), "fail TerwayBypassed"),
    ((BRIDGE, TERWAY), "fail TerwayBypassed"),
    ((unreadable("00-x.conf"), TERWAY), "absent Nothing"),
    ((unreadable("00-x.conf", Why.DENIED), TERWAY), "unknown CannotLook"),
    ((), "absent Nothing"),
]


@pytest.mark.parametrize(("files", "says"), WITH_TERWAY)
def test_says_where_terway_is(files: tuple[CniFile, ...], says: str) -> None:
    assert say(CHECK, cni(files=files), terway()) == says


WITHOUT = [
    # files                                          says
    ((CALICO,), "ok First"),
    ((CALICO, PODMAN), "ok First"),
    ((cni_file("10-bridge.conf", "bridge"),), "ok First"),
    ((CALICO, FLANNEL), "warn SeveralPlugins"),
    ((BRIDGE, FLANNEL), "warn SeveralPlugins"),
    ((CILIUM, CALICO, FLANNEL), "warn SeveralPlugins"),
    ((CALICO, TERWAY), "warn SeveralPlugins"),
    ((ON_AWS, AWS), "ok First"),
    ((multus(cluster="10-calico.conflist"), CALICO), "ok First"),
    ((multus(delegates=("calico",)), CALICO), "ok First"),
    ((multus(cluster="10-calico.conflist"), CALICO, FLANNEL), "warn SeveralPlugins"),
    ((CALICO, unreadable("20-x.conf")), "ok First"),
    ((unreadable("00-x.conf"), CALICO), "absent Nothing"),
    ((unreadable("00-x.conf", Why.MISSING), CALICO), "absent Nothing"),
    ((unreadable("00-x.conf", Why.DENIED), CALICO), "unknown CannotLook"),
    ((), "absent Nothing"),
    (None, "absent Nothing"),
]


@pytest.mark.parametrize(("files", "says"), WITHOUT)
def test_says_without_terway(files: tuple[CniFile, ...] | None, says: str) -> None:
    assert say(CHECK, cni(files=files), terway(present=False)) == says
    assert say(CHECK, cni(files=files)) == says


def test_without_a_kubelet_it_is_nobodys() -> None:
    files = (CALICO, FLANNEL)
    assert say(CHECK, cni(files=files, kubelet=False), terway(present=False)) == "absent Nothing"
    assert say(CHECK, cni(files=files, kubelet=False)) == "absent Nothing"
    assert say(CHECK, cni(files=files, kubelet=False), terway()) == "fail TerwayBypassed"


def test_names_who_wins_and_who_loses() -> None:
    (said,) = verdicts(CHECK, cni(files=(CILIUM, CALICO, FLANNEL)), terway(present=False))
    assert "05-cilium.conflist (Cilium) sorts first" in said.message
    assert "10-calico.conflist (Calico) and 1 more" in said.message
    (said,) = verdicts(CHECK, cni(files=(BRIDGE, FLANNEL)))
    assert "(bridge + portmap) sorts first" in said.message


def test_names_what_stands_before_terway() -> None:
    (said,) = verdicts(CHECK, cni(files=(CALICO, TERWAY)), terway())
    assert "10-calico.conflist sorts first in /etc/cni/net.d (Calico)" in said.message
    assert (said.observed, said.expected) == ("10-calico.conflist", "10-terway.conflist")
