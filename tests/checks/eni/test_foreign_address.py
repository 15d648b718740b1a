"""eni.foreign-address: the node's address on an ENI of Terway's, and nobody else's."""

from __future__ import annotations

import pytest

from nodeprep.checks.eni.foreign_address import CHECK
from nodeprep.facts.network.links import Address
from nodeprep.facts.network.os_network import InterfaceClaim, OsNetwork
from tests.cni_values import terway
from tests.eni_values import SILENT, address, erdma, eth0, eth1, kernel, known, recorded
from tests.imds_values import NOT_ECS, SHARED_MAC, imds, instance, interface, shared
from tests.values import rdma, say, verdicts

UNMANAGE = "os_unmanage_eni(interface=eth1)"
MANAGED = f"warn ManagedBySystem {UNMANAGE}"
ROWS = [
    # addresses on eth1                                                            says
    ((), "ok NodeOnly"),
    ((address(),), "ok NodeOnly"),
    ((address(address="192.168.0.130", prefix=24),), MANAGED),
    ((address(address="192.168.0.130", prefix=32),), MANAGED),
    ((address(), address(address="10.1.2.3", prefix=24, dynamic=True)), MANAGED),
    ((address(address="10.1.2.3"),), "warn ForeignAddress"),
    ((address(prefix=24),), "warn ForeignAddress"),
    ((address(address="fe80::1", prefix=64, scope="link"),), "ok NodeOnly"),
    ((address(address="fd00::116", prefix=128),), "ok NodeOnly"),
    ((address(address="fd00::9", prefix=64, dynamic=True),), MANAGED),
    ((address(netdev="eth0", prefix=24, dynamic=True),), "ok NodeOnly"),
]


@pytest.mark.parametrize(("addresses", "says"), ROWS)
def test_says(addresses: tuple[Address, ...], says: str) -> None:
    cloud = imds(instance(interface(ipv6_addresses=("fd00::116",)), shared()))
    assert say(CHECK, cloud, kernel(addresses=addresses), terway()) == says


LEASE = kernel(addresses=(address(address="192.168.0.130", prefix=24, dynamic=True),))
OTHERS = [
    ((recorded(),), MANAGED),
    ((recorded(known(mac="00:16:3e:aa:bb:99")),), "absent Nothing"),  # an ENI that Terway leaves alone
    ((rdma(devices=(erdma(node_guid="0216:3eff:feaa:bb01"),)),), "absent Nothing"),  # an ERI has its own
    ((recorded(terway=SILENT),), "unknown CannotLook"),
    ((OsNetwork(0.0, (InterfaceClaim("networkd", "/etc/systemd/network/05-all.network", "DHCP=yes"),)),), MANAGED),
    ((OsNetwork(0.0, SILENT),), MANAGED),  # type: ignore[arg-type]
    ((OsNetwork(0.0, ()),), "warn LeftOver"),  # os_unmanage_eni ran, or somebody wrote the same
]


@pytest.mark.parametrize(("others", "says"), OTHERS)
def test_only_terways_enis_count(others: tuple[object, ...], says: str) -> None:
    assert say(CHECK, imds(), LEASE, terway(), *others) == says


def test_elsewhere_and_blind() -> None:
    assert say(CHECK, NOT_ECS, LEASE, terway()) == "absent Nothing"
    assert say(CHECK, imds(), LEASE, terway(present=False)) == "absent Nothing"
    assert say(CHECK, imds(SILENT), LEASE, terway()) == "unknown CannotLook"
    assert say(CHECK, imds(instance(primary_mac="")), kernel(eth0(), eth1()), terway()).endswith("warn ForeignAddress")


def test_messages() -> None:
    (found,) = verdicts(CHECK, imds(), LEASE, terway())
    assert found.message == (
        "eni-shared1 (00:16:3e:aa:bb:01) eth1 at 0000:00:06.0 holds 192.168.0.130/24 dynamic: the system "
        "manages it beside "
        "Terway (DHCP), whose rules and routes it will take away; see networkctl status eth1, nmcli device, "
        "cloud-init query"
    )
    assert found.subject.place == SHARED_MAC


TWO = kernel(
    addresses=(
        address(),
        address(address="192.168.0.130", prefix=24, dynamic=True),
        address(address="fd00::9", prefix=64, dynamic=True),
    )
)
COMMANDS = "ip address del 192.168.0.130/24 dev eth1 && ip address del fd00::9/64 dev eth1"


@pytest.mark.parametrize("claims", [(), (InterfaceClaim("networkd", "/etc/a.network", "DHCP=yes"),)])
def test_the_commands_take_away_what_is_foreign_and_leave_the_nodes_address(claims: tuple[InterfaceClaim, ...]) -> None:
    (found,) = verdicts(CHECK, imds(), TWO, terway(), OsNetwork(0.0, claims))
    fix = CHECK.fix_of(found)
    assert COMMANDS in fix
    assert "flush" not in fix
    assert address().address not in fix
    assert "networkctl reconfigure eth1" in fix
    assert (COMMANDS in found.message) is not bool(claims)
    assert bool(found.remedy) is bool(claims), "a playbook that has nothing to do is not run again"
