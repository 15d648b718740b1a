"""The idle proof on real things: interfaces, routes, sockets, processes, a kubelet's socket, and what hides them.

What RDMA netlink says of a device in use is proved in the lab's guest (tests/lab): this kernel has no RDMA.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nodeprep.decide.idleness import IdleSource, IdleTarget, SourceState
from nodeprep.decide.remedy_header import Idle, ParameterKind, SafetyClass
from nodeprep.doors.node_host import Host
from nodeprep.facts.kubernetes import device_plugins, kubelet, pod_resources
from nodeprep.model import Unreadable, Why
from nodeprep.repair import idle_proof
from tests.idle_values import goal, header
from tests.kubelet_values import answer, container, plugin_devices, pod_devices
from tests.rigs import idle_host
from tests.rigs.grpc_server import serving
from tests.rigs.idle_host import said
from tests.rigs.raw_server import Caller, RawServer
from tests.rigs.scratch import in_memory

TARGET = goal(rdma=())  # this machine has no RDMA device
POD_RESOURCES, CHECKPOINT = IdleSource.POD_RESOURCES, IdleSource.CHECKPOINT


@pytest.fixture
def root() -> Iterator[Path]:
    """The root of a host without a kubelet, RDMA and GPUs."""
    with in_memory() as directory:
        idle_host.tree(directory)
        yield directory


def one(root: Path, source: IdleSource, target: IdleTarget = TARGET, **how: Any) -> SourceState:
    return said(Host(str(root)), target, source, **how)[source]


def failure(state: SourceState) -> Unreadable:
    assert state.failed is not None
    return state.failed


def running(root: Path, command: str, pid: int = 77) -> Path:
    """A process of this name in the tree."""
    here = root / "proc" / str(pid)
    (here / "fd").mkdir(parents=True)
    (here / "comm").write_text(f"{command}\n")
    return here


def held(*pods: bytes) -> dict[str, bytes]:
    return {pod_resources.LIST: answer(*pods)}


WORKER = pod_devices("jobs", "worker-0", container("train", plugin_devices("rdma/hca", ["3"], 0)))


def test_pods_by_the_socket_of_the_kubelet(root: Path) -> None:
    with serving(idle_host.kubelet_directories(root), held(WORKER)):
        state = one(root, POD_RESOURCES)
    assert [(holder.device, holder.who) for holder in state.holders] == [
        ("rdma/hca 3", "pod jobs/worker-0 (container train)")
    ]
    assert (state.absent, state.failed) == ("", None)


def test_no_pod_holds_a_device(root: Path) -> None:
    with serving(idle_host.kubelet_directories(root), held()):
        assert one(root, POD_RESOURCES) == SourceState()


def test_a_host_without_a_kubelet(root: Path) -> None:
    state = SourceState(absent="no kubelet runs, and there is no /var/lib/kubelet")
    assert one(root, POD_RESOURCES) == state
    assert one(root, CHECKPOINT) == state


@pytest.mark.parametrize("command", ["kubelet", "k3s-agent", "kubelite"])
def test_a_kubelet_that_runs_without_its_socket_is_no_absent_one(root: Path, command: str) -> None:
    running(root, command)
    assert failure(one(root, POD_RESOURCES)).path == kubelet.SOCKET
    assert failure(one(root, CHECKPOINT)).path == device_plugins.DIRECTORY


def test_a_kubelet_that_left_its_directory_is_no_absent_one(root: Path) -> None:
    (root / "var/lib/kubelet").mkdir(parents=True)
    assert failure(one(root, POD_RESOURCES)).path == kubelet.SOCKET


def silent(caller: Caller) -> None:
    caller.over.wait(idle_host.PATIENCE)


def test_a_socket_that_hangs(root: Path) -> None:
    with RawServer(silent, path=idle_host.kubelet_directories(root)):
        assert failure(one(root, POD_RESOURCES)).kind in (Why.TIMEOUT, Why.BUSY)


def test_a_socket_where_nobody_listens(root: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(idle_host.kubelet_directories(root)))
    dead.close()
    assert failure(one(root, POD_RESOURCES)).kind is Why.IO_ERROR


def test_a_socket_that_answers_garbage(root: Path) -> None:
    with serving(idle_host.kubelet_directories(root), {pod_resources.LIST: b"\xff\xff\xff"}):
        assert failure(one(root, POD_RESOURCES)).kind is Why.MALFORMED


def checkpoint(root: Path, *uids: str) -> None:
    entries = [
        {"PodUID": uid, "ContainerName": "train", "ResourceName": "rdma/hca", "DeviceIDs": {"0": ["3"]}} for uid in uids
    ]
    data = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
    (root / device_plugins.CHECKPOINT.lstrip("/")).write_text(json.dumps(data))


def test_pods_by_the_checkpoint_but_those_that_have_ended(root: Path) -> None:
    idle_host.kubelet_directories(root)
    checkpoint(root, "u-1", "u-2")
    (root / "var/log/pods/jobs_worker-0_u-1").mkdir(parents=True)
    (root / "var/lib/kubelet/pods/u-1").mkdir(parents=True)
    state = one(root, CHECKPOINT)
    assert [holder.who for holder in state.holders] == ["pod jobs/worker-0 (container train)"]
    (root / "var/lib/kubelet/pods/u-2").mkdir()
    assert [holder.who for holder in one(root, CHECKPOINT).holders][1:] == ["pod u-2 (container train)"]


def test_a_checkpoint_counts_in_full_where_the_pods_directories_are_not_seen(root: Path) -> None:
    idle_host.kubelet_directories(root)
    checkpoint(root, "u-1")
    assert len(one(root, CHECKPOINT).holders) == 1


def test_a_checkpoint_that_was_never_written_and_one_that_is_torn(root: Path) -> None:
    idle_host.kubelet_directories(root)
    assert one(root, CHECKPOINT) == SourceState()
    (root / device_plugins.CHECKPOINT.lstrip("/")).write_text('{"Data": {')
    assert failure(one(root, CHECKPOINT)).kind is Why.MALFORMED


@pytest.mark.parametrize("source", [IdleSource.RDMA_CONTEXTS, IdleSource.RDMA_KERNEL_USERS])
def test_a_kernel_without_rdma_and_one_that_does_not_answer_about_it(root: Path, source: IdleSource) -> None:
    assert one(root, source).absent == "there is no /sys/module/ib_core: the kernel has no RDMA"
    listed = goal()  # sysfs shows a device, so there is RDMA
    assert failure(one(root, source, listed)).detail == "ib_core is loaded, and there is no RDMA netlink"
    (root / "sys/module/ib_core").mkdir(parents=True)
    assert failure(one(root, source)).detail == "ib_core is loaded, and there is no RDMA netlink"


def with_verbs(root: Path) -> None:
    (root / "proc/devices").write_text("Character devices:\n231 infiniband_verbs\n195 nvidia\n\nBlock devices:\n")
    node = root / "sys/class/infiniband_verbs/uverbs3"
    node.mkdir(parents=True)
    (node / "dev").write_text("231:192\n")
    (node / "ibdev").write_text("mlx5_3\n")


def test_a_kernel_without_device_nodes_of_rdma_and_gpus(root: Path) -> None:
    state = one(root, IdleSource.OPEN_DEVICE_NODES)
    assert state == SourceState(absent="/proc/devices has no device of RDMA, of a GPU or of VFIO")
    (root / "proc/devices").unlink()
    assert failure(one(root, IdleSource.OPEN_DEVICE_NODES)).path == "/proc/devices"


def test_only_a_daemon_has_a_node_open(root: Path) -> None:
    with_verbs(root)
    assert one(root, IdleSource.OPEN_DEVICE_NODES, goal()) == SourceState()
    (running(root, "opensm") / "fd/3").symlink_to("/dev/infiniband/uverbs3")
    state = one(root, IdleSource.OPEN_DEVICE_NODES, goal())
    assert [(holder.device, holder.who, holder.command) for holder in state.holders] == [
        ("/dev/infiniband/uverbs3", "process 77 (opensm)", "opensm")
    ]


@pytest.mark.parametrize(("ignored", "who"), [((), ["opensm", "python3"]), (("open*",), ["python3"])])
def test_who_is_ignored_is_no_holder_and_a_job_beside_it_is(
    root: Path, ignored: tuple[str, ...], who: list[str]
) -> None:
    with_verbs(root)
    for pid, command in enumerate(("opensm", "python3"), 77):
        (running(root, command, pid) / "fd/3").symlink_to("/dev/infiniband/uverbs3")
    found = idle_proof.prove(Host(str(root)), goal(), SafetyClass.S2, ignored, deadline=idle_host.PATIENCE)
    assert [one.command for one in found.holders if one.source is IdleSource.OPEN_DEVICE_NODES] == who


def test_a_proc_of_a_container_shows_not_all_processes(root: Path) -> None:
    with_verbs(root)
    (root / "proc/1/ns/pid").unlink()
    (root / "proc/1/ns/pid").symlink_to("pid:[4026532000]")
    assert "all PID namespaces" in failure(one(root, IdleSource.OPEN_DEVICE_NODES)).detail


def test_a_copy_and_a_root_that_is_not_mounted_prove_nothing(root: Path) -> None:
    for host in (Host(str(root), live=False), Host(str(root / "proc"))):
        assert {state.failed is not None for state in said(host, TARGET).values()} == {True}
        assert not idle_proof.prove(host, TARGET, SafetyClass.S2).is_idle


@pytest.mark.parametrize(
    "pattern", ["/sys/module/*", "/var/lib/kubelet*", "/proc/*/comm", "/proc/[0-9]*", "/proc/devices"]
)
def test_what_the_operator_excludes_is_not_absent(root: Path, pattern: str) -> None:
    states = said(Host(str(root), excluded=(pattern,)), TARGET)
    assert {failure(state).is_excluded for state in states.values()} == {True}


class BrokenHost(Host):
    """A door of it raises what no door should, and another one never comes back in time."""

    def own_namespace(self) -> Any:
        raise RuntimeError("a fault of ours")


def test_a_fault_of_ours_is_a_doubt_of_its_source_alone(root: Path) -> None:
    states = said(BrokenHost(str(root)), TARGET)
    assert failure(states[IdleSource.SOCKETS]).detail == "our own code broke: RuntimeError: a fault of ours"
    assert states[IdleSource.BONDS].failed is None
    assert states[POD_RESOURCES].absent


def test_a_source_that_gives_no_answer_in_time(root: Path) -> None:
    with RawServer(silent, path=idle_host.kubelet_directories(root)):
        state = one(root, POD_RESOURCES, deadline=0.0)
    assert failure(state).kind is Why.TIMEOUT


def test_what_was_read_before_does_not_count(root: Path) -> None:
    host = Host(str(root))
    (root / "sys/module").mkdir(parents=True)
    assert host.files.names("/sys/module") == ()
    (root / "sys/module/ib_core").mkdir()
    found = idle_proof.prove(host, TARGET, SafetyClass.S2, deadline=idle_host.PATIENCE)
    assert IdleSource.RDMA_CONTEXTS in {doubt.source for doubt in found.doubts}


def test_the_target_of_a_remedy_on_a_host(root: Path) -> None:
    function = root / "sys/bus/pci/devices/0000:3b:00.0"
    function.mkdir(parents=True)
    (function / "class").write_text("0x020000\n")
    (function / "virtfn0").symlink_to("../0000:3b:00.2")
    (root / "sys/class/infiniband").mkdir(parents=True)
    named = header(Idle.FUNCTION, device=ParameterKind.PCI_FUNCTION)
    found = idle_proof.target_of(Host(str(root)), named, {"device": "0000:3b:00.0"})
    assert found == IdleTarget(Idle.FUNCTION, functions=("0000:3b:00.0", "0000:3b:00.2"))
    hidden = Host(str(root), excluded=("/sys/bus/pci/devices/0000:3b:00.0*",))
    assert isinstance(idle_proof.target_of(hidden, named, {"device": "0000:3b:00.0"}), Unreadable)


NETWORK = """
mount -t tmpfs none /run; mkdir /run/tree
ip link set lo up
for n in 0 1 2 3 4; do
    ip link add v$n type veth peer name p$n; ip link set v$n up; ip link set p$n up
    ip addr add 10.$n.0.1/24 dev v$n; ip -6 addr add fd00:$n::1/64 dev v$n nodad
