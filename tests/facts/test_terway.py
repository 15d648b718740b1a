"""What Terway leaves, from trees and with real sockets; and nodes that it left."""

from __future__ import annotations

import errno
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba import terway as terway_facts
from nodeprep.facts.alibaba.terway import DIRECTORIES, Terway, UnixSocket
from nodeprep.model import CannotLook
from tests.cni_values import CALICO, TERWAY, program, put

CAPABILITIES = """# written by terway-cli
cni_exclusive_eni = default
datapath          = datapathv2
erdma=true
has_cilium_chainer = `true`
a line without a sign
"""
MOUNT = "36 25 0:31 / /sys/fs/bpf rw,nosuid,nodev shared:9 - {kind} {kind} rw,mode=700"


def node(root: Path, *, files: tuple[str, ...] = ("10-terway.conflist",)) -> Path:
    """A node on which Terway runs, with a link from /var/run as distributions have it."""
    (root / "run/eni").mkdir(parents=True)
    (root / "var/lib/cni/terway").mkdir(parents=True)
    (root / "var/run").symlink_to("../run")
    for name in files:
        put(root, name, TERWAY)
    put(root, "node_capabilities", CAPABILITIES, "run/eni")
    put(root, "mountinfo", MOUNT.format(kind="bpf"), "proc/1")
    for name in ("kubelet.sock", "1700000000-erdma-eni.sock", "DEPRECATION"):
        put(root, name, "", "var/lib/kubelet/device-plugins")
    program(root, "terway")
    return root


def look(root: Path, *, live: bool = False) -> Terway:
    return terway_facts.observe(Host(str(root), live=live))


def test_a_node_with_terway(tmp_path: Path) -> None:
    terway = look(node(tmp_path))
    assert terway.present
    assert terway.capabilities == {"cni_exclusive_eni": "default", "datapath": "datapathv2", "erdma": "true"}
    assert terway.missing == ()
    assert terway.bpffs
    assert terway.device_plugins == ("1700000000-erdma-eni.sock", "kubelet.sock")
    assert terway.daemon is None
    assert terway.policy is None


def test_a_node_without(tmp_path: Path) -> None:
    put(tmp_path, "10-calico.conflist", CALICO)
    terway = look(tmp_path, live=True)
    assert not terway.present
    assert terway.capabilities is None
    assert terway.missing == DIRECTORIES
    assert terway.device_plugins == ()
    assert terway.daemon is None
    assert terway.policy is None  # nobody is asked


UNSEEN = [
    # live   there                              the names
    (True, "var/lib/kubelet/pods", None),
    (True, "var/lib/kubelet/device-plugins", ()),
    (True, "var/lib/other", ()),
    (False, "var/lib/kubelet/pods", ()),  # a copy without them
]


@pytest.mark.parametrize(("live", "there", "names"), UNSEEN)
def test_sockets_of_device_plugins_that_are_not_seen_are_not_absent(
    tmp_path: Path, live: bool, there: str, names: tuple[str, ...] | None
) -> None:
    """The agent's pod sees that there is a kubelet, and not the directory in which it registers plugins."""
    (tmp_path / there).mkdir(parents=True)
    terway = look(tmp_path, live=live)
    if names is not None:
        assert terway.device_plugins == names
        return
    with pytest.raises(CannotLook) as said:
        _ = terway.device_plugins
    assert str(said.value).startswith("/var/lib/kubelet/device-plugins: missing (not mounted in the agent's pod")
    assert not terway.present, "the rest is judged"


PRESENT = [
    # run   binary  files                                               present
    (True, False, {}, True),
    (False, False, {}, False),
    (False, True, {}, True),
    (False, True, {"10-terway.conflist": TERWAY}, True),
    (False, False, {"10-terway.conflist": "{"}, True),
    (False, False, {"10-terway.conf": {"name": "terway", "type": "terway"}}, True),
    (False, True, {"10-calico.conflist": CALICO}, False),
    (False, False, {"05-calico.conflist": CALICO, "10-terway.conflist": TERWAY}, False),
    (False, True, {"05-calico.conflist": CALICO, "10-terway.conflist": TERWAY}, True),
    (True, True, {"05-calico.conflist": CALICO, "10-terway.conflist": TERWAY}, True),
    (False, False, {"00-multus.conf": {"name": "m", "type": "multus", "delegates": [TERWAY]}}, True),
    (
        False,
        False,
        {
            "00-multus.conf": {"name": "m", "type": "multus-shim", "clusterNetwork": "terway-chainer"},
            "05-broken.conf": "{",
            "10-terway.conflist": TERWAY,
        },
        True,
    ),
    (False, True, {"00-broken.conf": "{", "10-terway.conflist": TERWAY}, True),
    (False, False, {"00-broken.conf": "{", "10-terway.conflist": TERWAY}, False),
]


