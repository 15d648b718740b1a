"""Faults of the CNI directory made for real, on Terway's node and on one of another cloud that runs Calico."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.rigs.netns_check import BAD, Checked, Fault, checked, each
from tests.rigs.netns_node import GATEWAY

DIRECTORY, PROGRAMS = "/etc/cni/net.d", "/opt/cni/bin"
CONFLIST, STRAY = f"{DIRECTORY}/10-terway.conflist", f"{DIRECTORY}/00-stray.conflist"
KEEP, RESTORE = f"cp -p {CONFLIST} /etc/cni/kept", f"mv /etc/cni/kept {CONFLIST}"
MULTUS = {"type": "multus-shim", "clusterNetwork": CONFLIST}
PROGRAM = "printf '#!/bin/sh\\n' > {0}; chmod 755 {0}"


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked() as one:
        yield one


def write(path: str, **network: object) -> str:
    """A line that writes a configuration."""
    return f"echo '{json.dumps({'cniVersion': '0.3.1', **network})}' > {path}"


def edited(name: str, change: str, *roots: str, words: tuple[str, ...] = ()) -> Fault:
    """Terway's own configuration is changed; one that cannot be read keeps the programs that it names secret."""
    follow = ("cni.binaries unknown CannotLook < cni.parse",) if roots == ("fail cni.parse Malformed",) else ()
    return Fault(name, f"{KEEP}\n{change}", RESTORE, roots, follow, words)


FAULTS = [
    Fault(
        "no configuration",
        f"mv {CONFLIST} /etc/cni/kept",
        RESTORE,
        ("fail cni.directory NoConfiguration",),
    ),
    Fault(
        "no directory",
        f"mv {DIRECTORY} /etc/cni/kept",
        f"mv /etc/cni/kept {DIRECTORY}",
        ("fail cni.directory NoDirectory",),
    ),
    Fault(
        "a stray configuration",
        write(STRAY, name="stray", plugins=[{"type": "stray"}]),
        f"rm {STRAY}",
        ("fail cni.first TerwayBypassed",),
        ("cni.binaries fail Missing < cni.first",),
    ),
    Fault(
        "Multus before Terway",
        f"{write(STRAY, name='multus', plugins=[MULTUS])}\n{PROGRAM.format(f'{PROGRAMS}/multus-shim')}",
        f"rm {STRAY} {PROGRAMS}/multus-shim",
        ("warn cni.first MultusBeforeTerway",),
    ),
    edited(
        "a comma is missing",
        f"""sed -i 's/"name":"terway-chainer",/"name":"terway-chainer"/' {CONFLIST}""",
        "fail cni.parse Malformed",
        words=("line 1, column 46: a comma",),
    ),
    edited(
        "somebody else's chain under Terway's name",
        f"sed -i s/terway-chainer/chain/ {CONFLIST}",
        "fail cni.parse NotTerways",
    ),
    edited("an unknown version", f"sed -i s/0.4.0/9.0.0/ {CONFLIST}", "warn cni.parse UnknownVersion"),
    edited(
        "10 MiB, nested 10,000 deep",
        f"""python -c 'print("[" * 10_000 + " " * (10 << 20) + "]" * 10_000)' > {CONFLIST}""",
        "fail cni.parse Malformed",
        words=("longer than",),
    ),
    edited(
        "nested 10,000 deep",
        f"""python -c 'print("[" * 10_000 + "]" * 10_000)' > {CONFLIST}""",
        "fail cni.parse Malformed",
        words=("nested deeper than",),
    ),
    edited(
        "a plugin outside of the directory",
        f'sed -i \'s,"type":"terway","type":"../../bin/sh",\' {CONFLIST}',
        "fail cni.parse Malformed",
        words=("'../../bin/sh'",),
    ),
    Fault(
        "a broken configuration behind Terway's",
        f"echo '{{' > {DIRECTORY}/99-old.conf",
        f"rm {DIRECTORY}/99-old.conf",
        ("warn cni.parse MalformedUnused",),
    ),
    Fault(
        "a program is missing",
        f"mv {PROGRAMS}/terway /opt/cni",
        f"mv /opt/cni/terway {PROGRAMS}",
        ("fail cni.binaries Missing",),
    ),
    Fault(
        "a program that may not run",
        f"chmod 644 {PROGRAMS}/terway",
        f"chmod 755 {PROGRAMS}/terway",
        ("fail cni.binaries NotExecutable",),
    ),
    Fault(
        "a program that is empty",
        f"cp -p {PROGRAMS}/terway /opt/cni; : > {PROGRAMS}/terway",
        f"mv /opt/cni/terway {PROGRAMS}",
        ("fail cni.binaries Empty",),
    ),
    Fault(
        "the configuration of an older Terway",
        write(f"{DIRECTORY}/10-terway.conf", name="terway", type="terway"),
        f"rm {DIRECTORY}/10-terway.conf",
        ("warn cni.stale-conf OldConfiguration",),
    ),
]


