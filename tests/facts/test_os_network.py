"""Who else sets up interfaces, read from the files of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.network import os_network
from nodeprep.facts.network.os_network import InterfaceClaim, OsNetwork
from nodeprep.model import CannotLook, Unreadable
from tests.rigs.trees import Link, Tree, write

WANTS = "etc/systemd/system/multi-user.target.wants"
CLOUD: Tree = {
    "etc/cloud/cloud.cfg": "datasource_list: [ AliYun ]\n",
    "var/lib/cloud/instance/datasource": "DataSourceAliYun: DataSourceAliYun",
}
NETWORKD: Tree = {"run/systemd/netif/links/2": "", "etc/systemd/networkd.conf": "[Network]\n"}
QUIET: Tree = NETWORKD | {
    "etc/systemd/networkd.conf.d/90-nodeprep.conf": "[Network]\nManageForeignRoutingPolicyRules=no\n"
}
MANAGER: Tree = {
    "run/NetworkManager/devices/2": "",
    "etc/NetworkManager/NetworkManager.conf": "[main]\nplugins=keyfile\n",
}
DROPIN = "etc/cloud/cloud.cfg.d/99-nodeprep.cfg"
FULL = "apply_full_imds_network_config"


def claims(root: Path, files: Tree) -> tuple[InterfaceClaim, ...]:
    write(files, root)
    seen = os_network.observe(Host(str(root), live=False))
    assert isinstance(seen, OsNetwork)
    return seen.claims


def programs(root: Path, files: Tree) -> list[str]:
    return [claim.program for claim in claims(root, files)]


def networked(path: str, text: str) -> Tree:
    return QUIET | {path: text}


CLOUD_INIT: list[tuple[Tree, bool]] = [
    ({}, True),
    ({"var/lib/cloud/instance/datasource": "DataSourceNoCloud: DataSourceNoCloud [seed=/dev/sr0]"}, False),
    ({"etc/cloud/cloud-init.disabled": ""}, False),
    ({DROPIN: f"datasource: {{AliYun: {{{FULL}: false}}}}\n"}, False),
    ({DROPIN: f"datasource:\n  AliYun:\n    timeout: 3\n    {FULL}: False  # Terway's\n"}, False),
    ({DROPIN: f'datasource: {{"AliYun": {{"{FULL}": "no"}}}}\n'}, False),
    ({DROPIN: f"datasource:\n  AliYun:\n    {FULL}: true\n"}, True),
    ({DROPIN: f"datasource:\n  AliYun:\n    # {FULL}: false\n    timeout: 3\n"}, True),
    ({DROPIN: f"datasource:\n  AliYun:\n    timeout: 3 # {FULL}: false\n"}, True),
    ({DROPIN: f"datasource:\n  Ec2:\n    {FULL}: false\n"}, True),
    ({"etc/cloud/cloud.cfg.d/99-nodeprep.txt": f"datasource: {{AliYun: {{{FULL}: false}}}}\n"}, True),
    ({DROPIN: "network: {config: disabled}\n"}, False),
    ({DROPIN: "network:\n  config: disabled\n"}, False),
    ({DROPIN: "#network: {config: disabled}\n"}, True),
    ({DROPIN: "network:\n  version: 2\n"}, True),
    (
        {
            "etc/cloud/cloud.cfg.d/10-a.cfg": f"datasource: {{AliYun: {{{FULL}: false}}}}\n",
            "etc/cloud/cloud.cfg.d/20-b.cfg": f"datasource: {{AliYun: {{{FULL}: yes}}}}\n",
        },
        True,
    ),
]


@pytest.mark.parametrize(("files", "claimed"), CLOUD_INIT)
def test_cloud_init(tmp_path: Path, files: Tree, claimed: bool) -> None:
    assert programs(tmp_path, CLOUD | files) == (["cloud-init"] if claimed else [])


def test_cloud_init_that_is_configured_and_never_ran_claims_nothing(tmp_path: Path) -> None:
    assert programs(tmp_path, {"etc/cloud/cloud.cfg": "datasource_list: [ AliYun ]\n"}) == []


def test_the_last_file_that_says_so_is_named(tmp_path: Path) -> None:
    (claim,) = claims(tmp_path, CLOUD | {DROPIN: f"datasource: {{AliYun: {{{FULL}: true}}}}\n"})
    assert claim == InterfaceClaim("cloud-init", f"/{DROPIN}", f"{FULL}: true: DHCP on every NIC")


FOREIGN: list[tuple[Tree, bool]] = [
    ({}, True),
    ({"etc/systemd/networkd.conf": "[Network]\nManageForeignRoutingPolicyRules=no\n"}, False),
    ({"etc/systemd/networkd.conf": "[Network]\n#ManageForeignRoutingPolicyRules=no\n"}, True),
    ({"etc/systemd/networkd.conf": "[DHCPv4]\nManageForeignRoutingPolicyRules=no\n"}, True),
    ({"usr/lib/systemd/networkd.conf.d/10-x.conf": "[Network]\nManageForeignRoutingPolicyRules=false\n"}, False),
    (
        {
            "usr/lib/systemd/networkd.conf.d/10-x.conf": "[Network]\nManageForeignRoutingPolicyRules=no\n",
            "etc/systemd/networkd.conf.d/10-x.conf": "[Network]\n",
        },
        True,
    ),
]


@pytest.mark.parametrize(("files", "claimed"), FOREIGN)
def test_networkd_removes_rules_of_others(tmp_path: Path, files: Tree, claimed: bool) -> None:
    assert programs(tmp_path, NETWORKD | files) == (["systemd-networkd"] if claimed else [])


TAKEN: list[tuple[Tree, str]] = [
    (networked("etc/systemd/network/20-eth.network", "[Match]\nName=eth*\n[Network]\nDHCP=yes\n"), "DHCP=yes"),
    (
        networked("run/systemd/network/10-netplan.network", "[Match]\nName=eth0 eth1\n[Network]\nDHCP=ipv4\n"),
        "DHCP=ipv4",
    ),
    (
        networked("etc/systemd/network/a.network", "[Match]\nType=ether\n[Network]\nAddress=10.0.0.1/24\n"),
        "Address=10.0.0.1/24",
    ),
    (networked("etc/systemd/network/a.network", "[Match]\nName=eth0\n[Network]\nDHCP=yes\n"), ""),
    (networked("etc/systemd/network/a.network", "[Match]\nMACAddress=00:16:3e:00:00:01\n[Network]\nDHCP=yes\n"), ""),
    (networked("etc/systemd/network/a.network", "[Match]\nName=eth*\n[Network]\nDHCP=no\n"), ""),
    (networked("etc/systemd/network/a.network", "[Match]\nName=*\nType=wlan\n[Network]\nDHCP=yes\n"), ""),
    (networked("etc/systemd/network/a.network", "[Network]\nDHCP=yes\n"), ""),  # without [Match] it is ignored
    (networked("etc/systemd/network/a.conf", "[Match]\nName=*\n[Network]\nDHCP=yes\n"), ""),
    (
        networked("etc/systemd/network/20-eth.network", "[Match]\nName=eth*\n[Network]\nDHCP=yes\n")
        | {"etc/systemd/network/10-eni.network": "[Match]\nName=eth1\n[Link]\nUnmanaged=yes\n"},
        "",
    ),
    (
        networked("usr/lib/systemd/network/20-eth.network", "[Match]\nName=eth*\n[Network]\nDHCP=yes\n")
        | {"etc/systemd/network/20-eth.network": "[Match]\nName=eth0\n[Network]\nDHCP=yes\n"},
        "",
    ),
]


@pytest.mark.parametrize(("files", "says"), TAKEN)
def test_networkd_sets_up_a_secondary(tmp_path: Path, files: Tree, says: str) -> None:
    assert [claim.says for claim in claims(tmp_path, files)] == ([says] if says else [])


def test_networkd_that_does_not_run_claims_nothing(tmp_path: Path) -> None:
    files: Tree = {"etc/systemd/network/a.network": "[Match]\nName=*\n[Network]\nDHCP=yes\n"}
    assert programs(tmp_path, files) == []
    enabled: Tree = {f"{WANTS}/systemd-networkd.service": Link("/lib/systemd/system/systemd-networkd.service")}
    assert programs(tmp_path, enabled) == ["systemd-networkd", "systemd-networkd"]


def keyfile(value: str, key: str = "unmanaged-devices") -> Tree:
    return {"etc/NetworkManager/conf.d/90-nodeprep.conf": f"[keyfile]\n{key}={value}\n"}


NETWORK_MANAGER: list[tuple[Tree, bool]] = [
    ({}, True),
    (keyfile("interface-name:eth*,except:interface-name:eth0,interface-name:cali*"), False),
    (keyfile("interface-name:eth*;except:interface-name:eth1"), True),
    (keyfile("interface-name:eth0"), True),
    (keyfile("type:ethernet"), False),
    (keyfile("*"), False),
    (keyfile(""), True),
    (keyfile("*", "no-auto-default"), False),
    (keyfile("interface-name:eth*", "unmanaged-devices+"), False),
    ({"usr/lib/NetworkManager/conf.d/00-server.conf": "[main]\nno-auto-default=*\n"}, False),
    (
        keyfile("interface-name:cali*")
        | {"usr/lib/NetworkManager/conf.d/00-a.conf": "[keyfile]\nunmanaged-devices=*\n"},
        True,
    ),
]


@pytest.mark.parametrize(("files", "claimed"), NETWORK_MANAGER)
def test_network_manager(tmp_path: Path, files: Tree, claimed: bool) -> None:
    assert programs(tmp_path, MANAGER | files) == (["NetworkManager"] if claimed else [])


OTHERS: list[tuple[Tree, list[str]]] = [
    ({f"{WANTS}/eni.service": Link("/usr/lib/systemd/system/eni.service")}, ["eni.service"]),
    ({"usr/lib/systemd/system/eni.service": "[Unit]\n"}, []),  # installed, not enabled
    ({"etc/udev/rules.d/75-persistent-net-generator.rules": ""}, ["udev"]),
    (
        {"lib/udev/rules.d/60-net.rules": "", "lib/udev/rules.d/61-eni.rules": "", "lib/udev/write_net_rules": ""},
        ["udev"] * 3,
    ),
    ({"lib": Link("usr/lib"), "usr/lib/udev/rules.d/61-eni.rules": ""}, ["udev"]),
]


@pytest.mark.parametrize(("files", "who"), OTHERS)
def test_what_terways_init_container_takes_away(tmp_path: Path, files: Tree, who: list[str]) -> None:
    assert programs(tmp_path, {"etc/systemd": None} | files) == who


def test_a_tree_without_configuration_is_no_record(tmp_path: Path) -> None:
    seen = os_network.observe(Host(str(tmp_path), live=False))
    assert isinstance(seen, Unreadable)
    assert seen.not_recorded


DAMAGED: list[Tree] = [
    CLOUD | {DROPIN: b"\xff\xfe"},
    NETWORKD | {"etc/systemd/network": "a file"},
    MANAGER | {"etc/NetworkManager/NetworkManager.conf": b"a\0b"},
]


@pytest.mark.parametrize("files", DAMAGED)
def test_what_cannot_be_read_is_not_passed_over(tmp_path: Path, files: Tree) -> None:
    write(files, tmp_path)
    with pytest.raises(CannotLook):
        os_network.observe(Host(str(tmp_path), live=False))


def test_this_machines_files_can_be_read() -> None:
    seen = os_network.observe(Host())
    assert isinstance(seen, OsNetwork)
    assert [one for one in seen.claims if not (Path(one.file).exists() and one.says)] == []
