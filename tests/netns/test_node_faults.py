"""Faults of metadata, ENIs, Terway, routes and settings, made for real: `nodeprep check` says them and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.netns_check import ETH0_UP, ETH1_UP, Checked, Fault, checked, each
from tests.rigs.netns_node import GATEWAY

POD = "192.168.0.134"
ENI, STRANGER = "00:16:3e:aa:bb:01", "00:16:3e:aa:bb:77"
RESTED = (  # what can say nothing without metadata
    "imds.token-mode",
    "eni.primary-name",
    "eni.missing-link",
    "eni.ghost-link",
    "eni.up",
    "eni.foreign-address",
    "eni.eri-address",
    "eni.mtu",
    "route.default",
    "route.tables",
    "route.out",
)
CAPABILITIES, WANTS = "/var/run/eni/node_capabilities", "/etc/systemd/system/multi-user.target.wants"
DATAPATH = f"sed -i 's/^datapath = .*/datapath = datapathv2/' {CAPABILITIES}"
NO_DATAPATH = f"sed -i 's/^datapath = .*/datapath = veth/' {CAPABILITIES}"
LINGJUN = "mkdir /var/rdma; echo '[]' > /var/rdma/eni_topo"


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked() as one:
        yield one


def test_a_node_as_it_should_be(here: Checked) -> None:
    said = here.check()
    assert (said.roots, said.follow) == (set(), set())
    assert said.report["verdict"] == "passed"  # the rig leaves out what is this machine's own


def test_metadata_with_and_without_tokens(here: Checked) -> None:
    for mode, reason in (
        ("required", "TokensRequired"),
        ("required-401", "TokensRequired"),
        ("optional", "TokensOptional"),
    ):
        with here.fault(f"order metadata {mode}", "order metadata as-ever"):
            said = here.check()
        assert said.roots == set()
        assert ("imds.token-mode", "ok", reason, "") in said.verdicts()


SILENT = [
    # the service    says                                      it waits, in seconds
    ("stopped", "warn imds.reachable Unreachable", 0),
    ("hang", "warn imds.reachable NoAnswer", 2),
    ("drip", "warn imds.reachable NoAnswer", 2),
    ("disabled-403", "warn imds.reachable Refused", 0),
    ("no-json", "warn imds.reachable StrangeAnswer", 0),
    ("always-429", "warn imds.reachable Busy", 3),  # as often as Terway asks again
]


@pytest.mark.parametrize(("mode", "says", "waits"), SILENT)
def test_metadata_that_cannot_be_had(here: Checked, mode: str, says: str, waits: int) -> None:
    """All that rests on it is unknown, in one line; all else is as it was, and soon."""
    before = here.check()
    with here.fault(f"order metadata {mode}", "order metadata as-ever"):
        said, table = here.check({"imds.reachable", *RESTED}), here.shows()
    assert said.roots == {says, *(f"unknown {check} CannotLook" for check in RESTED)}
    assert (said.exit_code, said.report["verdict"]) == (3, "unknown")
    assert said.verdicts("imds.reachable", *RESTED) == before.verdicts("imds.reachable", *RESTED)
    assert len([line for line in table.splitlines() if line.startswith("UNKNOWN  ")]) == 1
    assert said.seconds < 3 * before.seconds + waits + 15  # this machine may be busier the second time
    assert here.check().roots == set()


def test_an_instance_without_any_book_is_not_ready() -> None:
    """Not Terway's, the metadata does not answer, and nobody gave access to Kubernetes."""
    calico = '{"name":"k8s-pod-network","cniVersion":"0.3.1","plugins":[{"type":"calico"}]}'
    with checked() as one:
        one.do(f"""
order metadata stopped
rm -r /var/run/eni /var/lib/cni/terway /etc/cni/net.d/* /opt/cni/bin/terway
echo '{calico}' > /etc/cni/net.d/10-calico.conflist; cp /opt/cni/bin/cilium-cni /opt/cni/bin/calico
""")
        said = one.check()
    assert (said.exit_code, said.report["verdict"]) == (3, "unknown")
    assert "unknown eni.missing-link CannotLook" in said.roots


