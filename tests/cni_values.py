"""Builders for tests of the CNI: a node with a healthy Terway, and files for trees. Change one thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nodeprep.facts.alibaba.terway import Terway, UnixSocket
from nodeprep.facts.network.cni import Binary, Cni, CniFile, CniNetwork, CniPlugin

DAEMON = "/var/run/eni/eni.socket"
POLICY = "127.0.0.1:9099"
# As `terway-cli cni` writes it for the data path of eBPF, and as Calico installs it.
TERWAY: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "terway-chainer",
    "plugins": [
        {
            "bandwidth_mode": "edt",
            "capabilities": {"bandwidth": True},
            "eniip_virtual_type": "datapathv2",
            "host_stack_cidrs": ["169.254.20.10/32"],
            "mtu": 8500,
            "debug": False,
            "type": "terway",
        },
        {"type": "cilium-cni", "data-path": "datapathv2"},
    ],
}
CALICO: dict[str, Any] = {
    "name": "k8s-pod-network",
    "cniVersion": "0.3.1",
    "plugins": [
        {"type": "calico", "ipam": {"type": "calico-ipam"}, "policy": {"type": "k8s", "k8s_auth_token": "x"}},
        {"type": "portmap", "snat": True, "auth_token": "secret"},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ],
}


def plugin(kind: str = "terway", **options: str | int | bool) -> CniPlugin:
    """A plugin with its options."""
    return CniPlugin(kind, tuple(options.items()))


def network(*plugins: CniPlugin, **different: Any) -> CniNetwork:
    """The chain of these plugins, by default as Terway writes it for a shared ENI with veth pairs."""
    chain = plugins or (plugin("terway", eniip_virtual_type="veth", network_policy_provider="ebpf"),)
    usual: dict[str, Any] = {"name": "terway-chainer", "version": "0.4.0", "plugins": chain, "delegates": ()}
    return CniNetwork(**(usual | different))


def cni_file(file: str, *types: str, **different: Any) -> CniFile:
    """A file with a chain of plugins of these types."""
    return CniFile(file, network(*(plugin(one) for one in types), **({"name": "k8s-pod-network"} | different)))


def binary(name: str = "terway", **different: Any) -> Binary:
    usual: dict[str, Any] = {"type": name, "present": True, "executable": True, "size": 35_000_000}
    return Binary(**(usual | different))


def cni(*files: CniFile, **different: Any) -> Cni:
    """The directory with these files, by default Terway's only one, and every binary that they name."""
    found = files or (CniFile("10-terway.conflist", network()),)
    usual: dict[str, Any] = {
        "at": 0.0,
        "directory": "/etc/cni/net.d",
        "files": found,
        "binaries": (binary("terway"), binary("cilium-cni")),
        "paths": ("/opt/cni/bin",),
        "kubelet": True,
    }
    return Cni(**(usual | different))


def terway(**different: Any) -> Terway:
    """The traces of a healthy Terway with a shared ENI on a live node. `present=False` is a node without Terway."""
    usual: dict[str, Any] = {
        "at": 0.0,
        "present": True,
        "capabilities": {"cni_exclusive_eni": "default", "datapath": "veth", "network_policy_provider": "ebpf"},
        "missing": (),
        "bpffs": True,
        "daemon": UnixSocket(DAEMON, None),
        "policy": UnixSocket(POLICY, None),
        "device_plugins": (),
    }
    return Terway(**(usual | different))


def put(root: Path, name: str, value: Any, at: str = "etc/cni/net.d") -> None:
    """Write a file of a tree: a text as it is, other values as JSON."""
    target = root / at / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(value if isinstance(value, str) else json.dumps(value))


def program(root: Path, name: str, at: str = "opt/cni/bin", mode: int = 0o755, text: str = "ELF") -> None:
    """Put a plugin into a directory of binaries."""
    put(root, name, text, at)
    (root / at / name).chmod(mode)
