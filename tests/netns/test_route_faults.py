"""Faults of rules, routes and sysctls, made for real on a node in namespaces: the finding comes, and goes with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.netns import UNAVAILABLE, Node
from tests.rigs.netns_check import is_late, steadily
from tests.rigs.netns_node import GATEWAY, Shape, Unavailable, veth

ROOT = Path(__file__).resolve().parents[2]
POD, OTHER = "192.168.0.134", "192.168.0.135"
ACCESS = {"worker-0": POD, "worker-1": OTHER}  # what Kubernetes says of the rig's pods
NO_ACCESS: dict[str, str] = {}
BAD = ("warn", "fail", "unknown")
LOOKS = 5  # of which the shortest counts
METADATA_SECONDS = 5.0  # of a look in which metadata does not answer; 2 on an idle machine
Findings = list[dict[str, Any]]


class Judged:
    """A node, and a judge on it that looks as often as it is asked.

    `took` are the seconds of each look. The first look of a new judge takes longer.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.took = list[float]()
        self._begin()

    def _begin(self) -> None:
        self._judge = self.node.start("python", "tests/rigs/netns_judge.py")

    def findings(self, access: dict[str, str]) -> Findings:
        return steadily(lambda: self._findings(access), self._forget, lambda found: is_late({"findings": found}))

    def _forget(self) -> None:
        """Who answered too late: it is not asked again for a while."""
        self.end()
        self._begin()

    def _findings(self, access: dict[str, str]) -> Findings:
        assert self._judge.stdin is not None
        assert self._judge.stdout is not None
        begun = time.monotonic()
        self._judge.stdin.write(json.dumps(access) + "\n")
        self._judge.stdin.flush()
        found: Findings = json.loads(self._judge.stdout.readline())
        self.took.append(time.monotonic() - begun)
        return found

    def bad(self, access: dict[str, str]) -> list[str]:
        """What is wrong: "CHECK STATUS REASON", and "< ROOT" for what follows from something else."""
        return [
            f"{one['check']} {one['status']} {one['reason']}" + (f" < {one['root']}" if one["root"] else "")
            for one in self.findings(access)
            if one["status"] in BAD
        ]

    def end(self) -> None:
        self._judge.communicate()


@contextmanager
def judged(shape: Shape | None = None) -> Iterator[Judged]:
    try:
        node = Node(shape).__enter__()
    except Unavailable as error:
        cannot_start(error)
    try:
        one = Judged(node)
        yield one
        one.end()
    finally:
        node.__exit__(None, None, None)


@pytest.fixture(scope="module")
def here() -> Iterator[Judged]:
    with judged() as one:
        yield one


