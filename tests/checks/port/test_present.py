"""port.present: who is missing, and what a count lacks."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.present import CHECK
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import MissingDevice, Shortage
from nodeprep.facts.machine.pci import Auxiliary, PciDevice
from nodeprep.facts.rdma.rdma import Port, RdmaDevice
from nodeprep.job_profile import AtLeast, DeviceWant, Expectation, PortWant, Profile
from nodeprep.model import SEVERAL, Lack, Subject, Unreadable, Why
from tests.values import BDF, device, expected, nic, pci, port, rdma, say, verdicts

UNREAD = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:5c:00.0/vendor")
OFFER = Auxiliary("mlx5_core.rdma.0", None)
GONE = MissingDevice(Subject("0000:5d:00.0", 1, "mlx5_4/1 at 0000:5d:00.0"), None, "profile rails")
OTHER = MissingDevice(Subject("0000:5e:00.0", 1, "mlx5_5/1 at 0000:5e:00.0"), None, "profile rails")
SHORT = Shortage(7, 8, "Ethernet 400 Gb/s ports", "profile rails (at least 8 ports)")


def test_ports_and_nothing_missing() -> None:
    assert say(CHECK, rdma(port()), expected()) == "ok Present"


def test_each_missing_port_is_told_where_it_was() -> None:
    found = verdicts(CHECK, rdma(port()), expected(missing_ports=(GONE, OTHER)))
    assert [(verdict.subject, verdict.reason) for verdict in found] == [
        (GONE.subject, "Missing"),
        (OTHER.subject, "Missing"),
    ]
    assert found[0].message == (
        "mlx5_4/1 at 0000:5d:00.0 is not there: profile rails wants it, the node shows 1 RDMA port; "
        "see whether the NIC is on the bus (lspci -nn) and what its driver said (dmesg)"
    )


ANOTHER: list[tuple[dict[str, Any], tuple[object, ...], str]] = [
    # what the profile wants      what is there instead                                     told
    ({"id": "15b3:1021"}, (device(id="15b3:101d"),), "15b3:101d"),
    ({"id": "15b3:1021"}, (device(id=""),), ""),  # a chip cannot be compared with an id
    ({"id": "MT4129"}, (device(id="", hca_type="MT4125"),), "MT4125"),
    ({"id": "MT4129"}, (device(id="15b3:1021", hca_type="MT4129"),), ""),
    ({"id": "15b3:1021"}, (nic(id="15b3:101d", rdma=()),), "15b3:101d"),
    ({"id": "15b3:1021"}, (nic(rdma=()),), ""),  # it has no RDMA device
    ({"id": "15b3:1021"}, (nic(id=UNREAD, rdma=()),), ""),
    ({"id": None}, (device(),), ""),
    ({"id": "15b3:1021"}, (), ""),
]


@pytest.mark.parametrize(("want", "there", "told"), ANOTHER)
def test_a_device_that_is_there_as_another_model_is_not_absent(
    want: dict[str, Any], there: tuple[object, ...], told: str
) -> None:
    gone = MissingDevice(Subject(BDF, 1, f"mlx5_3/1 at {BDF}"), want["id"], "profile rails")
    devices = tuple(one for one in there if isinstance(one, RdmaDevice))
    bus = pci(*(one for one in there if isinstance(one, PciDevice)))
    (verdict,) = verdicts(CHECK, rdma(port(number=2), devices=devices), expected(missing_ports=(gone,)), bus)
    assert (verdict.status, verdict.reason) == ("fail", "Missing")
    if told:
        assert verdict.message == (
            f"mlx5_3/1 at {BDF} is there as another model, {told}: profile rails wants a {want['id']}; "
            "see whether a board was changed (lspci -nn)"
        )
        assert (verdict.observed, verdict.expected) == (told, want["id"])
    else:
        assert verdict.message.startswith(f"mlx5_3/1 at {BDF} is not there: ")


def test_a_name_that_another_model_has_is_told_as_such() -> None:
    """A copy without PCI addresses knows devices by name only."""
    profile = Profile("rails", expect=Expectation({"mlx5_3": DeviceWant(id="MT4129")}, {"mlx5_3/1": PortWant()}))
    seen = rdma(port(bdf=""), devices=(device(bdf="", id="", hca_type="MT4125"),))
    (verdict,) = verdicts(CHECK, seen, inventory.derive(profile, None, seen))
    assert "is there as another model, MT4125: profile rails wants a MT4129" in verdict.message


def test_a_missing_port_fails() -> None:
    assert say(CHECK, rdma(port()), expected(missing_ports=(GONE,))) == "fail Missing"


def test_too_few_is_the_nodes() -> None:
    rails = port(), port(number=2)
    counted = {rail.subject.key: SHORT.by for rail in rails}
    (verdict,) = verdicts(CHECK, rdma(*rails), expected(shortage=SHORT, wants_rdma=True, counted=counted))
    assert (verdict.subject, verdict.status, verdict.reason) == (SEVERAL, "fail", "TooFewPorts")
    assert verdict.message == (
        "7 of at least 8 Ethernet 400 Gb/s ports are there; wanted by profile rails (at least 8 ports); "
        "compare ls /sys/class/infiniband with lspci -nn"
    )


def test_ports_that_are_there_and_do_not_count_are_named() -> None:
    rail, slow, dead = port(), port(number=2, rate=100.0), port(number=3, state="1: DOWN", rate=UNREAD)
    wants = expected(shortage=SHORT, wants_rdma=True, counted={rail.subject.key: SHORT.by})
    (verdict,) = verdicts(CHECK, rdma(rail, slow, dead), wants)
    assert (
        "ports are there; not counted: mlx5_3/2 (ACTIVE, 100 Gb/s, Ethernet), mlx5_3/3 (DOWN, Ethernet); wanted by"
        in verdict.message
    )


def test_a_nic_without_its_rdma_device_is_none_of_the_ports_that_are_there() -> None:
    counted = {port().subject.key: SHORT.by, "0000:9a:00.0/1": SHORT.by}
    (verdict,) = verdicts(CHECK, rdma(port()), expected(shortage=SHORT, wants_rdma=True, counted=counted))
    told = "6 of at least 8 Ethernet 400 Gb/s ports are there, and 1 without an RDMA device: 0000:9a:00.0/1; wanted by"
    assert verdict.message.startswith(told)
    assert (verdict.observed, verdict.lack) == ("6", Lack(1, ("0000:5c:00.0", "0000:9a:00.0")))


MIXED = [
    # fast ports, slower ones, what the profile asks for                says
    (4, 4, {"count": 8}, "warn SlowerCounted"),
    (4, 4, {"count": 8, "rate": 200.0}, "ok Present"),  # the operator says that they are enough
    (4, 4, {"count": 8, "suggested": True}, "ok Present"),
    (4, 4, {"count": 4}, "ok Present"),
    (8, 4, {"count": 8}, "ok Present"),
    (4, 3, {"count": 8}, "fail TooFewPorts"),
]


def mixed(fast: int, slow: int, rate: float = 200.0) -> list[Port]:
    return [
        port(
            device=f"mlx5_{one}",
            bdf=f"0000:4{one:x}:00.0",
            netdev=f"eth{one}",
            rate=400.0 if one < fast else rate,
            like=f"15b3:{'1021' if one < fast else '101d'} MT_{one < fast} Ethernet",
        )
        for one in range(fast + slow)
    ]


def counting(**want: Any) -> Profile:
    return Profile("rails", expect=Expectation(at_least=AtLeast(**want)))


@pytest.mark.parametrize(("fast", "slow", "want", "says"), MIXED)
def test_slower_ports_that_fill_a_count_are_told(fast: int, slow: int, want: dict[str, Any], says: str) -> None:
    """Two models may be meant so. Or faster ports left the bus, and the front end's took their place."""
    seen = rdma(*mixed(fast, slow))
    assert say(CHECK, seen, inventory.derive(counting(**want), None, seen)) == says


