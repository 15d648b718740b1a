"""gpu.nic-affinity by its rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.gpu.nic_affinity import CHECK
from nodeprep.facts.expected.inventory import MissingDevice
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.model import Subject, Unreadable, Why
from tests.gpu_values import gpu
from tests.values import expected, nic, pci, say, verdicts

BROKEN = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/x/numa_node", detail="no number")


def place(number: int, slot: int) -> str:
    return f"0000:{0x10 * (number + 1) + slot:02x}:00.0"


def ladder(number: int, depth: int = 3) -> tuple[str, ...]:
    """The bridges from the root down to the switch that a GPU and its NIC share."""
    return tuple(f"0000:{0x10 * (number + 1):02x}:{step:02x}.0" for step in range(depth))


def gpu_at(number: int, **different: Any) -> PciDevice:
    usual = {"address": place(number, 1), "bridges": ladder(number), "numa": number // 4}
    return gpu(**(usual | different))


def nic_at(number: int, **different: Any) -> PciDevice:
    usual = {"address": place(number, 2), "bridges": ladder(number), "numa": number // 4, "rdma": (f"mlx5_{number}",)}
    return nic(**(usual | different))


def flat(number: int, numa: Any) -> list[PciDevice]:
    """A GPU and a NIC below root ports of their own."""
    return [gpu_at(number, bridges=(), numa=numa), nic_at(number, bridges=(), numa=numa)]


def hgx(**different: PciDevice) -> list[PciDevice]:
    """Eight GPUs, each below a switch with its NIC; `nic3=` replaces one."""
    found: dict[str, PciDevice] = {}
    for number in range(8):
        found |= {f"gpu{number}": gpu_at(number), f"nic{number}": nic_at(number)}
    return list((found | different).values())


def told(*devices: PciDevice) -> dict[str, str]:
    """The reasons of what is not fine, by address."""
    return {one.subject.place: f"{one.status} {one.reason}" for one in verdicts(CHECK, pci(*devices), expected())
            if one.status not in ("ok", "absent")}  # fmt: skip


FAR = "warn NicFar"
ROWS: list[tuple[list[PciDevice], dict[str, str]]] = [
    (hgx(), {}),
    # one NIC in a slot of the other socket: the GPU beside its place has none near
    (hgx(nic3=nic_at(3, bridges=ladder(12), numa=1)), {place(3, 1): FAR}),
    # a slot below the same root port, but not below the same switch
    (hgx(nic3=nic_at(3, bridges=ladder(3)[:1])), {place(3, 1): FAR}),
    # two NICs below one switch, none below the other
    (hgx(nic3=nic_at(3, bridges=ladder(4))), {place(3, 1): FAR}),
    # no common bridges at all: NUMA nodes decide
    ([one for number in range(8) for one in flat(number, number // 4)], {}),
    # five NICs on one node and three on the other
    ([one for number in range(8) for one in flat(number, number // 4)[:1]]
     + [nic_at(number, bridges=(), numa=0 if number < 5 else 1) for number in range(8)], {place(7, 1): FAR}),
    # a virtual machine: -1 everywhere
    ([one for number in range(8) for one in flat(number, None)], {}),
    # -1 of one NIC alone is unknown, not far
    ([*[one for number in range(7) for one in flat(number, 0)], gpu_at(7, bridges=(), numa=0),
      nic_at(7, bridges=(), numa=None)], {}),
    # no majority: nobody knows how the node should look
    ([*flat(0, 0), *flat(1, 0), gpu_at(2, bridges=(), numa=0), gpu_at(3, bridges=(), numa=0),
      nic_at(4, bridges=(), numa=1), nic_at(5, bridges=(), numa=1)], {}),
    # four GPUs share one NIC
    ([*[gpu_at(number, bridges=(), numa=0) for number in range(4)], nic_at(0, bridges=(), numa=0)], {}),
    ([gpu_at(0), gpu_at(1), nic_at(0), nic_at(1, bridges=(), numa=1)], {}),  # two GPUs have no majority
    ([gpu_at(number) for number in range(8)], {}),
    ([nic_at(number) for number in range(8)], {}),
    # a GPU of a virtual machine is not ours
    (hgx(gpu3=gpu_at(3, bridges=(), driver="vfio-pci")), {}),
    # a NIC without its driver is where it was
    (hgx(nic3=nic_at(3, rdma=(), driver=None)), {}),
]  # fmt: skip


@pytest.mark.parametrize(("devices", "says"), ROWS)
def test_who_is_far(devices: list[PciDevice], says: dict[str, str]) -> None:
    assert told(*devices) == says


def test_what_cannot_be_read_spoils_its_own_pair() -> None:
    devices = [one for number in range(7) for one in flat(number, 0)]
    devices += [gpu_at(7, bridges=(), numa=BROKEN), nic_at(7, bridges=(), numa=0)]
    assert told(*devices) == {place(7, 1): "unknown CannotLook"}


def test_the_message_names_both_and_the_usual() -> None:
    devices = hgx(nic3=nic_at(3, bridges=ladder(12), numa=1))
    (one,) = (one for one in verdicts(CHECK, pci(*devices), expected()) if one.status == "warn")
    assert one.message == (
        f"{place(3, 1)} (10de:2330) has {place(3, 2)} (15b3:1021, mlx5_3/eth2) on another NUMA node, while 7 of its "
        "like have one below 3 common PCIe bridges: its traffic takes a longer way"
    )


def test_a_missing_nic_is_said_elsewhere() -> None:
    gone = MissingDevice(Subject(place(3, 2)), "15b3:1021", "profile site")
    devices = [one for one in hgx() if one.address != place(3, 2)]
    assert say(CHECK, pci(*devices), expected(missing_devices=(gone,))) == "absent Nothing"


def test_only_rails_count_where_somebody_wants_them() -> None:
    """Beside each GPU a NIC of the front end, and one rail far away: the front end is not what a GPU needs."""
    front = [
        nic_at(number, address=place(number, 3), id="15b3:101d", rdma=(f"mlx5_{number + 10}",)) for number in range(8)
    ]
    rails = {f"{place(number, 2)}/1": "one of 8 rails" for number in range(8)}
    devices = [*hgx(nic3=nic_at(3, bridges=ladder(12), numa=1)), *front]
    found = verdicts(CHECK, pci(*devices), expected(rails=rails))
    assert [one.subject.place for one in found if one.status == "warn"] == [place(3, 1)]


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_names_and_the_order_of_the_bus_decide_nothing(order: list[int], names: list[int]) -> None:
    devices = hgx(nic3=nic_at(3, bridges=ladder(12), numa=1))
    by_number = [devices[2 * number : 2 * number + 2] for number in range(8)]
    renamed = [[by_number[number][0], nic(**_renamed(by_number[number][1], f"x{names[number]}"))] for number in order]
    assert told(*(one for pair in renamed for one in pair)) == {place(3, 1): FAR}


def _renamed(device: PciDevice, name: str) -> dict[str, Any]:
    return {"address": device.address, "bridges": device.bridges, "numa": device.numa, "rdma": (name,)}