def test_a_node_as_it_should_be(here: Judged) -> None:
    found = {one["check"]: one["status"] for one in here.findings(ACCESS)}
    assert found.pop("sysctl.arp") == "absent"  # no Lingjun node
    assert found.pop("sysctl.forward-policy") == "absent"  # no firewall is loaded
    assert len(found) == 7
    assert set(found.values()) == {"ok"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Shell commands that make it and undo it ({table} is that of eth1), and what is wrong while it lasts."""

    name: str
    make: str
    undo: str
    says: tuple[str, ...]
    kubernetes: bool = True


MISSING = "fail RuleMissing"
FAULTS = [
    Fault(
        "rule 2048 deleted",
        f"ip rule del pref 2048 from {POD}",
        f"ip rule add pref 2048 from {POD} lookup {{table}}",
        (f"route.rules {MISSING}", "route.out fail OtherInterface < route.rules"),
    ),
    Fault(
        "rule 2048 deleted, no access to Kubernetes",
        f"ip rule del pref 2048 from {POD}",
        f"ip rule add pref 2048 from {POD} lookup {{table}}",
        ("route.out fail OtherInterface",),
        kubernetes=False,
    ),
    Fault(
        "rule 512 deleted",
        f"ip rule del pref 512 to {POD}",
        f"ip rule add pref 512 to {POD} lookup main",
        (f"route.rules {MISSING}",),
    ),
    Fault(
        "rules of a pod that is no more",
        "ip rule add pref 512 to 192.168.0.200 lookup main; ip rule add pref 2048 from 192.168.0.200 lookup {table}",
        "ip rule del pref 512 to 192.168.0.200; ip rule del pref 2048 from 192.168.0.200",
        ("route.rules warn RuleLeftOver",),
    ),
    Fault(
        "rule 2048 names an empty table",
        f"ip rule del pref 2048 from {POD}; ip rule add pref 2048 from {POD} lookup 1077",
        f"ip rule del pref 2048 from {POD}; ip rule add pref 2048 from {POD} lookup {{table}}",
        (f"route.rules {MISSING}", "route.tables fail NoInterface", "route.out fail OtherInterface < route.rules"),
    ),
    Fault(
        "the ENI's table is empty",
        "ip route del default table {table}",
        f"ip route add default via {GATEWAY} dev eth1 onlink table {{table}}",
        ("route.tables fail EmptyTable", "route.out fail OtherInterface < route.tables"),
    ),
    Fault(
        "somebody else's default route in the ENI's table",
        f"ip route replace default via {GATEWAY} dev eth0 onlink table {{table}}",
        f"ip route replace default via {GATEWAY} dev eth1 onlink table {{table}}",
        ("route.tables fail OtherInterface", "route.out fail OtherInterface < route.tables"),
    ),
    Fault(
        "a table by the ECS manual's numbers",
        f"ip route add default via {GATEWAY} dev eth0 table 1001",
        "ip route del default table 1001",
        ("route.tables warn ForeignTable",),
    ),
    Fault(
        "a rule prohibits a pod",
        f"ip rule add pref 100 from {POD} prohibit",
        "ip rule del pref 100",
        ("route.out fail Prohibited",),
    ),
    Fault(
        "a rule drops a pod",
        f"ip rule add pref 100 from {POD} blackhole",
        "ip rule del pref 100",
        ("route.out fail Blackholed",),
    ),
    Fault(
        "a rule makes the world unreachable",
        f"ip rule add pref 100 from {POD} unreachable",
        "ip rule del pref 100",
        ("route.out fail Unreachable",),
    ),
    Fault(
        "a rule refuses what comes to a pod",
        f"ip rule add pref 100 to {POD} iif eth0 prohibit",
        "ip rule del pref 100",
        ("route.reverse-path fail Prohibited",),
    ),
    Fault(
        "strict reverse-path filter",
        "sysctl -qw net.ipv4.conf.all.rp_filter=1",
        "sysctl -qw net.ipv4.conf.all.rp_filter=0",
        ("sysctl.rp-filter warn StrictFilter", "route.reverse-path fail StrictFilter"),
    ),
    Fault(
        "strict reverse-path filter on the primary ENI",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=0",
        ("sysctl.rp-filter warn StrictFilter", "route.reverse-path fail StrictFilter"),
    ),
    Fault(
        "forwarding off",
        "sysctl -qw net.ipv4.ip_forward=0",
        "sysctl -qw net.ipv4.ip_forward=1",
        ("sysctl.forward warn ForwardingOff", "route.out fail ForwardingOff"),
    ),
    Fault(
        "forwarding off for a pod",
        f"sysctl -qw net.ipv4.conf.{veth(0)}.forwarding=0",
        f"sysctl -qw net.ipv4.conf.{veth(0)}.forwarding=1",
        ("sysctl.forward warn ForwardingOffHere", "route.out fail ForwardingOff"),
    ),
    Fault(
        "settings that come with the next boot",
        "printf 'net.ipv4.ip_forward = 0\\nnet.ipv4.conf.*.rp_filter = 1\\n' > /etc/sysctl.d/10-hardening.conf",
        "rm /etc/sysctl.d/10-hardening.conf",
        ("sysctl.forward warn ForwardingOffAtBoot", "sysctl.rp-filter warn StrictFilterAtBoot"),
    ),
    Fault(
        "a firewall that drops what is forwarded",
        "python tests/rigs/netns_firewall.py legacy drop",
        "python tests/rigs/netns_firewall.py legacy accept",
        ("sysctl.forward-policy warn ForwardDropped",),
    ),
    Fault(
        "no default route",
        "ip route del default",
        f"ip route add default via {GATEWAY} dev eth0",
        ("route.default fail NoDefault",),
    ),
    Fault(
        "default route by another ENI",
        f"ip route replace default via {GATEWAY} dev eth1 onlink",
        f"ip route replace default via {GATEWAY} dev eth0",
        ("route.default fail OtherInterface",),
    ),
    Fault(
        "default route by another gateway",
        "ip route replace default via 192.168.0.1 dev eth0",
        f"ip route replace default via {GATEWAY} dev eth0",
        ("route.default fail OtherGateway",),
    ),
    Fault(
        "two default routes of the same metric",
        "ip route append default via 192.168.0.1 dev eth0",
        "ip route del default via 192.168.0.1 dev eth0",
        ("route.default fail SeveralDefaults",),
    ),
]


def shell(node: Node, script: str) -> subprocess.CompletedProcess[str]:
    return node.run("sh", "-ec", f'python() {{ {sys.executable} "$@"; }}\n{script}', check=False)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault(here: Judged, fault: Fault) -> None:
    table, access = here.node.table(1), ACCESS if fault.kubernetes else NO_ACCESS
    made = shell(here.node, fault.make.format(table=table))
    if made.returncode == UNAVAILABLE:
        cannot_start(made.stderr)
    assert made.returncode == 0, made.stderr
    try:
        assert here.bad(access) == list(fault.says)
    finally:
        shell(here.node, fault.undo.format(table=table)).check_returncode()
    assert here.bad(access) == []


def test_an_eni_is_taken_away() -> None:
    """Its table goes with it, its pods' rules stay: they leave by the primary ENI, and nothing refuses that."""
    with judged(Shape(enis=2, pods=2)) as one:
        one.node.ip("link", "del", "eth2")
        wrong = {found["check"]: found for found in one.findings(NO_ACCESS) if found["status"] in BAD}
    assert {check: found["root"] for check, found in wrong.items()} == {
        "route.tables": None,
        "route.out": "route.tables",
    }
    assert wrong["route.tables"]["subject"] == "ENI 00:16:3e:aa:bb:02"
    assert wrong["route.tables"]["reason"] == "NoInterface"


def test_all_egress_dropped(here: Judged) -> None:
    """Metadata is asked of a gateway that answers no ARP: it takes its own deadline, the rest is judged as ever."""
    looks = list[float]()
    for _ in range(LOOKS):
        looks.append(seconds_unanswered(here.node))
        if looks[-1] < METADATA_SECONDS:  # else this machine may have stood still
            break
    print(f"looks that nobody answered: {looks}")
    assert min(looks) < METADATA_SECONDS, "the metadata's deadline"
    assert here.bad(NO_ACCESS) == []


def seconds_unanswered(node: Node) -> float:
    """Of a look where nobody answers, by a judge that has looked before. It remembers that for a while."""
    one = Judged(node)
    assert one.bad(NO_ACCESS) == []
    one.took.clear()
    node.ip("address", "del", "100.100.100.200/32", "dev", "lo")
    try:
        assert one.bad(NO_ACCESS) == [
            "route.default unknown CannotLook",
            "route.tables unknown CannotLook",
            "route.out unknown CannotLook",
        ]
    finally:
        node.ip("address", "add", "100.100.100.200/32", "dev", "lo")
    one.end()
    return one.took[0]


def test_check_ends_soon_where_nobody_answers(here: Judged) -> None:
    """The program itself: its normal time and 2 seconds more, by the shortest: this machine is busier now and then."""

    def seconds() -> float:
        begun = time.monotonic()
        done = here.node.run("nodeprep", "check", check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return time.monotonic() - begun

    usual = min(seconds() for _ in range(LOOKS))
    here.node.ip("address", "del", "100.100.100.200/32", "dev", "lo")
    try:
        assert min(seconds() for _ in range(LOOKS)) < 3 * usual + 2
    finally:
        here.node.ip("address", "add", "100.100.100.200/32", "dev", "lo")


COUNT = """
import time
import nodeprep.doors.netlink.routing
from nodeprep.doors.node_host import Host
from nodeprep.facts import routes
times = []
for _ in range(5):
    begun = time.perf_counter()
    seen = routes.observe(Host(physical_kinds=frozenset({None, "tun"})))
    times.append(time.perf_counter() - begun)
print(min(times), len(seen.rules), len(seen.out), len(seen.back))
"""


def test_many_pods_are_quick() -> None:
    """60 pods on 7 ENIs and 200 rules: the fact is to take less than 60 ms where nothing else runs."""
    with judged(Shape(enis=7, pods=60, unused_rules=80)) as one:
        seconds, rules, out, back = one.node.run("python", "-c", COUNT).stdout.split()
        assert int(rules) >= 200
        assert (out, back) == ("60", "60")
        assert float(seconds) < 1
        assert one.bad(NO_ACCESS) == []


def test_nothing_is_left_behind(here: Judged) -> None:
    """Neither here nor on this machine while it stands, and no namespace after it."""
    assert here.node.run("cat", "/sys/class/dmi/id/product_name").stdout == "Alibaba Cloud ECS\n"
    mounts = Path("/proc/self/mounts").read_text()
    assert "nodeprep-netns" not in mounts
    with judged() as one:
        namespace = one.node.run("readlink", "/proc/self/ns/net").stdout.strip()
        assert namespace in namespaces()
    assert namespace not in namespaces()


def namespaces() -> set[str]:
    """Network namespaces of this machine's processes."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(OSError):
            found.add(str(process.readlink()))
    return found


PARENT = """
import time
from tests.rigs.netns import Node
with Node() as node:
    print(node.run("readlink", "/proc/self/ns/net").stdout.strip(), flush=True)
    time.sleep(600)
"""


def test_it_ends_with_its_parent() -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'agent'}:{ROOT}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    namespace = parent.stdout.readline().strip()
    assert namespace in namespaces()
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 20
    while namespace in namespaces() and time.monotonic() < until:
        time.sleep(0.05)
    assert namespace not in namespaces()