@each(FAULTS)
def test_fault(here: Checked, fault: Fault) -> None:
    here.holds(fault)


def test_no_control_character_reaches_a_terminal(here: Checked) -> None:
    """Neither from a file's name nor from what it holds."""
    name = f"{DIRECTORY}/$(printf '00-\\033[2J\\007x.conflist')"
    holds = json.dumps({"name": "\x1b]0;owned\x07", "plugins": [{"type": "\x1b[2J\x9b"}]})
    with here.fault(f"""echo '{holds}' > "{name}" """, f'rm "{name}"'):
        for form in ("table", "wide", "json"):
            shown = here.shows(form)
            assert "cni.parse" in shown
            assert all(letter.isprintable() or letter == "\n" for letter in shown)


ALIBABA = re.compile(r"alibaba|aliyun|\benis?\b|\becs\b|\back\b|terway|erdma|lingjun", re.IGNORECASE)
CALICO = {
    "name": "k8s-pod-network",
    "cniVersion": "0.3.1",
    "plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}, {"type": "portmap"}],
}
ELSEWHERE = "\n".join(
    (
        "order metadata hang",  # nobody is to ask it
        f"rm -r /var/run/eni /var/lib/cni/terway {CONFLIST} {PROGRAMS}/terway {PROGRAMS}/cilium-cni",
        "ip link del eth1",
        "for pref in 512 512 2048 2048; do ip rule del pref $pref; done",
        "echo 'Amazon EC2' > /sys/class/dmi/id/sys_vendor; echo p5.48xlarge > /sys/class/dmi/id/product_name",
        f"echo '{json.dumps(CALICO)}' > {DIRECTORY}/10-calico.conflist",
        *(PROGRAM.format(f"{PROGRAMS}/{name}") for name in ("calico", "calico-ipam", "portmap")),
    )
)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Checked]:
    with checked() as one:
        one.do(ELSEWHERE)
        yield one


def holds_no_word_of_alibaba(node: Checked) -> None:
    for form in ("table", "wide"):
        assert not ALIBABA.findall(node.shows(form))
    for one in node.check().findings(*BAD, "ok"):
        assert not ALIBABA.findall(json.dumps(one))


def test_a_node_of_another_cloud(elsewhere: Checked) -> None:
    said = elsewhere.check()
    assert (said.roots, said.report["verdict"]) == (set(), "passed")
    holds_no_word_of_alibaba(elsewhere)


CALICOS, CILIUM = f"{DIRECTORY}/10-calico.conflist", f"{DIRECTORY}/05-cilium.conflist"
OTHERS = [
    Fault(
        "no configuration",
        f"mv {CALICOS} /etc/cni/kept",
        f"mv /etc/cni/kept {CALICOS}",
        ("fail cni.directory NoConfiguration",),
    ),
    Fault(
        "a broken configuration",
        f"cp -p {CALICOS} /etc/cni/kept; echo '{{' > {CALICOS}",
        f"mv /etc/cni/kept {CALICOS}",
        ("fail cni.parse Malformed",),
        ("cni.binaries unknown CannotLook < cni.parse",),
    ),
    Fault(
        "a program is missing",
        f"mv {PROGRAMS}/calico-ipam /opt/cni",
        f"mv /opt/cni/calico-ipam {PROGRAMS}",
        ("fail cni.binaries Missing",),
    ),
    Fault(
        "another network plugin sorts first",
        f"{write(CILIUM, name='cilium', plugins=[{'type': 'cilium-cni'}])}\n{PROGRAM.format(f'{PROGRAMS}/cilium-cni')}",
        f"rm {CILIUM} {PROGRAMS}/cilium-cni",
        ("warn cni.first SeveralPlugins",),
    ),
    Fault(
        "no default route",
        "ip route del default",
        f"ip route add default via {GATEWAY} dev eth0",
        ("warn route.default NoDefault",),  # an isolated network may be meant so
    ),
    Fault(
        "no forwarding after the next boot",
        "echo 'net.ipv4.ip_forward = 0' > /etc/sysctl.d/10-hardening.conf",
        "rm /etc/sysctl.d/10-hardening.conf",
        ("warn sysctl.forward ForwardingOffAtBoot",),
    ),
]


@each(OTHERS)
def test_fault_of_a_node_of_another_cloud(elsewhere: Checked, fault: Fault) -> None:
    elsewhere.holds(fault)
    with elsewhere.fault(fault.make, fault.undo):
        holds_no_word_of_alibaba(elsewhere)
