"""port.state by its rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.port.state import CHECK
from nodeprep.facts.expected.bonds import ExpectedBond, ExpectedLeg
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma import rdma as rdma_fact
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.job_profile import BondWant, PortWant
from nodeprep.model import Seen, Status, Unreadable, Why
from tests.machines import SHAPES
from tests.values import (
    BDF,
    beside,
    by_kind,
    device,
    expected,
    link,
    links,
    nic,
    pci,
    port,
    rdma,
    say,
    verdicts,
    wanted,
)

GONE = Unreadable(Why.MISSING, "/sys/class/infiniband/mlx5_3/ports/1/state")

ROWS = [
    # state      physical      wanted by              says
    ("4: ACTIVE", "5: LinkUp", "profile rdma-roce", "ok Active"),
    ("4: ACTIVE", "2: Polling", "profile rdma-roce", "fail PhysicalNotUp"),
    ("4: ACTIVE", "2: Polling", None, "ok NotNeeded"),
    ("1: DOWN", "3: Disabled", None, "ok NotNeeded"),
    ("1: DOWN", "3: Disabled", "baseline", "fail NoLink"),  # no netdev is seen: nobody is accused
    ("1: DOWN", "2: Polling", "7 of 8 alike", "fail NoSignal"),
    ("2: INIT", "4: PortConfigurationTraining", "profile", "fail NoAddress"),
    ("3: ARMED", "5: LinkUp", "profile", "fail NotActive"),
    ("9: UNKNOWN", "0: <unknown>", "profile", "fail NotActive"),
    (GONE, "5: LinkUp", "profile", "unknown CannotLook"),
    ("4: ACTIVE", GONE, "profile", "unknown CannotLook"),
    (GONE, GONE, "profile", "unknown CannotLook"),
    ("1: DOWN", GONE, "profile", "fail NoLink"),
    ("2: INIT", GONE, "profile", "fail NoAddress"),
    (GONE, "3: Disabled", "profile", "fail PhysicalNotUp"),
]


@pytest.mark.parametrize(("state", "physical", "wanted_by", "says"), ROWS)
def test_says(state: str, physical: str, wanted_by: str | None, says: str) -> None:
    seen = port(state=state, physical=physical)
    assert say(CHECK, rdma(seen), wanted(seen, wanted_by)) == says


INFINIBAND = [
    # Its IPoIB interface has no part in the state of the port: (IFF_UP, state, physical, says)
    (True, "2: INIT", "5: LinkUp", "fail NoSubnetManager"),
    (False, "3: ARMED", "5: LinkUp", "fail NoSubnetManager"),
    (True, "1: DOWN", "3: Disabled", "fail PortDisabled"),
    (False, "1: DOWN", "3: Disabled", "fail PortDisabled"),
    (False, "1: DOWN", "2: Polling", "fail NoSignal"),
    (True, "1: DOWN", "1: Sleep", "fail NotActive"),
]


@pytest.mark.parametrize(("up", "state", "physical", "says"), INFINIBAND)
def test_says_of_infiniband(up: bool, state: str, physical: str, says: str) -> None:
    seen = port(state=state, physical=physical, layer="InfiniBand")
    assert say(CHECK, rdma(seen), wanted(seen, "profile"), links(link(up=up, operstate="down"))) == says


UNREAD_LAYER = [
    ("1: DOWN", "2: Polling", "fail NoSignal"),
    ("1: DOWN", "3: Disabled", "fail NotActive"),
    ("2: INIT", "5: LinkUp", "fail NotActive"),
]


@pytest.mark.parametrize(("state", "physical", "says"), UNREAD_LAYER)
def test_a_link_layer_that_cannot_be_read_hides_no_fault_and_accuses_nobody(
    state: str, physical: str, says: str
) -> None:
    seen = port(state=state, physical=physical, layer=GONE)
    assert say(CHECK, rdma(seen), expected(counted={seen.subject.key: "profile"}), links(link(up=False))) == says


def test_disabled_port_without_a_netdev_has_no_remedy() -> None:
    seen = port(state="1: DOWN", physical="3: Disabled", netdev=None)
    assert say(CHECK, rdma(seen), wanted(seen, "profile")) == "fail NotActive"
    assert say(CHECK, rdma(seen), wanted(seen, "profile"), links()) == "fail NotActive"


def test_interfaces_that_cannot_be_observed_hide_no_fault() -> None:
    seen = port(state="1: DOWN", physical="3: Disabled")
    facts: dict[type, object] = {Rdma: rdma(seen), Expected: wanted(seen, "profile"), Links: GONE}
    assert [one.reason for one in CHECK.judge(Seen(facts))] == ["NoLink"]


EVERY = [
    st.sampled_from(["0: NOP", "1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"]),
    st.sampled_from([f"{number}: {word}" for number, word in rdma_fact.PHYSICAL.items()]),
    st.sampled_from(["Ethernet", "InfiniBand", GONE]),
    st.sampled_from([True, False, GONE]),  # IFF_UP
    st.sampled_from([True, False, None]),  # the carrier
    st.sampled_from(["up", "down", "lowerlayerdown", "unknown", GONE]),
]


@given(st.tuples(*EVERY))
def test_only_iff_up_accuses_somebody_and_no_damage_excuses_a_port(shown: tuple[Any, ...]) -> None:
    state, physical, layer, up, carrier, operstate = shown
    seen = port(state=state, physical=physical, layer=layer)
    wants = expected(counted={seen.subject.key: "profile"})
    (verdict,) = verdicts(CHECK, rdma(seen), wants, links(link(up=up, carrier=carrier, operstate=operstate)))
    assert verdict.status is Status.FAIL
    accused = up is False and layer == "Ethernet"
    assert (verdict.reason == "AdministrativelyDown") == (verdict.remedy is not None) == accused


SET_DOWN = links(link(up=False, operstate="down", carrier=None))


def test_an_elastic_rdma_interface_is_told_whence_its_address_comes() -> None:
    seen = port(state="1: DOWN", physical="3: Disabled")
    eri = rdma(seen, devices=(device(id="1ded:107f"),))
    up = "fail AdministrativelyDown eri_netdev_up(interface=eth2)"
    assert say(CHECK, eri, wanted(seen, "profile"), SET_DOWN) == up
    (told,) = verdicts(CHECK, eri, wanted(seen, "profile"), SET_DOWN)
    assert told.message.endswith(
        "; once up it needs its address, which erdma-controller's agent sets when its pod starts"
    )
    other = rdma(seen, devices=(device(),))
    assert say(CHECK, other, wanted(seen, "profile"), SET_DOWN) == "fail AdministrativelyDown link_up(interface=eth2)"


def test_messages_say_who_only_where_it_is_known() -> None:
    seen = port(state="1: DOWN", physical="3: Disabled")
    shows = "mlx5_3/1 at 0000:5c:00.0 is '1: DOWN', '3: Disabled'; ACTIVE is wanted by profile; "
    told = {
        "eth2 was set down here": SET_DOWN,
        "eth2 is set up and has no carrier, nothing from the far end: cable or switch port": links(
            link(operstate="down", carrier=False)
        ),
        "either eth2 was set down here, or nothing from the far end: cable or switch port; ip link show eth2 tells "
        "which": links(link(up=GONE, operstate="down", carrier=None)),
        "though eth2 is set up and has a carrier": links(link()),
    }
    for why, netdevs in told.items():
        (verdict,) = verdicts(CHECK, rdma(seen), wanted(seen, "profile"), netdevs)
        assert verdict.message.replace(", though", "; though") == shows + why
    bare = port(state="2: INIT", physical="4: PortConfigurationTraining")
    (verdict,) = verdicts(CHECK, rdma(bare), wanted(bare, "profile"), links(link()))
    assert verdict.message.endswith(
        "; eth2 has a carrier and no IPv4 address: that is INIT on Ethernet, which has no subnet manager"
    )


FRONT = {"device": "mlx5_7", "bdf": "0000:80:00.0", "rate": 100.0, "like": "15b3:101d MT_1 Ethernet"}
DEAD = {"state": "1: DOWN", "physical": "2: Polling"}
UNWANTED = [
    # other port                                       the port                       says of the port
    (port(**FRONT), FRONT | DEAD | {"bdf": "0000:81:00.0"}, "warn UnlikeOthers"),
    (port(**FRONT | DEAD), FRONT | DEAD | {"bdf": "0000:81:00.0"}, "ok NotNeeded"),
    (port(**FRONT), FRONT | {"bdf": "0000:81:00.0", "physical": "2: Polling"}, "warn UnlikeOthers"),
    (port(**FRONT), FRONT | DEAD | {"bdf": "0000:81:00.0", "state": GONE}, "unknown CannotLook"),
]


@pytest.mark.parametrize(("other", "different", "says"), UNWANTED)
def test_a_mixture_of_the_front_end_warns_and_a_dead_one_is_nobodys(
    other: Port, different: dict[str, Any], says: str
) -> None:
    slow = {"max_speed": 16.0, "rdma": (), "id": "15b3:101d"}
    listing = pci(nic(), nic(address=other.bdf, **slow), nic(address="0000:81:00.0", **slow))
    seen = rdma(port(), other, port(**different))
    assert say(CHECK, seen, by_kind(listing, seen)).split("; ")[-1] == says


def test_a_spare_warns_where_others_like_it_are_up() -> None:
    twins = (port(device="mlx5_5", bdf="0000:6c:00.0"), port(device="mlx5_6", bdf="0000:6c:00.1"))
    seen = rdma(*twins, port(), beside(**DEAD))
    found = verdicts(CHECK, seen, by_kind(seen))
    assert [one.reason for one in found] == ["Active", "Active", "Active", "UnlikeOthers"]
    assert found[-1].message == (
        "mlx5_4/1 at 0000:5c:00.1 is '1: DOWN', '2: Polling'; of 2 ports of rails' cards alike, up: mlx5_6/1; "
        "down: mlx5_4/1; no job is known to need it"
    )
    alone = rdma(port(), beside(**DEAD))
    assert say(CHECK, alone, by_kind(alone)) == "ok Active; ok NotNeeded"


def test_each_rail_fails_be_it_one_or_all() -> None:
    for bad in range(1, 5):
        seen = rdma(*(port(device=f"m{n}", bdf=f"0000:1{n}:00.0", **(DEAD if n < bad else {})) for n in range(4)))
        assert say(CHECK, seen, by_kind(seen)).count("fail NoSignal") == bad


def leg(place: str, *, joined: bool, carrier: bool = True) -> Expected:
    """A profile for which the port may be down, because its bond stands for it."""
    known = ExpectedBond("bond0", BondWant((place,), carrier), "bond0", (ExpectedLeg(place, "eth2", joined),))
    return expected(firm={f"{BDF}/1": PortWant(required=False, bonded=True)}, bonds=(known,))


LEGS = [
    # the profile                                    says of a port that is down
    (leg(BDF, joined=True), "ok NotNeeded"),
    (leg(BDF, joined=False), "fail NoSignal"),
    (leg("eth2", joined=False), "fail NoSignal"),
    (leg("0000:77:00.0", joined=False), "ok NotNeeded"),
    (leg(BDF, joined=False, carrier=False), "ok NotNeeded"),
]


@pytest.mark.parametrize(("profile", "says"), LEGS)
def test_no_bond_stands_for_a_port_that_left_it(profile: Expected, says: str) -> None:
    assert say(CHECK, rdma(port(state="1: DOWN", physical="2: Polling")), profile) == says
    assert say(CHECK, rdma(port()), profile) == "ok Active"


def test_a_digit_more_is_another_state() -> None:
    seen = port(state="40: ACTIVE")
    assert say(CHECK, rdma(seen), wanted(seen, "profile")) == "fail NotActive"


def test_one_damaged_file_leaves_the_other_ports_their_verdicts() -> None:
    broken, fine = port(state=GONE), port(device="mlx5_4", bdf="0000:5d:00.0")
    assert [verdict.status for verdict in verdicts(CHECK, rdma(broken, fine), wanted(fine, "profile"))] == [
        Status.UNKNOWN,
        Status.OK,
    ]


def test_of_a_spare_nobody_wants_a_state() -> None:
    pci, seen, links = SHAPES["8 x 400 RoCE, front end half cabled"].facts()
    told = {one.reason: one.expected for one in verdicts(CHECK, pci, seen, links, by_kind(pci, seen, links))}
    assert told == {"Active": "", "UnlikeOthers": "", "NotNeeded": ""}


def test_message_names_device_state_wanted_and_by_whom() -> None:
    seen = port(state="1: DOWN", physical="2: Polling")
    (verdict,) = verdicts(CHECK, rdma(seen), wanted(seen, "7 of 8 alike"))
    assert verdict.expected == "4: ACTIVE"
    assert verdict.message == (
        "mlx5_3/1 at 0000:5c:00.0 is '1: DOWN', '2: Polling'; ACTIVE is wanted by 7 of 8 alike; "
        "nothing from the far end: cable or switch port"
    )
