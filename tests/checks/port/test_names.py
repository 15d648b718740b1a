"""port.names: crossed names are a fault, new names are none."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.names import CHECK
from nodeprep.facts.expected.inventory import Expected, MissingDevice
from nodeprep.facts.rdma.rdma import Port, RdmaDevice
from nodeprep.job_profile import DeviceWant, PortWant
from nodeprep.model import Subject
from tests.values import device, expected, link, links, port, rdma, say, verdicts

A, B = "0000:5c:00.0", "0000:5d:00.0"
GONE = (MissingDevice(Subject("0000:5e:00.0"), None, "profile"),)


def knows(**different: Any) -> Expected:
    """A profile that has mlx5_3 at A and mlx5_4 at B."""
    return expected(devices={A: DeviceWant(rdma="mlx5_3"), B: DeviceWant(rdma="mlx5_4")}, **different)


def called(a: str, b: str) -> tuple[RdmaDevice, RdmaDevice]:
    return device(name=a, bdf=A), device(name=b, bdf=B)


ROWS = [
    # at A       at B       says
    ("mlx5_3", "mlx5_4", "ok AsNamed; ok AsNamed"),
    ("mlx5_4", "mlx5_3", "fail NamesCrossed; fail NamesCrossed"),
    ("rocep92s0", "rocep93s0", "ok Renamed; ok Renamed"),
    ("rocep92s0", "mlx5_3", "fail NamesCrossed; ok Renamed"),
    ("mlx5_3", "rocep93s0", "ok AsNamed; ok Renamed"),
]


@pytest.mark.parametrize(("a", "b", "says"), ROWS)
def test_says_of_devices(a: str, b: str, says: str) -> None:
    assert say(CHECK, rdma(devices=called(a, b)), knows()) == says


def test_without_a_profile_nothing_can_be_said() -> None:
    assert say(CHECK, rdma(port(), devices=called("mlx5_4", "mlx5_3")), expected()) == "absent Nothing"


@pytest.mark.parametrize("missing", [{"missing_devices": GONE}, {"missing_ports": GONE}])
def test_behind_a_lost_device_every_name_has_moved_up(missing: dict[str, Any]) -> None:
    assert say(CHECK, rdma(devices=called("mlx5_4", "mlx5_3")), knows(**missing)) == "absent Nothing"


def test_a_sibling_with_other_slots_counts_as_it_likes() -> None:
    crossed = rdma(devices=called("mlx5_4", "mlx5_3"))
    assert say(CHECK, crossed, knows(moved=frozenset({A, B}))) == "absent Nothing"
    assert say(CHECK, crossed, knows(moved=frozenset({A}))) == "fail NamesCrossed"


def test_needs_addresses() -> None:
    wants = expected(devices={"mlx5_3": DeviceWant(rdma="mlx5_4"), "mlx5_4": DeviceWant(rdma="mlx5_3")})
    seen = rdma(devices=(device(name="mlx5_3", bdf=""), device(name="mlx5_4", bdf="")))
    assert say(CHECK, seen, wants) == "absent Nothing"


def netdevs(a: str | None, b: str | None) -> tuple[Port, Port]:
    return port(netdev=a), port(device="mlx5_4", bdf=B, netdev=b)


BOUND = expected(firm={f"{A}/1": PortWant(netdev="eth2"), f"{B}/1": PortWant(netdev="eth3")})
NETDEVS = [
    ("eth2", "eth3", "ok AsNamed; ok AsNamed"),
    ("eth3", "eth2", "fail NamesCrossed; fail NamesCrossed"),
    ("rail0", "rail1", "ok Renamed; ok Renamed"),
    (None, "eth3", "ok AsNamed"),
    (None, "eth2", "ok Renamed"),
]


@pytest.mark.parametrize(("a", "b", "says"), NETDEVS)
def test_says_of_netdevs(a: str | None, b: str | None, says: str) -> None:
    assert say(CHECK, rdma(*netdevs(a, b)), BOUND) == says


def test_a_port_that_nobody_requires_may_be_called_anything() -> None:
    wants = expected(firm={f"{A}/1": PortWant(netdev="eth3", required=False)})
    assert say(CHECK, rdma(*netdevs("eth2", "eth3")), wants) == "absent Nothing"


def test_two_ports_of_one_function_do_not_cross() -> None:
    wants = expected(firm={f"{A}/1": PortWant(netdev="eth2"), f"{A}/2": PortWant(netdev="eth3")})
    seen = rdma(port(netdev="eth3"), port(number=2, netdev="eth2"))
    assert say(CHECK, seen, wants) == "ok Renamed; ok Renamed"


def test_a_bond_shows_up_on_either_leg() -> None:
    """Captured while A's leg carried the bond; now B's does."""
    wants = expected(firm={f"{A}/1": PortWant(netdev="bond0"), f"{B}/1": PortWant(netdev="eth3")})
    seen = rdma(*netdevs("eth2", "bond0"))
    bonded = links(
        link(name="bond0", bdf="", kind="bond"),
        link(name="eth2", bdf=A, master="bond0"),
        link(name="eth3", bdf=B, master="bond0"),
    )
    assert say(CHECK, seen, wants, bonded) == "absent Nothing"
    assert say(CHECK, seen, wants) == "fail NamesCrossed; ok Renamed"
    moved = links(link(name="bond0", bdf="", kind="bond"), link(name="eth3", bdf=B, master="bond0"), link(bdf=A))
    assert say(CHECK, seen, wants, moved) == "absent Nothing"
    leg = expected(firm={f"{A}/1": PortWant(netdev="eth5")})
    assert say(CHECK, rdma(*netdevs("eth2", "eth5")), leg, bonded) == "absent Nothing"
    assert say(CHECK, rdma(*netdevs("eth2", "eth5")), leg, links(link())) == "fail NamesCrossed"


def test_message_names_both_places_and_what_to_see() -> None:
    crossed = verdicts(CHECK, rdma(devices=called("mlx5_4", "mlx5_3")), knows())[0]
    assert crossed.message == (
        "mlx5_4 at 0000:5c:00.0 is mlx5_3 in profile test, and mlx5_3 is at 0000:5d:00.0 now: names are crossed, "
        "a job that names its rails takes the wrong ones; see udev rules and ls -l /sys/class/infiniband"
    )
    assert crossed.subject.key == A