def test_what_was_counted_is_told() -> None:
    seen = rdma(*mixed(4, 2))
    (verdict,) = verdicts(CHECK, seen, inventory.derive(counting(count=6), None, seen))
    assert verdict.message == (
        "6 RDMA ports count, 2 of them slower than the 400 Gb/s of the others: mlx5_4/1, mlx5_5/1; wanted by "
        "profile rails (at least 6 ports), which states no rate: if faster ports are gone, nothing here says so"
    )
    assert verdict.args == {"rate": "200"}


@pytest.mark.parametrize(
    ("rate", "says"), [(None, "fail TooFewPorts"), (100.0, "ok Present"), (150.0, "fail TooFewPorts")]
)
def test_ports_at_a_quarter_count_where_the_profile_states_their_rate(rate: float | None, says: str) -> None:
    seen = rdma(*mixed(8, 4, rate=100.0))
    assert say(CHECK, seen, inventory.derive(counting(count=12, rate=rate), None, seen)) == says


ON_THE_BUS = [
    # what is on the bus beside the rail                                   named
    (nic(address="0000:9a:00.0", rdma=(), netdevs=("eth9",), driver=None), "0000:9a:00.0 (15b3:1021, eth9)"),
    (nic(address="0000:9a:00.0", rdma=(), netdevs=(), id="14e4:16d7"), ""),  # not made for RDMA
    (nic(address="0000:9a:00.0", rdma=(), netdevs=(), id=UNREAD, auxiliaries=(OFFER,)), "0000:9a:00.0"),
    (nic(address="0000:9a:00.0", rdma=(), netdevs=(), virtual_function=True), ""),
    (nic(address="0000:9b:00.0", rdma=()), ""),  # it carries a software device
    (nic(address=BDF, rdma=()), ""),  # it counts
    (nic(address="0000:9a:00.0"), ""),
]


@pytest.mark.parametrize(("beside", "named"), ON_THE_BUS)
def test_nics_that_are_made_for_rdma_and_have_no_device_are_named(beside: PciDevice, named: str) -> None:
    wants = expected(shortage=SHORT, wants_rdma=True, counted={port().subject.key: SHORT.by})
    seen = rdma(port(), devices=(device(name="rxe0", bdf="0000:9b:00.0", parent="eth5"),))
    (verdict,) = verdicts(CHECK, seen, wants, pci(nic(), beside))
    told = f"; on the bus without an RDMA device: {named}" if named else ""
    assert f"ports are there{told}; wanted by" in verdict.message


def test_nothing_there_and_nothing_expected_is_no_question() -> None:
    assert say(CHECK, rdma(), expected()) == "absent Nothing"
