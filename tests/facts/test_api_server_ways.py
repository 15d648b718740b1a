"""The ways to the API server: by kubeconfigs, by the kubelet's connections, and past a proxy on the node itself.

The ways are those of this machine's kernel. tests/repair/test_idle_proof.py has one over an interface of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import api_server_ways
from nodeprep.facts.kubernetes.api_server_ways import ApiWays
from nodeprep.facts.network import sockets
from nodeprep.model import Unreadable, Why

SERVER = "apiVersion: v1\nclusters:\n- cluster:\n    server: {}\n  name: default\n"
KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
HEAD = "  sl  local_address rem_address   st\n"
ESTABLISHED = "   0: 0500000A:C350 {} 01 0:0 0:0 0 0 0 {} 1\n"
API_BY_HEX = {"192.0.2.6:6443": "060200C0:192B", "192.0.2.7:443": "070200C0:01BB", "192.0.2.8:80": "080200C0:0050"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (init) S")
    (tmp_path / "proc/1/comm").write_text("init\n")
    tables = tmp_path / "proc/self/net"
    tables.mkdir(parents=True)
    for name in sockets.PROTOCOLS:
        (tables / name).write_text(HEAD)
    return tmp_path


def kubeconfig(root: Path, server: str, path: str = KUBELET_CONF) -> None:
    here = root / path.lstrip("/")
    here.parent.mkdir(parents=True, exist_ok=True)
    here.write_text(SERVER.format(server))


def process(root: Path, command: str, *connections: str, options: str = "") -> None:
    """A process with connections to these servers."""
    here = root / "proc/77"
    (here / "fd").mkdir(parents=True)
    (here / "comm").write_text(f"{command}\n")
    (here / "cmdline").write_bytes(f"/usr/bin/{command}\0{options}\0".encode())
    rows = ""
    for number, server in enumerate(connections):
        (here / f"fd/{number}").symlink_to(f"socket:[{100 + number}]")
        rows += ESTABLISHED.format(API_BY_HEX[server], 100 + number)
    (root / "proc/self/net/tcp").write_text(HEAD + rows)


def ways(root: Path, service_host: str = "") -> list[tuple[str, str]]:
    found = api_server_ways.observe(Host(str(root)), service_host)
    assert isinstance(found, ApiWays), found
    assert found.absent == ""
    return [(way.address, way.said_by) for way in found.ways]


def refusal(root: Path) -> str:
    found = api_server_ways.observe(Host(str(root)))
    assert isinstance(found, Unreadable), found
    return str(found)


def test_a_host_without_a_kubelet_has_no_api_server(root: Path) -> None:
    found = api_server_ways.observe(Host(str(root)))
    assert isinstance(found, ApiWays)
    assert found.ways == ()
    assert "no kubelet runs" in found.absent


SERVERS = [
    ("https://192.0.2.6:6443", "192.0.2.6"),
    ('"https://192.0.2.6:6443"', "192.0.2.6"),
    ("https://192.0.2.6", "192.0.2.6"),
    ("https://[2001:DB8::6]:6443", "2001:db8::6"),
    ("https://api.example.com:6443", "192.0.2.9"),  # by /etc/hosts
]


@pytest.mark.parametrize(("server", "address"), SERVERS)
def test_the_server_of_a_kubeconfig(root: Path, server: str, address: str) -> None:
    kubeconfig(root, server)
    (root / "etc/hosts").write_text("# all\n127.0.0.1 localhost\n192.0.2.9 x api.example.com # ours\n")
    assert ways(root) == [(address, KUBELET_CONF)]


FORMS = [json.dumps, partial(json.dumps, indent=2), yaml.dump, partial(yaml.dump, default_flow_style=True)]


@pytest.mark.parametrize("text", FORMS)
def test_a_kubeconfig_is_yaml_or_json(root: Path, text: Callable[[object], str]) -> None:
    server = {"certificate-authority": "x", "server": "https://192.0.2.6:6443"}
    cluster = {"name": "server: https://192.0.2.1", "cluster": server}
    kubeconfig(root, "")
    (root / KUBELET_CONF.lstrip("/")).write_text(text({"apiVersion": "v1", "clusters": [cluster]}))
    assert ways(root) == [("192.0.2.6", KUBELET_CONF)]


def test_the_kernel_is_asked(root: Path) -> None:
    kubeconfig(root, "https://127.0.0.53:6443")
    process(root, "kube-apiserver", "192.0.2.6:6443")
    found = api_server_ways.observe(Host(str(root)))
    own = Host().own_ways(["127.0.0.53"])
    assert isinstance(found, ApiWays)
    assert not isinstance(own, Unreadable)
    assert own[0].oif == 1


def test_a_kubeconfig_that_the_kubelet_was_started_with(root: Path) -> None:
    process(root, "kubelet", options="--kubeconfig=/opt/kubelet.kubeconfig\0--v=2")
    kubeconfig(root, "https://192.0.2.6:6443", "/opt/kubelet.kubeconfig")
    assert ways(root) == [("192.0.2.6", "/opt/kubelet.kubeconfig")]


def test_a_server_by_name_is_where_the_kubelet_is_connected_to(root: Path) -> None:
    kubeconfig(root, "https://api.example.com")
    assert "neither /etc/hosts nor a connection tells its address" in refusal(root)
    process(root, "kubelet", "192.0.2.7:443", "192.0.2.8:80")
    assert ways(root) == [("192.0.2.7", "a connection of the kubelet")]


def test_connections_of_others_tell_nothing_of_a_server_by_name(root: Path) -> None:
    kubeconfig(root, "https://api.example.com")
    process(root, "curl", "192.0.2.7:443")
    assert "api.example.com" in refusal(root)


def test_past_a_proxy_on_the_node(root: Path) -> None:
    kubeconfig(root, "https://127.0.0.1:6444")
    assert "127.0.0.1" in refusal(root)
    process(root, "nginx", "192.0.2.6:6443", "192.0.2.8:80")
    assert ways(root) == [("192.0.2.6", "a connection to port 6443")]


def test_the_server_runs_here(root: Path) -> None:
    kubeconfig(root, "https://localhost:6443")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    process(root, "kube-apiserver")
    assert ways(root) == []


def test_what_pods_are_told_comes_beside_it(root: Path) -> None:
    kubeconfig(root, "https://192.0.2.6:6443")
    assert ways(root, "198.51.100.1") == [
        ("198.51.100.1", "KUBERNETES_SERVICE_HOST"),
        ("192.0.2.6", KUBELET_CONF),
    ]


def test_a_kubelet_of_which_nothing_tells_its_server(root: Path) -> None:
    process(root, "kubelet")
    assert "neither its kubeconfig nor a connection of it tells its API server" in refusal(root)


def test_a_directory_that_a_kubelet_left(root: Path) -> None:
    (root / "var/lib/kubelet").mkdir(parents=True)
    assert "API server" in refusal(root)


def test_a_kubeconfig_and_a_table_that_cannot_be_read(root: Path) -> None:
    kubeconfig(root, "https://192.0.2.6:6443")
    (root / "proc/self/net/tcp").write_text(HEAD + "torn\n")
    assert "/proc/self/net/tcp" in refusal(root)
    (root / "etc/kubernetes/kubelet.conf").write_bytes(b"\xff\xfe")
    found = api_server_ways.observe(Host(str(root)))
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.MALFORMED, KUBELET_CONF)


def test_processes_that_are_not_shown(root: Path) -> None:
    (root / "proc/1/stat").unlink()
    (root / "proc/1/mountinfo").write_text("")  # a pod of the agent (docs/adr/0021)
    assert "not shown here" in refusal(root)
