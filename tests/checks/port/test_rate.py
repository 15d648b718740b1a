"""port.rate by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.rate import CHECK
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expectancy, Expected
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import AtLeast, DeviceWant, Expectation, PortWant, Profile
from nodeprep.model import Unreadable, Why
from tests.values import device, expected, link, links, port, rdma, say, verdicts, wanted

KEY = "0000:5c:00.0/1"
CUT = Unreadable(Why.MALFORMED, "/sys/class/infiniband/mlx5_3/ports/1/rate")
FIRM = expected(firm={KEY: PortWant(rate=400.0)})
COUNTED = expected(counted={KEY: "profile"}, counted_rate=400.0)
ALIKE = expected(rails={KEY: "7 of 8 alike"}, best_rates={KEY: Expectancy(400.0, "7 of 8 alike", firm=False)})
PRESENT = expected(firm={KEY: PortWant()})
UNNEEDED = expected(firm={KEY: PortWant(rate=400.0, required=False)})

ROWS = [
    # expected  rate   says
    (FIRM, 400.0, "ok Rate"),
    (FIRM, 399.5, "fail BelowRate"),
    (FIRM, 800.0, "ok Rate"),
    (FIRM, CUT, "unknown CannotLook"),
    (COUNTED, 200.0, "fail BelowRate"),
    (COUNTED, 400.0, "ok Rate"),
    (ALIKE, 200.0, "warn BelowRate"),
    (ALIKE, 400.0, "ok Rate"),
    (ALIKE, CUT, "unknown CannotLook"),
    (PRESENT, 100.0, "ok NothingExpected"),
    (PRESENT, CUT, "unknown CannotLook"),
    (UNNEEDED, 100.0, "ok NothingExpected"),
    (UNNEEDED, CUT, "absent Nothing"),
    (expected(), 100.0, "ok NothingExpected"),
    (expected(), CUT, "absent Nothing"),
]


@pytest.mark.parametrize(("wants", "rate", "says"), ROWS)
def test_says(wants: Expected, rate: object, says: str) -> None:
    assert say(CHECK, rdma(port(rate=rate)), wants) == says


@pytest.mark.parametrize("state", ["1: DOWN", "2: INIT"])
def test_only_an_active_port_has_a_rate(state: object) -> None:
    assert say(CHECK, rdma(port(state=state, rate=2.5)), FIRM) == "absent Nothing"


def test_a_port_whose_state_cannot_be_read_is_slow_or_down() -> None:
    assert say(CHECK, rdma(port(state=CUT, rate=2.5)), FIRM) == "fail BelowRate"


LEGS = [
    # Gb/s of two legs, of 200 wanted      says
    (200.0, 200.0, "ok Rate; ok Rate"),
    (200.0, 50.0, "ok Rate; warn BelowRate"),  # as a leg that is down: the bond carries on with the other
    (100.0, 50.0, "fail BelowRate; fail BelowRate"),
    (None, 50.0, "fail BelowRate"),  # None: it is down
    (None, 200.0, "ok Rate"),
    (CUT, 50.0, "unknown CannotLook; warn BelowRate"),
]


def leg(index: int, rate: Any) -> Port:
    shows = {"state": "1: DOWN", "rate": 10.0} if rate is None else {"rate": rate}
    return port(device=f"mlx5_{index}", bdf=f"0000:0{index}:00.0", netdev=f"eth{index}", **shows)


def of_a_bond(expect: Expectation, *ports: Port) -> str:
    bonded = links(
        *(link(name=port.netdev, bdf=port.bdf, master="bond0") for port in ports),
        link(name="bond0", bdf="", kind="bond"),
    )
    seen = rdma(*ports, devices=tuple(device(name=one.device, bdf=one.bdf) for one in ports))
    return say(CHECK, seen, inventory.derive(Profile("good", expect=expect), None, seen, bonded), bonded)


@pytest.mark.parametrize(("one", "other", "says"), LEGS)
def test_of_a_captured_bond_one_leg_that_is_up_must_be_fast(one: Any, other: Any, says: str) -> None:
    ports = leg(0, one), leg(1, other)
    expect = Expectation(
        devices={port.bdf: DeviceWant() for port in ports},
        ports={port.subject.key: PortWant(rate=200.0, required=False, bonded=True) for port in ports},
    )
    assert of_a_bond(expect, *ports) == says


@pytest.mark.parametrize(("one", "other", "says"), LEGS)
def test_of_a_counted_bond_one_leg_that_is_up_must_be_fast(one: Any, other: Any, says: str) -> None:
    assert of_a_bond(Expectation(at_least=AtLeast(2, rate=200.0)), leg(0, one), leg(1, other)) == says


def test_one_unreadable_rate_leaves_the_others_their_verdicts() -> None:
    other = port(device="mlx5_4", bdf="0000:5d:00.0", rate=100.0)
    wants = expected(firm={KEY: PortWant(), other.subject.key: PortWant(rate=400.0)})
    assert say(CHECK, rdma(port(rate=CUT), other), wants) == "unknown CannotLook; fail BelowRate"


def test_message_names_both_rates_and_who_wants_one() -> None:
    (verdict,) = verdicts(CHECK, rdma(port(rate=2.5)), ALIKE)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0 runs at 2.5 Gb/s; 400 Gb/s is wanted by 7 of 8 alike: "
        "cable, transceiver or switch port (ethtool, mlxlink, ibstat)"
    )
    assert (verdict.observed, verdict.expected) == ("2.5 Gb/s", "400 Gb/s")


def test_wanted_up_without_a_number_is_fine_at_any_rate() -> None:
    assert say(CHECK, rdma(port(rate=10.0)), wanted(port(), "7 of 8 alike")) == "ok NothingExpected"
