"""Recordings of nodes with a fault that no file tree can hold: what the kernel, the cloud or Kubernetes answered.

    python tests/rigs/recordings.py list
    python tests/rigs/recordings.py write eni-up FILE       # then: nodeprep check --snapshot FILE

Real here: nothing. The facts of each are those of a good node with one thing changed, by the builders that the tests of
checks use. What comes of them is real: `nodeprep check --snapshot` reads and judges the file.
"""

from __future__ import annotations

import errno
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from nodeprep import facts, snapshot
from nodeprep.config import profile_files
from nodeprep.door_values import Chain
from nodeprep.doors.node_host import Host
from nodeprep.facts.alibaba.terway import UnixSocket
from nodeprep.facts.kubernetes.cluster import Cluster, Owner
from nodeprep.facts.kubernetes.container_runtime import RuntimeCondition
from nodeprep.facts.kubernetes.kubelet import Healthz
from nodeprep.facts.machine.kernel_log import KernelLog, KernelLogLine
from nodeprep.facts.machine.pci import Aer, Bridge, Pci
from nodeprep.facts.network.cni import CniFile
from nodeprep.facts.network.links import Links
from nodeprep.facts.network.neighbours import Neighbour, Neighbours
from nodeprep.facts.network.netfilter import Netfilter
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.facts.rdma.rdma_netlink import NetlinkPort, RdmaNetlink
from nodeprep.model import Unreadable, Why
from nodeprep.observer import Observer
from nodeprep.snapshot import RecordedLook, Snapshot
from tests import cluster_values, cni_values, eni_values, erdma_values, imds_values, kubelet_values, route_values
from tests.gpu_values import bus
from tests.rigs import trees
from tests.values import changed

RAIL, NETDEV, AT = "mlx5_4", "eth2", "0000:4c:00.0"  # a rail of the tree h100-roce
GPU_AT = "0000:3d:00.0"  # a GPU of the tree hgx-h100
REDIRECT = 0x4 | 0x8  # PCI_ACS_RR, PCI_ACS_CR
GPU = kubelet_values.GPU
EXCLUSIVE = "k8s.aliyun.com/exclusive-mode-eni-type"
LINGJUN = "alibabacloud.com/lingjun-worker"
SERVES = ("/var/lib/kubelet/device-plugins",)


@dataclass(frozen=True, slots=True)
class Recording:
    """What was seen, the facts of the look before for rates, and the name of a built-in profile with its changes."""

    about: str
    now: tuple[object, ...]
    before: tuple[object, ...] = ()
    profile: str = "base"
    want: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 10.0


@cache
def of_tree(name: str) -> Mapping[type, object]:
    """The facts of a described node."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-recordings-") as scratch:
        look = Observer(Host(str(trees.build(name, Path(scratch) / "node")), live=False)).look(facts.ALL)
    return {kind: fact for kind, fact in look.facts.items() if not isinstance(fact, Unreadable)}


def beside(name: str, *more: object) -> tuple[object, ...]:
    """The facts of a described node with these in the place of its own."""
    return tuple({**of_tree(name), **{type(one): one for one in more}}.values())


def rails(*more: object) -> tuple[object, ...]:
    return beside("h100-roce", *more)


def counters(**events: int) -> Counters:
    return Counters(0.0, (PortCounters(RAIL, 1, AT, tuple(sorted(events.items())), ()),))


def grown(**events: int) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Two looks between which these counters of a rail grew by so much."""
    return rails(counters(**events)), rails(counters(**dict.fromkeys(events, 0)))


def bus_with(address: str, **different: Any) -> tuple[object, ...]:
    """The node hgx-h100 with one other function."""
    pci = of_tree("hgx-h100")[Pci]
    assert isinstance(pci, Pci)
    devices = tuple(changed(one, **different) if one.address == address else one for one in pci.devices)
    return beside("hgx-h100", changed(pci, devices=devices))


def redirecting() -> tuple[object, ...]:
    """The bridges above a GPU redirect what its NIC sends to it."""
    pci = of_tree("hgx-h100")[Pci]
    assert isinstance(pci, Pci)
    above = next(one.bridges for one in pci.devices if one.address == GPU_AT)
    bridges = tuple(Bridge(one, REDIRECT) for one in above)
    return beside("hgx-h100", changed(pci, bridges=bridges))


