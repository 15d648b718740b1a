"""Where the runtime looks, from trees that hold its configuration; and configurations that mean harm."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.network import cni as cni_facts
from nodeprep.facts.network import cni_runtime
from nodeprep.facts.network.cni import Binary, Cni
from nodeprep.facts.network.cni_runtime import BINARIES, DIRECTORY, FILES, SIZE
from nodeprep.model import CannotLook, Unreadable, Why
from tests.cni_values import program, put

MAIN, CRIOS = "etc/containerd/config.toml", "etc/crio/crio.conf"
K3S = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
DOCKERS = 'disabled_plugins = ["cri"]'


def look(root: Path) -> Cni:
    return cni_facts.observe(Host(str(root), live=False))


def told(root: Path, **texts: str) -> tuple[str, tuple[str, ...]] | Unreadable:
    for path, text in texts.items():
        put(root, path, text, ".")
    return cni_runtime.places(Host(str(root), live=False).files)


CONTAINERD = """
version = 2
[plugins."io.containerd.grpc.v1.cri".cni]
  # bin_dir = "/opt/cni/bin"
  bin_dir = "/home/kubernetes/bin/"
  conf_dir = "/etc/gke/net.d"
  max_conf_num = 1
"""
NEWER = """
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dir = ''
  bin_dirs = ['/opt/a/bin',
              '/opt/b/bin', 'relative']
