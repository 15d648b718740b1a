"""sysctl.arp: on Lingjun nodes only."""

from __future__ import annotations

import pytest

from nodeprep.checks.sysctl.arp import CHECK, Want
from nodeprep.facts.alibaba.lingjun import Lingjun, VfTopology
from nodeprep.facts.network.sysctls import Sysctls
from tests.cluster_values import cluster, node_object
from tests.cni_values import terway
from tests.route_values import persisted, sysctls
from tests.values import say, verdicts

ANNOUNCE, IGNORE = "net.ipv4.conf.all.arp_announce", "net.ipv4.conf.all.arp_ignore"
REMEDY = "sysctl_lingjun(key={}, value=0)"
TOPOLOGY = Lingjun(0.0, (VfTopology("/var/rdma/eni_topo", ()),))
NO_TOPOLOGY = Lingjun(0.0, ())
LABELLED = cluster(node=node_object(labels={"alibabacloud.com/lingjun-worker": "true"}))

ROWS: list[tuple[Sysctls, str]] = [
    (sysctls(), "ok Arp"),
    (sysctls({ANNOUNCE: 2}), f"fail ArpRestricted {REMEDY.format(ANNOUNCE)}"),
    (sysctls({IGNORE: 1}), f"fail ArpRestricted {REMEDY.format(IGNORE)}"),
    (sysctls(persisted=(persisted(key=IGNORE, value="0"),)), "ok Arp"),
    (sysctls(persisted=(persisted(key=IGNORE, value="1"),)), f"warn ArpRestrictedAtBoot {REMEDY.format(IGNORE)}"),
    (sysctls(persisted=(persisted(key="net.ipv4.conf.*.arp_announce", value="2"),)),
     f"warn ArpRestrictedAtBoot {REMEDY.format(ANNOUNCE)}"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "says"), ROWS)
def test_says(seen: Sysctls, says: str) -> None:
    assert say(CHECK, seen, TOPOLOGY) == says


NODES: list[tuple[tuple[object, ...], Want, str]] = [
    ((TOPOLOGY,), Want(), "fail"),
    ((NO_TOPOLOGY, terway(), LABELLED), Want(), "fail"),
    ((terway(), LABELLED), Want(), "fail"),
    ((NO_TOPOLOGY, terway(), cluster()), Want(), "absent"),
    ((NO_TOPOLOGY, terway()), Want(), "absent"),
    ((NO_TOPOLOGY, terway(present=False), LABELLED), Want(), "absent"),  # nobody else need answer for Kubernetes
    ((), Want(), "absent"),
    ((NO_TOPOLOGY, terway(), cluster()), Want(always=True), "fail"),
    ((), Want(always=True), "fail"),
]


@pytest.mark.parametrize(("others", "want", "status"), NODES)
def test_only_on_lingjun(others: tuple[object, ...], want: Want, status: str) -> None:
    assert say(CHECK, sysctls({IGNORE: 1}), *others, want=want).split()[0] == status


def test_messages() -> None:
    (now,) = verdicts(CHECK, sysctls({IGNORE: 1}), TOPOLOGY)
    assert now.message == (
        "net.ipv4.conf.all.arp_ignore is 1; Terway wants 0 on Lingjun nodes: sysctl -w net.ipv4.conf.all.arp_ignore=0"
    )
    (later,) = verdicts(CHECK, sysctls(persisted=(persisted(key=IGNORE, value="1"),)), TOPOLOGY)
    assert later.message == (
        "/usr/lib/sysctl.d/50-default.conf:12 sets net.ipv4.conf.all.arp_ignore = 1 at the next boot; Terway wants 0, "
        "as it is now"
    )