def log(*texts: str) -> KernelLog:
    lines = (KernelLogLine(number, 4711.0 + number, 3, True, text) for number, text in enumerate(texts))
    return KernelLog(0.0, tuple(lines))


def netlink(**different: Any) -> RdmaNetlink:
    usual: dict[str, Any] = {
        "at": 0.0,
        "offered": True,
        "devices": (),
        "protocols": (),
        "guids": (),
        "ports": (),
        "contexts": (),
        "holders": (),
        "netns_mode": "shared",
        "denied": (),
    }
    return RdmaNetlink(**(usual | different))


def index_of(netdev: str) -> int:
    links = of_tree("h100-roce")[Links]
    assert isinstance(links, Links)
    found = links.named(netdev)
    assert found is not None
    assert found.index is not None
    return found.index


def flapped(downs: int) -> tuple[object, ...]:
    links = of_tree("h100-roce")[Links]
    assert isinstance(links, Links)
    told = tuple(changed(one, downs=downs) if one.name == NETDEV else one for one in links.links)
    return rails(changed(links, links=told))


def disagreeing() -> tuple[object, ...]:
    """netlink says of one rail that it is down."""
    rdma = of_tree("h100-roce")[Rdma]
    assert isinstance(rdma, Rdma)
    said = tuple(
        NetlinkPort(one.device, one.number, 1 if one.device == RAIL else 4, 5, one.netdev) for one in rdma.ports
    )
    return rails(netlink(devices=tuple(one.name for one in rdma.devices), ports=said))


def ecs(*links: object, **terway: Any) -> tuple[object, ...]:
    """An ECS instance with two ENIs and Terway."""
    return imds_values.imds(), *(links or (eni_values.kernel(),)), cni_values.terway(**terway)


def shared(*more: object) -> tuple[object, ...]:
    return (*ecs(), route_values.routes(), *more)


def of_node(**different: Any) -> Cluster:
    return cluster_values.cluster(node=cluster_values.node_object(**different))


def plugin_pod(**different: Any) -> Any:
    usual: dict[str, Any] = {"namespace": "kube-system", "name": "nvidia-device-plugin-x7k2p", "writes": SERVES}
    return cluster_values.pod(**(usual | different))


def gpus(count: int, capacity: Mapping[str, str], *more: object) -> tuple[object, ...]:
    """A node whose kubelet knows so many GPUs and whose Node says so many."""
    ids = {GPU: [f"GPU-{number}" for number in range(count)]} if count else {}
    told = cluster_values.advertising(capacity, None, pods=(plugin_pod(),))
    here = kubelet_values.kubelet(pods=()), kubelet_values.allocatable(ids)
    return (*here, told, bus(8), Rdma(0.0, (), ()), *more)


ERI = imds_values.interface(
    mac=eni_values.ERI_MAC, eni="eni-eri", primary_address="192.168.0.140", addresses=("192.168.0.140",)
)
OFF: dict[str, Any] = {"operstate": "down", "up": False, "carrier": False}
DEAD_ADDRESS = cluster_values.eni_address(address="192.168.0.199", pod="default/b")
SILENT = Unreadable(Why.TIMEOUT, "http://100.100.100.200/latest/api/token", detail="no connection in 1.0 s")
INIT = cluster_values.container(
    name="terway-init",
    init=True,
    ready=False,
    restarts=4,
    state="waiting: CrashLoopBackOff",
    message="unsupport kernel version, require >=5.10",
)