ENIS = [
    Fault(
        "an ENI that the kernel missed",
        f"order attach {STRANGER} 192.168.0.177",
        f"order detach {STRANGER}",
        ("fail eni.missing-link NoLink",),
        words=(STRANGER,),
    ),
    Fault(
        "an ENI that the cloud took away",
        f"order detach {ENI}",
        f"order attach {ENI}",
        ("warn eni.ghost-link NotInMetadata",),
        words=(f"({ENI}) eth1",),
    ),
    Fault(
        "the primary ENI is renamed",
        "ip link set eth0 down; ip link set eth0 name ens5; ip link set ens5 up\n"
        f"ip route add default via {GATEWAY} dev ens5",
        f"ip link set ens5 down; ip link set ens5 name eth0\n{ETH0_UP}",
        ("fail eni.primary-name OtherName",),
        words=("ens5 is not called eth0",),
    ),
    Fault(
        "an ENI with pods is set down",
        "ip link set eth1 down",
        ETH1_UP,
        ("fail eni.up AdministrativelyDown",),
        ("route.tables fail EmptyTable < eni.up", "route.out fail OtherInterface < eni.up"),
    ),
    Fault(
        "the primary ENI is set down",
        "ip link set eth0 down",
        ETH0_UP,
        ("fail eni.up AdministrativelyDown",),
        ("route.default fail NoDefault < eni.up",),
    ),
    Fault(
        "an ENI with a small MTU",
        "ip link set eth1 mtu 1400",
        "ip link set eth1 mtu 1500",
        ("warn eni.mtu BelowPods",),
    ),
    Fault(
        "jumbo frames on one ENI",
        "ip link set eth0 mtu 8500",
        "ip link set eth0 mtu 1500",
        ("warn eni.mtu Uneven",),
    ),
    Fault(
        "DHCP on an ENI",
        "ip address add 192.168.0.130/24 dev eth1 valid_lft 3600 preferred_lft 3600; mkdir /run/NetworkManager",
        "rmdir /run/NetworkManager; ip address del 192.168.0.130/24 dev eth1",
        ("warn eni.foreign-address ManagedBySystem", "warn eni.os-manager ClaimsEnis"),
        words=("192.168.0.130/24 dynamic",),
    ),
    Fault(
        "a lease of a program that nothing asks for any more",
        "ip address add 192.168.0.130/24 dev eth1 valid_lft 3600 preferred_lft 3600",
        "ip address del 192.168.0.130/24 dev eth1",
        ("warn eni.foreign-address LeftOver",),
        words=("ip address del 192.168.0.130/24 dev eth1",),
    ),
    Fault(
        "somebody's address on an ENI",
        "ip address add 10.9.9.9/32 dev eth1",
        "ip address del 10.9.9.9/32 dev eth1",
        ("warn eni.foreign-address ForeignAddress",),
    ),
    Fault(
        "cloud-init",
        "mkdir -p /run/cloud-init /etc/cloud; echo 'datasource_list: [AliYun]' > /etc/cloud/cloud.cfg",
        "rm -r /run/cloud-init /etc/cloud",
        ("warn eni.os-manager ClaimsEnis",),
        words=("/etc/cloud/cloud.cfg",),
    ),
    Fault(
        "systemd-networkd",
        "mkdir -p /run/systemd/netif/links /etc/systemd/network\n"
        "printf '[Match]\\nName=eth*\\n[Network]\\nDHCP=yes\\n' > /etc/systemd/network/10-all.network",
        "rm -r /run/systemd /etc/systemd",
        ("warn eni.os-manager ClaimsEnis",),
        words=("10-all.network: DHCP=yes", "ManageForeignRoutingPolicyRules=yes"),
    ),
    Fault(
        "NetworkManager",
        "mkdir /run/NetworkManager",
        "rmdir /run/NetworkManager",
        ("warn eni.os-manager ClaimsEnis",),
    ),
    Fault(
        "eni.service",
        f"mkdir -p {WANTS}; ln -s /usr/lib/systemd/system/eni.service {WANTS}",
        "rm -r /etc/systemd",
        ("warn eni.os-manager ClaimsEnis",),
    ),
]


@each(ENIS)
def test_faults_of_enis(here: Checked, fault: Fault) -> None:
    here.holds(fault)


def test_names_of_secondary_enis_are_no_evidence(here: Checked) -> None:
    before = here.check()
    rename = "ip link set eth1 down; ip link set eth1 name rail7; ip link set rail7 up"
    route = f"ip route add default via {GATEWAY} dev rail7 onlink table {{table}}"
    with here.fault(f"{rename}\n{route}", f"ip link set rail7 down; ip link set rail7 name eth1\n{ETH1_UP}"):
        said = here.check()
    assert said.verdicts() == before.verdicts()
    assert "rail7" in str(said.report)


