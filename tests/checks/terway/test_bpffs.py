"""terway.bpffs by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.terway.bpffs import CHECK
from nodeprep.facts.network.cni import Cni, CniFile, CniNetwork
from nodeprep.facts.network.links import Links
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import cni, network, plugin, terway
from tests.values import link, links, say, verdicts

V2, VETH = {"datapath": "datapathv2"}, {"datapath": "veth"}
BROKEN: CniNetwork = guarded(Unreadable(Why.MALFORMED, "/etc/cni/net.d/00-x.conf"))
CILIUM = links(link(name="cilium_net", bdf=""))
NONE = links(link())


def conflist(**options: str) -> Cni:
    chain = network(plugin("terway", **options), plugin("cilium-cni"))
    return cni(CniFile("00-x.conf", BROKEN), CniFile("10-terway.conflist", chain))


ROWS = [
    # capabilities  configuration                              mounted  links   says
    (V2, conflist(), True, CILIUM, "ok Ready"),
    (V2, conflist(), False, CILIUM, "fail NotMounted mount_bpffs()"),
    (V2, conflist(), False, NONE, "fail NotMounted mount_bpffs()"),
    (V2, conflist(), True, NONE, "fail NoLink"),
    ({"datapath": "DataPathV2"}, conflist(), False, NONE, "fail NotMounted mount_bpffs()"),
    (VETH, conflist(eniip_virtual_type="datapathv2"), False, NONE, "absent Nothing"),
    ({}, conflist(eniip_virtual_type="datapathv2"), False, NONE, "fail NotMounted mount_bpffs()"),
    (None, conflist(eniip_virtual_type="Datapathv2"), True, NONE, "fail NoLink"),
    (None, conflist(eniip_virtual_type="veth"), False, NONE, "absent Nothing"),
    (None, conflist(), False, NONE, "absent Nothing"),
    (None, cni(files=None), False, NONE, "absent Nothing"),
    (V2, conflist(), Unreadable(Why.DENIED, "/proc/1/mountinfo", 13), CILIUM, "unknown CannotLook"),
    (Unreadable(Why.DENIED, "/var/run/eni/node_capabilities", 13), conflist(), True, CILIUM, "unknown CannotLook"),
]


@pytest.mark.parametrize(("capabilities", "configured", "mounted", "found", "says"), ROWS)
def test_says(capabilities: Any, configured: Cni, mounted: Any, found: Links, says: str) -> None:
    assert say(CHECK, terway(capabilities=capabilities, bpffs=mounted), configured, found) == says


def test_goes_on_without_links_and_configuration() -> None:
    assert say(CHECK, terway(capabilities=V2)) == "ok Ready"
    assert say(CHECK, terway(capabilities=None)) == "absent Nothing"
    assert say(CHECK, terway(present=False, capabilities=V2, bpffs=False), NONE) == "absent Nothing"


def test_message_says_who_wants_it() -> None:
    (said,) = verdicts(CHECK, terway(capabilities=V2, bpffs=False))
    assert "node_capabilities" in said.message
    (said,) = verdicts(CHECK, terway(capabilities=None, bpffs=False), conflist(eniip_virtual_type="datapathv2"))
    assert "10-terway.conflist" in said.message