done
ip route add default via 10.0.0.2; ip -6 route add default via fd00:0::2
ip link add br0 type bridge; ip link set p1 master br0; ip link set br0 up
ip route add 192.0.2.6/32 via 10.2.0.2
ip link add link v3 name mv type macvlan; ip netns add blue; ip link set mv netns blue
ip link add w0 type veth peer name gone; ip link set gone netns blue
"""
LOOK = """
import socket
root = Path("/run/tree")
there = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) > 1]
tree(root, there)
(root / "run/netns").mkdir(parents=True)
subprocess.run(("mount", "--rbind", "/run/netns", str(root / "run/netns")), check=True)
(root / "etc/kubernetes").mkdir(parents=True)
(root / "etc/kubernetes/kubelet.conf").write_text("clusters:\\n- cluster:\\n    server: https://192.0.2.6:6443\\n")
listener = socket.create_server(("10.4.0.1", 0))
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(("fd00:4::1", 5000))
found = {}
for name in ("v0", "v1", "p1", "v2", "v3", "v4", "br0", "gone", "v0 w0"):
    target = IdleTarget(Idle.NETDEV, netdevs=tuple(name.split()))
    found[name] = plain(said(Host(str(root)), target))
found["port"] = listener.getsockname()[1]
found["pid"] = os.getpid()
quiet = IdleTarget(Idle.NETDEV, netdevs=("w0",))
for safety in ("S1", "S2"):
    proof = idle_proof.prove(Host(str(root)), quiet, SafetyClass(safety), service_host="", deadline=PATIENCE)
    found[safety] = list(proof.words())
