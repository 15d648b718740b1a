"""Sysctls: as they are, and as systemd-sysctl or procps would set them at the next boot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.network import sysctls
from nodeprep.facts.network.sysctls import Persisted, Sysctls
from nodeprep.model import CannotLook, Unreadable, Why

CONF = "proc/sys/net/ipv4/conf"
SYSTEMD = "usr/lib/systemd/systemd-sysctl"


def put(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "proc/sys/net/ipv4/ip_forward", "1")
    for link, forwarding, filters in (("all", 1, 0), ("default", 1, 1), ("eth0.100", 0, 2), ("lo", 1, 1)):
        put(tmp_path, f"{CONF}/{link}/forwarding", str(forwarding))
        put(tmp_path, f"{CONF}/{link}/rp_filter", str(filters))
    put(tmp_path, SYSTEMD, "\x7fELF")
    return tmp_path


def look(root: Path) -> Sysctls:
    found = sysctls.observe(Host(str(root), live=False))
    assert isinstance(found, Sysctls)
    return found


def test_live_values(root: Path) -> None:
    found = look(root)
    assert found.live == {
        "net.ipv4.ip_forward": 1,
        "net.ipv4.conf.all.forwarding": 1,
        "net.ipv4.conf.all.rp_filter": 0,
        "net.ipv4.conf.default.forwarding": 1,
        "net.ipv4.conf.default.rp_filter": 1,
        "net.ipv4.conf.eth0.100.forwarding": 0,
        "net.ipv4.conf.eth0.100.rp_filter": 2,
        "net.ipv4.conf.lo.forwarding": 1,
        "net.ipv4.conf.lo.rp_filter": 1,
    }
    assert found.links() == ("eth0.100",)
    assert (found.on("eth0.100", "forwarding"), found.on("eth9", "forwarding")) == (0, None)
    assert (found.filters("eth0.100"), found.filters("default"), found.filters("all")) == (2, 1, 0)
    assert found.persisted == ()


def test_the_greater_filter_counts(root: Path) -> None:
    put(root, f"{CONF}/all/rp_filter", "2")
    assert look(root).filters("default") == 2


def test_a_value_that_is_none(root: Path) -> None:
    put(root, f"{CONF}/all/rp_filter", "yes")
    path = f"/{CONF}/all/rp_filter"
    seen = look(root)
    assert seen.unread == (Unreadable(Why.MALFORMED, path, detail="'yes' is no number"),)
    assert seen.on("default", "rp_filter") == 1
    with pytest.raises(CannotLook):
        seen.on("all", "rp_filter")


def test_a_tree_without_them(tmp_path: Path) -> None:
    found = sysctls.observe(Host(str(tmp_path), live=False))
    assert isinstance(found, Unreadable)
    assert found.not_recorded


FORWARD = "net.ipv4.ip_forward"
FILTER = "net.ipv4.conf.{}.rp_filter"
FILES = [
    # files, key, what the next boot sets, by which line
    ({}, FORWARD, None),
    ({"etc/sysctl.d/10-a.conf": "# x\n; x\n\nnet.ipv4.ip_forward = 0"}, FORWARD, "0 /etc/sysctl.d/10-a.conf:4"),
    ({"etc/sysctl.d/10-a.conf": "net/ipv4/ip_forward=0"}, FORWARD, "0 /etc/sysctl.d/10-a.conf:1"),
    ({"etc/sysctl.d/10-a.conf": "  -net.ipv4.ip_forward=0"}, FORWARD, "0 /etc/sysctl.d/10-a.conf:1"),
    ({"etc/sysctl.d/10-a": "net.ipv4.ip_forward=0"}, FORWARD, None),
    ({"etc/sysctl.d/10-a.conf": "net.ipv4.ip_forward"}, FORWARD, None),
    ({"etc/sysctl.d/10-a.conf": "net.ipv4.ip_forward="}, FORWARD, None),
    ({"etc/sysctl.d/10-a.conf": "ip_forward=1"}, FORWARD, None),
    # By name over all directories, whatever directory it is.
    (
        {"etc/sysctl.d/10-a.conf": f"{FORWARD}=1", "usr/lib/sysctl.d/50-b.conf": f"{FORWARD}=0"},
        FORWARD,
        "0 /usr/lib/sysctl.d/50-b.conf:1",
    ),
    # One of the same name in an earlier directory hides the other.
    (
        {"etc/sysctl.d/50-b.conf": "# nothing", "usr/lib/sysctl.d/50-b.conf": f"{FORWARD}=0"},
        FORWARD,
        None,
    ),
    (
        {"run/sysctl.d/50-b.conf": f"{FORWARD}=1", "lib/sysctl.d/50-b.conf": f"{FORWARD}=0"},
        FORWARD,
        "1 /run/sysctl.d/50-b.conf:1",
    ),
    (
        {"usr/local/lib/sysctl.d/50-b.conf": f"{FORWARD}=1", "usr/lib/sysctl.d/50-b.conf": f"{FORWARD}=0"},
        FORWARD,
        "1 /usr/local/lib/sysctl.d/50-b.conf:1",
    ),
    ({"etc/sysctl.conf": f"{FORWARD}=0"}, FORWARD, None),  # systemd does not read it
    # Globs: the last one counts, a line that names the key outweighs all, "-key" takes it out of them.
    ({"etc/sysctl.d/1.conf": "net.ipv4.conf.*.rp_filter=2"}, FILTER.format("eth0"), "2 /etc/sysctl.d/1.conf:1"),
    ({"etc/sysctl.d/1.conf": "net.ipv4.conf.*.rp_filter=2"}, FILTER.format("eth0.100"), "2 /etc/sysctl.d/1.conf:1"),
    ({"etc/sysctl.d/1.conf": "net.ipv4.conf.eth*.rp_filter=2"}, FILTER.format("cali1"), None),
    ({"etc/sysctl.d/1.conf": "net.*.forwarding=0"}, "net.ipv4.conf.all.forwarding", None),
    ({"etc/sysctl.d/1.conf": "net.*.conf.a*.forwarding=0"}, "net.ipv4.conf.all.forwarding", "0 /etc/sysctl.d/1.conf:1"),
    (
        {"etc/sysctl.d/1.conf": "net.ipv4.conf.eth0.rp_filter=0\nnet.ipv4.conf.*.rp_filter=2"},
        FILTER.format("eth0"),
        "0 /etc/sysctl.d/1.conf:1",
    ),
    (
        {"etc/sysctl.d/1.conf": "-net.ipv4.conf.eth0.rp_filter\nnet.ipv4.conf.*.rp_filter=2"},
        FILTER.format("eth0"),
        None,
    ),
    (
        {"etc/sysctl.d/1.conf": "net.ipv4.conf.*.rp_filter=2\nnet.ipv4.conf.eth?.rp_filter=1"},
        FILTER.format("eth0"),
        "1 /etc/sysctl.d/1.conf:2",
    ),
    # An interface's own dots.
    (
        {"etc/sysctl.d/1.conf": "net/ipv4/conf/eth0.100/rp_filter=1"},
        FILTER.format("eth0.100"),
        "1 /etc/sysctl.d/1.conf:1",
    ),
    (
        {"etc/sysctl.d/1.conf": "net.ipv4.conf.eth0/100.rp_filter=1"},
        FILTER.format("eth0.100"),
        "1 /etc/sysctl.d/1.conf:1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "key", "says"), FILES)
def test_the_next_boot(root: Path, files: dict[str, str], key: str, says: str | None) -> None:
    for path, text in files.items():
        put(root, path, text)
    line = look(root).at_boot(key)
    assert (f"{line.value} {line.where}" if line else None) == says


def test_two_names_of_one_setting(root: Path) -> None:
    put(root, "etc/sysctl.d/1.conf", f"net.ipv4.conf.all.forwarding=0\n{FORWARD}=1")
    assert look(root).at_boot(FORWARD, "net.ipv4.conf.all.forwarding") == Persisted(
        FORWARD, "1", "/etc/sysctl.d/1.conf", 2
    )


def test_without_systemd_the_plain_file_is_last(root: Path) -> None:
    (root / SYSTEMD).unlink()
    put(root, "etc/sysctl.d/99-z.conf", f"{FORWARD}=1")
    put(root, "etc/sysctl.conf", f"{FORWARD}=0")
    line = look(root).at_boot(FORWARD)
    assert line is not None
    assert line.where == "/etc/sysctl.conf:1"


def test_a_link_to_the_plain_file_and_one_to_nowhere(root: Path) -> None:
    put(root, "etc/sysctl.conf", f"{FORWARD}=0")
    put(root, "usr/lib/sysctl.d/50-b.conf", f"{FILTER.format('all')}=1")
    (root / "etc/sysctl.d").mkdir()
    (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    (root / "etc/sysctl.d/50-b.conf").symlink_to("/dev/null")
    (root / "etc/sysctl.d/60-gone.conf").symlink_to("/nowhere")
    assert [line.where for line in look(root).persisted] == ["/etc/sysctl.d/99-sysctl.conf:1"]


def test_dev_null_hides_a_file_on_a_live_node(root: Path) -> None:
    """There it is a device, which is read no more than any other."""
    put(root, "usr/lib/sysctl.d/50-b.conf", f"{FORWARD}=1")
    (root / "etc/sysctl.d").mkdir(parents=True)
    (root / "etc/sysctl.d/50-b.conf").symlink_to("/dev/null")
    (root / "dev/null").mkdir(parents=True)  # no file, as a device is none
    assert look(root).persisted == ()


def test_a_file_that_cannot_be_read_leaves_the_live_values(root: Path) -> None:
    (root / "etc/sysctl.d/1.conf").mkdir(parents=True)
    found = look(root)
    assert found.live[FORWARD] == 1
    with pytest.raises(CannotLook):
        found.at_boot(FORWARD)


def test_this_machines_own() -> None:
    found = sysctls.observe(Host())
    assert isinstance(found, Sysctls)
    for key in (FORWARD, "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.arp_ignore"):
        told = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, check=True).stdout
        assert found.live[key] == int(told)
