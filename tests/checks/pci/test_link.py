"""pci.link by its rows, and its arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.pci.link import CHECK
from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.machine import pcie
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.facts.machine.pcie import LANE
from nodeprep.facts.machine.system import System
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Unreadable, Why
from tests.values import BDF, by_kind, changed, expected, nic, pci, port, rdma, say, verdicts

FULL = expected(devices={BDF: DeviceWant(width=16, speed=32.0)})
DAMAGE = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:5c:00.0/current_link_width")


def machine(virtual: bool | None = False) -> System:
    return System(0.0, "node", "6.1.0", "", virtual, "", "", "")


FIRM_ROWS = [
    ({}, FULL, "ok AsExpected"),
    ({"width": 8}, FULL, "fail BelowPortRate"),  # 252 Gb/s under a port of 400
    ({"width": 15}, FULL, "warn Degraded"),  # 472 still carry it
    ({"speed": 16.0}, FULL, "fail BelowPortRate"),
    ({"speed": 128.0}, FULL, "ok AsExpected"),
    ({"width": 8, "speed": None}, FULL, "fail BelowPortRate"),  # at any speed of its board
    ({"width": None, "speed": 16.0}, FULL, "fail BelowPortRate"),
    ({"width": None, "speed": None}, FULL, "absent Nothing"),
    ({"width": 32}, FULL, "ok AsExpected"),
    ({"width": 8}, expected(devices={BDF: DeviceWant(width=8, speed=32.0)}), "ok AsExpected"),  # as captured
    ({"width": 8}, expected(devices={BDF: DeviceWant(width=8)}), "ok AsExpected"),
    ({"width": 8, "virtual_function": True}, FULL, "absent Nothing"),
    ({"width": DAMAGE}, FULL, "unknown CannotLook"),
    ({"width": DAMAGE, "speed": 2.5}, FULL, "fail BelowPortRate"),
    ({"width": DAMAGE, "speed": 2.5, "max_width": DAMAGE}, FULL, "fail BelowPortRate"),
    ({"speed": DAMAGE, "width": 1}, FULL, "fail BelowPortRate"),
]


@pytest.mark.parametrize(("different", "wants", "says"), FIRM_ROWS)
def test_against_a_profile(different: dict[str, Any], wants: Expected, says: str) -> None:
    assert say(CHECK, pci(nic(**different)), rdma(port()), wants) == says
    assert say(CHECK, pci(nic(**different)), rdma(port()), wants, machine(virtual=True)) == says
    assert say(CHECK, pci(nic(**different)), rdma(port()), wants, machine(virtual=False)) == says


PORT_ROWS = [
    (port(rate=252.0), "warn Degraded"),
    (port(rate=253.0), "fail BelowPortRate"),
    (port(rate=400.0, state="1: DOWN"), "warn Degraded"),
    (port(rate=400.0, bdf="0000:01:00.0"), "warn Degraded"),
    (port(rate=400.0, netdev="bond0"), "warn Degraded"),
    (port(rate=400.0, netdev=None), "fail BelowPortRate"),
    (port(rate=Unreadable(Why.MALFORMED, "rate")), "unknown CannotLook"),
]


@pytest.mark.parametrize(("below", "says"), PORT_ROWS)
def test_what_its_port_needs(below: Any, says: str) -> None:
    assert say(CHECK, pci(nic(width=8)), rdma(below), FULL) == says


def test_a_port_that_is_down_needs_what_it_is_wanted_to_run_at() -> None:
    down = port(state="1: DOWN", rate=10.0)
    wants = expected(devices=FULL.devices, best_rates={down.subject.key: Expectancy(400.0, "7 of 8 alike", False)})
    assert say(CHECK, pci(nic(width=8)), rdma(down), wants) == "fail BelowPortRate"


def test_two_ports_of_a_board_are_not_added_up() -> None:
    ports = rdma(port(rate=200.0), port(number=2, rate=200.0))
    assert say(CHECK, pci(nic(width=8)), ports, FULL) == "warn Degraded"


NO_PROFILE_ROWS = [
    ({"width": 8}, False, "warn BelowPortRate"),
    ({"width": 8}, True, "ok AsExpected"),
    ({"width": 8}, None, "ok AsExpected"),  # may be a virtual machine that makes its links up
    ({"width": 8, "max_width": 8}, False, "ok AsExpected"),  # the board cannot do more
    ({"speed": 16.0}, False, "warn BelowPortRate"),
    ({"speed": 16.0, "max_speed": 16.0}, False, "ok AsExpected"),
    ({"speed": 16.0, "max_speed": None, "max_width": None}, False, "ok AsExpected"),
    ({"width": 13, "max_width": 16}, False, "ok AsExpected"),  # 409.5 Gb/s for 400
    ({"width": 12, "max_width": 16}, False, "warn BelowPortRate"),
]


@pytest.mark.parametrize(("different", "virtual", "says"), NO_PROFILE_ROWS)
def test_alone_and_without_a_profile(different: dict[str, Any], virtual: bool | None, says: str) -> None:
    assert say(CHECK, pci(nic(**different)), rdma(port()), expected(), machine(virtual)) == says


def rails(count: int, **different: Any) -> list[PciDevice]:
    return [nic(**({"address": f"0000:0{index}:00.0"} | different)) for index in range(count)]


def last(*nics: PciDevice, virtual: bool | None = None) -> str:
    ports = (
        port(bdf=one.address, device=f"mlx5_{index}", like=f"{one.id or 'MT4129'} MT_0000000838 Ethernet")
        for index, one in enumerate(nics)
    )
    seen = rdma(*ports)
    return say(CHECK, pci(*nics), seen, by_kind(pci(*nics), seen), machine(virtual)).rpartition("; ")[2]


def test_one_good_like_shows_what_is_wanted() -> None:
    assert last(*rails(2), nic(width=8)) == "fail BelowPortRate"
    assert last(*rails(3), nic(speed=16.0)) == "fail BelowPortRate"
    assert last(*rails(3), nic(width=15)) == "warn Degraded"
    assert last(*rails(3), nic(width=8), virtual=True) == "ok AsExpected"
    assert last(*rails(1), nic(width=8)) == "fail BelowPortRate"
    assert last(*rails(1), nic(width=8), nic(address="0000:5d:00.0", width=8)) == "fail BelowPortRate"
    assert last(*rails(3, virtual_function=True), nic(width=8)) == "ok AsExpected"


def test_a_spare_or_front_end_only_warns() -> None:
    bus = pci(*rails(2), nic(address="0000:00:00.1"), nic(address="0000:01:00.1", width=8))
    ports = [port(bdf=one.address, device=f"mlx5_{index}") for index, one in enumerate(bus.devices)]
    seen = rdma(*ports[:3], changed(ports[3], state="1: DOWN"))
    assert say(CHECK, bus, seen, by_kind(bus, seen)).endswith("warn Degraded")


def test_all_alike_in_narrow_slots_are_fine() -> None:
    assert last(*rails(4, speed=16.0), nic(speed=16.0), virtual=False) == "ok AsExpected"


def test_another_board_is_no_like() -> None:
    assert last(*rails(4), nic(width=8, max_width=8)) == "ok AsExpected"
    assert last(*rails(4), nic(width=8, max_width=8, max_speed=DAMAGE)) == "unknown CannotLook"
    assert last(*rails(4), nic(width=8, max_speed=DAMAGE)) == "fail BelowPortRate"
    assert last(*rails(4), nic(width=8, max_speed=DAMAGE, max_width=DAMAGE)) == "fail BelowPortRate"
    assert last(*rails(4), nic(width=8, id="15b3:101d")) == "ok AsExpected"
    assert last(*rails(4, id=""), nic(width=8, id="")) == "ok AsExpected"
    front = nic(width=8)
    ports = (port(bdf=f"0000:0{index}:00.0") for index in range(4))
    seen = rdma(*ports, port(bdf=BDF, like="15b3:1021 MT_0000000001 Ethernet"))
    bus = pci(*rails(4), front)
    assert say(CHECK, bus, seen, by_kind(bus, seen)).endswith("ok AsExpected")
    assert last(*rails(4, subsystem="15b3:0040"), nic(width=8, subsystem="15b3:0041")) == "ok AsExpected"
    assert last(*rails(4, subsystem="15b3:0041"), nic(width=8, subsystem=DAMAGE)) == "fail BelowPortRate"


def test_one_damaged_file_leaves_the_other_nics_their_verdicts() -> None:
    found = say(CHECK, pci(nic(width=DAMAGE), *rails(3)), rdma(), expected())
    assert found == "unknown CannotLook; ok AsExpected; ok AsExpected; ok AsExpected"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(nic(width=8, speed=16.0)), rdma(port()), FULL)
    assert verdict.message == (
        "0000:5c:00.0 (15b3:1021, mlx5_3/eth2) has x8 at 16 GT/s, 126 Gb/s; x16 is wanted by profile test and "
        "32 GT/s are wanted by profile test; its port runs at 400 Gb/s"
    )
    assert (verdict.observed, verdict.expected) == ("x8 at 16 GT/s", "x16 at 32 GT/s")


def test_a_width_that_cannot_be_read_is_said_and_gives_no_bandwidth() -> None:
    (verdict,) = verdicts(CHECK, pci(nic(width=DAMAGE, speed=2.5)), rdma(port()), FULL)
    shows = "0000:5c:00.0 (15b3:1021, mlx5_3/eth2) has a width that cannot be read at 2.5 GT/s; "
    assert verdict.message.startswith(shows), verdict.message
    assert verdict.observed == "a width that cannot be read at 2.5 GT/s"


@given(st.sampled_from(sorted(LANE)), st.sampled_from((1, 2, 4, 8, 12, 16, 32)))
def test_bandwidth_is_below_the_raw_rate_and_loses_a_fifth_at_most(speed: float, width: int) -> None:
    found = pcie.bandwidth(width, speed)
    assert found is not None
    assert 0.8 * speed * width <= found < speed * width


@given(st.floats(allow_nan=False).filter(lambda speed: speed not in LANE), st.integers(1, 32))
def test_a_speed_that_is_newer_than_the_table_gives_no_number(speed: float, width: int) -> None:
    assert pcie.bandwidth(width, speed) is None


KERNEL_SAYS = [(8.0, 8, 63.008), (16.0, 16, 252.048), (32.0, 16, 504.112), (5.0, 8, 32.0), (64.0, 16, 1008.0)]


@pytest.mark.parametrize(("speed", "width", "gbps"), KERNEL_SAYS)
def test_bandwidth_is_what_the_kernel_prints_at_probe(speed: float, width: int, gbps: float) -> None:
    assert pcie.bandwidth(width, speed) == pytest.approx(gbps, rel=0.001)
