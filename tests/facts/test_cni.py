"""The CNI directory from trees: its order, what is a network, the binaries, and texts that mean harm."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.network import cni as cni_facts
from nodeprep.facts.network.cni import OPTIONS, PLUGINS_LIMIT, Binary, Cni, CniPlugin
from nodeprep.facts.network.cni_runtime import BINARIES
from nodeprep.model import CannotLook, Unreadable, Why, raw
from tests.cni_values import CALICO, TERWAY, program, put


def look(root: Path) -> Cni:
    return cni_facts.observe(Host(str(root), live=False))


def wrong(root: Path, value: Any, name: str = "10-x.conflist") -> str:
    """Why a file is no network."""
    put(root, name, value)
    files = look(root).files
    assert files is not None
    network = raw(files[0])["network"]
    assert isinstance(network, Unreadable)
    assert network.kind is Why.MALFORMED
    return network.detail


def test_the_chain_of_terway(tmp_path: Path) -> None:
    put(tmp_path, "10-terway.conflist", TERWAY)
    program(tmp_path, "terway")
    cni = look(tmp_path)
    assert cni.directory == "/etc/cni/net.d"
    assert cni.paths == BINARIES
    assert cni.first is not None
    network = cni.first.network
    assert (network.name, network.version, network.delegates) == ("terway-chainer", "0.4.0", ())
    assert network.plugins[1] == CniPlugin("cilium-cni", ())
    terway = network.plugins[0]
    options = [terway.option(key) for key in ("eniip_virtual_type", "mtu", "debug", "capabilities")]
    assert options == ["datapathv2", 8500, None, None]
    assert cni.binaries == (Binary("terway", True, True, 3), Binary("cilium-cni", False, False, 0))


def test_files_in_the_order_of_the_runtime_and_no_others(tmp_path: Path) -> None:
    names = ("10-calico.conflist", "00-multus.conf", "9.json", "10-Z.conf", "99-loopback.conf", ".hidden.conf")
    for name in (*names, "10-calico.conflist.bak", "README", "calico-kubeconfig", "x.CONF"):
        put(tmp_path, name, CALICO if name.endswith("conflist") else {"name": "one", "type": "loopback"})
    (tmp_path / "etc/cni/net.d/05-directory.conf").mkdir()
    files = look(tmp_path).files
    assert files is not None
    assert [file.name for file in files] == sorted(names)


def test_what_a_chain_calls_by_itself(tmp_path: Path) -> None:
    multus = {
        "name": "multus-cni-network",
        "type": "multus",
        "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
        "delegates": [CALICO, {"type": "sriov", "name": "s", "ipam": {"type": "whereabouts"}}],
    }
    put(tmp_path, "00-multus.conf", multus)
    flannel = {"name": "cbr0", "plugins": [{"type": "flannel", "delegate": {"hairpinMode": True}}]}
    put(tmp_path, "10-flannel.conflist", flannel)
    flannel["plugins"] = [{"type": "flannel", "delegate": {"type": "ptp", "ipam": {"type": "dhcp"}}}]
    put(tmp_path, "11-flannel.conflist", flannel)
    files = look(tmp_path).files
    assert files is not None
    ours = ("multus", "calico", "calico-ipam", "portmap", "bandwidth", "sriov", "whereabouts")
    assert files[0].network.types == ours
    assert files[1].network.types == ("flannel", "bridge", "host-local")
    assert files[2].network.types == ("flannel", "ptp", "dhcp")


@pytest.mark.parametrize("called", ["/host/etc/cni/net.d/10-terway.conflist", "10-terway.conflist", "terway-chainer"])
def test_the_network_behind_multus(tmp_path: Path, called: str) -> None:
    put(tmp_path, "00-multus.conf", {"name": "m", "type": "multus-shim", "clusterNetwork": called})
    put(tmp_path, "05-broken.conf", "{")
    put(tmp_path, "10-terway.conflist", TERWAY)
    cni = look(tmp_path)
    assert cni.first is not None
    assert cni.chain(cni.first) == ("multus-shim", "terway", "cilium-cni")


def test_no_secret_is_kept(tmp_path: Path) -> None:
    put(tmp_path, "10-calico.conflist", CALICO)
    cni = look(tmp_path)
    assert cni.first is not None
    assert cni.first.network.plugins[1].options == ()
    assert "secret" not in repr(cni)
    keys = ("api_key", "auth", "access_key", "client_key", "etcd_endpoints", "log-file")
    plugin = {"type": "terway", "mtu": 8500, "veth_prefix": "x" * 1000} | dict.fromkeys(keys, "https://a:secret@b")
    put(tmp_path, "10-calico.conflist", {"name": "x", "plugins": [plugin]})
    cni = look(tmp_path)
    assert cni.first is not None
    assert cni.first.network.plugins[0].options == (("mtu", 8500),)
    assert "secret" not in repr(cni)


@pytest.mark.parametrize("plugins", [{"key": "secret"}, [["secret"]], [{"type": {"key": "secret"}}]])
def test_no_secret_is_kept_of_what_is_no_network(tmp_path: Path, plugins: Any) -> None:
    assert "secret" not in wrong(tmp_path, {"name": "x", "plugins": plugins})


def test_every_option_that_checks_ask_for_is_kept(tmp_path: Path) -> None:
    put(tmp_path, "10-x.conf", {"name": "x", "type": "terway"} | dict.fromkeys(OPTIONS, "word"))
    cni = look(tmp_path)
    assert cni.first is not None
    assert {key for key, _ in cni.first.network.plugins[0].options} == OPTIONS


HOSTILE = ["[", '"', '{"a":', "1", '"\\', '["a",', "-", " ", "\n", '{"name":"x","plugins":[', "é"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", HOSTILE)
def test_a_mebibyte_that_means_harm(tmp_path: Path, part: str) -> None:
    put(tmp_path, "10-x.conflist", part * ((1 << 20) // len(part.encode())))
    began = time.process_time()
    files = look(tmp_path).files
    assert time.process_time() - began < 2
    assert files is not None
    assert isinstance(raw(files[0])["network"], Unreadable)


MALFORMED = [
    ("", "line 1, column 1: a value is wanted, not the end"),
    ('{\n  "name": "x",\n  "plugins": [{"type": "a"},]\n}', "line 3, column 29: a value is wanted, not ']'"),
    ('{"name": "a", "name": "b"}', "line 1, column 15: 'name' stands here a second time"),
    ("[" * 500_000, "line 1, column 102: nested deeper than 100"),
    ("\x01" * 1000, "line 1, column 1: a value is wanted, not '\\x01'"),
    ([], "an object is wanted, with name and plugins"),
    ({"plugins": [{"type": "a"}]}, "name is missing: a name of letters, digits, '_', '.' and '-' is wanted"),
    (
        {"name": "\x1b[31m", "plugins": [{"type": "a"}]},
        "name is '\\x1b[31m': a name of letters, digits, '_', '.' and '-' is wanted",
    ),
    ({"name": "x", "cniVersion": 1}, "cniVersion is 1: a text is wanted"),
    ({"name": "x"}, "plugins is missing: a list of plugins is wanted"),
    ({"name": "x", "plugins": []}, "plugins is []: a list of plugins is wanted"),
    ({"name": "x", "plugins": ["a"]}, "plugins[0] is a text: a plugin is wanted"),
    ({"name": "x", "plugins": [{"type": "a"}, {}]}, "plugins[1] has no type"),
    (
        {"name": "x", "plugins": [{"type": "../../bin/sh"}]},
        "the type of plugins[0] is '../../bin/sh': the plain name of a program is wanted",
    ),
    (
        {"name": "x", "plugins": [{"type": ".."}]},
        "the type of plugins[0] is '..': the plain name of a program is wanted",
    ),
    (
        {"name": "x", "plugins": [{"type": "a\x1b[2J"}]},
        "the type of plugins[0] is 'a\\x1b[2J': the plain name of a program is wanted",
    ),
    (
        {"name": "x", "plugins": [{"type": "a", "ipam": {"type": "/bin/sh"}}]},
        "the type of plugins[0].ipam is '/bin/sh': the plain name of a program is wanted",
    ),
    (
        {"name": "x", "plugins": [{"type": "multus", "delegates": [{"type": "../x"}]}]},
        "the type of plugins[0].delegates[0] is '../x': the plain name of a program is wanted",
    ),
    ({"name": "x", "plugins": [{"type": "a"}] * (PLUGINS_LIMIT + 1)}, f"it names more than {PLUGINS_LIMIT} plugins"),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("value", "says"), MALFORMED)
def test_what_is_no_network(tmp_path: Path, value: Any, says: str) -> None:
    assert wrong(tmp_path, value) == says


def test_a_chain_in_a_conf_is_none(tmp_path: Path) -> None:
    assert wrong(tmp_path, TERWAY, "10-terway.conf") == "the file has no type"


@pytest.mark.timeout(120)
def test_ten_mebibytes_nested_ten_thousand_deep(tmp_path: Path) -> None:
    text = '{"a":' * 10_000 + '"' + "x" * (10 << 20) + '"' + "}" * 10_000
    assert wrong(tmp_path, text) == "longer than 1048576 bytes"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    put(tmp_path, "10-x.conflist", "")
    (tmp_path / "etc/cni/net.d/10-x.conflist").write_bytes(b'{"name": "\xff"}')
    files = look(tmp_path).files
    assert files is not None
    with pytest.raises(CannotLook, match="not UTF-8"):
        _ = files[0].network


def test_a_link_to_nothing_and_a_fifo_are_listed(tmp_path: Path) -> None:
    put(tmp_path, "30-good.conf", {"name": "a", "type": "b"})
    (tmp_path / "etc/cni/net.d/10-gone.conf").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "etc/cni/net.d/20-fifo.conf")
    files = look(tmp_path).files
    assert files is not None
    kinds = [one.kind if isinstance(one := raw(file)["network"], Unreadable) else one.name for file in files]
    assert kinds == [Why.MISSING, Why.IO_ERROR, "a"]


def test_a_node_without_a_directory(tmp_path: Path) -> None:
    cni = look(tmp_path)
    assert cni.files is None
    assert cni.first is None
    assert not cni.kubelet
    assert cni.binaries == ()


def test_a_file_in_its_place(tmp_path: Path) -> None:
    put(tmp_path, "net.d", "x", "etc/cni")
    with pytest.raises(CannotLook):
        _ = look(tmp_path).files


@pytest.mark.parametrize("path", ["var/lib/kubelet/pods/.keep", "etc/kubernetes/kubelet.conf"])
def test_a_node_that_runs_a_kubelet(tmp_path: Path, path: str) -> None:
    put(tmp_path, path, "", ".")
    assert look(tmp_path).kubelet


def test_binaries(tmp_path: Path) -> None:
    put(tmp_path, "10-x.conflist", {"name": "x", "plugins": [{"type": one} for one in ("a", "b", "c", "d", "e", "f")]})
    program(tmp_path, "a")
    program(tmp_path, "b", mode=0o644)
    program(tmp_path, "c", text="")
    (tmp_path / "opt/cni/bin/d").mkdir()
    program(tmp_path, "d", at="usr/libexec/cni")  # the runtime takes the first regular file
    (tmp_path / "opt/cni/bin/e").symlink_to("/opt/cni/bin/a")
    assert look(tmp_path).binaries == (
        Binary("a", True, True, 3),
        Binary("b", True, False, 3),
        Binary("c", True, True, 0),
        Binary("d", True, True, 3),
        Binary("e", True, True, 3),
        Binary("f", False, False, 0),
    )


def test_this_machine() -> None:
    cni = cni_facts.observe(Host())
    assert isinstance(cni.paths, tuple)
