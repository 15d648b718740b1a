"""pci.numa by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.pci.numa import CHECK
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.model import Unreadable, Why
from tests.values import by_kind, expected, nic, pci, port, rdma, say, verdicts

DAMAGE = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:00:00.0/numa_node")


def machine(virtual: bool | None = False) -> System:
    return System(0.0, "node", "6.1.0", "", virtual, "", "", "")


def bus(nics: list[Any], gpus: list[Any]) -> Pci:
    found = [nic(address=f"0000:0{index}:00.0", numa=node) for index, node in enumerate(nics)]
    cards = [
        nic(address=f"0000:1{index}:00.0", id="10de:2330", pci_class="030200", rdma=(), numa=node)
        for index, node in enumerate(gpus)
    ]
    return pci(*found, *cards)


def says(nics: list[Any], gpus: list[Any], virtual: bool | None = False, wanted: bool = True) -> list[str]:
    ports = [port(bdf=f"0000:0{index}:00.0") for index in range(len(nics))]
    wants = expected(rails={one.subject.key: "7 of 8 alike" for one in ports} if wanted else {})
    return say(CHECK, bus(nics, gpus), rdma(*ports), machine(virtual), wants).split("; ")


NEAR, FAR, NONE, DESIGN = "ok NearGpus", "warn FarFromGpus", "warn NoNode", "ok ElsewhereByDesign"
ROWS = [
    ([0, 0, 1, 1], [0, 1], [NEAR, NEAR, NEAR, NEAR]),
    ([0, None, 1], [0, 1], [NEAR, NONE, NEAR]),
    ([0, 1, 2, 3], [0, 1, 2, 4], [NEAR, NEAR, NEAR, FAR]),
    ([0, 1, 2, 3], [0, 1, 2], [NEAR, NEAR, NEAR, DESIGN]),  # every GPU has one: storage, front end
    ([0, 1, 3], [0, 1, 2], [NEAR, NEAR, FAR]),
    ([0, 1, 2, 3, 3, 3], [0, 1, 2, 4], [NEAR, NEAR, NEAR, FAR, FAR, FAR]),
    ([0, 3, 3, 3], [0, 1], [NEAR, FAR, FAR, FAR]),  # one good rail shows how the node is laid out
    ([3, 3, 3, 3], [0, 1], [DESIGN] * 4),  # none does
    ([0, 1, 2, 3, 3], [0, 1, 2, 4], [NEAR, NEAR, NEAR, FAR, FAR]),
    ([DAMAGE, 0, 1], [0, 1], ["unknown CannotLook", NEAR, NEAR]),
    ([0, None], [0, 0], ["absent Nothing"]),
    ([0, None], [DAMAGE, 0], ["absent Nothing"]),
    ([0, None], [], ["absent Nothing"]),
]


@pytest.mark.parametrize(("nics", "gpus", "found"), ROWS)
def test_says(nics: list[Any], gpus: list[Any], found: list[str]) -> None:
    assert says(nics, gpus) == found


def test_a_rail_that_lost_its_driver_still_shows_the_layout() -> None:
    near = nic(address="0000:00:00.0", numa=0, driver=None, rdma=())
    far = nic(address="0000:01:00.0", numa=3)
    listing, seen = pci(near, far, *bus([], [0, 1]).devices), rdma(port(bdf="0000:01:00.0"))
    assert say(CHECK, listing, seen, machine(), by_kind(listing, seen)) == FAR


def test_a_nic_that_nobody_wants_may_sit_anywhere() -> None:
    assert says([0, 1, 2, 3], [0, 1, 2, 4], wanted=False)[3] == DESIGN


@pytest.mark.parametrize("virtual", [True, None])
def test_only_bare_metal_is_judged(virtual: bool | None) -> None:
    assert says([0, None], [0, 1], virtual) == ["absent Nothing"]


def test_plain_nics_and_virtual_functions_are_not_judged() -> None:
    gpus = bus([], [0, 1]).devices
    others = (nic(rdma=(), numa=None), nic(address="0000:01:00.2", virtual_function=True, numa=None))
    assert say(CHECK, pci(*others, *gpus), rdma(), machine(), expected()) == "absent Nothing"


def test_message() -> None:
    ports = [port(bdf=f"0000:0{index}:00.0") for index in range(4)]
    wants = expected(rails={one.subject.key: "7 of 8 alike" for one in ports})
    *_, verdict = verdicts(CHECK, bus([0, 1, 2, 3], [0, 1, 2, 4]), rdma(*ports), machine(), wants)
    assert verdict.message == (
        "0000:03:00.0 (15b3:1021, mlx5_3/eth2) is on NUMA node 3; GPUs are on nodes 0, 1, 2, 4; "
        "it is wanted by 7 of 8 alike, and the GPUs of node 4 have no NIC near them"
    )