print(json.dumps(found))
"""


@cache
def network() -> dict[str, Any]:
    return idle_host.proved(NETWORK, LOOK)


def holders(netdev: str) -> dict[str, list[list[str]]]:
    """The holders of a target by source, of the sources that name one."""
    states = network()[netdev]
    assert {source: state["failed"] for source, state in states.items() if state["failed"]} == {}
    return {source: state["holders"] for source, state in states.items() if state["holders"]}


def test_default_routes_of_both_families() -> None:
    assert holders("v0") == {
        "default-route": [["v0", "default route via 10.0.0.2"], ["v0", "default route via fd00::2"]]
    }


def test_a_leg_of_a_bridge_and_the_bridge() -> None:
    assert holders("p1") == {"bonds": [["p1", "br0 (bridge) is above it"]]}
    assert holders("br0") == {"bonds": [["br0", "it is a bridge of p1"]]}


def test_the_way_to_the_api_server() -> None:
    assert holders("v2") == {
        "api-route": [["v2", "the way to the API server 192.0.2.6 via 10.2.0.2, by /etc/kubernetes/kubelet.conf"]]
    }


def test_an_interface_of_another_namespace_on_it_and_one_that_is_there_itself() -> None:
    assert holders("v3") == {
        "namespaces": [["v3", "mv (macvlan) on it is in the network namespace of /run/netns/blue"]]
    }
    assert holders("gone") == {"namespaces": [["gone", "it is not in this network namespace"]]}


def test_sockets_on_its_addresses() -> None:
    ours = network()
    process = f"of process {ours['pid']} (python"
    rows = holders("v4")["sockets"]
    assert [row[0] for row in rows] == ["v4", "v4"]
    assert rows[0][1].startswith(f"tcp 10.4.0.1:{ours['port']} (listen) {process}")
    assert rows[1][1].startswith(f"udp fd00:4::1:5000 (close) {process}")
    assert set(holders("v4")) == {"sockets"}


def test_nobody_uses_it() -> None:
    assert holders("v1") == {}
    assert network()["S1"] == []
    assert network()["S2"] == []


def test_of_several_interfaces_each_counts() -> None:
    assert set(holders("v0 w0")) == {"default-route"}


PROCESSES = """
mount -t tmpfs none /run; mkdir /run/tree
mknod /run/anything c 231 192
mknod /run/nvidia c 195 0
"""
HOLD = """
import os, sys, time
descriptor = os.open(sys.argv[1], os.O_PATH)
print("held", flush=True)
sys.stdin.read()
"""
# uid 0 without capabilities may list the descriptors of others, and not ask what they are open on.
LESS = """
from tests.rigs.idle_host import *
target = IdleTarget(Idle.FUNCTION, functions=("0000:3b:00.0",), rdma=("mlx5_3",))
source = IdleSource.OPEN_DEVICE_NODES
print(json.dumps(plain(said(Host("/run/tree"), target, source))[source]))
"""
OPEN = f"""
HOLD, LESS = {HOLD!r}, {LESS!r}
root = Path("/run/tree")
def start(path, *inside):
    pipes = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}}
    child = subprocess.Popen((*inside, sys.executable, "-c", HOLD, path), **pipes)
    assert child.stdout.readline() == "held\\n"
    return child
