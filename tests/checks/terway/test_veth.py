"""terway.veth: the host's end of every pod."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway import veth
from nodeprep.checks.terway.veth import CHECK
from nodeprep.facts.network.cni import CniFile
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, node_object, pod, terway_pod
from tests.cni_values import cni, network, plugin, terway
from tests.values import link, links, say, verdicts

NAME = "calic95a4947e07"  # Terway pkg/link/veth_test.go
VETH = {"name": NAME, "kind": "veth", "physical": False, "bdf": ""}
CUT = Unreadable(Why.MALFORMED, "/etc/cni/net.d/10-terway.conflist")


def test_the_name_is_terways() -> None:
    assert veth.veth_name(pod()) == NAME


LINKS = [
    ({}, "ok Veth"),
    ({"name": "calic95a4947e08"}, "warn NoVeth"),
    ({"up": False, "operstate": "down"}, "warn VethDown"),
    ({"operstate": "lowerlayerdown", "carrier": False}, "warn PeerDown"),
    ({"operstate": "down", "carrier": None, "up": CUT}, "unknown CannotLook"),
    ({"operstate": Unreadable(Why.MALFORMED, "operstate"), "carrier": None}, "unknown CannotLook"),
]


@pytest.mark.parametrize(("what", "says"), LINKS)
def test_says_by_link(what: dict[str, Any], says: str) -> None:
    assert say(CHECK, terway(), cluster(), links(link(), link(**(VETH | what)))) == says


PODS = [
    ({}, "warn NoVeth"),
    ({"ready": False}, "warn NoVeth"),
    ({"host_network": True}, "absent Nothing"),
    ({"deleted": True}, "absent Nothing"),
    ({"phase": "Pending"}, "absent Nothing"),
    ({"phase": "Succeeded"}, "absent Nothing"),
]


@pytest.mark.parametrize(("what", "says"), PODS)
def test_says_by_pod(what: dict[str, Any], says: str) -> None:
    assert say(CHECK, terway(), cluster(pods=(terway_pod(), pod(**what))), links()) == says


OPTIONS = [
    ({"eniip_virtual_type": "datapathv2"}, "ok Veth"),
    ({"eniip_virtual_type": "IPvlan"}, "absent Nothing"),
    ({"disable_host_peer": True}, "absent Nothing"),
    ({"disable_host_peer": False}, "ok Veth"),
    ({"veth_prefix": "eni"}, "warn NoVeth"),
    ({"veth_prefix": ""}, "ok Veth"),
]


@pytest.mark.parametrize(("options", "says"), OPTIONS)
def test_says_by_configuration(options: dict[str, Any], says: str) -> None:
    configured = cni(CniFile("10-terway.conflist", network(plugin("terway", **options))))
    assert say(CHECK, terway(), cluster(), links(link(**VETH)), configured) == says


def test_a_configuration_that_cannot_be_read_is_not_this_checks() -> None:
    for odd in (cni(CniFile("10-terway.conflist", CUT)), cni(CniFile("10-x.conflist", network(plugin("bridge"))))):  # type: ignore[arg-type]
        assert say(CHECK, terway(), cluster(), links(link(**VETH)), odd) == "ok Veth"


def test_elsewhere_nothing() -> None:
    ignored = node_object(labels={"k8s.aliyun.com/ignore-by-terway": "true"})
    assert say(CHECK, terway(present=False), cluster(), links()) == "absent Nothing"
    assert say(CHECK, terway(), cluster(node=ignored), links()) == "absent Nothing"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, terway(), cluster(), links())
    assert verdict.message == (
        "default/client-b6989bf87-2bgtc (192.168.0.134) runs, and its veth calic95a4947e07 is not here: nothing "
        "reaches it. See ip link, and whether another CNI made its network (cni.first); a new pod in its place gets one"
    )
    assert verdict.subject.key == "default/client-b6989bf87-2bgtc"
