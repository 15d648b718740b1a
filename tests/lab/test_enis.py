"""ENIs of a guest that takes itself for an ECS instance: plugged in, lost, renamed, set down, and seen so.

Real here: PCI hot-plug, links, addresses, rules, the kernel's answers, HTTP. Not real: the cloud. The metadata that the
guest serves to itself lists what a test says is attached.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rigs.lab import FRONT_END, RAIL, Guest
from tests.rigs.lab_guest import REPOSITORY

PYTHON = str(REPOSITORY / ".venv/bin/python")
MAC, ENI, NIC = "00:16:3e:aa:bb:21", "eni-hot", "eni1"
POD = "192.168.0.134"
PRODUCT = "/sys/class/dmi/id/product_name"
CONFLIST = '{"cniVersion": "0.4.0", "name": "terway-chainer", "plugins": [{"type": "terway", "mtu": 1500}]}'
# The lab's own second NIC keeps the address that the lab gives it, which is right there and wrong for an ENI.
LABS_OWN = FRONT_END.mac
BECOME_ECS = f"""
echo 'Alibaba Cloud ECS' > /run/product
mount --bind /run/product {PRODUCT}
mkdir -p /etc/cni/net.d /run/judge
echo '{CONFLIST}' > /etc/cni/net.d/10-terway.conflist
"""
BE_A_LAB_AGAIN = f"umount {PRODUCT}; rm -rf /run/product /run/judge /etc/cni /etc/cloud /run/cloud-init"
LOOKS = 5  # where a busy host makes the emulated guest too late for a deadline, it is asked again
# One program for all looks: starting Python takes seconds in software emulation.
JUDGE = """
import json, os, time
from nodeprep.checks.eni import (
    foreign_address, ghost_link, missing_link, mtu, os_manager, primary_name, up
)
from nodeprep.doors.node_host import Host
from nodeprep.facts import cni, imds, links, os_network, rdma, routes, terway
from nodeprep.observer import Observer
from nodeprep.job_profile import NO_PROFILE
from nodeprep.check_round import judge
from tests.rigs.imds_server import MetadataServer

checks = [module.CHECK for module in (primary_name, missing_link, ghost_link, up, mtu, foreign_address, os_manager)]
facts = [module.FACT for module in (imds, links, routes, cni, terway, rdma, os_network)]
with MetadataServer("primary-only") as server:
    while not os.path.exists("/run/judge/stop"):
        if not os.path.exists("/run/judge/ask"):
            time.sleep(0.05)
            continue
        told = json.load(open("/run/judge/ask"))
        os.unlink("/run/judge/ask")
        server.tree["mac"] = told["primary"]
        server.tree["network"]["interfaces"]["macs"] = told["macs"]
        said = judge(checks, Observer(Host(metadata=server.url)).look(facts), None, NO_PROFILE, {})
        words = [
            [str(one.status), one.check, one.verdict.reason, one.subject.place, one.verdict.message,
             one.verdict.remedy and [one.verdict.remedy.playbook, dict(one.verdict.remedy.args)], one.root]
            for one in said.findings
        ]
        json.dump(words, open("/run/judge/words", "w"))
        os.rename("/run/judge/words", "/run/judge/said")
"""
ASK = """
cat > /run/judge/question
mv /run/judge/question /run/judge/ask
until [ -e /run/judge/said ]; do sleep 0.05; done
cat /run/judge/said
rm /run/judge/said
"""
Finding = tuple[str, str, str]


@pytest.fixture(scope="module")
def node(guest: Guest) -> Iterator[Guest]:
    """The guest with the product name of ECS and Terway's configuration."""
    guest.shell(BECOME_ECS)
    judging = guest.launch((PYTHON, "-c", JUDGE))
    yield guest
    guest.shell("touch /run/judge/stop")
    judging.wait(30)
    guest.shell(BE_A_LAB_AGAIN)


def attached(*macs: str) -> dict[str, Any]:
    """Metadata that lists the lab's own NICs, the first as the primary, and these."""
    known = {RAIL.mac: "eni-primary", FRONT_END.mac: "eni-lab", MAC: ENI}
    listed = {
        mac: {
            "network-interface-id": known[mac],
            "primary-ip-address": f"192.168.0.{130 + number}",
            "private-ipv4s": [f"192.168.0.{130 + number}"],
            "netmask": "255.255.255.0",
            "gateway": "192.168.0.253",
            "vswitch-id": "vsw-lab",
            "vswitch-cidr-block": "192.168.0.0/24",
        }
        for number, mac in enumerate((RAIL.mac, FRONT_END.mac, *macs))
    }
    return {"primary": RAIL.mac, "macs": listed}


