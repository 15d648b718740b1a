"""cni.binaries by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.cni.binaries import CHECK
from nodeprep.facts.network.cni import CniFile, CniNetwork
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import binary, cni, cni_file, network, plugin, terway
from tests.values import say, verdicts

CHAIN = CniFile("10-terway.conflist", network(plugin("terway"), plugin("cilium-cni")))
CALICO = cni_file("10-calico.conflist", "calico", "portmap", delegates=("calico-ipam",))
MULTUS = CniFile("00-multus.conf", network(plugin("multus", clusterNetwork="10-calico.conflist"), name="m"))
BROKEN: CniNetwork = guarded(Unreadable(Why.MALFORMED, "/etc/cni/net.d/00-x.conf", detail="line 1, column 1: no value"))

ROWS = [
    # what is wrong with the second one   Terway  says of it
    ({}, True, "ok Present"),
    ({"present": False, "executable": False, "size": 0}, True, "fail Missing terway_restart()"),
    ({"present": False, "executable": False, "size": 0}, False, "fail Missing"),
    ({"size": 0}, True, "fail Empty terway_restart()"),
    ({"size": 0}, False, "fail Empty"),
    ({"executable": False}, True, "fail NotExecutable terway_restart()"),
    ({"executable": False}, False, "fail NotExecutable"),
]


@pytest.mark.parametrize(("different", "present", "says"), ROWS)
def test_says(different: dict[str, Any], present: bool, says: str) -> None:
    binaries = (binary(), binary("cilium-cni", **different))
    assert say(CHECK, cni(CHAIN, binaries=binaries), terway(present=present)) == f"ok Present; {says}"


def missing(*names: str) -> tuple[Any, ...]:
    return tuple(binary(name, present=False, executable=False, size=0) for name in names)


def test_what_plugins_call_themselves_counts_and_terway_does_not_bring_it() -> None:
    binaries = (binary("calico"), *missing("portmap", "calico-ipam"))
    assert say(CHECK, cni(CALICO, binaries=binaries), terway()) == "ok Present; fail Missing; fail Missing"
    assert say(CHECK, cni(CALICO, binaries=binaries)) == "ok Present; fail Missing; fail Missing"


def test_what_multus_calls_counts() -> None:
    binaries = (binary("multus"), binary("calico"), binary("portmap"), *missing("calico-ipam"))
    assert say(CHECK, cni(MULTUS, CALICO, binaries=binaries)).endswith("; fail Missing")


def test_what_only_a_later_file_needs_is_nobodys() -> None:
    unused = cni_file("20-flannel.conflist", "flannel")
    assert say(CHECK, cni(CHAIN, unused, binaries=(binary(), *missing("flannel")))) == "ok Present"


def test_without_a_first_network() -> None:
    assert say(CHECK, cni(files=()), terway()) == "absent Nothing"
    assert say(CHECK, cni(files=None), terway()) == "absent Nothing"
    assert say(CHECK, cni(CniFile("00-x.conf", BROKEN)), terway()) == "unknown CannotLook"
    blind = Unreadable(Why.DENIED, "/opt/cni/bin/terway", 13)
    assert say(CHECK, cni(CHAIN, binaries=blind), terway()) == "unknown CannotLook"


def test_what_kubeadm_reset_or_podman_leaves_is_nobodys() -> None:
    left = cni(CALICO, binaries=missing("portmap"), kubelet=False)
    assert say(CHECK, left) == "absent Nothing"
    assert say(CHECK, left, terway(present=False)) == "absent Nothing"
    assert say(CHECK, left, terway()) == "fail Missing"
    blind = Unreadable(Why.DENIED, "/var/lib/kubelet/pods", 13)
    assert say(CHECK, cni(CALICO, binaries=missing("portmap"), kubelet=blind)) == "fail Missing"


def test_says_where_it_was_looked_for_and_by_whom_it_is_wanted() -> None:
    paths = ("/home/kubernetes/bin", "/usr/lib/cni")
    (said, *_) = verdicts(CHECK, cni(CALICO, binaries=missing("portmap"), paths=paths), terway(present=False))
    assert "portmap is in none of /home/kubernetes/bin, /usr/lib/cni" in said.message
    assert "wanted by /etc/cni/net.d/10-calico.conflist" in said.message
    assert "terway" not in said.message.lower()