@pytest.mark.parametrize(("run", "binary", "files", "present"), PRESENT)
def test_whether_terway_is_the_network_plugin(
    tmp_path: Path, run: bool, binary: bool, files: dict[str, Any], present: bool
) -> None:
    for name, value in files.items():
        put(tmp_path, name, value)
    if binary:
        program(tmp_path, "terway")
        (tmp_path / "var/lib/cni/terway").mkdir(parents=True)  # outlives it as well
    if run:
        (tmp_path / "var/run/eni").mkdir(parents=True)
    assert look(tmp_path).present is present


@pytest.mark.parametrize("left", ["opt/cni/bin/terway", "var/lib/cni/terway"])
def test_one_leftover_behind_another_plugins_chain_is_not_enough(tmp_path: Path, left: str) -> None:
    put(tmp_path, "05-calico.conflist", CALICO)
    put(tmp_path, "10-terway.conflist", TERWAY)
    put(tmp_path, left, "", ".")
    assert not look(tmp_path).present


def test_records_that_do_not_yield_behind_another_plugins_chain(tmp_path: Path) -> None:
    put(tmp_path, "05-calico.conflist", CALICO)
    put(tmp_path, "10-terway.conflist", TERWAY)
    program(tmp_path, "terway")
    (tmp_path / "var/lib/cni").mkdir(parents=True)
    (tmp_path / "var/lib/cni/terway").symlink_to("terway")  # to itself
    with pytest.raises(CannotLook):
        _ = look(tmp_path).present


def test_a_directory_that_does_not_yield(tmp_path: Path) -> None:
    put(tmp_path, "net.d", "a file", "etc/cni")
    assert not look(tmp_path).present  # nothing else is Terway's
    program(tmp_path, "terway")
    with pytest.raises(CannotLook):
        _ = look(tmp_path).present


@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", ["a a a a /sys/fs/bpf x - ", "a ", " - ", "a a a a /sys/fs/bpf x - y\t", "x", "\n"])
def test_a_mount_table_that_means_harm(tmp_path: Path, line: str) -> None:
    put(tmp_path, "mountinfo", line * ((16 << 20) // len(line)), "proc/1")
    began = time.process_time()
    assert not look(tmp_path).bpffs
    assert time.process_time() - began < 2


def test_directories_that_are_not_there(tmp_path: Path) -> None:
    node(tmp_path)
    (tmp_path / "var/lib/cni/terway").rmdir()
    assert look(tmp_path).missing == ("/var/lib/cni/terway",)
    (tmp_path / "var/lib/cni/terway").write_text("")
    assert look(tmp_path).missing == ("/var/lib/cni/terway",)


def test_a_real_bpf_file_system_on_top(tmp_path: Path) -> None:
    node(tmp_path)
    lines = [MOUNT.format(kind="bpf"), MOUNT.format(kind="tmpfs")]
    put(tmp_path, "mountinfo", "\n".join(lines), "proc/1")
    assert not look(tmp_path).bpffs
    put(tmp_path, "mountinfo", "\n".join(lines[::-1]), "proc/1")
    assert look(tmp_path).bpffs
    put(
        tmp_path, "mountinfo", "22 1 259:2 / / rw - ext4 /dev/x rw\n23 22 0:9 / /sys/fs/bpf/x rw - bpf bpf rw", "proc/1"
    )
    assert not look(tmp_path).bpffs


def test_a_tree_without_a_mount_table(tmp_path: Path) -> None:
    node(tmp_path)
    (tmp_path / "proc/1/mountinfo").unlink()
    with pytest.raises(CannotLook) as raised:
        _ = look(tmp_path).bpffs
    assert raised.value.blind.not_recorded


def test_the_sockets_of_a_live_node(tmp_path: Path) -> None:
    node(tmp_path)
    absent = look(tmp_path, live=True)
    assert absent.daemon == UnixSocket("/var/run/eni/eni.socket", errno.ENOENT)
    assert absent.policy is not None
    assert absent.policy.address == "127.0.0.1:9099"
    path = tmp_path / "run/eni/eni.socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert look(tmp_path, live=True).daemon == UnixSocket("/var/run/eni/eni.socket", None)
    assert look(tmp_path, live=True).daemon == UnixSocket("/var/run/eni/eni.socket", errno.ECONNREFUSED)


def test_capabilities_that_are_no_text(tmp_path: Path) -> None:
    node(tmp_path)
    (tmp_path / "run/eni/node_capabilities").write_bytes(b"a = \xff")
    with pytest.raises(CannotLook, match="not UTF-8"):
        _ = look(tmp_path).capabilities
    put(tmp_path, "node_capabilities", "", "run/eni")
    assert look(tmp_path).capabilities == {}


def test_a_long_conflist_costs_nothing_else(tmp_path: Path) -> None:
    node(tmp_path)
    put(tmp_path, "10-terway.conflist", json.dumps(TERWAY) + " " * (2 << 20) + "x")
    terway = look(tmp_path)
    assert terway.present
    assert terway.bpffs
