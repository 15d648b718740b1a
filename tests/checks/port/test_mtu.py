"""port.mtu: stated, counted on, or what most rails have."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.port.mtu import CHECK, Want
from nodeprep.facts.expected.bonds import ExpectedBond
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.kubernetes.cluster import Cluster, ErdmaRecord
from nodeprep.facts.network.links import Link
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import BondWant, PortWant
from nodeprep.model import Unreadable, Why, not_recorded
from tests.cluster_values import cluster, erdma_record
from tests.values import by_kind, changed, device, expected, link, links, port, rdma, say, verdicts

KEY = "0000:5c:00.0/1"
FILE = "/sys/class/net/eth2/mtu"
CUT = Unreadable(Why.MALFORMED, FILE)
STATED = expected(firm={KEY: PortWant(mtu=9000)})
FIRM = expected(firm={KEY: PortWant()})
COUNTED = expected(counted={KEY: "profile rails"})

ROWS = [
    # wanted by  MTU    says
    (STATED, 9000, "ok Mtu"),
    (STATED, 9216, "ok Mtu"),
    (STATED, 8999, "warn BelowMtu mtu(interface=eth2, mtu=9000)"),
    (STATED, CUT, "unknown CannotLook"),
    (STATED, not_recorded(FILE), "absent Nothing"),
    (expected(firm={KEY: PortWant(mtu=1500)}), 1500, "ok Mtu"),
    (FIRM, 4200, "ok Mtu"),
    (FIRM, 4199, "warn BelowMtu mtu(interface=eth2, mtu=4200)"),
    (COUNTED, 4199, "warn BelowMtu mtu(interface=eth2, mtu=4200)"),
    (COUNTED, 9000, "ok Mtu"),
    (expected(rails={KEY: "8 of 8 alike"}), 1500, "ok NothingExpected"),
    (expected(), 1500, "absent Nothing"),
    (expected(), CUT, "absent Nothing"),
    (expected(firm={KEY: PortWant(mtu=9000, required=False)}), 1500, "absent Nothing"),
]


@pytest.mark.parametrize(("wants", "mtu", "says"), ROWS)
def test_says(wants: Expected, mtu: object, says: str) -> None:
    assert say(CHECK, rdma(port()), wants, links(link(mtu=mtu))) == says


def test_an_operators_number_holds_for_every_wanted_port_but_not_over_a_stated_one() -> None:
    alike, small = expected(rails={KEY: "8 of 8 alike"}), links(link(mtu=8499))
    assert say(CHECK, rdma(port()), alike, small, want=Want(8500)) == "warn BelowMtu mtu(interface=eth2, mtu=8500)"
    assert say(CHECK, rdma(port()), COUNTED, links(link(mtu=8500)), want=Want(8500)) == "ok Mtu"
    assert say(CHECK, rdma(port()), STATED, links(link(mtu=9000)), want=Want(9500)) == "ok Mtu"


def bonded(mtu: int | None, now: str | None = "bond0", leg: int | None = None) -> Expected:
    """A profile that states the MTU of a bond, and of its leg if it has a port of its own."""
    firm = {KEY: PortWant(mtu=leg, required=False, bonded=True)}
    return expected(firm=firm, bonds=(ExpectedBond("bond0", BondWant((), True, mtu), now, ()),))


BONDS = [
    # the profile              MTU of the bond     says of the bond, and of the leg with 4200
    (bonded(9000), 9000, "ok Mtu"),
    (bonded(1500), 9000, "ok Mtu"),
    (bonded(9000), 8999, "warn BelowMtu mtu(interface=bond0, mtu=9000)"),
    (bonded(9000), CUT, "unknown CannotLook"),
    (bonded(9000), not_recorded(FILE), "absent Nothing"),
    (bonded(None), 1500, "absent Nothing"),
    (bonded(9000, now=None), 1500, "absent Nothing"),
    (bonded(1500, leg=4200), 1500, "ok Mtu; ok Mtu"),
    (bonded(1500, leg=9000), 1500, "warn BelowMtu mtu(interface=eth2, mtu=9000); ok Mtu"),
]


@pytest.mark.parametrize(("profile", "mtu", "says"), BONDS)
def test_a_bond_has_the_mtu_that_its_profile_states(profile: Expected, mtu: object, says: str) -> None:
    bond = link(name="bond0", bdf="", kind="bond", mtu=mtu)
    assert say(CHECK, rdma(port()), profile, links(link(mtu=4200, master="bond0"), bond)) == says


def test_the_mtu_of_an_excluded_netdev_is_unknown() -> None:
    wants = expected(firm={port().subject.key: PortWant(mtu=9000)})
    assert say(CHECK, rdma(port()), wants, links(hidden=("eth2",), addresses=None)) == "unknown CannotLook"


def test_a_bond_that_is_the_netdev_of_a_port_is_judged_once() -> None:
    profile = expected(firm={KEY: PortWant(mtu=9000)}, bonds=bonded(9000).bonds)
    bond = link(name="bond0", bdf="", kind="bond", mtu=1500)
    said = "warn BelowMtu mtu(interface=bond0, mtu=9000)"
    assert say(CHECK, rdma(port(netdev="bond0")), profile, links(bond)) == said


@pytest.mark.parametrize("layer", ["InfiniBand", "Unknown"])
def test_other_fabrics_have_their_own(layer: str) -> None:
    assert say(CHECK, rdma(port(layer=layer)), STATED, links(link(mtu=1500))) == "absent Nothing"


def test_an_unreadable_link_layer_is_no_pass() -> None:
    assert say(CHECK, rdma(port(layer=CUT)), STATED, links(link())) == "unknown CannotLook"


def test_a_netdev_that_is_not_here_is_port_netdevs_affair() -> None:
    assert say(CHECK, rdma(port(netdev="eth9")), STATED, links(link(mtu=1500))) == "absent Nothing"


def test_where_the_tree_shows_no_netdev_the_one_on_the_function_counts() -> None:
    seen = say(CHECK, rdma(port(netdev=None)), STATED, links(link(mtu=1500)))
    assert seen == "warn BelowMtu mtu(interface=eth2, mtu=9000)"


def rails(*mtus: int, **different: Any) -> tuple[tuple[Port, ...], tuple[Link, ...]]:
    """Like rails with these MTUs; the last one is the one that is judged."""
    bdfs = [f"0000:{index:02x}:00.0" for index in range(len(mtus))]
    ports = tuple(port(device=f"mlx5_{n}", bdf=bdf, netdev=f"eth{n}") for n, bdf in enumerate(bdfs))
    found = [link(name=f"eth{n}", bdf=bdf, mtu=mtu) for n, (bdf, mtu) in enumerate(zip(bdfs, mtus, strict=True))]
    if different:
        found[-1] = link(**({"name": f"eth{len(mtus) - 1}", "bdf": bdfs[-1], "mtu": mtus[-1]} | different))
    return ports, tuple(found)


LIKES = [
    ((9000, 9000, 9000), "ok Mtu"),
    ((9000, 9000, 1500), "warn BelowMtu mtu(interface=eth2, mtu=9000)"),
    ((9000, 1500), "warn BelowMtu mtu(interface=eth1, mtu=9000)"),
    ((1500, 1500, 9000, 1500), "warn BelowMtu mtu(interface=eth3, mtu=9000)"),
    ((1500, 1500, 1500), "ok Mtu"),
    ((1500, 1500, 9000), "ok Mtu"),
    ((1500,), "ok NothingExpected"),
]


@pytest.mark.parametrize(("mtus", "says"), LIKES)
def test_one_good_rail_shows_what_the_others_can_have(mtus: tuple[int, ...], says: str) -> None:
    ports, found = rails(*mtus)
    seen, netdevs = rdma(*ports), links(*found)
    assert say(CHECK, seen, by_kind(seen, netdevs), netdevs).split("; ")[-1] == says


def test_a_named_profile_wants_no_less_than_the_best_either() -> None:
    ports, found = rails(9000, 9000, 4500)
    seen, netdevs = rdma(*ports), links(*found)
    wants = by_kind(seen, netdevs, suggested=False)
    assert say(CHECK, seen, wants, netdevs) == "ok Mtu; ok Mtu; warn BelowMtu mtu(interface=eth2, mtu=9000)"
    small = links(*rails(1500, 1500, 1500)[1])
    assert say(CHECK, seen, by_kind(seen, small, suggested=False), small).count("mtu=4200") == 3


def test_legs_of_a_bond_are_likes_and_a_dead_front_end_is_not_judged() -> None:
    ports, found = rails(9000, 9000, 1500)
    legs = links(*(changed(one, master="bond0") for one in found), link(name="bond0", bdf="", kind="bond"))
    seen = rdma(*ports)
    assert say(CHECK, seen, by_kind(seen, legs), legs).split("; ")[-1].startswith("warn BelowMtu")
    ports, found = rails(9000, 1500, 1500)
    slow = [changed(one, rate=100.0, like="15b3:101d B Ethernet") for one in ports[1:]]
    for state, says in (("4: ACTIVE", "ok Mtu; ok Mtu"), ("1: DOWN", "ok Mtu")):
        front = [changed(one, state=state) if n else one for n, one in enumerate(slow)]
        seen, netdevs = rdma(ports[0], *front), links(*found)
        assert say(CHECK, seen, by_kind(seen, netdevs), netdevs).split("; ", 1)[1] == says


PAYLOADS = [
    (351, 0),
    (352, 256),
    (607, 256),
    (608, 512),
    (1119, 512),
    (1120, 1024),
    (1500, 1024),
    (2144, 2048),
    (4191, 2048),
    (4192, 4096),
    (9000, 4096),
]


@pytest.mark.parametrize(("mtu", "payload"), PAYLOADS)
def test_message_says_what_roce_makes_of_it(mtu: int, payload: int) -> None:
    wants = expected(rails={KEY: "8 of 8 alike"})
    (verdict,) = verdicts(CHECK, rdma(port(), devices=(device(),)), wants, links(link(mtu=mtu)))
    assert verdict.message == f"mlx5_3/1 at 0000:5c:00.0: MTU of eth2 is {mtu} (RoCE MTU {payload})"


def test_message_names_who_wants_what() -> None:
    (verdict,) = verdicts(CHECK, rdma(port()), COUNTED, links(link(mtu=1500)))
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: MTU of eth2 is 1500 (RoCE MTU 1024); 4200 (RoCE MTU 4096) is wanted by "
        "default (at-least); the switch port must carry it"
    )
    assert (verdict.observed, verdict.expected) == ("1500", "4200")


def test_iwarp_has_no_roce_mtu() -> None:
    seen = rdma(port(), devices=(device(node_type="4: RNIC"),))
    (verdict,) = verdicts(CHECK, seen, STATED, links(link(mtu=1500)))
    assert verdict.message.startswith("mlx5_3/1 at 0000:5c:00.0: MTU of eth2 is 1500; 9000 is wanted by profile test")


EXACT = Want(exactly=(1400, 8500))
ERI = (device(id="1ded:107f"),)
JUMBO, PLAIN = cluster(erdma=erdma_record(jumbo=True)), cluster(erdma=erdma_record(jumbo=False))
EXACTLY = [
    # device      record             MTU   says
    (ERI, None, 1400, "ok Mtu"),
    (ERI, None, 8500, "ok Mtu"),
    (ERI, None, 1500, "fail WrongMtu"),
    (ERI, cluster(), 9000, "fail WrongMtu"),
    (ERI, JUMBO, 8500, "ok Mtu"),
    (ERI, JUMBO, 1400, "fail WrongMtu eri_mtu(interface=eth2, mtu=8500)"),
    (ERI, PLAIN, 1400, "ok Mtu"),
    (ERI, PLAIN, 8500, "fail WrongMtu eri_mtu(interface=eth2, mtu=1400)"),
    (ERI, cluster(erdma=CUT), 1400, "unknown CannotLook"),
    ((device(),), JUMBO, 1400, "ok Mtu"),
    ((device(),), PLAIN, 1500, "fail WrongMtu"),
]


@pytest.mark.parametrize(("devices", "seen", "mtu", "says"), EXACTLY)
def test_all_but_the_exact_mtu_fails(devices: Any, seen: Cluster | None, mtu: int, says: str) -> None:
    facts = [rdma(port(), devices=devices), COUNTED, links(link(mtu=mtu)), *([seen] if seen else [])]
    assert say(CHECK, *facts, want=EXACT) == says


def test_one_exact_mtu_overrides_a_stated_one_and_is_mended() -> None:
    seen = say(CHECK, rdma(port()), STATED, links(link(mtu=9000)), want=Want(exactly=(8500,)))
    assert seen == "fail WrongMtu mtu(interface=eth2, mtu=8500)"
    assert say(CHECK, rdma(port()), expected(), links(link(mtu=9000)), want=Want(exactly=(8500,))) == "absent Nothing"


def test_an_exact_mtu_does_not_hide_that_the_usual_one_is_only_a_default() -> None:
    alike = expected(rails={KEY: "8 of 8 alike"})
    assert say(CHECK, rdma(port()), alike, links(link(mtu=1500)), want=Want()) == "ok NothingExpected"


def test_an_elastic_rdma_interface_has_its_own_remedy() -> None:
    seen = say(CHECK, rdma(port(), devices=ERI), STATED, links(link(mtu=1500)))
    assert seen == "warn BelowMtu eri_mtu(interface=eth2, mtu=9000)"


def test_the_message_says_who_wants_exactly_what_and_why() -> None:
    record: ErdmaRecord = erdma_record(jumbo=True)
    facts = (rdma(port(), devices=ERI), COUNTED, links(link(mtu=1400)), cluster(erdma=record))
    (verdict,) = verdicts(CHECK, *facts, want=EXACT)
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0: MTU of eth2 is 1400 (RoCE MTU 1024); exactly 8500 is wanted by profile site "
        "(exactly) and by erdma-controller's record (jumbo frames): with another NCCL may corrupt data in silence"
    )
    assert (verdict.observed, verdict.expected) == ("1400", "8500")