def said(guest: Guest, *macs: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    for _ in range(LOOKS):
        done = guest.run(("sh", "-c", ASK), input=json.dumps(attached(*macs)).encode(), timeout=300)
        found = json.loads(done.stdout)
        if not any(one[0] == "unknown" for one in found):
            break
    return [one for one in found if one[3] != LABS_OWN]


def bad(guest: Guest, *macs: str) -> list[Finding]:
    return [
        (status, check, reason) for status, check, reason, *_ in said(guest, *macs) if status not in ("ok", "absent")
    ]


def plugged(guest: Guest) -> tuple[str, str]:
    """The PCI address of the hot-plugged ENI, and the name of the link that it got."""
    bdf = guest.hot_plug(NIC, MAC)
    return bdf, guest.shell(f"until ls /sys/bus/pci/devices/{bdf}/virtio*/net; do sleep 0.1; done 2> /dev/null")


def with_pod(guest: Guest, name: str) -> None:
    """Give the link a pod as Terway does: up, and a rule that sends the pod's packets to its table."""
    table = 1000 + int(guest.shell(f"cat /sys/class/net/{name}/ifindex"))
    set_up(guest, name)
    guest.shell(f"ip rule add pref 2048 from {POD} lookup {table}")


def set_up(guest: Guest, name: str) -> None:
    """Up, and with the carrier that the driver finds a moment later."""
    guest.shell(f"ip link set {name} up; until [ $(cat /sys/class/net/{name}/carrier) = 1 ]; do sleep 0.1; done")


@pytest.fixture
def pod(node: Guest) -> Iterator[str]:
    """The name of a hot-plugged ENI's link that carries a pod; rules outlive links, so they are taken away."""
    _, name = plugged(node)
    with_pod(node, name)
    yield name
    node.shell("while ip rule del pref 2048 2> /dev/null; do :; done")


def test_an_eni_enters_and_leaves_the_ledger(node: Guest) -> None:
    (lost,) = (one for one in said(node, MAC) if one[0] not in ("ok", "absent"))
    assert lost[:4] == ["fail", "eni.missing-link", "NoLink", MAC]
    assert lost[5:] == [["pci_rescan", {}], None]
    plugged(node)
    # As it comes from the bus it is down and has no address: so it stays until Terway gives it a pod.
    assert [one[:3] for one in said(node, MAC) if one[3] == MAC] == [
        ["ok", "eni.missing-link", "Link"],
        ["ok", "eni.ghost-link", "Listed"],
        ["ok", "eni.up", "NotInUse"],
        ["ok", "eni.mtu", "Mtu"],
        ["ok", "eni.foreign-address", "NodeOnly"],
    ]
    assert bad(node) == [("warn", "eni.ghost-link", "NotInMetadata")]
    node.unplug(NIC)
    assert bad(node) == []


def test_a_rescan_brings_back_what_the_bus_lost(node: Guest) -> None:
    bdf, _ = plugged(node)
    node.shell(f"echo 1 > /sys/bus/pci/devices/{bdf}/remove")
    assert bad(node, MAC) == [("fail", "eni.missing-link", "NoLink")]
    node.shell(f"echo 1 > /sys/bus/pci/rescan; until ls /sys/bus/pci/devices/{bdf}/virtio*/net; do sleep 0.1; done")
    assert bad(node, MAC) == []


def test_a_primary_that_is_renamed(node: Guest) -> None:
    node.shell(f"ip link set {RAIL.netdev} down; ip link set {RAIL.netdev} name eth9")
    set_up(node, "eth9")
    assert bad(node) == [("fail", "eni.primary-name", "OtherName")]
    node.shell(f"ip link set eth9 down; ip link set eth9 name {RAIL.netdev}")
    set_up(node, RAIL.netdev)
    assert bad(node) == []


def test_a_secondary_is_known_whatever_its_name_and_its_present_address(node: Guest) -> None:
    _, name = plugged(node)
    node.shell(f"ip link set {name} address 02:00:00:00:00:01 name anything")
    assert bad(node, MAC) == []


def test_a_lease_on_a_secondary(node: Guest) -> None:
    _, name = plugged(node)
    lease = f"192.168.0.132/24 dev {name}"
    node.shell(f"ip link set {name} up; ip address add {lease} valid_lft 3600 preferred_lft 3600")
    (found,) = (one for one in said(node, MAC) if one[0] not in ("ok", "absent"))
    # Nothing of this guest's configuration asks for it, so no playbook is what mends it.
    assert found[:4] == ["warn", "eni.foreign-address", "LeftOver", MAC]
    assert f"{name} at 0000:" in found[4]
    assert "192.168.0.132/24 dynamic" in found[4]
    assert f"ip address del 192.168.0.132/24 dev {name}" in found[4]
    node.shell(f"ip address del {lease}; ip address add 192.168.0.130/32 dev {name}")  # the node's own, as Terway does
    assert bad(node, MAC) == []


def test_a_link_that_carries_a_pod_is_set_down(node: Guest, pod: str) -> None:
    assert bad(node, MAC) == []
    node.shell(f"ip link set {pod} down")
    (found,) = (one for one in said(node, MAC) if one[0] not in ("ok", "absent"))
    assert found[:4] == ["fail", "eni.up", "AdministrativelyDown", MAC]
    assert found[5] == ["link_up", {"interface": pod}]
    assert f"({POD})" in found[4] or f"({POD}/32)" in found[4]
    set_up(node, pod)
    assert bad(node, MAC) == []
    node.set_link(NIC, up=False)
    node.shell(f"until [ $(cat /sys/class/net/{pod}/carrier) = 0 ]; do sleep 0.1; done")
    assert bad(node, MAC) == [("fail", "eni.up", "NoCarrier")]


def test_an_eni_with_a_pod_is_pulled(node: Guest, pod: str) -> None:
    """Its rule stays behind. What was wrong with its link went with it: one finding, the root."""
    node.shell(f"ip link set {pod} mtu 1400")
    assert bad(node, MAC) == [("warn", "eni.mtu", "BelowPods")]
    node.unplug(NIC)
    assert bad(node, MAC) == [("fail", "eni.missing-link", "NoLink")]


def test_a_program_of_the_system_that_sets_up_each_nic(node: Guest) -> None:
    cloud = "/etc/cloud/cloud.cfg.d/99-nodeprep.cfg"
    node.shell(
        "mkdir -p /etc/cloud/cloud.cfg.d /run/cloud-init; echo 'datasource_list: [ AliYun ]' > /etc/cloud/cloud.cfg"
    )
    assert bad(node) == [("warn", "eni.os-manager", "ClaimsEnis")]
    node.shell(f"echo 'datasource: {{AliYun: {{apply_full_imds_network_config: false}}}}' > {cloud}")
    assert bad(node) == []
    node.shell("rm -rf /etc/cloud /run/cloud-init")