plainly = start("/run/anything")
inside = start("/run/anything", "unshare", "--pid", "--fork", "--mount-proc")
gpu = start("/run/nvidia")
there = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) > 1]
tree(root, there)
(root / "proc/devices").write_text("Character devices:\\n231 infiniband_verbs\\n195 nvidia\\n\\nBlock devices:\\n")
node = root / "sys/class/infiniband_verbs/uverbs3"
node.mkdir(parents=True)
(node / "dev").write_text("231:192\\n")
(node / "ibdev").write_text("mlx5_3\\n")
source = IdleSource.OPEN_DEVICE_NODES
def look(**target):
    return plain(said(Host(str(root)), IdleTarget(Idle.FUNCTION, **target), source))[source]
found = {{
    "rdma": look(functions=("0000:3b:00.0",), rdma=("mlx5_3",)),
    "other": look(functions=("0000:5e:00.0",), rdma=("mlx5_5",)),
    "gpu": look(functions=("0000:18:00.0",), has_gpu=True),
    "plainly": plainly.pid,
    "inside": inside.pid,
    "nvidia": gpu.pid,
}}
uid_alone = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
done = subprocess.run((*uid_alone, sys.executable, "-c", LESS), stdout=subprocess.PIPE, text=True, check=True)
found["uid alone"] = json.loads(done.stdout)
everything = IdleTarget(Idle.NETDEV, netdevs=("lo",))
said(Host(str(root)), everything)  # imports what it needs, as nobody may not
os.setgroups([])
os.setresuid(NOBODY, NOBODY, NOBODY)
found["nobody"] = look(functions=("0000:3b:00.0",), rdma=("mlx5_3",))
found["namespaces"] = plain(said(Host(str(root)), everything))["namespaces"]["failed"]
print(json.dumps(found))
"""


@cache
def opened() -> dict[str, Any]:
    return idle_host.proved(PROCESSES, OPEN)


def test_a_process_with_the_node_open_at_any_path_and_in_another_pid_namespace() -> None:
    found = opened()
    rows = found["rdma"]["holders"]
    assert found["rdma"]["failed"] == ""
    assert {device for device, _ in rows} == {"/run/anything"}
    pids = sorted(int(who.split()[1]) for _, who in rows)
    assert found["plainly"] in pids
    assert len(pids) == 2
    assert max(pids) > found["inside"], "the child of unshare, by its number out here"


def test_nodes_of_other_devices_are_not_the_targets() -> None:
    found = opened()
    assert found["other"] == {"holders": [], "absent": "", "failed": ""}
    assert [device for device, _ in found["gpu"]["holders"]] == ["/run/nvidia"]


def test_who_may_not_see_open_files_and_namespaces_proves_nothing() -> None:
    found = opened()
    assert found["nobody"]["holders"] == []
    assert "may not be seen (run as root of the host)" in found["nobody"]["failed"]
    assert found["uid alone"]["holders"] == []
    assert "may not be seen (run as root of the host)" in found["uid alone"]["failed"]
    assert "denied" in found["namespaces"]
