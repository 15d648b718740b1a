"""A profile's bonds are found again by their legs, and each fault of a captured bond is found on its device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import check_round, job_profile, profile_selection
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.facts.expected import bonds, profile_capture
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Address, Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import BondWant, DeviceWant, Expectation, Profile
from nodeprep.look import Look
from nodeprep.model import Finding, Status
from nodeprep.values import replace
from tests.values import device, gid, link, links, nic, pci, port, rdma

LEGS = ("0000:19:00.0", "0000:19:00.1")
ADDRESS = gid().address
SMALL = 1500  # bytes, where the good machine has 9000
OTHERS = ("0000:4c:00.0", "0000:4c:00.1")
FAULTY = (Status.FAIL, Status.WARN)


def bond(name: str, **different: Any) -> Any:
    return link(**({"name": name, "bdf": "", "kind": "bond"} | different))


def legs(master: str | None, *places: str, prefix: str = "eth") -> list[Any]:
    return [link(name=f"{prefix}{place[5:7]}f{place[-1]}", bdf=place, master=master) for place in places]


def found(expect: Expectation, seen: Links, devices: dict[str, str] | None = None) -> dict[str, tuple[str | None, str]]:
    """The name now of each bond, and for each of its legs whether it is one."""
    own = {key: key for key in expect.devices} if devices is None else devices
    return {
        one.name: (one.now, "".join("+" if leg.joined else "-" for leg in one.legs))
        for one in bonds.find(expect, own, seen)
    }


TWO = Expectation(bonds={"bond0": BondWant(LEGS), "bond1": BondWant(OTHERS)})
NOW = [
    # links                                                                                    what stands for them
    ((bond("bond0"), bond("bond1"), *legs("bond0", *LEGS), *legs("bond1", *OTHERS)), ("bond0", "++"), ("bond1", "++")),
    # The names say nothing: also where they are exchanged.
    ((bond("bond0"), bond("bond1"), *legs("bond1", *LEGS), *legs("bond0", *OTHERS)), ("bond1", "++"), ("bond0", "++")),
    ((bond("a"), bond("b"), *legs("a", *LEGS), *legs("b", *OTHERS)), ("a", "++"), ("b", "++")),
    # A leg that left, or that is in the other bond.
    ((bond("a"), bond("b"), *legs("a", LEGS[0]), *legs(None, LEGS[1]), *legs("b", *OTHERS)), ("a", "+-"), ("b", "++")),
    ((bond("a"), bond("b"), *legs("a", LEGS[0]), *legs("b", LEGS[1], *OTHERS)), ("a", "+-"), ("b", "++")),
    # All legs in one bond: it is one of the two, and the other is gone.
    ((bond("a"), *legs("a", *LEGS, *OTHERS)), ("a", "++"), (None, "--")),
    # Emptied, and deleted.
    ((bond("bond0"), bond("b"), *legs(None, *LEGS), *legs("b", *OTHERS)), (None, "--"), ("b", "++")),
    ((bond("b"), *legs(None, *LEGS), *legs("b", *OTHERS)), (None, "--"), ("b", "++")),
    # A leg that is not there at all.
    ((bond("a"), bond("b"), *legs("a", LEGS[1]), *legs("b", *OTHERS)), ("a", "-+"), ("b", "++")),
    # A bridge is no bond.
    ((link(name="br0", bdf="", kind="bridge"), *legs("br0", *LEGS)), (None, "--"), (None, "--")),
]


@pytest.mark.parametrize(("shows", "first", "second"), NOW, ids=range(len(NOW)))
def test_a_bond_is_the_one_that_has_its_legs(shows: tuple[Any, ...], first: Any, second: Any) -> None:
    assert found(TWO, links(*shows)) == {"bond0": first, "bond1": second}


def test_a_card_with_two_ports_on_one_function_gives_two_legs() -> None:
    expect = Expectation(bonds={"bond0": BondWant((LEGS[0], LEGS[0]))})
    both = [link(name=name, bdf=LEGS[0], master="b") for name in ("p0", "p1")]
    assert found(expect, links(bond("b"), *both)) == {"bond0": ("b", "++")}
    one_left = [link(name="p0", bdf=LEGS[0]), link(name="p1", bdf=LEGS[0], master="b")]
    assert found(expect, links(bond("b"), *one_left)) == {"bond0": ("b", "+-")}


def test_on_a_sibling_the_second_leg_of_a_roce_lag_moves_with_its_card() -> None:
    """Only the first function has an RDMA device, so only that one is found by its kind."""
    expect = Expectation({LEGS[0]: DeviceWant(id="15b3:1021")}, bonds={"bond0": BondWant(LEGS, lag=True)})
    there = ("0000:e9:00.0", "0000:e9:00.1")
    seen = links(bond("b"), *legs("b", *there), *legs(None, LEGS[1], prefix="other"))
    assert found(expect, seen, {LEGS[0]: there[0]}) == {"bond0": ("b", "++")}


def test_what_is_at_the_address_of_a_device_that_is_gone_is_no_leg() -> None:
    """On a sibling with other addresses it is another device."""
    expect = Expectation({at: DeviceWant() for at in LEGS}, bonds={"bond0": BondWant(LEGS)})
    seen = links(bond("b"), *legs("b", "0000:1b:00.0", LEGS[1]))
    assert found(expect, seen, {LEGS[0]: "0000:1b:00.0"}) == {"bond0": ("b", "+-")}


def test_a_bond_without_known_legs_is_found_by_its_name() -> None:
    expect = Expectation(bonds={"bond0": BondWant(mtu=9000)})
    assert found(expect, links(bond("bond0"))) == {"bond0": ("bond0", "")}
    assert found(expect, links(link(name="bond0", bdf=""))) == {"bond0": (None, "")}


def test_nothing_is_said_where_no_links_are_shown_or_no_bond_is_named() -> None:
    assert bonds.find(TWO, {}, None) == ()
    assert bonds.find(Expectation(), {}, links(bond("bond0"))) == ()


@dataclass
class Leg:
    """One function of a bonded card, with the RDMA device that it shows, if any."""

    at: str
    number: int
    master: str | None
    rdma: bool
    up: bool = True
    mtu: int = 9000
    addressed: bool = True  # an address of its bond is among its GIDs
    bound: bool = True
    on_bus: bool = True


@dataclass
class Machine:
    """Cards of two functions, each card in a bond. `lag`: one RDMA device for both functions, as mlx5_bond_0 is."""

    lag: bool
    legs: list[Leg] = field(default_factory=list)
    bonds: dict[str, int] = field(default_factory=dict)  # the MTU by name
    names: str = "{}"  # what everything is called

    def look(self) -> Look:
        nics, devices, ports, netdevs = [], [], [], []
        for leg in (leg for leg in self.legs if leg.on_bus):
            rdma_name, netdev = self.names.format(f"mlx5_{leg.number}"), self.names.format(f"eth{leg.number}")
            shows, guid = leg.bound and leg.rdma, f"5054:00ff:fe12:{leg.number:04x}"
            nics.append(
                nic(
                    address=leg.at,
                    driver="mlx5_core" if leg.bound else None,
                    rdma=(rdma_name,) if shows else (),
                    netdevs=(netdev,) if leg.bound else (),
                )
            )
            if leg.bound:
                netdevs.append(self._netdev(leg, netdev))
            if shows:
                devices.append(device(name=rdma_name, bdf=leg.at, node_guid=guid, system_guid=guid))
                ports.append(self._port(leg, rdma_name, netdev))
        netdevs += [self._bond(name, mtu) for name, mtu in self.bonds.items()]
        addresses = tuple(Address(self.called(name) or "", ADDRESS, 24, "global", False) for name in self.bonds)
        seen = links(*netdevs, addresses=addresses)
        facts = {Pci: pci(*nics), Rdma: rdma(*ports, devices=tuple(devices)), Links: seen}
        return Look(0.0, live=True, facts=facts)

    def _netdev(self, leg: Leg, name: str) -> Any:
        state = {"carrier": leg.up, "operstate": "up" if leg.up else "down"}
        return link(name=name, bdf=leg.at, master=self.called(leg.master), mtu=leg.mtu, **state)

    def _bond(self, name: str, mtu: int) -> Any:
        up = any(leg.up and leg.bound and leg.on_bus for leg in self.legs if leg.master == name)
        return bond(self.called(name) or "", mtu=mtu, carrier=up, operstate="up" if up else "down")

    def _port(self, leg: Leg, name: str, netdev: str) -> Any:
        shared = self.called(leg.master) if self.lag else None
        up = leg.up or (shared is not None and any(one.up for one in self.legs if one.master == leg.master))
        state, physical = ("4: ACTIVE", "5: LinkUp") if up else ("1: DOWN", "2: Polling")
        gids = (gid(netdev=self.called(leg.master)),) if leg.addressed and leg.master else ()
        return port(device=name, bdf=leg.at, netdev=shared or netdev, state=state, physical=physical, gids=gids)

    def called(self, name: str | None) -> str | None:
        return None if name is None else self.names.format(name)


def machine(cards: int, *, lag: bool) -> Machine:
    built = Machine(lag)
    for card in range(cards):
        built.bonds[f"bond{card}"] = 9000
        for function in range(2):
            at = f"0000:{0x19 + 16 * card:02x}:00.{function}"
            built.legs.append(Leg(at, 2 * card + function, f"bond{card}", rdma=not lag or function == 0))
    return built


def captured(good: Machine) -> Profile:
    facts = good.look().facts
    profile = profile_capture.capture("good", facts[Rdma], pci=facts[Pci], links=facts[Links])  # type: ignore[arg-type]
    assert profile is not None
    return job_profile.parse(job_profile.mapping(profile))


def judged(broken: Machine, profile: Profile) -> list[Finding]:
    return list(check_round.judge(CHECKS.values(), broken.look(), None, profile, {}).findings)


def break_down(node: Machine, fault: str, leg: Leg) -> str | None:
    """One fault of a machine; the device that must be named, None where the fault changes nothing any more."""
    if fault in ("deleted", "emptied", "small", "bare"):
        return break_bond(node, fault, leg.master) if leg.master else None
    match fault:
        case "down" if leg.bound and leg.up:
            leg.up = False
        case "left" if leg.master:
            leg.master = None
        case "unbound" if leg.bound:
            leg.bound, leg.master = False, None
        case "pulled" if leg.on_bus:
            leg.on_bus, leg.bound, leg.master = False, False, None
        case "split" if node.lag and leg.bound and not leg.rdma:
            leg.rdma = True
        case _:
            return None
    return leg.at


def break_bond(node: Machine, fault: str, name: str) -> str | None:
    if fault == "small" and node.bonds[name] == SMALL:
        return None
    for leg in (leg for leg in node.legs if leg.master == name):
        leg.addressed = leg.addressed and fault != "bare"
        if fault == "small":
            leg.mtu = SMALL
        elif fault != "bare":
            leg.master = None
    if fault == "deleted":
        del node.bonds[name]
    elif fault == "small":
        node.bonds[name] = SMALL
    return name


# What alone is a warning: the traffic goes on. Every other fault is a FAIL.
WARNINGS = ("down", "small")
FAULTS = ("down", "left", "unbound", "pulled", "deleted", "emptied", "small", "split", "bare")


@pytest.mark.parametrize("lag", [False, True])
def test_a_healthy_machine_meets_its_own_profile(lag: bool) -> None:
    node = machine(3, lag=lag)
    profile = captured(node)
    assert profile.expect.bonds == {
        f"bond{card}": BondWant(
            tuple(leg.at for leg in node.legs if leg.master == f"bond{card}"), True, 9000, True, True if lag else None
        )
        for card in range(3)
    }
    assert [one.verdict.message for one in judged(node, profile) if one.status in FAULTY] == []


@settings(deadline=None, max_examples=300)
@given(
    cards=st.integers(1, 3),
    lag=st.booleans(),
    faults=st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(0, 5)), min_size=1, max_size=5),
)
def test_no_fault_of_a_captured_bond_passes_and_no_name_matters(
    cards: int, lag: bool, faults: list[tuple[str, int]]
) -> None:
    node = machine(cards, lag=lag)
    profile = captured(node)
    happened = []
    for fault, index in faults:
        name = break_down(node, fault, node.legs[index % len(node.legs)])
        happened += [(fault, name)] if name else []
    findings = judged(node, profile)
    bad = [one for one in findings if one.status in FAULTY]
    told = " ".join(f"{one.subject.place} {one.verdict.message}" for one in bad)
    netdevs = {leg.at: f"eth{leg.number} " for leg in node.legs}
    for fault, name in happened:
        assert name in told or netdevs.get(name or "", name) in told, f"{fault} of {name} in {happened}: {told}"
    if any(fault not in WARNINGS for fault, _ in happened):
        assert any(one.status is Status.FAIL and one.counts for one in bad), happened
    node.names = "x{}y"
    assert sorted(map(place_of, judged(node, profile))) == sorted(map(place_of, findings))


def place_of(one: Finding) -> tuple[str, str, str, str]:
    """A verdict without what things are called."""
    place = one.subject.place if ":" in one.subject.place else ""
    return one.check, place, str(one.status), one.verdict.reason if one.status in FAULTY else ""


def test_a_profile_of_bonds_rests_on_their_check() -> None:
    """A copy without network interfaces says nothing of them."""
    profile = replace(captured(machine(2, lag=False)), gates=("port.bond", "port.state"))
    assert {"port.bond", "port.state"} <= set(profile.needed_gates)


def test_the_baseline_of_the_agent_keeps_bonds() -> None:
    facts = machine(2, lag=False).look().facts
    state = profile_state.with_baseline(AgentState(), facts)
    kept = profile_selection.baseline(state)
    assert kept is not None
    assert kept.expect.bonds == captured(machine(2, lag=False)).expect.bonds


def test_a_profile_without_bonds_demands_what_it_did() -> None:
    node = machine(2, lag=False)
    said = job_profile.mapping(captured(node))
    del said["expect"]["bonds"]
    profile = job_profile.parse(said)
    assert profile.expect.bonds == {}
    break_down(node, "down", node.legs[0])
    bad = [(str(one.status), one.check, one.verdict.reason) for one in judged(node, profile) if one.status in FAULTY]
    assert bad == [("warn", "port.bond", "LegDown")]


WORSE = [
    # fault and leg     lag    what counts
    (("down", 0), False, "warn port.bond LegDown"),
    (("down", 0), True, "warn port.bond LegDown"),
    (("left", 0), False, "fail port.bond LeftBond; warn port.bond LegDown"),
    (("emptied", 0), False, "fail port.bond BondGone; fail port.bond LeftBond; fail port.bond LeftBond"),
    (("deleted", 0), True, "fail port.bond BondGone; fail port.bond LeftBond; fail port.bond LeftBond"),
    (("small", 0), False, "warn port.mtu BelowMtu; warn port.mtu BelowMtu; warn port.mtu BelowMtu"),
    (("small", 0), True, "warn port.mtu BelowMtu"),
    (("bare", 0), False, "fail port.gid NoRoutableGid"),
    (("bare", 0), True, "fail port.gid NoRoutableGid"),
    (("split", 1), True, "fail port.bond LagSplit"),
    (("pulled", 1), True, "fail port.bond LegGone; warn port.bond LegDown"),
    (("unbound", 1), False, "fail pci.driver-bound NoDriver; warn port.bond LegDown"),
]


@pytest.mark.parametrize(("fault", "lag", "says"), WORSE)
def test_what_a_fault_of_a_bond_comes_to(fault: tuple[str, int], lag: bool, says: str) -> None:
    node = machine(2, lag=lag)
    profile = captured(node)
    break_down(node, fault[0], node.legs[fault[1]])
    bad = [one for one in judged(node, profile) if one.status in FAULTY and one.counts]
    assert "; ".join(sorted(f"{one.status} {one.check} {one.verdict.reason}" for one in bad)) == says
