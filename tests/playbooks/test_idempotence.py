"""Each playbook with real Ansible: `--check` reports the change and touches nothing, the run makes it, a second none.

Interfaces, MTUs, sysctls, the BPF mount and device nodes are the kernel's own. Where this machine has no such device,
the commands cross into the tree (host.py). Whether the change mends the fault on a real kernel is shown in guests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from nodeprep.config import remedy_files
from nodeprep.doors.node_host import Host
from nodeprep.facts.network import os_network, sysctls
from nodeprep.facts.network.os_network import OsNetwork
from nodeprep.facts.network.sysctls import Sysctls
from tests.playbooks.host import PLAYBOOKS, FakeHost, fake_host

VETH = "mount -t sysfs sysfs sys && ip link add v0 type veth peer name v1"
BDF = "0000:5d:00.0"
PCI = "mkdir -p sys/bus/pci/devices sys/bus/pci/drivers proc/bus/pci && echo 1 > proc/bus/pci/devices"
LIMITS = "Max locked memory         65536                65536                bytes"


class Case(NamedTuple):
    """A fault that a script makes, and a script that ends with 0 once it is mended. Some cross into the tree."""

    playbook: str
    fault: str
    mended: str
    arguments: Mapping[str, str] = {}
    crosses: bool = False


CASES = [
    Case("link_up", VETH, "ip link show v0 up | grep -q v0", {"interface": "v0"}),
    Case("eri_netdev_up", VETH, "ip link show v0 up | grep -q v0", {"interface": "v0"}),
    *(
        Case(
            name,
            VETH,
            "grep -qx 1400 sys/class/net/v0/mtu && grep -qx "
            """'SUBSYSTEM=="net", ACTION!="remove", KERNEL=="v0", ATTR{mtu}="1400"' """
            "etc/udev/rules.d/99-nodeprep-mtu.rules",
            {"interface": "v0", "mtu": "1400"},
        )
        for name in ("mtu", "eri_mtu")
    ),
    Case(
        "sysctl_terway",
        f"{VETH} && mkdir -p usr/lib/systemd etc/sysctl.d && : > usr/lib/systemd/systemd-sysctl && cd etc/sysctl.d && "
        "echo net.ipv4.conf.v0.rp_filter=1 > 50-site.conf && echo net.ipv4.conf.all.rp_filter=1 > 99-sysctl.conf && "
        "for one in all default v0 v1; do echo 1 > /proc/sys/net/ipv4/conf/$one/rp_filter; done",
        "! grep -v 0 /proc/sys/net/ipv4/conf/*/rp_filter",
        {"key": "net.ipv4.conf.v0.rp_filter", "value": "0"},
    ),
    Case(
        "sysctl_lingjun",
        "echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce",
        "grep -qx 0 /proc/sys/net/ipv4/conf/all/arp_announce && grep -qx 'net.ipv4.conf.all.arp_announce = 0' "
        "etc/sysctl.d/zz-nodeprep-lingjun.conf",
        {"key": "net.ipv4.conf.all.arp_announce", "value": "0"},
    ),
    Case(
        "mount_bpffs",
        "while umount /sys/fs/bpf 2>/dev/null; do :; done",
        "grep -q ' /sys/fs/bpf bpf ' /proc/self/mounts",
    ),
    Case(
        "terway_dirs",
        "mkdir -p var/lib/cni/terway && chmod 0711 var/lib/cni/terway",  # one that is there stays as it is
        "[ $(stat -c %a run/eni) = 700 ] && [ $(stat -c %a var/lib/cni/terway) = 711 ] && "
        "grep -qx 'd /run/eni 0700 root root -' etc/tmpfiles.d/nodeprep-terway.conf",
    ),
    Case(
        "os_unmanage_eni",
        "mkdir -p etc/NetworkManager/conf.d etc/systemd/network etc/systemd/system/multi-user.target.wants etc/cloud "
        "run/NetworkManager run/systemd/netif/links run/cloud-init var/lib/cloud/instance lib/udev/rules.d && "
        "printf '[Match]\\nName=e*\\n[Network]\\nDHCP=yes\\n' > etc/systemd/network/05-all.network && "
        "echo 'datasource_list: [ AliYun ]' > etc/cloud/cloud.cfg && touch lib/udev/rules.d/60-net.rules && "
        "ln -s /nowhere/eni.service etc/systemd/system/multi-user.target.wants/eni.service",
        "[ -f etc/cloud/cloud.cfg.d/zz-nodeprep.cfg ]",
        {"interface": "eth1"},
    ),
    Case(
        "rdma_device_nodes",
        "for one in 0 1 2; do mkdir -p sys/class/infiniband_verbs/uverbs$one dev/infiniband && "
        "echo 231:19$one > sys/class/infiniband_verbs/uverbs$one/dev; done; "
        "mkdir -p sys/class/infiniband_mad/umad0 sys/class/misc/rdma_cm && echo 231:0 > "
        "sys/class/infiniband_mad/umad0/dev && echo 10:58 > sys/class/misc/rdma_cm/dev && "
        "mknod -m 0666 dev/infiniband/uverbs0 c 231 190 && mknod -m 0666 dev/infiniband/uverbs1 c 231 7 && "
        "mknod -m 0600 dev/infiniband/rdma_cm c 10 58",
        "[ \"$(stat -c '%n %t:%T %a' dev/infiniband/* | tr '\\n' ,)\" = 'dev/infiniband/rdma_cm a:3a 666,"
        "dev/infiniband/umad0 e7:0 600,dev/infiniband/uverbs0 e7:be 666,dev/infiniband/uverbs1 e7:bf 666,"
        "dev/infiniband/uverbs2 e7:c0 666,' ]",
        crosses=True,
    ),
    Case(
        "kernel_modules",
        "mkdir -p etc/modules-load.d && echo ib_umad > etc/modules-load.d/nodeprep.conf",
        "[ -d sys/module/mlx5_ib ] && [ \"$(tr '\\n' , < etc/modules-load.d/nodeprep.conf)\" = ib_umad,mlx5_ib, ]",
        {"module": "mlx5_ib"},
        crosses=True,
    ),
    Case(
        "peermem_load",
        "true",
        "[ -d sys/module/nvidia_peermem ] && grep -qx nvidia_peermem etc/modules-load.d/nodeprep.conf",
        crosses=True,
    ),
    Case(
        "erdma_load",  # loaded, and without an RDMA device
        f"{PCI} && mkdir -p sys/module/erdma sys/bus/pci/drivers/erdma/{BDF}",
        f"[ -d sys/module/erdma ] && [ -d sys/bus/pci/drivers/erdma/{BDF}/infiniband ] && "
        "grep -qx erdma etc/modules-load.d/nodeprep.conf",
        crosses=True,
    ),
    Case(
        "driver_bind",
        f"{PCI} && mkdir sys/bus/pci/drivers/mlx5_core sys/bus/pci/devices/{BDF}",
        f"[ $(readlink sys/bus/pci/devices/{BDF}/driver) = /sys/bus/pci/drivers/mlx5_core ]",
        {"bdf": BDF, "driver": "mlx5_core"},
        crosses=True,
    ),
    Case(
        "pci_rescan",
        f"{PCI} && : > sys/bus/pci/rescan",
        f"[ -d sys/bus/pci/devices/{BDF} ]",
        crosses=True,
    ),
    Case(
        "rdma_link_add",
        "mkdir -p etc/systemd/system",
        "[ -d sys/class/infiniband/rxe0 ] && cd etc/systemd/system && grep -qx 'ExecStart=/usr/bin/env rdma link add "
        "rxe0 type rxe netdev rail-0' sys-subsystem-net-devices-rail*0.device.wants/nodeprep-rdma-rxe0.service",
        {"name": "rxe0", "type": "rxe", "netdev": "rail-0"},
        crosses=True,
    ),
    Case(
        "memlock",
        f"mkdir -p proc/4711 && echo '{LIMITS}' > proc/4711/limits",
        "grep -q '^Max locked memory *unlimited' proc/4711/limits",
        {"unit": "containerd"},
        crosses=True,
    ),
]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    with fake_host(tmp_path) as made:
        yield made


def test_each_playbook_has_a_case() -> None:
    assert sorted(case.playbook for case in CASES) == sorted(path.stem for path in PLAYBOOKS.glob("*.yml"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.playbook)
def test_a_playbook_changes_what_it_says_and_only_once(case: Case, host: FakeHost) -> None:
    on_host = host.crossing if case.crosses else []
    host.do(case.fault)
    assert not host.holds(case.mended)
    before = host.state()

    told = host.play(case.playbook, case.arguments, on_host, check=True)
    assert (told.failed, told.changed > 0) == (0, True), told.output
    assert host.state() == before

    done = host.play(case.playbook, case.arguments, on_host)
    assert (done.failed, done.changed > 0) == (0, True), done.output
    assert host.holds(case.mended), done.output
    after = host.state()

    again = host.play(case.playbook, case.arguments, on_host)
    assert (again.failed, again.changed) == (0, 0), again.output
    assert host.state() == after
    wins(case.playbook, host.tree)


def wins(playbook: str, tree: Path) -> None:
    """What was written is what counts at the next boot, by the facts that the checks judge."""
    node = Host(str(tree), live=False)
    if playbook == "os_unmanage_eni":
        seen = os_network.observe(node)
        assert isinstance(seen, OsNetwork)
        assert seen.claims == ()
    if playbook == "sysctl_terway":
        boot = Sysctls(0.0, {}, tuple(line for path in files(tree) for line in sysctls.lines_of(*path)))
        keys = [f"net.ipv4.conf.{link}.rp_filter" for link in ("all", "default", "v0", "v1")]
        assert [line and line.value for line in map(boot.at_boot, keys)] == ["0"] * 4


def files(tree: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((tree / "etc/sysctl.d").iterdir(), key=lambda one: one.name):
        yield str(path), path.read_text()


@pytest.mark.timeout(900)
def test_a_second_interface_does_not_take_the_name_of_the_first_away(host: FakeHost) -> None:
    host.do("mkdir -p etc/NetworkManager etc/systemd")
    changed = [host.play("os_unmanage_eni", {"interface": one}, []).changed for one in ("ens5", "ens6", "ens5")]
    assert changed[0] > 0
    assert changed[1] > 0
    assert changed[2] == 0
    names = (host.tree / "etc/NetworkManager/conf.d").glob("zz-nodeprep-*.conf")
    assert sorted(one.name for one in names) == ["zz-nodeprep-ens5.conf", "zz-nodeprep-ens6.conf"]


REFUSED = [
    ("link_up", {"interface": "../lo"}),
    ("kernel_modules", {"module": "a -r"}),
    ("memlock", {"unit": "docker"}),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("playbook", "arguments"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_playbook_refuses_nonsense_itself(playbook: str, arguments: Mapping[str, str], host: FakeHost) -> None:
    host.do(
        f"mkdir -p proc/4711 etc/docker && echo '{LIMITS}' > proc/4711/limits && echo '{{}}' > etc/docker/daemon.json"
    )
    before = host.state()
    done = host.play(playbook, arguments, host.crossing)
    assert (done.failed, done.changed) == (1, 0), done.output
    assert host.state() == before


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["control-group", "mixed", ""])
def test_a_runtime_whose_restart_ends_containers_is_not_restarted(mode: str, host: FakeHost) -> None:
    """containerd's own unit has KillMode=process. systemd's default ends all shims, and each container."""
    host.do(f"mkdir -p proc/4711 && echo '{LIMITS}' > proc/4711/limits && echo KillMode={mode} > kills")
    before = host.state()
    done = host.play("memlock", {"unit": "containerd"}, host.crossing)
    assert (done.failed, done.changed) == (1, 0), done.output
    assert host.state() == before
    assert host.play("memlock", {"unit": "kubelet"}, host.crossing).failed == 0


# Words before a command that do something when `tee` is about to write.
BEFORE_TEE = """#!/bin/sh
[ "$1" != tee ] || {{ {script}; }}
exec "$@"
"""
MEANWHILE = [
    # what happens meanwhile                                       fails
    ("ip link del v0", False),  # a pod ends
    ("echo 'tee: /proc/sys/net: Permission denied' >&2; exit 1", True),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("script", "fails"), MEANWHILE)
def test_an_interface_may_go_while_settings_are_written(script: str, fails: bool, host: FakeHost) -> None:
    host.do(f"{VETH} && ip link add w0 type veth peer name w1")
    host.do("for one in all default v0 v1 w0 w1; do echo 1 > /proc/sys/net/ipv4/conf/$one/rp_filter; done")
    before_tee = host.tree / "before_tee"
    before_tee.write_text(BEFORE_TEE.format(script=script))
    before_tee.chmod(0o755)
    done = host.play("sysctl_terway", {"key": "net.ipv4.conf.all.rp_filter", "value": "0"}, [str(before_tee)])
    assert done.failed == fails, done.output
    assert host.holds("! grep -v 0 /proc/sys/net/ipv4/conf/*/rp_filter") is not fails
    assert host.holds("ip link show v0") is fails


NIC = (
    f"{VETH} && mkdir -p functions/{BDF} net/v0 net/v1 && umount sys && mkdir -p sys/class && ln -s ../../net "
    f"sys/class/net && for one in v0 v1; do ln -s ../../functions/{BDF} net/$one/device && echo ${{one#v}} > "
    "net/$one/dev_port && echo 1500 > net/$one/mtu; done"
)
RULES, LINGJUN, TERWAY = (
    "etc/udev/rules.d/99-nodeprep-mtu.rules",
    "etc/sysctl.d/zz-nodeprep-lingjun.conf",
    "etc/sysctl.d/zz-nodeprep-terway.conf",
)


class Pair(NamedTuple):
    """A playbook, what was there before it, two arguments, and the file in which both are written."""

    playbook: str
    before: str
    first: Mapping[str, str]
    second: Mapping[str, str]
    file: str


PAIRS = [
    Pair("mtu", VETH, {"interface": "v0", "mtu": "1400"}, {"interface": "v1", "mtu": "1300"}, RULES),
    # Two ports of one function, told apart by their numbers.
    Pair("eri_mtu", NIC, {"interface": "v0", "mtu": "1400"}, {"interface": "v1", "mtu": "1300"}, RULES),
    Pair(
        "sysctl_lingjun",
        "echo 2 > /proc/sys/net/ipv4/conf/all/arp_announce; echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore",
        {"key": "net.ipv4.conf.all.arp_announce", "value": "0"},
        {"key": "net.ipv4.conf.all.arp_ignore", "value": "0"},
        LINGJUN,
    ),
    Pair(
        "sysctl_terway",
        VETH,
        {"key": "net.ipv4.conf.v0.rp_filter", "value": "0"},
        {"key": "net.ipv4.conf.all.rp_filter", "value": "0"},
        TERWAY,
    ),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda one: one.playbook)
def test_an_undo_takes_back_what_its_argument_brought_and_no_more(pair: Pair, host: FakeHost) -> None:
    host.do(pair.before)
    states = [settings_of(host)]
    for arguments in (pair.first, pair.second):
        done = host.play(pair.playbook, arguments, [])
        assert (done.failed, done.changed > 0) == (0, True), done.output
        states.append(settings_of(host))
    bare, one, both = (of_the_file(state, pair) for state in states)
    assert len({bare[pair.file], one[pair.file], both[pair.file]}) == 3
    undo(host, pair.playbook, pair.second)
    assert of_the_file(settings_of(host), pair) == one
    undo(host, pair.playbook, pair.second)  # it may be asked for again
    assert of_the_file(settings_of(host), pair) == one
    undo(host, pair.playbook, pair.first)
    assert of_the_file(settings_of(host), pair) == bare
    assert not (host.tree / pair.file).exists()


def of_the_file(state: Mapping[str, str], pair: Pair) -> dict[str, str]:
    """A state without what no undo takes back: the values of now that sysctl_terway set."""
    kept = (pair.file,) if pair.playbook == "sysctl_terway" else (pair.file, "now")
    return {key: state.get(key, "") for key in kept}


def undo(host: FakeHost, playbook: str, arguments: Mapping[str, str]) -> None:
    """The header's own commands, with the arguments in their braces, on the tree's files."""
    for command in remedy_files.headers()[playbook].undo:
        text = re.sub(r"\{(\w+)\}", lambda brace: arguments[brace[1]], command)
        host.do(re.sub(r"(?<![\w.])/(etc|sys)/", rf"{host.tree}/\1/", text))


def settings_of(host: FakeHost) -> dict[str, str]:
    """Files of the tree below etc by their text, MTUs, and settings."""
    paths = (path for path in (host.tree / "etc").rglob("*.*") if path.is_file())
    links = "ip -o link | sed 's/.*: \\(v[01]\\)@.* mtu \\([0-9]*\\) .*/\\1 \\2/;t;d'"
    now = host.do(f"{links}; grep -H '' /proc/sys/net/ipv4/conf/all/arp_*")
    return {"now": now, **{str(path.relative_to(host.tree)): path.read_text() for path in paths}}
