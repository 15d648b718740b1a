"""A planned reboot with a real kubelet that has shutdownGracePeriod, and a real logind that it holds up (D-Bus).

The node is the guest of tests/rigs/systemd_guest.py. Its kubelet is a unit of systemd, and its agent the shipped pod.
tests/cluster/test_shutdown.py has the agent's side of it with many ends, where the test says what a kubelet would say.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from nodeprep.agent.node_shutdown import KUBELET_SAYS
from tests.kubernetes.shipped import (
    QUICK,
    UNHEALTHY,
    Object,
    condition,
    configuration,
    overlay,
    taints,
)
from tests.kubernetes.training import announced
from tests.rigs import cluster_build, cluster_node, cluster_tools, guest_disk, systemd_guest
from tests.rigs.absent import cannot_start
from tests.rigs.cluster import Cluster
from tests.rigs.lab_qemu import Machine
from tests.rigs.lab_setup import FRONT_END
from tests.rigs.systemd_guest import SystemdGuest
from tests.rigs.waiting import until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]
NAME, NUMBER, MEMORY = "shuts-down", 201, 3072  # MiB; as tests/rigs/guest.py has it
KUBELET_PORT = 10250
LONG = 900.0  # seconds; all of it is emulated
SHORT = 20.0  # seconds; it has happened by then
SHARE = "mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose"
SET_UP = f"""\
mkdir -p /var/log/journal && journalctl --flush
mkdir -p /mnt/kube /mnt/files /mnt/node /etc/cni /opt/cni /etc/kubernetes
{SHARE} kube /mnt/kube
{SHARE} files /mnt/files
mount /dev/vdb /mnt/node
cp -r /mnt/files/etc/kubernetes/. /etc/kubernetes/
cp -r /mnt/files/etc/cni/. /etc/cni/
cp -r /mnt/files/opt/cni/. /opt/cni/
sed -i 's/^shutdownGracePeriod: .*/shutdownGracePeriod: 30s\\nshutdownGracePeriodCriticalPods: 10s/' \
    /etc/kubernetes/kubelet.yaml
systemctl stop containerd
mkdir -p /var/lib/containerd
mount --bind /mnt/node/var/lib/containerd /var/lib/containerd
cp /etc/kubernetes/containerd.toml /etc/containerd/config.toml
systemctl start containerd
ip address replace {{address}}/32 dev lo
sysctl -qw net.ipv4.conf.{FRONT_END.netdev}.proxy_arp=1
for one in $(cat /sys/fs/cgroup/cgroup.controllers); do echo +$one >/sys/fs/cgroup/cgroup.subtree_control || true; done
mkdir -p /sys/fs/cgroup/$(cat /etc/kubernetes/cgroup)
systemd-run --quiet --unit=kubelet --property=Restart=always --property=After=containerd.service \
    /mnt/kube/{{program}} kubelet $(cat /etc/kubernetes/kubelet.flags)
"""


@pytest.fixture(scope="module")
def down(image: Callable[[str], Path]) -> Iterator[tuple[Cluster, SystemdGuest]]:
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(Cluster(controllers=True))
            guest = stack.enter_context(node(cluster, [image("good")]))
        except (cluster_build.CannotStart, systemd_guest.CannotStart) as reason:
            cannot_start(reason)
        yield cluster, guest


def node(cluster: Cluster, images: list[Path]) -> SystemdGuest:
    """A node that systemd started; its kubelet is a unit, with shutdownGracePeriod."""
    disk, files = cluster.directory / f"{NAME}.disk", cluster.directory / f"guest-{NAME}"
    cluster_node.files(cluster, files, NAME, NUMBER)
    guest_disk.make(disk, (cluster_tools.tools() / "base.tar", *images))
    address = cluster_node.address(NUMBER)
    local = ("ip", "route", "add", "local", address, "dev", "lo", "src", "127.0.0.1")
    subprocess.run(cluster.inside(*local), check=True)
    forward = f"{address}:{KUBELET_PORT}-{FRONT_END.address.partition('/')[0]}:{KUBELET_PORT}"
    machine = Machine(MEMORY, disk, cluster.inside(), (forward,))
    shares = {"kube": cluster.program.parent, "files": files}
    guest = SystemdGuest.start(machine=machine, shares=shares)
    try:
        guest.shell(SET_UP.format(address=address, program=cluster.program.name), timeout=LONG)
        until(lambda: ready(cluster), f"node {NAME} Ready", LONG)
    except BaseException:
        print(guest.run(("journalctl", "-u", "kubelet", "-u", "containerd", "--no-pager", "-n", "60")).text)
        guest.stop()
        raise
    return guest


def ready(cluster: Cluster) -> bool:
    code, found = cluster.call("GET", f"/api/v1/nodes/{NAME}")
    return code == 200 and condition(found, "Ready")["status"] == "True"


def test_a_reboot_closes_the_node_before_its_kubelet_ends(down: tuple[Cluster, SystemdGuest], tmp_path: Path) -> None:
    cluster, guest = down
    cluster.apply(overlay(tmp_path / "overlay", {"config.yaml": configuration(QUICK)}))
    with announced(cluster, "/api/v1/nodes", NAME) as seen:
        asked = seen.when(is_open, "an open node", seconds=LONG)
        guest.reboot()
        told = seen.when(lambda one: KUBELET_SAYS in condition(one, "Ready")["message"], "its word", asked, SHORT)
        closed = seen.when(lambda one: condition(one)["reason"] == "NodeShutdown", "a closed Node", told, SHORT)
        print(f"from the kubelet's word to the closed Node: {closed - told:.1f} s")
    found = cluster.call("GET", f"/api/v1/nodes/{NAME}")[1]
    assert taints(found)[UNHEALTHY] == "NodeShutdown"
    assert KUBELET_SAYS in condition(found)["message"]
    assert written_at(found) <= ended_at(guest), "the kubelet waited for it"


def is_open(found: Object) -> bool:
    return condition(found)["status"] == "True" and UNHEALTHY not in taints(found)


def written_at(found: Object) -> float:
    """When the agent closed the Node, by the guest's clock, to the second."""
    return datetime.fromisoformat(condition(found)["lastTransitionTime"]).timestamp()


def ended_at(guest: SystemdGuest) -> float:
    """When systemd had stopped the kubelet of the former boot."""
    words = ("journalctl", "--boot=-1", "--unit=kubelet", "--output=json", "--no-pager")
    lines = [json.loads(line) for line in guest.run(words).text.splitlines()]
    stopped = [one for one in lines if one["_PID"] == "1" and str(one["MESSAGE"]).startswith("Stopped")]
    assert stopped, [one["MESSAGE"] for one in lines[-20:]]
    return int(stopped[-1]["__REALTIME_TIMESTAMP"]) / 1e6
