"""Where the runtime is told to look, and what is left in its directory: on a node whose CNI is Terway."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.rigs.netns_check import BAD, Checked, Fault, checked, each

DIRECTORY, KUBELET = "/etc/cni/net.d", "/var/lib/kubelet/pods"
CONFLIST, STRAY = f"{DIRECTORY}/10-terway.conflist", f"{DIRECTORY}/00-stray.conflist"
STRAYS = json.dumps({"cniVersion": "0.3.1", "name": "stray", "plugins": [{"type": "stray"}]})
CONTAINERD, K3S = "/etc/containerd", "/var/lib/rancher/k3s"
DOCKERS = f"""mkdir -p {CONTAINERD}; echo 'disabled_plugins = ["cri"]' > {CONTAINERD}/config.toml"""
HOSTILE = f"""mkdir {CONTAINERD}; python -c 'print("bin_dirs = [\\n" * 80_000)' > {CONTAINERD}/config.toml"""


@pytest.fixture(scope="module")
def here() -> Iterator[Checked]:
    with checked() as one:
        yield one


FAULTS = [
    Fault("a mebibyte of lists without an end", HOSTILE, f"rm -r {CONTAINERD}", ()),
    Fault(
        "k3s beside Docker",
        f"{DOCKERS}; mkdir -p {K3S}/agent/etc/containerd; "
        f"""echo ' conf_dir = "/nowhere/net.d"' > {K3S}/agent/etc/containerd/config.toml""",
        f"rm -r {CONTAINERD} {K3S}",
        ("fail cni.directory NoDirectory",),
        words=("/nowhere/net.d is not there",),
    ),
    Fault(
        "a drop-in of CRI-O",
        """mkdir -p /etc/crio/crio.conf.d
echo 'network_dir = "/nowhere/net.d"' > /etc/crio/crio.conf.d/10-crio.conf""",
        "rm -r /etc/crio",
        ("fail cni.directory NoDirectory",),
        words=("/nowhere/net.d is not there",),
    ),
    Fault(
        "an import of containerd",
        f"""mkdir -p {CONTAINERD}/conf.d; echo 'imports = ["{CONTAINERD}/conf.d/*.toml"]' > {CONTAINERD}/config.toml
echo 'conf_dir = "/nowhere/net.d"' > {CONTAINERD}/conf.d/99-gpu.toml""",
        f"rm -r {CONTAINERD}",
        ("fail cni.directory NoDirectory",),
        words=("/nowhere/net.d is not there",),
    ),
    Fault(
        "a malformed stray file",
        f"echo '{{' > {STRAY}",
        f"rm {STRAY}",
        ("fail cni.parse Malformed",),
        ("cni.binaries unknown CannotLook < cni.parse",),
    ),
    Fault(
        "no kubelet, and no configuration",
        f"mv {KUBELET} /var/lib/pods; mv {CONFLIST} /etc/cni/kept",
        f"mv /var/lib/pods {KUBELET}; mv /etc/cni/kept {CONFLIST}",
        ("fail cni.directory NoConfiguration",),
    ),
]


@each(FAULTS)
def test_fault(here: Checked, fault: Fault) -> None:
    here.holds(fault)


def test_a_stray_file_just_after_the_boot(here: Checked) -> None:
    with here.fault(
        f"mv /var/run/eni /var/run/kept; echo '{STRAYS}' > {STRAY}", f"rm {STRAY}; mv /var/run/kept /var/run/eni"
    ):
        said = here.check()
    assert {"fail cni.first TerwayBypassed", "fail terway.directories Missing"} <= said.roots
    assert "cni.binaries fail Missing < cni.first" in said.follow


def test_what_a_cluster_left_is_nobodys(here: Checked) -> None:
    """As `kubeadm reset` and Podman leave it: no kubelet, and a chain whose program is not there."""
    make = f"""mv {KUBELET} /var/lib/pods; mv /var/run/eni /var/run/kept; mv {CONFLIST} /etc/cni/kept
echo '{STRAYS}' > {STRAY}; echo '{{' > {DIRECTORY}/99-broken.conf; mv /opt/cni/bin/terway /opt/cni/kept"""
    undo = f"""mv /var/lib/pods {KUBELET}; mv /var/run/kept /var/run/eni; mv /etc/cni/kept {CONFLIST}
rm {STRAY} {DIRECTORY}/99-broken.conf; mv /opt/cni/kept /opt/cni/bin/terway"""
    with here.fault(make, undo):
        said = here.check()
    assert not [one for one in said.findings(*BAD) if one["check"].startswith("cni.")]
