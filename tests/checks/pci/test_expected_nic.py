"""pci.expected-nic by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.pci.expected_nic import CHECK
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import MissingDevice
from nodeprep.job_profile import DeviceWant, Expectation, Profile
from nodeprep.model import Subject, Unreadable, Why
from tests.values import BDF, expected, nic, pci, say, verdicts

OTHER = "0000:5d:00.0"
GARBLED = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:5c:00.0/vendor", detail="not UTF-8")


def test_present_missing_and_unwanted() -> None:
    profile = Profile("rails", expect=Expectation(devices={BDF: DeviceWant(id="15b3:1021"), OTHER: DeviceWant()}))
    bus = pci(nic(), nic(address="0000:01:00.0"))
    assert (
        say(CHECK, bus, inventory.derive(profile, bus, None)) == "fail Missing pci_rescan(bdf=0000:5d:00.0); ok Present"
    )


def test_message_says_what_is_missing_and_who_expects_it() -> None:
    gone = MissingDevice(Subject(BDF, None, f"{BDF} (15b3:1021, mlx5_3)"), "15b3:1021", "profile rails")
    (verdict,) = verdicts(CHECK, pci(), expected(missing_devices=(gone,)))
    assert verdict.message == "the PCI bus does not list 0000:5c:00.0 (15b3:1021, mlx5_3), which profile rails expects"
    assert (verdict.subject, verdict.observed, verdict.expected) == (Subject(BDF), "absent", "15b3:1021")


IN_ITS_PLACE = [
    ({"id": "10de:2330", "pci_class": "030200", "rdma": (), "netdevs": ()}, "a device of class 030200"),
    ({"id": "15b3:101e", "virtual_function": True}, "a virtual function"),
]


@pytest.mark.parametrize(("there", "what"), IN_ITS_PLACE)
def test_a_place_that_something_else_has_is_not_empty(there: dict[str, Any], what: str) -> None:
    profile = Profile("rails", expect=Expectation(devices={BDF: DeviceWant(id="15b3:1021"), OTHER: DeviceWant()}))
    bus = pci(nic(**there), nic(address=OTHER))
    found = verdicts(CHECK, bus, inventory.derive(profile, bus, None))
    assert [(one.status, one.reason) for one in found] == [("fail", "Replaced"), ("ok", "Present")]
    assert f" is {what}, in the place of {BDF} (15b3:1021), which profile rails expects" in found[0].message
    assert there["id"] in found[0].message


def test_another_board_in_its_place_warns() -> None:
    wants = expected(devices={BDF: DeviceWant(id="15b3:1021")})
    assert say(CHECK, pci(nic(id="15b3:101d")), wants) == "warn OtherDevice"


def test_an_id_that_a_copy_does_not_show_is_no_other_board() -> None:
    wants = expected(devices={BDF: DeviceWant(id="15b3:1021")})
    assert say(CHECK, pci(nic(id="")), wants) == "ok Present"


def test_a_damaged_id_is_unknown_for_that_nic_only() -> None:
    wants = expected(devices={BDF: DeviceWant(id="15b3:1021"), OTHER: DeviceWant(id="15b3:1021")})
    assert say(CHECK, pci(nic(id=GARBLED), nic(address=OTHER)), wants) == "unknown CannotLook; ok Present"


def test_nothing_expected_is_absent() -> None:
    assert say(CHECK, pci(nic()), expected()) == "absent Nothing"