RECORDINGS: Mapping[str, Callable[[], Recording]] = {
    "pci-aer": lambda: Recording(
        "a GPU reported a fatal error between two looks",
        bus_with(GPU_AT, aer=Aer(correctable=12, nonfatal=0, fatal=1)),
        bus_with(GPU_AT, aer=Aer(correctable=12, nonfatal=0, fatal=0)),
    ),
    "pci-acs-iommu": lambda: Recording("the BIOS switched ACS on above a GPU and its NIC", redirecting()),
    "rdma-netns-mode": lambda: Recording(
        "the kernel shares RDMA devices, and the profile wants them exclusive",
        rails(netlink()),
        want={"rdma.netns-mode": {"mode": "exclusive"}},
    ),
    "rdma-sources-agree": lambda: Recording(
        "netlink calls a rail down that sysfs calls ACTIVE, in two looks", disagreeing(), disagreeing()
    ),
    "port-neighbour": lambda: Recording(
        "one rail hears nobody, and another does",
        rails(
            Neighbours(
                0.0,
                (
                    Neighbour(index_of(NETDEV), "10.99.0.1", "FAILED"),
                    Neighbour(index_of("eth3"), "10.99.1.1", "REACHABLE"),
                ),
            )
        ),
        profile="rdma-roce",
    ),
    "port-flap": lambda: Recording(
        "a rail lost its carrier three times between two looks", flapped(7), flapped(4), "rdma-roce"
    ),
    "counter-physical": lambda: Recording(
        "a rail counted 400 symbol errors between two looks", *grown(symbol_error=400), profile="rdma-roce"
    ),
    "counter-transport": lambda: Recording(
        "a rail's queue pairs got 20,000 packets out of order", *grown(out_of_sequence=20_000), profile="rdma-roce"
    ),
    "counter-stalled": lambda: Recording(
        "a process uses a rail on which nothing moves but retries",
        rails(
            counters(port_xmit_packets=7, port_rcv_packets=7, local_ack_timeout_err=9), netlink(contexts=((RAIL, 1),))
        ),
        rails(
            counters(port_xmit_packets=7, port_rcv_packets=7, local_ack_timeout_err=0), netlink(contexts=((RAIL, 1),))
        ),
        seconds=60.0,
    ),
    "klog-nic": lambda: Recording(
        "the driver gave a rail's NIC up",
        rails(
            log(
                f"mlx5_core {AT}: poll_health:825: device's health compromised - reached miss count",
                f"mlx5_core {AT}: print_health_info:437: synd 0x8: unrecoverable hardware error",
            )
        ),
    ),
    "klog-nic-module": lambda: Recording(
        "the optical module of a rail is too hot",
        rails(log(f"mlx5_core {AT}: Port module event[error]: module 0, Cable error, High Temperature")),
    ),
    "klog-xid": lambda: Recording(
        "a GPU fell off the bus",
        beside("hgx-h100", log("NVRM: Xid (PCI:0000:3d:00): 79, pid=1234, name=python, GPU has fallen off the bus.")),
    ),
    "imds-reachable": lambda: Recording(
        "the metadata service does not answer", (imds_values.imds(SILENT, milliseconds=None),)
    ),
    "imds-identity": lambda: Recording(
        "the Node is of another instance than this machine",
        (imds_values.imds(), of_node(provider_id="cn-hangzhou.i-bp1other")),
    ),
    "eni-primary-name": lambda: Recording(
        "the primary ENI is called eth2 after a reboot",
        ecs(eni_values.kernel(eni_values.eth0(name="eth2"), eni_values.eth1())),
    ),
    "eni-missing-link": lambda: Recording(
        "the second ENI has no link in the kernel", ecs(eni_values.kernel(eni_values.eth0()))
    ),
    "eni-ghost-link": lambda: Recording(
        "the kernel has an ENI that was detached in the cloud",
        ecs(eni_values.kernel(eni_values.eth0(), eni_values.eth1(), eni_values.eth2())),
    ),
    "eni-up": lambda: Recording(
        "somebody set the second ENI down",
        (*ecs(eni_values.kernel(eni_values.eth0(), eni_values.eth1(**OFF))), route_values.routes()),
    ),
    "eni-addresses": lambda: Recording(
        "Terway's record has an address that the cloud took back",
        (
            *ecs(),
            eni_values.recorded(
                eni_values.known(addresses=(*eni_values.known().addresses, DEAD_ADDRESS)),
            ),
        ),
    ),
    "eni-record": lambda: Recording(
        "the cloud has no addresses left for an ENI",
        (*ecs(), eni_values.recorded(eni_values.known(troubles=("InsufficientIP: vsw-1 ip is not enough",)))),
    ),
    "eni-foreign-address": lambda: Recording(
        "a DHCP client took the second ENI",
        ecs(eni_values.kernel(addresses=(eni_values.address(address="192.168.0.130", prefix=24, dynamic=True),))),
    ),
    "eni-eri-address": lambda: Recording(
        "Terway took an Elastic RDMA interface for pods",
        (
            imds_values.imds(imds_values.instance(imds_values.interface(), imds_values.shared(), ERI)),
            eni_values.kernel(
                eni_values.eth0(), eni_values.eth1(), eni_values.eth2(), addresses=(eni_values.address(netdev="eth2"),)
            ),
            Rdma(0.0, (eni_values.erdma(),), ()),
        ),
    ),
    "eni-mtu": lambda: Recording(
        "pods get 8500 and the second ENI takes 1500",
        (
            *ecs(eni_values.kernel(eni_values.eth0(mtu=8500), eni_values.eth1(mtu=1500))),
            cni_values.cni(CniFile("10-terway.conflist", cni_values.network(cni_values.plugin("terway", mtu=8500)))),
        ),
    ),
    "eni-free": lambda: Recording(
        "old pods hold all seven ENIs that the instance can give away",
        (
            imds_values.imds(),
            eni_values.recorded(
                node=cluster_values.node_object(labels={EXCLUSIVE: "eniOnly"}),
                pod_enis=tuple(cluster_values.pod_eni(mac=f"00:16:3e:00:01:{number:02x}") for number in range(7)),
            ),
        ),
    ),
    "eni-trunk": lambda: Recording(
        "the trunk ENI that the Node names is not attached any more",
        (
            *ecs(),
            eni_values.recorded(
                eni_values.known(id="eni-far", type="Trunk"),
                node=cluster_values.node_object(annotations={"k8s.aliyun.com/trunk-on": "eni-far"}),
            ),
        ),
    ),
    "erdma-cr": lambda: Recording(
        "the cloud refused an Elastic RDMA interface",
        (
            cluster_values.cluster(
                erdma=cluster_values.erdma_record(
                    cluster_values.erdma_device(status="Failed", message="EriQuotaExceeded")
                )
            ),
            erdma_values.erdma(),
            Rdma(0.0, (erdma_values.erdma_0(),), ()),
        ),
    ),
    "erdma-agent": lambda: Recording(
        "the controller has a record of this node, and its agent is not here",
        (cluster_values.cluster(pods=(), erdma=cluster_values.erdma_record()), erdma_values.erdma()),
    ),
    "lingjun-zone": lambda: Recording(
        "Terway has no vSwitch in the zone of a Lingjun node",
        (
            of_node(labels={LINGJUN: "true", "topology.kubernetes.io/zone": "cn-wulanchabu-b"}),
            cni_values.terway(),
        ),
    ),
    "terway-config": lambda: Recording(
        "somebody wrote a pool that cannot be",
        (cni_values.terway(), cluster_values.cluster(eni_config=cluster_values.eni_config(min_pool_size=6))),
    ),
    "terway-mode": lambda: Recording(
        "somebody changed the label of a running node",
        (
            cni_values.terway(capabilities={"cni_exclusive_eni": "default"}),
            of_node(labels={EXCLUSIVE: "eniOnly"}),
        ),
    ),
    "terway-pod": lambda: Recording(
        "Terway's init container refuses the kernel",
        (
            cni_values.terway(),
            cluster_values.cluster(pods=(cluster_values.terway_pod(ready=False, containers=(INIT,)),)),
        ),
    ),
    "terway-socket": lambda: Recording(
        "Terway's daemon died and left its socket",
        (cni_values.terway(daemon=UnixSocket(cni_values.DAEMON, errno.ECONNREFUSED)),),
    ),
    "terway-policy-port": lambda: Recording(
        "the container policy does not run",
        (cni_values.terway(policy=UnixSocket(cni_values.POLICY, errno.ECONNREFUSED)),),
    ),
    "terway-ip-sufficient": lambda: Recording(
        "the vSwitch has no addresses left",
        (
            cni_values.terway(),
            of_node(
                conditions=(
                    cluster_values.condition(
                        status="False", reason="InsufficientIP", message="node has insufficient IP"
                    ),
                )
            ),
        ),
    ),
    "terway-veth": lambda: Recording(
        "a running pod has no veth",
        (cni_values.terway(), cluster_values.cluster(), eni_values.kernel()),
    ),
    "cni-rdma-netns": lambda: Recording(
        "a chain moves RDMA devices into pods, and the kernel shares them",
        (cni_values.cni(cni_values.cni_file("10-sriov.conflist", "sriov", "rdma")), netlink()),
    ),
    "kubelet-health": lambda: Recording(
        "the kubelet's loop does not turn", (kubelet_values.kubelet(healthz=Healthz(500, ("syncloop",))),)
    ),
    "kubelet-runtime": lambda: Recording(
        "containerd has no network configuration",
        (
            kubelet_values.kubelet(),
            kubelet_values.runtime(
                RuntimeCondition("RuntimeReady", True, "", ""),
                RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "cni plugin not initialized"),
            ),
        ),
    ),
    "plugin-kubelet-socket": lambda: Recording(
        "somebody removed the kubelet's socket", (kubelet_values.plugins(sockets=()), kubelet_values.kubelet())
    ),
    "plugin-registered": lambda: Recording("the GPU plugin died", gpus(0, {GPU: "0"}), expect={"resources": {GPU: 8}}),
    "plugin-allocatable": lambda: Recording(
        "the plugin found seven of eight GPUs", gpus(7, {GPU: "7"}), expect={"resources": {GPU: 8}}
    ),
    "plugin-sockets": lambda: Recording(
        "the GPU plugin was killed",
        gpus(0, {GPU: "0"}, kubelet_values.plugins(kubelet_values.socket("nvidia-gpu.sock", errno.ECONNREFUSED))),
        expect={"resources": {GPU: 8}},
    ),
    "plugin-tolerates-gate": lambda: Recording(
        "the shared RDMA plugin as its own manifest ships it",
        (
            cluster_values.cluster(
                pods=(
                    plugin_pod(
                        name="rdma-shared-dp-ds-x7k2p",
                        host_network=True,
                        owner=Owner("apps/v1", "DaemonSet", "rdma-shared-dp-ds"),
                    ),
                )
            ),
        ),
    ),
    "route-default": lambda: Recording(
        "a DHCP client gave the second ENI a default route",
        (*ecs(), route_values.routes(routes=(route_values.route(), route_values.route(oif="eth1")), out=(), back=())),
    ),
    "route-rules": lambda: Recording(
        "a pod lost its rule 2048",
        (*ecs(), route_values.routes(rules=route_values.rules_of()[:1]), cluster_values.cluster()),
    ),
    "route-tables": lambda: Recording(
        "the table of the second ENI is empty",
        (*ecs(), route_values.routes(routes=(route_values.route(), route_values.to_pod()))),
    ),
    "route-out": lambda: Recording(
        "a hardening script prohibits what pods send",
        (
            *ecs(),
            route_values.routes(
                rules=(
                    *route_values.rules_of(),
                    route_values.rule(priority=100, source=f"{route_values.POD}/32", action="prohibit"),
                ),
                out=(route_values.refused(errno.EACCES),),
            ),
        ),
    ),
    "route-reverse-path": lambda: Recording(
        "a strict filter drops what other nodes send to pods",
        (
            *ecs(),
            route_values.routes(back=(route_values.back(oif="", errno=errno.EXDEV),)),
            route_values.sysctls({"net.ipv4.conf.all.rp_filter": 1}),
        ),
    ),
    "sysctl-forward-policy": lambda: Recording(
        "Docker set the policy of FORWARD to drop",
        (Netfilter(0.0, (Chain("ip", "filter", "FORWARD", "drop"),)), cni_values.terway()),
    ),
}


def write(name: str, target: Path) -> Recording:
    """Write the recording of that name as a snapshot."""
    one = RECORDINGS[name]()
    profile = dict(snapshot.recorded(profile_files.effective(one.profile)))
    profile["want"] = {**profile.get("want", {}), **one.want}
    profile["expect"] = {**profile.get("expect", {}), **one.expect}
    looks = tuple(
        RecordedLook(at, {type(fact).__name__: fact for fact in seen})
        for at, seen in ((4000.0 - one.seconds, one.before), (4000.0, one.now))
        if seen
    )
    made = Snapshot("gpu-17", "2026-01-10T12:00:00Z", True, "/", profile, "--profile", one.seconds, looks)
    target.write_text(snapshot.dumps(made), encoding="utf-8")
    return one


def main(arguments: list[str]) -> None:
    match arguments:
        case ["list"]:
            print("\n".join(f"{name:24} {make().about}" for name, make in RECORDINGS.items()))
        case ["write", name, target] if name in RECORDINGS:
            write(name, Path(target))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
