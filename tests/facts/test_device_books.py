"""The books of extended resources: each number from its own source, and what follows from two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.facts.kubernetes import device_books
from nodeprep.facts.kubernetes.cluster import Owner
from nodeprep.facts.kubernetes.device_books import Book, Holder, Numbers
from nodeprep.facts.kubernetes.device_plugins import Checkpoint, CheckpointEntry
from nodeprep.facts.kubernetes.pod_resources import ContainerDevices, PluginDevices, PodDevices
from nodeprep.facts.rdma.rdma import RdmaDevice
from nodeprep.model import Unreadable, Why
from tests import cluster_values, values
from tests.cluster_values import advertising
from tests.gpu_values import bus, gpu, gpus, uuids
from tests.kubelet_values import GPU, allocatable, holding, kubelet, plugins

ERDMA, HCA, EFA, SRIOV = "aliyun/erdma", "rdma/hca", "vpc.amazonaws.com/efa", "openshift.io/mlx"
MIG, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"
SILENT: Any = Unreadable(Why.TIMEOUT, "/var/lib/kubelet/pod-resources/kubelet.sock")


def eris(count: int) -> tuple[RdmaDevice, ...]:
    return tuple(values.device(name=f"erdma_{number}", id="1ded:107f") for number in range(count))


def book(name: str, healthy: Iterable[str] | None = None, **different: Any) -> Book:
    """The book of one resource of which the kubelet calls these ids healthy."""
    told = None if healthy is None else allocatable({name: healthy})
    usual: dict[str, Any] = {"kubelet": kubelet(pods=()), "allocatable": told}
    return next(one for one in device_books.books([name], **(usual | different)) if one.resource == name)


DEVICES = [
    # resource  id                       its device
    (GPU, "GPU-1c0f", "GPU-1c0f"),
    (GPU, "GPU-1c0f::3", "GPU-1c0f"),
    (GPU, "GPU-1c0f::12", "GPU-1c0f"),
    (SHARED, "GPU-1c0f::0", "GPU-1c0f"),
    (MIG, "MIG-6f2a", None),
    (MIG, "MIG-6f2a::1", None),
    (MIG, "MIG-GPU-1c0f/7/0", "GPU-1c0f"),
    (MIG, "MIG-GPU-1c0f/7/0::4", "GPU-1c0f"),
    (HCA, "17", None),
    (HCA, "999", None),
    (ERDMA, "erdma_0/17", "erdma_0"),
    (ERDMA, "eni-3", None),
    (ERDMA, "3", None),
    (SRIOV, "0000:5c:00.1", "0000:5c:00.1"),
]


@pytest.mark.parametrize(("resource", "unit", "device"), DEVICES)
def test_which_device_an_id_is_of(resource: str, unit: str, device: str | None) -> None:
    assert device_books.device_of(resource, unit) == device


COUNTS = [
    # name   healthy ids                      the node's devices            dead  hidden
    (GPU, uuids(8), {"pci": bus(8)}, 0, 0),
    (GPU, uuids(8), {"pci": bus(7)}, 1, 0),
    (GPU, uuids(7), {"pci": bus(8)}, 0, 1),
    (GPU, uuids(8, 4), {"pci": bus(8)}, 0, 0),
    (GPU, uuids(7, 4), {"pci": bus(8)}, 0, 1),
    (GPU, uuids(8, 4), {"pci": bus(7)}, 1, 0),
    (GPU, uuids(8), {"pci": None}, 0, 0),
    (GPU, uuids(8), {"pci": values.pci(*gpus(7), hidden=("0000:09:00.0",))}, 0, 0),  # of it nobody knows what it is
    (GPU, uuids(4), {"pci": values.pci(*gpus(4), gpu(address="0000:09:00.0", driver="vfio-pci"))}, 0, 0),
    (GPU, uuids(2), {"pci": values.pci()}, 2, 0),
    (GPU, ("MIG-a", "MIG-b", "MIG-c"), {"pci": bus(1)}, 0, 0),
    (GPU, ("MIG-a", "MIG-b", "MIG-c"), {"pci": values.pci()}, 1, 0),
    (MIG, ("MIG-a",), {"pci": bus(8)}, 0, 0),  # it need not be every GPU's
    (HCA, map(str, range(63)), {"rdma": values.rdma(devices=eris(2))}, 0, 0),
    (HCA, map(str, range(63)), {"rdma": values.rdma()}, 1, 0),
    (ERDMA, ("erdma_0/0", "erdma_0/1", "erdma_1/0"), {"rdma": values.rdma(devices=eris(2))}, 0, 0),
    (ERDMA, ("erdma_0/0", "erdma_1/0"), {"rdma": values.rdma(devices=eris(1))}, 1, 0),
    (ERDMA, ("erdma_0/0",), {"rdma": values.rdma(devices=eris(2))}, 0, 1),
    (ERDMA, ("erdma_0/0",), {"rdma": values.rdma()}, 1, 0),
    (ERDMA, ("eni-0", "eni-1"), {"rdma": values.rdma(devices=eris(1))}, 0, 0),
    (ERDMA, ("erdma_0/0",), {"rdma": values.rdma(devices=(values.device(id=""),))}, 0, 0),
    (EFA, ("rdmap0s6",), {"rdma": values.rdma(devices=(values.device(id="1d0f:efa1"),))}, 0, 0),
    (EFA, ("rdmap0s6", "rdmap0s7"), {"rdma": values.rdma(devices=(values.device(id="1d0f:efa1"),))}, 1, 0),
    ("amd.com/gpu", ("a", "b"), {"pci": values.pci()}, 2, 0),
    ("amd.com/gpu", ("a", "b"), {"pci": values.pci(gpu(id="1002:74a1", pci_class="120000"))}, 1, 0),
    (
        "amd.com/gpu",
        ("a", "b"),
        {"pci": values.pci(gpu(id="1002:73bf", pci_class="030000"))},
        0,
        0,
    ),  # a Radeon
    ("example.com/foo", ("a", "b"), {"pci": values.pci(), "rdma": values.rdma()}, 0, 0),
]


@pytest.mark.parametrize(("name", "healthy", "shows", "dead", "hidden"), COUNTS, ids=range(len(COUNTS)))
def test_dead_and_hidden_devices(name: str, healthy: Any, shows: dict[str, Any], dead: int, hidden: int) -> None:
    found = book(name, tuple(healthy), **shows)
    assert (found.count_dead, found.hidden) == (dead, hidden)


def test_the_factor_is_the_operators() -> None:
    shows = {"pci": None, "rdma": values.rdma(devices=eris(2))}
    ids = tuple(f"eni-{number}" for number in range(400))
    numbers = Numbers(per_device={ERDMA: 200})
    assert book(ERDMA, ids, numbers=numbers, **shows).count_dead == 0
    assert book(ERDMA, ids[:200], numbers=numbers, **shows).hidden == 1
    one = {"rdma": values.rdma(devices=eris(1))}
    assert book(ERDMA, ids, numbers=numbers, **one).count_dead == 1
    assert book(ERDMA, ids, **one).count_dead == 0, "400 of one device may be right"


def test_virtual_functions_by_their_ids() -> None:
    virtual = tuple(values.nic(address=f"0000:5c:00.{n}", id="15b3:101e", virtual_function=True) for n in (1, 2))
    numbers = Numbers(virtual_functions={SRIOV: ("15b3:101e",)})
    pci = values.pci(values.nic(), *virtual)
    assert book(SRIOV, ("0000:5c:00.1", "0000:5c:00.2"), numbers=numbers, pci=pci).count_dead == 0
    found = book(SRIOV, ("0000:5c:00.1", "0000:5c:00.3"), numbers=numbers, pci=pci)
    assert (found.dead, found.missing) == (("0000:5c:00.3",), ("0000:5c:00.2",))
    assert book(SRIOV, ("mlx5_core.sf.4", "mlx5_core.sf.5"), numbers=numbers, pci=pci).dead == ()


def test_one_gpu_is_named_by_its_address() -> None:
    known = {f"GPU-{number}": f"0000:{number:02x}:00.0" for number in range(8)}
    pods = (holding("ns/pod-a", GPU, "GPU-0", "GPU-1"), holding("ns/pod-b", GPU, "GPU-2", "GPU-3"))
    told = {
        "kubelet": kubelet(pods=pods),
        "cluster": advertising({GPU: "8"}),
        "pci": bus(8),
        "gpus": known,
    }
    assert book(GPU, uuids(7), **told).line == (
        "nvidia.com/gpu: hardware 8, capacity 8, allocatable 7, in use 4 (ns/pod-a 2, ns/pod-b 2); "
        "0000:07:00.0 is not advertised"
    )


SPLIT = [
    ({GPU: uuids(4), SHARED: ("GPU-4::0", "GPU-4::1")}, 0),
    ({GPU: uuids(4), MIG: ("MIG-a",)}, 0),
    ({GPU: uuids(4), MIG: ()}, 4),
    ({GPU: uuids(4), HCA: ("1",)}, 4),
]


@pytest.mark.parametrize(("healthy", "hidden"), SPLIT, ids=range(len(SPLIT)))
def test_devices_that_another_resource_offers_are_not_hidden(healthy: Any, hidden: int) -> None:
    found = device_books.books([], kubelet=kubelet(pods=()), allocatable=allocatable(healthy), pci=bus(8))
    assert next(one.hidden for one in found if one.resource == GPU) == hidden


def test_the_kubelet_knows_it_before_the_node() -> None:
    found = book(GPU, uuids(7), cluster=advertising({GPU: "8"}))
    assert (found.offered, found.total) == (7, 8)
    found = book(GPU, uuids(8, 2), cluster=advertising({GPU: "8"}))
    assert (found.offered, found.total) == (16, 16)


WHOSE_WORD = [
    # resource     the kubelet's ids   the Node     offered
    (GPU, {}, {GPU: "8"}, 0),
    (GPU, None, {GPU: "8"}, 8),
    ("aliyun/eni", {}, {"aliyun/eni": "7"}, 7),
    ("aliyun/eni", {"aliyun/eni": ("a",)}, {"aliyun/eni": "7"}, 1),
    (GPU, {}, {}, 0),
    (GPU, None, {}, None),
    (HCA, None, {HCA: "1k"}, 1000),
]


@pytest.mark.parametrize(("name", "ids", "told", "offered"), WHOSE_WORD, ids=range(len(WHOSE_WORD)))
def test_whose_word_counts(name: str, ids: Any, told: Any, offered: int | None) -> None:
    healthy = None if ids is None else allocatable(ids)
    assert book(name, kubelet=kubelet(pods=()), allocatable=healthy, cluster=advertising(told)).offered == offered


def test_a_resource_that_was_written_by_hand_is_the_nodes() -> None:
    """No plugin registered it, and nobody expects it."""
    told = advertising({"example.com/dongle": "4", "cpu": "64", "requests.kubernetes.io/x": "3", "a/b": "1500m"})
    found = device_books.books([], kubelet=kubelet(pods=()), allocatable=allocatable({}), cluster=told)
    assert [(one.resource, one.offered, one.healthy) for one in found] == [("example.com/dongle", 4, None)]


def test_enis_of_the_instance_type() -> None:
    found = device_books.books(
        ["aliyun/eni", "aliyun/member-eni"], kubelet=None, cluster=advertising({"aliyun/eni": "7"})
    )
    assert [one.line for one in found] == [
        "aliyun/eni: at most 7, capacity 7, allocatable 7",
        "aliyun/member-eni: at most 12",
    ]


def test_a_pod_whose_devices_are_on_two_numa_nodes_holds_all_of_them() -> None:
    """The kubelet lists the devices of a container by NUMA node."""
    held = ContainerDevices("train", (PluginDevices(GPU, ("GPU-0",), (0,)), PluginDevices(GPU, ("GPU-4",), (1,))), 0)
    assert book(GPU, kubelet=kubelet(pods=(PodDevices("ns", "a", (held,)),))).holders == (Holder("ns/a", 2),)


def entry(uid: str, *ids: str) -> CheckpointEntry:
    return CheckpointEntry(uid, "train", GPU, {"0": ids[:1], "1": ids[1:]})


def pod(uid: str, name: str, phase: str = "Running", kind: str = "MPIJob") -> Any:
    return cluster_values.pod(uid=uid, namespace="ns", name=name, phase=phase, owner=Owner("v1", kind, "x"))


LISTED = (holding("ns/a", GPU, "GPU-0", "GPU-1"), holding("ns/b", GPU, "GPU-2"))
WRITTEN = Checkpoint(1.7e9, (entry("u-a", "GPU-0", "GPU-1"), entry("u-b", "GPU-2")), {GPU: uuids(8)})
A, B = Holder("ns/a", 2), Holder("ns/b", 1)
HOLDERS = [
    # listed      checkpoint  pods of Kubernetes                                   holders
    (LISTED, None, None, (A, B)),
    (LISTED, None, (pod("u-a", "a"), pod("u-b", "b", "Succeeded")), (A,)),
    (LISTED, None, (pod("u-a", "a", "Failed"), pod("u-b", "b", "Succeeded")), ()),
    (LISTED, None, (pod("u-a", "a"),), (A, B)),
    (LISTED[:1], WRITTEN, None, (A,)),  # the checkpoint keeps pods that have ended
    ((), WRITTEN, None, ()),
    (SILENT, WRITTEN, (pod("u-a", "a"), pod("u-b", "b", "Succeeded")), (A,)),
    (SILENT, WRITTEN, (pod("u-a", "a"),), (A,)),
    (SILENT, WRITTEN, None, (Holder("pod u-a", 2), Holder("pod u-b", 1))),
    (SILENT, SILENT, None, None),
    (SILENT, None, None, None),
]


@pytest.mark.parametrize(("listed", "checkpoint", "pods", "held"), HOLDERS, ids=range(len(HOLDERS)))
def test_who_holds_it(listed: Any, checkpoint: Any, pods: Any, held: Any) -> None:
    told = None if pods is None else advertising({}, pods=pods, at=4000.0)
    shows: dict[str, Any] = {
        "kubelet": kubelet(pods=listed),
        "plugins": plugins(checkpoint=checkpoint),
        "cluster": told,
    }
    assert book(GPU, **shows).holders == held


REMADE = [
    # controller     Kubernetes' view is older than the kubelet's list by    does ns/a hold its devices?
    ("MPIJob", 0.0, False),
    ("MPIJob", 1.0, False),
    ("MPIJob", 10.0, True),
    ("StatefulSet", 600.0, True),
    ("Job", 600.0, False),
    ("ReplicaSet", 600.0, False),
]


@pytest.mark.parametrize(("controller", "age", "holds"), REMADE)
def test_a_pod_that_may_have_been_remade_under_its_name_holds_devices(controller: str, age: float, holds: bool) -> None:
    """The kubelet's list has no UIDs, and an operator of jobs gives a worker the name of the one that failed."""
    told = advertising({}, pods=(pod("u-a", "a", "Failed", controller),), at=4000.0 - age)
    assert bool(book(GPU, kubelet=kubelet(pods=LISTED[:1]), cluster=told).holders) == holds


