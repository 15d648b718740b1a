"""pci.answers by its rows."""

from __future__ import annotations

import errno

import pytest

from nodeprep.checks.pci.answers import CHECK
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Unreadable, Why
from tests.values import BDF, beside, by_kind, expected, nic, pci, port, rdma, say, verdicts

DEAF = Unreadable(Why.IO_ERROR, "/sys/bus/pci/devices/0000:5c:00.0/config", errno.EIO)
PLAIN = {"rdma": (), "id": "8086:1533"}

ROWS = [
    ({}, "ok Answers"),
    ({"answers": False}, "fail NoAnswer"),
    ({"answers": False, **PLAIN}, "fail NoAnswer"),
    ({"power": "D3cold"}, "fail NoPower"),
    ({"power": "D3cold", "driver": None}, "ok Answers"),
    ({"power": "D3cold", **PLAIN}, "ok Answers"),
    ({"power": "D3cold", "answers": None}, "fail NoPower"),
    ({"power": "D3hot"}, "ok Answers"),
    ({"power": "unknown"}, "ok Answers"),
    ({"power": None}, "ok Answers"),
    ({"answers": None}, "absent Nothing"),
    ({"answers": DEAF}, "unknown CannotLook"),
    ({"pci_class": "030200", "rdma": (), "answers": False}, "absent Nothing"),
]


@pytest.mark.parametrize(("different", "says"), ROWS)
def test_says(different: dict[str, object], says: str) -> None:
    assert say(CHECK, pci(nic(**different)), expected()) == says


def test_a_plain_nic_without_power_counts_if_the_profile_expects_it() -> None:
    wants = expected(devices={BDF: DeviceWant()})
    assert say(CHECK, pci(nic(power="D3cold", **PLAIN)), wants) == "fail NoPower"


def test_a_spare_or_front_end_function_without_power_only_warns() -> None:
    bus = pci(nic(), nic(address="0000:5c:00.1", rdma=("mlx5_4",), power="D3cold"))
    seen = rdma(port(), beside())
    assert say(CHECK, bus, by_kind(bus, seen)) == "ok Answers; warn NoPower"


def test_machines_read_the_power_state() -> None:
    (verdict,) = verdicts(CHECK, pci(nic(power="D3hot")), expected())
    assert verdict.observed == "D3hot"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(nic(answers=False)), expected())
    assert verdict.message == (
        "0000:5c:00.0 (15b3:1021, mlx5_3/eth2) is listed, but its configuration space reads as all ones: "
        "it has left the bus"
    )
