"""The kubelet's PodResources messages as values: only devices, in one order, and never an exception but NotProtobuf."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.facts.kubernetes import pod_resources
from nodeprep.facts.kubernetes.pod_resources import ContainerDevices, PluginDevices, PodDevices
from nodeprep.facts.kubernetes.protobuf import NotProtobuf
from tests.kubelet_values import GPU, answer, container, field, message, plugin_devices, pod_devices

HCA = "rdma/hca_shared_devices"


def test_who_holds_what() -> None:
    told = answer(
        pod_devices(
            "jobs",
            "worker-1",
            container(
                "train",
                plugin_devices(GPU, ["GPU-2"], 1),
                plugin_devices(GPU, ["GPU-1"], 1),
                plugin_devices(HCA, ["7"]),
            ),
            container("sidecar"),
        ),
        pod_devices("kube-system", "dns", container("dns")),
        pod_devices("jobs", "claimant", container("train", claims=2)),
    )
    assert pod_resources.pods(told) == (
        PodDevices("jobs", "claimant", (ContainerDevices("train", (), 2),)),
        PodDevices(
            "jobs",
            "worker-1",
            (
                ContainerDevices(
                    "train", (PluginDevices(GPU, ("GPU-1", "GPU-2"), (1,)), PluginDevices(HCA, ("7",), ())), 0
                ),
            ),
        ),
    )


# Marshalled by k8s.io/kubelet 0.36.3: with CPUs, memory and a claim.
OF_GO = (
    "0a5a0a08776f726b65722d3112046a6f62731a480a05747261696e121d0a0e6e76696469612e636f6d2f67707512054750552d311a040a020801"
    "1a040001ac02220f0a066d656d6f7279108080808080202a091201631a046a6f6273"
)


def test_the_message_of_a_real_library() -> None:
    held = ContainerDevices("train", (PluginDevices(GPU, ("GPU-1",), (1,)),), 1)
    assert pod_resources.pods(bytes.fromhex(OF_GO)) == (PodDevices("jobs", "worker-1", (held,)),)


NUMA = [
    # nodes as they come   as they are
    ((), ()),
    ((0,), (0,)),
    ((1,), (1,)),
    ((1, 0), (0, 1)),
    ((-1,), (-1,)),
]


@pytest.mark.parametrize(("sent", "kept"), NUMA)
def test_numa_nodes(sent: tuple[int, ...], kept: tuple[int, ...]) -> None:
    told = answer(plugin_devices(GPU, ["GPU-1"], *sent))
    assert pod_resources.devices(told) == (PluginDevices(GPU, ("GPU-1",), kept),)


def test_devices_are_the_same_in_any_order_and_in_any_grouping() -> None:
    """The kubelet sends a message for each device, in the order of a Go map."""
    each = [plugin_devices(HCA, [str(number)], number % 2) for number in range(100)]
    together = [plugin_devices(HCA, map(str, range(half, 100, 2)), half) for half in (1, 0)]
    random.Random(5).shuffle(each)
    found = pod_resources.devices(answer(*each))
    assert found == pod_resources.devices(answer(*together)) == pod_resources.devices(answer(*reversed(each)))
    assert [(one.numa, len(one.ids)) for one in found] == [((0,), 50), ((1,), 50)]


def test_nothing_is_registered() -> None:
    assert pod_resources.devices(b"") == ()
    assert pod_resources.pods(b"") == ()
    assert pod_resources.devices(answer(plugin_devices(GPU, []))) == ()


def test_fields_of_a_later_kubelet_are_skipped() -> None:
    later = field(15, b"later") + field(16, 5)
    device = plugin_devices(GPU, ["GPU-1"]) + later
    told = answer(pod_devices("jobs", "a", container("c", device) + later) + later) + later
    assert pod_resources.pods(told) == (
        PodDevices("jobs", "a", (ContainerDevices("c", (PluginDevices(GPU, ("GPU-1",), ()),), 0),)),
    )
    assert pod_resources.devices(answer(device) + field(2, b"\0\1") + field(3, b"\x0a\0") + later) == (
        PluginDevices(GPU, ("GPU-1",), ()),
    )


REFUSED = [
    answer(pod_devices("jobs", "a", container("c", b"\x12\x07x"))),
    answer(message((1, 5))),
    message((1, 5)),
    answer(message((1, b"\xff"))),
    answer(plugin_devices(GPU, ["x"]) + field(3, field(1, field(1, b"zero")))),
]


@pytest.mark.parametrize("told", REFUSED, ids=range(len(REFUSED)))
def test_what_is_malformed_is_refused_as_a_whole(told: bytes) -> None:
    with pytest.raises(NotProtobuf):
        (pod_resources.pods(told), pod_resources.devices(told))


WHOLE = answer(
    pod_devices("jobs", "a", container("c", plugin_devices(GPU, ["GPU-1", "GPU-2"], 0, 1), claims=1)),
    pod_devices("jobs", "b", container("d", plugin_devices(HCA, ["1"]))),
)


@given(
    cut=st.integers(0, len(WHOLE)),
    changes=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4),
    inserted=st.binary(max_size=10),
)
def test_damage_is_refused_or_read(cut: int, changes: list[tuple[int, int]], inserted: bytes) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    damaged = bytes(data[:cut]) + inserted + bytes(data[cut:])
    for read in (pod_resources.pods, pod_resources.devices):
        try:
            read(damaged)
        except NotProtobuf:
            continue
