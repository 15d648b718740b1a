"""Who holds a target, found in values: pods, RDMA contexts, kernel users, device nodes, routes, sockets, namespaces.

What RDMA netlink says of real devices and holders is proved in tests/lab/test_rdma_netlink.py: this kernel has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from nodeprep.decide import idle_holders
from nodeprep.decide.idleness import IdleHolder, IdleTarget
from nodeprep.decide.remedy_header import Idle
from nodeprep.door_values import NamespaceLink, NetworkNamespace, RdmaHolder, RoutingRule
from nodeprep.facts.kubernetes.api_server_ways import ApiWay
from nodeprep.facts.kubernetes.device_plugins import Checkpoint, CheckpointEntry
from nodeprep.facts.machine.holders import GPU, RDMA, VFIO, NodeHolder
from nodeprep.facts.network.links import Address
from nodeprep.facts.network.routes import Route, RouteAnswer, Routes
from nodeprep.facts.network.sockets import IpSocket
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from tests.idle_values import goal
from tests.kubelet_values import holding
from tests.values import BDF, link, links

WHOLE = IdleTarget(Idle.RDMA, is_whole_rdma=True)
GPU_TARGET = IdleTarget(Idle.FUNCTION, functions=("0000:18:00.0",), has_gpu=True)
NETDEV = IdleTarget(Idle.NETDEV, netdevs=("eth2",))
TARGET = goal(functions=(BDF,))


def told(found: Iterable[IdleHolder]) -> list[tuple[str, str]]:
    return [(one.device, one.who) for one in found]


UNITS = [
    # resource                 unit            may be of: function, GPU, all RDMA, interface
    ("nvidia.com/gpu", "GPU-1", (False, True, False, False)),
    ("nvidia.com/mig-1g.10gb", "MIG-7", (False, True, False, False)),
    ("rdma/hca", "17", (True, True, True, True)),  # ids of the shared plugin tell nothing
    ("mellanox.com/vf", BDF, (True, False, True, False)),
    ("mellanox.com/vf", "0000:99:00.0", (False, False, True, False)),
    ("aliyun/erdma", "mlx5_3/17", (True, False, True, False)),
    ("aliyun/erdma", "erdma_7/17", (False, False, True, False)),
    ("aliyun/eni", "eni-1", (True, True, False, True)),
    ("example.com/unknown", "x", (True, True, True, True)),
]


@pytest.mark.parametrize(("resource", "unit", "may_be"), UNITS)
def test_what_a_unit_of_a_plugin_may_be_of(resource: str, unit: str, may_be: tuple[bool, ...]) -> None:
    pods = [holding("jobs/worker-0", resource, unit)]
    for target, holds in zip((TARGET, GPU_TARGET, WHOLE, NETDEV), may_be, strict=True):
        wanted = [(f"{resource} {unit}", "pod jobs/worker-0 (container train)")] if holds else []
        assert told(idle_holders.of_pods(target, pods)) == wanted


def test_a_resource_claim_is_of_any_device_and_a_plugin_holds_none_itself() -> None:
    claiming = [holding("jobs/worker-0", "x", claims=1)]
    assert told(idle_holders.of_pods(TARGET, claiming)) == [
        ("a device of a resource claim", "pod jobs/worker-0 (container train)")
    ]
    plugin = IdleTarget(Idle.PLUGIN, pod="kube-system/plugin")
    assert told(idle_holders.of_pods(plugin, [*claiming, holding("jobs/worker-1", "rdma/hca", "3")])) == []
    own = [holding("kube-system/plugin", "rdma/hca", "3")]
    assert told(idle_holders.of_pods(plugin, own)) == [("rdma/hca 3", "pod kube-system/plugin (container train)")]


def test_the_checkpoint_names_pods_by_uid_and_keeps_those_that_ended() -> None:
    entries = tuple(CheckpointEntry(uid, "train", "rdma/hca", {"-1": ("3",)}) for uid in ("u1", "u2", "u3"))
    found = idle_holders.of_checkpoint(TARGET, Checkpoint(0.0, entries, {}), {"u1": "jobs/worker-0"}, {"u3"})
    assert told(found) == [
        ("rdma/hca 3", "pod jobs/worker-0 (container train)"),
        ("rdma/hca 3", "pod u2 (container train)"),
    ]


def netlink(*holders: RdmaHolder, **different: Any) -> RdmaNetlink:
    usual: dict[str, Any] = {
        "at": 0.0,
        "offered": True,
        "devices": ("mlx5_3", "mlx5_5"),
        "protocols": (),
        "guids": (),
        "ports": (),
        "contexts": (("mlx5_3", 0), ("mlx5_5", 0)),
        "holders": (RdmaHolder("mlx5_3", "pd", None, "ib_core"), *holders),
        "netns_mode": "shared",
        "denied": (),
    }
    return RdmaNetlink(**(usual | different))


def process(device: str, pid: int | None, kind: str = "ctx") -> RdmaHolder:
    return RdmaHolder(device, kind, pid, None)


ELSEWHERE = "a process of another PID namespace ({} contexts are open in all)"
CONTEXTS = [
    (netlink(), []),
    (netlink(process("mlx5_3", 4711)), [("mlx5_3", "process 4711 (ib_write_bw)")]),
    (netlink(process("mlx5_3", 4711, "cm_id")), [("mlx5_3", "process 4711 (ib_write_bw)")]),
    (netlink(process("mlx5_3", 12)), [("mlx5_3", "process 12 (?)")]),
    (netlink(process("mlx5_5", 4711)), []),
    (netlink(contexts=(("mlx5_3", 2),)), [("mlx5_3", ELSEWHERE.format(2))]),
    (netlink(process("mlx5_3", None), contexts=(("mlx5_3", 1),)), [("mlx5_3", ELSEWHERE.format(1))]),
    (
        netlink(process("mlx5_3", 4711), process("mlx5_3", None), contexts=(("mlx5_3", 2),)),
        [("mlx5_3", "process 4711 (ib_write_bw)"), ("mlx5_3", ELSEWHERE.format(2))],
    ),
]


@pytest.mark.parametrize(("said", "wanted"), CONTEXTS)
def test_contexts(said: RdmaNetlink, wanted: list[tuple[str, str]]) -> None:
    assert told(idle_holders.of_contexts(TARGET, said, {4711: "ib_write_bw"})) == wanted


def test_all_rdma_is_every_device() -> None:
    said = netlink(process("mlx5_5", 4711), RdmaHolder("mlx5_3", "cm_id", None, "nvme_rdma"))
    assert told(idle_holders.of_contexts(WHOLE, said, {4711: "x"})) == [("mlx5_5", "process 4711 (x)")]
    assert told(idle_holders.of_kernel_users(WHOLE, said)) == [("mlx5_3", "kernel user nvme_rdma")]


MODULES = [
    # module       with an interface in the target, without
    ("nvme_rdma", True, True),
    ("nvmet_rdma", True, True),
    ("ib_iser", True, True),
    ("ib_isert", True, True),
    ("rpcrdma", True, True),
    ("smc", True, True),
    ("ko2iblnd", True, True),
    ("[rpcrdma]", True, True),
    ("ib_ipoib", False, True),
    ("ib_core", False, False),
    ("[ib_core]", False, False),
    ("mlx5_ib", False, False),
    ("rdma_rxe", False, False),
]


@pytest.mark.parametrize(("module", "with_netdev", "without"), MODULES)
def test_kernel_users(module: str, with_netdev: bool, without: bool) -> None:
    said = netlink(RdmaHolder("mlx5_3", "pd", None, module), RdmaHolder("mlx5_5", "pd", None, "nvme_rdma"))
    for target, holds in ((TARGET, with_netdev), (goal(netdevs=()), without)):
        assert told(idle_holders.of_kernel_users(target, said)) == (
            [("mlx5_3", f"kernel user {module}")] if holds else []
        )


DOUBTS = [
    # what the kernel said                           its release        target  the doubt
    (netlink(), "5.5.0", TARGET, None),
    (netlink(), "6.1.0-18-amd64", TARGET, None),
    (netlink(), "5.4.0-150-generic", TARGET, "does not count the users of other PID namespaces"),
    (netlink(), "4.18.0-513.el8", TARGET, "does not count"),
    (netlink(), "", TARGET, "does not count"),
    (netlink(), "next", TARGET, "does not count"),
    (netlink(offered=False), "6.1.0", TARGET, "there is no RDMA netlink"),
    (netlink(denied=("RES_CTX_GET",)), "6.1.0", TARGET, "RES_CTX_GET was refused"),
    (netlink(denied=("STAT_GET",)), "6.1.0", TARGET, None),
    (netlink(contexts=()), "6.1.0", TARGET, "counts no objects of mlx5_3"),
    (netlink(contexts=(("mlx5_3", 0),)), "6.1.0", WHOLE, "counts no objects of mlx5_5"),
    (netlink(netns_mode="exclusive"), "6.1.0", TARGET, None),
    (netlink(netns_mode="exclusive"), "6.1.0", WHOLE, "may be in other network namespaces"),
    (netlink(netns_mode="exclusive"), "6.1.0", goal(rdma=()), "may be in other network namespaces"),
]


@pytest.mark.parametrize(("said", "kernel", "target", "doubt"), DOUBTS)
def test_an_answer_of_rdma_netlink_that_proves_nothing(
    said: RdmaNetlink, kernel: str, target: IdleTarget, doubt: str | None
) -> None:
    found = idle_holders.netlink_doubt(target, said, kernel)
    assert (found is None) is (doubt is None)
    assert doubt is None or doubt in str(found)


NODES = [
    # holder                                                                   function  GPU    all RDMA
    (NodeHolder("/dev/infiniband/uverbs3", 7, "x", RDMA, "mlx5_3"), True, False, True),
    (NodeHolder("/dev/infiniband/uverbs5", 7, "x", RDMA, "mlx5_5"), False, False, True),
    (NodeHolder("/tmp/anything", 7, "x", RDMA, "mlx5_3"), True, False, True),
    (NodeHolder("/dev/infiniband/rdma_cm", 7, "x", RDMA), True, False, True),
    (NodeHolder("/dev/nvidia0", 7, "x", GPU), False, True, False),
    (NodeHolder("/dev/vfio/12", 7, "x", VFIO, f"0000:99:00.0 {BDF}"), True, False, False),
    (NodeHolder("/dev/vfio/13", 7, "x", VFIO, "0000:99:00.0"), False, False, False),
    (NodeHolder("/dev/vfio/14", 7, "x", VFIO), True, True, False),
    (NodeHolder("/dev/what", 7, "x"), True, True, True),
]


@pytest.mark.parametrize(("holder", "function", "gpu", "whole"), NODES)
def test_device_nodes(holder: NodeHolder, function: bool, gpu: bool, whole: bool) -> None:
    for target, holds in ((TARGET, function), (GPU_TARGET, gpu), (WHOLE, whole), (NETDEV, False)):
        found = list(idle_holders.of_nodes(target, [holder]))
        assert told(found) == ([(holder.node, "process 7 (x)")] if holds else [])
        assert [one.command for one in found] == (["x"] if holds else [])


def below(index: int, name: str, **different: Any) -> NamespaceLink:
    usual: dict[str, Any] = {
        "kind": None,
        "parent": None,
        "below": None,
        "is_below_elsewhere": False,
        "master": None,
    }
    return NamespaceLink(index, name, **(usual | different))


STACKS = [
    # beside eth2 (4)                                                             what carries the target
    ((), ("eth2",)),
    ((below(5, "eth2.100", kind="vlan", below=4),), ("eth2", "eth2.100")),
    ((below(5, "mv", kind="macvlan", below=4), below(6, "v", kind="vlan", below=5)), ("eth2", "mv", "v")),
    ((below(5, "veth1", kind="veth", below=4),), ("eth2",)),  # the number of its peer
    ((below(5, "mv", kind="macvlan", below=4, is_below_elsewhere=True),), ("eth2",)),
    ((below(5, "other", kind="vlan", below=9),), ("eth2",)),
]


@pytest.mark.parametrize(("beside", "wanted"), STACKS)
def test_what_rides_on_the_target(beside: tuple[NamespaceLink, ...], wanted: tuple[str, ...]) -> None:
    assert idle_holders.carriers(NETDEV, (below(4, "eth2"), *beside)) == wanted


def test_a_bond_rides_on_its_legs_and_what_is_on_the_bond_too() -> None:
    found = (below(4, "eth2", master=9), below(9, "bond0", kind="bond"), below(10, "bond0.5", kind="vlan", below=9))
    assert idle_holders.carriers(NETDEV, found) == ("bond0", "bond0.5", "eth2")


def rule(**different: Any) -> RoutingRule:
    usual: dict[str, Any] = {
        "family": "inet",
        "priority": 100,
        "source": "",
        "destination": "",
        "iif": "",
        "oif": "",
        "mark": None,
        "table": 254,
        "action": "lookup",
    }
    return RoutingRule(**(usual | different))


def route(destination: str = "default", oif: str = "eth2", **different: Any) -> Route:
    usual: dict[str, Any] = {
        "family": "inet",
        "table": 254,
        "via": "10.0.0.1",
        "metric": 0,
        "scope": "global",
        "kind": "unicast",
        "onlink": False,
    }
    return Route(destination=destination, oif=oif, **(usual | different))


def routes(*found: Route, rules: tuple[RoutingRule, ...] = (), out: tuple[RouteAnswer, ...] = ()) -> Routes:
    return Routes(0.0, rules, found, out, ())


DEFAULTS = [
    (routes(), []),
    (routes(route()), [("eth2", "default route via 10.0.0.1")]),
    (routes(route(via="")), [("eth2", "default route dev eth2")]),
    (routes(route(family="inet6", via="fe80::1")), [("eth2", "default route via fe80::1")]),
    (routes(route(oif="eth0")), []),
    (routes(route("10.1.0.0/16")), []),
    (routes(route(kind="blackhole")), []),
    (routes(route(table=1002)), []),  # of an ENI: pods' rules lead to it
    (routes(route(table=220), rules=(rule(table=220),)), [("eth2", "default route via 10.0.0.1")]),
    (routes(route(table=220), rules=(rule(table=220, source="10.1.0.5/32"),)), []),
    (routes(route(table=220), rules=(rule(table=220, action="prohibit"),)), []),
]


@pytest.mark.parametrize(("found", "wanted"), DEFAULTS)
def test_default_routes(found: Routes, wanted: list[tuple[str, str]]) -> None:
    assert told(idle_holders.of_default_routes(("eth2",), found)) == wanted


def test_ways_to_the_api_server() -> None:
    ways = (
        ApiWay("10.9.0.1", "eth2", "10.0.0.1", None, "/etc/kubernetes/kubelet.conf"),
        ApiWay("10.9.0.2", "eth2", "", None, "KUBERNETES_SERVICE_HOST"),
        ApiWay("10.9.0.3", "eth0", "", None, "x"),
        ApiWay("10.9.0.4", "eth2", "", 101, "x"),
    )
    assert told(idle_holders.of_api_ways(("eth2",), ways)) == [
        ("eth2", "the way to the API server 10.9.0.1 via 10.0.0.1, by /etc/kubernetes/kubelet.conf"),
        ("eth2", "the way to the API server 10.9.0.2, by KUBERNETES_SERVICE_HOST"),
    ]


def answer(oif: str, errno: int | None = None) -> RouteAnswer:
    return RouteAnswer("10.1.0.5", "cali1", "10.1.0.5", "8.8.8.8", oif, "", errno)


POD_ROUTES = [
    (routes(out=(answer("eth2"),)), ["packets of pod 10.1.0.5"]),
    (routes(out=(answer("eth0"),)), []),
    (routes(out=(answer("eth2", 101),)), []),
    (routes(route(table=1002), rules=(rule(table=1002, source="10.1.0.6/32"),)), ["packets of pod 10.1.0.6"]),
    (routes(route(table=1002), rules=(rule(table=1002, destination="fd00::6/128"),)), ["packets of pod fd00::6"]),
    (routes(route(table=1002), rules=(rule(table=1002, source="10.1.0.0/16"),)), []),
    (routes(route(), rules=(rule(source="10.1.0.6/32"),)), []),  # every node's main table
    (routes(route(table=1002, oif="eth0"), rules=(rule(table=1002, source="10.1.0.6/32"),)), []),
]


@pytest.mark.parametrize(("found", "wanted"), POD_ROUTES)
def test_routes_of_pods(found: Routes, wanted: list[str]) -> None:
    assert told(idle_holders.of_pod_routes(("eth2",), found)) == [("eth2", one) for one in wanted]


def ip_socket(local: str = "10.0.0.5", port: int = 80, state: str = "listen", protocol: str = "tcp") -> IpSocket:
    return IpSocket(protocol, local, port, "0.0.0.0", 0, state, 42)


SOCKETS = [
    (ip_socket(), "tcp 10.0.0.5:80 (listen) of process 7 (nginx)"),
    (ip_socket(state="established"), "tcp 10.0.0.5:80 (established) of process 7 (nginx)"),
    (ip_socket("fe80::1"), "tcp fe80::1:80 (listen) of process 7 (nginx)"),
    (ip_socket(protocol="udp", state="close"), "udp 10.0.0.5:80 (close) of process 7 (nginx)"),
    (ip_socket(state="time-wait"), None),
    (ip_socket(state="close"), None),
    (ip_socket("0.0.0.0"), None),
    (ip_socket("10.0.0.6"), None),
    (ip_socket(protocol="udp", port=68, state="established"), None),
    (ip_socket(protocol="udp", port=123, state="close"), None),
    (ip_socket(port=123), "tcp 10.0.0.5:123 (listen) of process 7 (nginx)"),
]


@pytest.mark.parametrize(("one", "wanted"), SOCKETS)
def test_sockets(one: IpSocket, wanted: str | None) -> None:
    here = links(
        link(),
        addresses=(
            Address("eth2", "10.0.0.5", 24, "global", False),
            Address("eth2", "fe80::1", 64, "link", False),
            Address("eth0", "10.0.0.6", 24, "global", False),
        ),
    )
    found = idle_holders.of_sockets(("eth2",), here, [one], {42: "process 7 (nginx)"})
    assert told(found) == ([("eth2", wanted)] if wanted else [])
    unnamed = told(idle_holders.of_sockets(("eth2",), here, [one], {}))
    assert [who.endswith("of a process that is not seen") for _, who in unnamed] == ([True] if wanted else [])


BONDS = [
    (links(link()), []),
    (links(link(master="bond0"), link(name="bond0", kind="bond", bdf="")), ["bond0 (bond) is above it"]),
    (links(link(master="br0"), link(name="br0", kind="bridge", bdf="")), ["br0 (bridge) is above it"]),
    (links(link(master="7")), ["7 is above it"]),
    (links(link(kind="bond"), link(name="eth5", master="eth2")), ["it is a bond of eth5"]),
    (links(link(kind="bond")), ["it is a bond of no legs"]),
    (links(link(kind="bridge"), link(name="eth5", master="eth2")), ["it is a bridge of eth5"]),
]


@pytest.mark.parametrize(("here", "wanted"), BONDS)
def test_bonds(here: Any, wanted: list[str]) -> None:
    assert told(idle_holders.of_bonds(NETDEV, here)) == [("eth2", one) for one in wanted]


HERE = NetworkNamespace("this node", True, (below(4, "eth2", parent=BDF),))


def foreign(*found: NamespaceLink) -> tuple[NetworkNamespace, ...]:
    return HERE, NetworkNamespace("process 9 (pause)", False, (below(1, "lo"), *found))


IN_POD = "the network namespace of process 9 (pause)"
NAMESPACES = [
    # namespaces                                                                    interfaces here   holder
    (foreign(), links(link()), []),
    (foreign(below(3, "eth0", kind="veth", below=4, is_below_elsewhere=True)), links(link()), []),
    (
        foreign(below(3, "net1", kind="macvlan", below=4, is_below_elsewhere=True)),
        links(link()),
        [("eth2", f"net1 (macvlan) on it is in {IN_POD}")],
    ),
    (foreign(below(3, "net1", kind="vlan", below=4)), links(link()), []),  # on another interface of that namespace
    (foreign(below(3, "rail0", parent=BDF)), links(link()), [(BDF, f"its interface rail0 is in {IN_POD}")]),
    (foreign(below(3, "rail0", parent="0000:99:00.0")), links(link()), []),
    (foreign(below(3, "rail0")), links(link()), []),  # some other hardware: the target's interface is here
    (
        foreign(below(3, "rail0")),
        links(),
        [
            ("eth2", "it is not in this network namespace"),
            ("rail0", f"it may be of the target, and is in {IN_POD}"),
        ],
    ),
    (
        foreign(below(3, "eth2")),
        links(),
        [
            ("eth2", "it is not in this network namespace"),
            ("eth2", f"an interface of this name is in {IN_POD}"),
        ],
    ),
]


@pytest.mark.parametrize(("namespaces", "here", "wanted"), NAMESPACES)
def test_namespaces(namespaces: tuple[NetworkNamespace, ...], here: Any, wanted: list[tuple[str, str]]) -> None:
    assert told(idle_holders.of_namespaces(TARGET, here, namespaces)) == wanted