def test_a_hundred_pods_are_counted_and_a_few_named() -> None:
    pods = tuple(holding(f"ns/p{number:03}", HCA, str(number)) for number in range(100))
    line = book(HCA, kubelet=kubelet(pods=pods)).line
    assert "in use 100 (ns/p000 1, " in line
    assert line.endswith("and 92 more pods)")


NAMES = st.sampled_from([GPU, SHARED, MIG, HCA, ERDMA, EFA, SRIOV, "aliyun/eni", "amd.com/gpu", "example.com/foo"])
UNITS = st.lists(st.one_of(st.sampled_from(["GPU-0", "GPU-1::0", "MIG-a", "7", "erdma_0/3", "eni-1"]), st.text()))


HARDWARE = st.tuples(st.integers(0, 9), st.integers(0, 4))


@given(NAMES, UNITS, HARDWARE, st.integers(0, 5), st.integers(0, 20))
def test_the_books_add_up(name: str, units: list[str], counts: tuple[int, int], factor: int, capacity: int) -> None:
    on_bus, devices = counts
    numbers = Numbers(per_device={name: factor}, virtual_functions={SRIOV: ("15b3:101e",)})
    shows = {"pci": bus(on_bus), "rdma": values.rdma(devices=eris(devices)), "numbers": numbers}
    found = book(name, units, cluster=advertising({name: str(capacity)}), **shows)
    assert found.offered is not None
    assert found.total is not None
    assert 0 <= found.offered <= found.total
    assert not (found.count_dead and found.hidden), "both at once only a swap could explain, and no count shows one"
    assert bool(found.count_dead) <= bool(found.offered), "what is not offered deceives nobody"
    assert found.hidden <= (found.hardware or 0)
    assert found.line.startswith(f"{name}: ")
    assert "\n" not in found.line.replace(name, "")


@given(st.integers(1, 8), st.integers(1, 16))
def test_no_number_of_replicas_looks_like_a_fault(count: int, replicas: int) -> None:
    found = book(GPU, uuids(count, replicas), pci=bus(count))
    assert (found.count_dead, found.hidden, found.devices_offered) == (0, 0, count)