TERWAY = [
    Fault(
        "Terway's daemon died",
        "order daemon stopped",
        "order daemon listening",
        ("fail terway.socket Dead",),
        words=("ECONNREFUSED",),
    ),
    Fault(
        "Terway's daemon hangs",
        "order daemon hanging",
        "order daemon listening",
        ("fail terway.socket NoAnswer",),
    ),
    Fault(
        "Terway's daemon did not start",
        "order daemon stopped\nrm /var/run/eni/eni.socket",
        "order daemon listening",
        ("fail terway.socket NotStarted",),
    ),
    Fault(
        "Terway's pod ended",
        "order daemon stopped\norder policy stopped",
        "order daemon listening\norder policy listening",
        ("fail terway.socket Dead",),
        ("terway.policy-port warn NoAnswer < terway.socket",),
    ),
    Fault(
        "nobody enforces policies",
        "order policy stopped",
        "order policy listening",
        ("warn terway.policy-port NoAnswer",),
    ),
    Fault(
        "Terway's records are gone",
        "mv /var/lib/cni/terway /var/lib/cni/gone",
        "mv /var/lib/cni/gone /var/lib/cni/terway",
        ("fail terway.directories Missing",),
        words=("mkdir -m 0700 -p /var/lib/cni/terway",),
    ),
    Fault(
        "Terway's directory in memory is gone",
        "mv /var/run/eni /var/run/gone",
        "mv /var/run/gone /var/run/eni",
        ("fail terway.directories Missing",),
        ("terway.socket fail NotStarted < terway.directories",),
    ),
    Fault("no BPF file system", DATAPATH, NO_DATAPATH, ("fail terway.bpffs NotMounted",)),
    Fault(
        "no Cilium agent",
        f"{DATAPATH}\nmount -t bpf bpffs /sys/fs/bpf",
        f"umount /sys/fs/bpf\n{NO_DATAPATH}",
        ("fail terway.bpffs NoLink",),
        words=("cilium_net",),
    ),
    Fault(
        "Lingjun: ARP is restricted",
        f"{LINGJUN}\nsysctl -qw net.ipv4.conf.all.arp_ignore=1",
        "sysctl -qw net.ipv4.conf.all.arp_ignore=0\nrm -r /var/rdma",
        ("fail sysctl.arp ArpRestricted",),
    ),
    Fault(
        "Lingjun: a list of functions that is none",
        f"{LINGJUN}\necho '[' > /var/rdma/eni_topo",
        "rm -r /var/rdma",
        ("fail lingjun.vf-topology Malformed",),
    ),
]


@each(TERWAY)
def test_faults_of_terway(here: Checked, fault: Fault) -> None:
    here.holds(fault)


ROUTES = [
    Fault(
        "no default route",
        "ip route del default",
        f"ip route add default via {GATEWAY} dev eth0",
        ("fail route.default NoDefault",),
    ),
    Fault(
        "the ENI's table is empty",
        "ip route del default table {table}",
        f"ip route add default via {GATEWAY} dev eth1 onlink table {{table}}",
        ("fail route.tables EmptyTable",),
        ("route.out fail OtherInterface < route.tables",),
    ),
    Fault(
        "a rule prohibits a pod",
        f"ip rule add pref 100 from {POD} prohibit",
        "ip rule del pref 100",
        ("fail route.out Prohibited",),
    ),
    Fault(
        "a rule refuses what comes to a pod",
        f"ip rule add pref 100 to {POD} iif eth0 prohibit",
        "ip rule del pref 100",
        ("fail route.reverse-path Prohibited",),
    ),
    Fault(
        "no forwarding after the next boot",
        "echo 'net.ipv4.ip_forward = 0' > /etc/sysctl.d/10-hardening.conf",
        "rm /etc/sysctl.d/10-hardening.conf",
        ("warn sysctl.forward ForwardingOffAtBoot",),
        words=("/etc/sysctl.d/10-hardening.conf:1",),
    ),
    Fault(
        "a strict filter after the next boot",
        "echo 'net.ipv4.conf.*.rp_filter = 1' > /etc/sysctl.d/10-hardening.conf",
        "rm /etc/sysctl.d/10-hardening.conf",
        ("warn sysctl.rp-filter StrictFilterAtBoot",),
        words=("/etc/sysctl.d/10-hardening.conf:1",),
    ),
    Fault(
        "a firewall that drops what is forwarded",
        "python tests/rigs/netns_firewall.py legacy drop",
        "python tests/rigs/netns_firewall.py legacy accept",
        ("warn sysctl.forward-policy ForwardDropped",),
    ),
]


@each(ROUTES)
def test_faults_of_routes_and_settings(here: Checked, fault: Fault) -> None:
    here.holds(fault)