"""
CRIO = """
[crio.network]
network_dir = "/etc/cni/other.d/"
plugin_dirs = [
\t"/usr/libexec/cni",
]
"""


@pytest.mark.parametrize(
    ("path", "text", "directory", "paths"),
    [
        ("etc/containerd/config.toml", CONTAINERD, "/etc/gke/net.d", ("/home/kubernetes/bin",)),
        ("etc/containerd/config.toml", NEWER, "/etc/cni/net.d", ("/opt/a/bin", "/opt/b/bin")),
        ("etc/containerd/config.toml", 'disabled_plugins = ["cri"]', "/etc/cni/net.d", BINARIES),
        ("etc/crio/crio.conf", CRIO, "/etc/cni/other.d", ("/usr/libexec/cni",)),
        (
            "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            '  bin_dir = "/var/lib/rancher/k3s/data/cni"\n  conf_dir = "/var/lib/rancher/k3s/agent/etc/cni/net.d"',
            "/var/lib/rancher/k3s/agent/etc/cni/net.d",
            ("/var/lib/rancher/k3s/data/cni",),
        ),
    ],
)
def test_where_the_runtime_says_that_it_looks(
    tmp_path: Path, path: str, text: str, directory: str, paths: tuple[str, ...]
) -> None:
    put(tmp_path, path, text, ".")
    put(tmp_path, "10-x.conf", {"name": "x", "type": "a"}, directory[1:])
    program(tmp_path, "a", at=paths[-1][1:])
    cni = look(tmp_path)
    assert (cni.directory, cni.paths) == (directory, paths)
    assert cni.binaries == (Binary("a", True, True, 3),)


ELSEWHERE = 'conf_dir = "/k/net.d"\nbin_dir = "/k/bin"'
TOLD = [
    # files of the tree                                                                    directory, plugins
    ({}, (DIRECTORY, BINARIES)),
    ({MAIN: DOCKERS, K3S: ELSEWHERE}, ("/k/net.d", ("/k/bin",))),
    ({MAIN: DOCKERS, CRIOS: 'network_dir = "/c"', K3S: ELSEWHERE}, ("/c", BINARIES)),
    ({MAIN: 'bin_dir = "/a"', K3S: 'bin_dir = "/b"'}, (DIRECTORY, ("/a",))),
    ({MAIN: 'conf_dir = ""', K3S: ELSEWHERE}, ("/k/net.d", ("/k/bin",))),
    ({MAIN: '# conf_dir = "/a"'}, (DIRECTORY, BINARIES)),
    ({MAIN: 'bin_dirs = [\n  # "/no"\n  "/a", # "/no"\n  \'/b\',\n]\nx = ["/no"]'}, (DIRECTORY, ("/a", "/b"))),
    ({MAIN: 'conf_dir = "/a"\nconf_dir = "/b"\r\n'}, ("/b", BINARIES)),
    ({"etc/crio/crio.conf.d/10-crio.conf": 'network_dir = "/a"'}, ("/a", BINARIES)),
    ({CRIOS: 'network_dir = "/0"', "etc/crio/crio.conf.d/1": 'network_dir = "/a"'}, ("/a", BINARIES)),
    (
        {"etc/crio/crio.conf.d/9": 'network_dir = "/b"', "etc/crio/crio.conf.d/10": 'network_dir = "/a"\nx = 1'},
        ("/b", BINARIES),
    ),
    ({"etc/crio/crio.conf.d/directory/x.conf": 'network_dir = "/a"'}, (DIRECTORY, BINARIES)),
    ({MAIN: 'imports = ["/x/a.toml"]\nbin_dir = "/0"', "x/a.toml": ELSEWHERE}, ("/k/net.d", ("/k/bin",))),
    ({MAIN: 'imports = ["a.toml"]', "etc/containerd/a.toml": ELSEWHERE}, ("/k/net.d", ("/k/bin",))),
    (
        {MAIN: "imports = [\n '/x/*.toml',\n]", "x/a.toml": ELSEWHERE, "x/b.conf": "bin_dir='/no'"},
        ("/k/net.d", ("/k/bin",)),
    ),
    (
        {MAIN: 'imports = ["/x/a.toml"]', "x/a.toml": 'imports = ["b.toml"]', "x/b.toml": ELSEWHERE},
        ("/k/net.d", ("/k/bin",)),
    ),
    ({MAIN: 'imports = ["/x/a.toml"]', "x/a.toml": f'imports = ["/x/a.toml"]\n{ELSEWHERE}'}, ("/k/net.d", ("/k/bin",))),
    ({MAIN: 'imports = ["/x/*/a.toml", "/gone.toml", "/none/*.toml"]', "x/y/a.toml": ELSEWHERE}, (DIRECTORY, BINARIES)),
    ({MAIN: 'imports = ["/proc/kmsg"]', "proc/kmsg": ELSEWHERE}, (DIRECTORY, BINARIES)),
]


@pytest.mark.parametrize(("texts", "says"), TOLD)
def test_which_word_holds(tmp_path: Path, texts: dict[str, str], says: tuple[str, tuple[str, ...]]) -> None:
    assert told(tmp_path, **texts) == says


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        (MAIN, {}),
        (CRIOS, {MAIN: DOCKERS}),
        ("etc/crio/crio.conf.d", {}),
        ("x/a.toml", {MAIN: f'imports = ["/x/a.toml"]\n{ELSEWHERE}'}),
        ("x", {MAIN: 'imports = ["/x/*.toml"]'}),
    ],
)
def test_what_does_not_yield_before_a_match(tmp_path: Path, path: str, texts: dict[str, str]) -> None:
    if path.endswith((".d", "x")):
        put(tmp_path, path, "a file", ".")
    else:
        (tmp_path / path).mkdir(parents=True)
    put(tmp_path, "var/lib/kubelet/pods/.keep", "", ".")
    assert isinstance(told(tmp_path, **texts), Unreadable)
    cni = look(tmp_path)
    assert cni.kubelet
    for name in ("directory", "files", "binaries", "paths"):
        with pytest.raises(CannotLook):
            getattr(cni, name)


def test_what_does_not_yield_behind_a_match_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / CRIOS).mkdir(parents=True)
    assert told(tmp_path, **{MAIN: ELSEWHERE}) == ("/k/net.d", ("/k/bin",))


def test_more_than_a_runtime_says(tmp_path: Path) -> None:
    many = ", ".join(f'"/x/{index}.toml"' for index in range(FILES))
    blind = told(tmp_path, **{MAIN: f"imports = [{many}]\n"})
    assert isinstance(blind, Unreadable)
    assert (blind.kind, blind.detail) == (Why.MALFORMED, f"more than {FILES} files are imported")
    texts = {f"x/{index}.toml": "#" * (1 << 20) for index in range((SIZE >> 20) + 1)}
    blind = told(tmp_path, **{MAIN: 'imports = ["/x/*.toml"]'}, **texts)
    assert isinstance(blind, Unreadable)
    assert blind.detail == f"with the files before it longer than {SIZE} characters"


HOSTILE = [
    "bin_dirs = [\n",
    "bin_dirs = [",
    "bin_dirs = ['\n",
    "\n",
    " ",
    "\t\n",
    "imports = ['a*.toml',\n",
    '"',
    'conf_dir = "a',
    "conf_dir = '",
    "conf_dir=\n",
    'plugin_dirs = ["/a", "/b"]\n',
    "bin_dir = '/a'\n",
    "bin_dir",
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", HOSTILE)
def test_a_mebibyte_that_means_harm(tmp_path: Path, part: str) -> None:
    text = part * ((1 << 20) // len(part))
    put(tmp_path, "etc/crio/crio.conf.d/a", "bin_dirs = [" + "\n'/a'" * (200 << 10), ".")
    put(tmp_path, MAIN, text, ".")
    put(tmp_path, K3S, text, ".")
    began = time.process_time()
    assert look(tmp_path).first is None
    assert time.process_time() - began < 2
