"""What nothing on a node can judge, as the header tells it."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.facts.expected import inventory, unjudged
from nodeprep.facts.network.links import Link
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import AtLeast, Expectation, PortWant, Profile
from tests.values import device, link, links, nic, pci, port, rdma

DOWN: dict[str, Any] = {"state": "1: DOWN", "physical": "2: Polling", "rate": 10.0}
SLOW: dict[str, Any] = {"rate": 100.0, "like": "15b3:101d MT_1 Ethernet"}
FABRIC: dict[str, Any] = {"layer": "InfiniBand", "like": "15b3:1021 MT_2 InfiniBand", "lid": "0x1", "sm_lid": "0x1"}
NO_COUNT = AtLeast(1, suggested=True)


def on(place: str, **different: Any) -> Port:
    """A port on a function such as "10.0": bus and function."""
    bus, _, function = place.partition(".")
    return port(device=f"m{place}", bdf=f"0000:{bus}:00.{function}", netdev=f"e{place}", **different)


def notes(
    *ports: Port,
    nics: dict[str, dict[str, Any]] | None = None,
    netdevs: dict[str, dict[str, Any]] | None = None,
    count: AtLeast = NO_COUNT,
) -> list[str]:
    """The notes on ports; `nics` and `netdevs` are what differs, by function and by interface."""
    bus = pci(
        *(
            nic(
                **(
                    {"address": one.bdf, "id": one.like.split()[0], "netdevs": (one.netdev,)}
                    | (nics or {}).get(one.bdf, {})
                )
            )
            for one in ports
        )
    )
    shown: list[Link] = [
        link(**({"name": one.netdev, "bdf": one.bdf} | (netdevs or {}).get(one.netdev or "", {}))) for one in ports
    ]
    shown += [link(name=one, bdf="", kind="bond") for one in sorted({one.master for one in shown if one.master})]
    found = rdma(*ports, devices=tuple(device(name=one.device, bdf=one.bdf) for one in ports))
    here = links(*shown, addresses=None)
    profile = Profile("test", expect=Expectation(at_least=count))
    return list(unjudged.told(inventory.derive(profile, bus, found, here), bus, here))


PCIE = "MTU 9000 and PCIe x16 at 32 GT/s; nothing here says what they should"
PCIE_OF_ONE = PCIE.replace("they", "it")
OF_ONE = ["rail m10.0/1 runs at 400 Gb/s; nothing here says what it should", f"rail m10.0/1 has {PCIE_OF_ONE}"]
BOND: dict[str, dict[str, Any]] = {"e80.0": {"master": "bond0"}, "e80.1": {"master": "bond0"}}
ROWS: list[tuple[str, tuple[Port, ...], dict[str, Any], list[str]]] = [
    ("one rail has no like", (on("10.0"),), {}, OF_ONE),
    (
        "all alike",
        (on("10.0"), on("11.0")),
        {},
        ["both rails run at 400 Gb/s; nothing here says what they should", f"both rails have {PCIE}"],
    ),
    ("rates differ", (on("10.0"), on("11.0", rate=200.0)), {}, [f"both rails have {PCIE}"]),
    (
        "an operator says at which rate",
        (on("10.0"), on("11.0")),
        {"count": AtLeast(2, rate=400.0)},
        [f"both rails have {PCIE}"],
    ),
    (
        "MTUs and PCIe differ",
        (on("10.0"), on("11.0")),
        {"nics": {"0000:10:00.0": {"width": 8}}, "netdevs": {"e10.0": {"mtu": 1500}}},
        ["both rails run at 400 Gb/s; nothing here says what they should"],
    ),
    (
        "one of three is down: it may have been the good one",
        (on("10.0"), on("11.0", **DOWN), on("12.0")),
        {},
        [
            "both rails that are up (m10.0/1, m12.0/1) run at 400 Gb/s; nothing here says what they should",
            f"both rails that are up (m10.0/1, m12.0/1) have {PCIE}",
        ],
    ),
    (
        "one of two is up",
        (on("10.0"), on("11.0", **DOWN)),
        {},
        [
            "the one of 2 rails that is up (m10.0/1) runs at 400 Gb/s; nothing here says what it should",
            f"the one of 2 rails that is up (m10.0/1) has {PCIE_OF_ONE}",
        ],
    ),
    ("all are down", (on("10.0", **DOWN), on("11.0", **DOWN)), {}, []),
    (
        "spares and a front end that nobody cabled",
        (on("10.0"), on("10.1", **DOWN), on("80.0", **(SLOW | DOWN)), on("80.1", **(SLOW | DOWN))),
        {"nics": {f"0000:80:00.{one}": {"max_speed": 16.0} for one in (0, 1)}},
        [*OF_ONE, "1 spare port down: m10.1/1", "2 front-end ports down: m80.0/1, m80.1/1"],
    ),
    (
        "of a card that is dead the second port is no spare",
        (on("10.0"), on("10.1", **DOWN), on("11.0", **DOWN), on("11.1", **DOWN)),
        {},
        [
            "the one of 2 rails that is up (m10.0/1) runs at 400 Gb/s; nothing here says what it should",
            f"the one of 2 rails that is up (m10.0/1) has {PCIE_OF_ONE}",
            "1 spare port down: m10.1/1",
            "1 other port of dead cards down: m11.1/1",
        ],
    ),
    (
        "a card of the front end is dead, the other has one port",
        (on("10.0"), on("80.0", **SLOW), on("80.1", **(SLOW | DOWN)), on("81.1", **(SLOW | DOWN))),
        {},
        [*OF_ONE, "1 spare port down: m80.1/1; up: m80.0/1", "1 front-end port down: m81.1/1; up: m80.0/1"],
    ),
    (
        "a leg of the front end is down: its bond says so, and nobody names the others",
        (on("10.0"), on("80.0", **SLOW), on("80.1", **(SLOW | DOWN)), on("81.1", **SLOW)),
        {"netdevs": BOND},
        [
            *OF_ONE,
            "the one of 2 front-end ports that is up (m81.1/1) runs at 100 Gb/s; nothing here says what it should",
            f"the one of 2 front-end ports that is up (m81.1/1) has {PCIE_OF_ONE}",
        ],
    ),
    (
        "the front end counts",
        (on("10.0"), on("80.0", **(SLOW | {"rate": 200.0})), on("81.0", **(SLOW | {"rate": 200.0}))),
        {"count": AtLeast(3)},
        [
            *OF_ONE,
            "both counted ports run at 200 Gb/s; nothing here says what they should",
            f"both counted ports have {PCIE}",
        ],
    ),
    (
        "no IPoIB interface is up",
        (on("10.0", **FABRIC), on("11.0", **FABRIC)),
        {"netdevs": {"e10.0": {"operstate": "down"}, "e11.0": {"operstate": "down"}}},
        [
            "both rails run at 400 Gb/s; nothing here says what they should",
            "both rails have PCIe x16 at 32 GT/s; nothing here says what they should",
            "the IPoIB interfaces of both rails that have one are down: e10.0, e11.0",
        ],
    ),
    (
        "the only IPoIB interface is down",
        (on("10.0", **FABRIC),),
        {"netdevs": {"e10.0": {"operstate": "down"}}},
        [
            OF_ONE[0],
            "rail m10.0/1 has PCIe x16 at 32 GT/s; nothing here says what it should",
            "the IPoIB interface of the rail that has one is down: e10.0",
        ],
    ),
    (
        "one is",
        (on("10.0", **FABRIC), on("11.0", **FABRIC)),
        {"netdevs": {"e10.0": {"operstate": "down"}}},
        [
            "both rails run at 400 Gb/s; nothing here says what they should",
            "both rails have PCIe x16 at 32 GT/s; nothing here says what they should",
        ],
    ),
]


@pytest.mark.parametrize(("shape", "ports", "given", "told"), ROWS)
def test_what_nothing_here_can_judge(
    shape: str, ports: tuple[Port, ...], given: dict[str, Any], told: list[str]
) -> None:
    assert notes(*ports, **given) == told, shape


def test_a_profile_that_names_ports_knows_what_they_should() -> None:
    rail = on("10.0")
    seen = rdma(rail, on("11.0"))
    expected = inventory.derive(Profile("test", expect=Expectation()), pci(), seen)
    assert list(unjudged.told(expected, pci(), None)) != []
    named = inventory.derive(Profile("test", expect=Expectation(ports={rail.subject.key: PortWant()})), pci(), seen)
    assert list(unjudged.told(named, pci(), None)) == []
