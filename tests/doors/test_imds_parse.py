"""The metadata's words as values, and what each says where they cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.door_values import Instance, Interface
from nodeprep.doors.http import imds_parse
from nodeprep.model import Unreadable, Why, raw

MAC = "00:16:3e:00:00:01"
AT = f"metadata network/interfaces/macs/{MAC}"


def tree(macs: Any = None, **different: Any) -> dict[str, Any]:
    usual = {"mac": MAC, "network": {"interfaces": {"macs": {MAC: {}} if macs is None else macs}}}
    return {name: value for name, value in (usual | different).items() if value != "gone"}


def parsed(**different: Any) -> Instance:
    found = imds_parse.instance(tree(**different), token_required=False)
    assert isinstance(found, Instance)
    return found


def interface(**told: Any) -> Interface:
    (found,) = parsed(macs={MAC: {name.replace("_", "-"): value for name, value in told.items()}}).interfaces
    return found


def words(value: object) -> object:
    """A value as it is, an Unreadable as what it says."""
    return f"{value.kind}: {value.detail}" if isinstance(value, Unreadable) else value


MISSING = "missing: not told"
ROWS: list[tuple[str, str, object, object]] = [
    # field         key          told                     is
    ("addresses", "private_ipv4s", '["10.0.0.1","10.0.0.2"]', ("10.0.0.1", "10.0.0.2")),
    ("addresses", "private_ipv4s", ["10.0.0.1"], ("10.0.0.1",)),
    ("addresses", "private_ipv4s", '["10.0.0.1"', "malformed: '[\"10.0.0.1\"' is not a list in JSON"),
    ("addresses", "private_ipv4s", "[" * 100_000, f"malformed: '{'[' * 59} is not a list in JSON"),
    ("addresses", "private_ipv4s", "[]", "malformed: [] is not a list of addresses"),
    ("addresses", "private_ipv4s", '{"a": 1}', "malformed: {'a': 1} is not a list of addresses"),
    ("addresses", "private_ipv4s", "[1]", "malformed: [1] is not IPv4 addresses"),
    ("addresses", "private_ipv4s", '["fd00::1"]', "malformed: ['fd00::1'] is not IPv4 addresses"),
    ("addresses", "private_ipv4s", ["10.0.0.1"] * 1025, "malformed: lists 1025 IPv4 addresses"),
    ("addresses", "private_ipv4s", None, MISSING),
    ("ipv6_addresses", "ipv6s", None, ()),
    ("ipv6_addresses", "ipv6s", "", ()),
    ("ipv6_addresses", "ipv6s", "[]", ()),
    ("ipv6_addresses", "ipv6s", "[fd00::1, FD00:0::2]\n", ("fd00::1", "fd00::2")),
    ("ipv6_addresses", "ipv6s", '["fd00::1"]', ("fd00::1",)),
    ("ipv6_addresses", "ipv6s", ["fd00::1"], ("fd00::1",)),
    ("ipv6_addresses", "ipv6s", "[fd00::1, x]", "malformed: ['fd00::1', 'x'] is not IPv6 addresses"),
    ("ipv6_addresses", "ipv6s", 5, "malformed: 5 is not a list of addresses"),
    ("prefix", "netmask", "255.255.240.0", 20),
    ("prefix", "netmask", "255.255.255.255\n", 32),
    ("prefix", "netmask", "0.0.0.0", 0),
    ("prefix", "netmask", "255.0.255.0", "malformed: '255.0.255.0' is not a netmask"),
    ("prefix", "netmask", "24", "malformed: '24' is not an IPv4 address"),
    ("prefix", "netmask", None, None),
    ("eni", "network_interface_id", "eni-1/\nmore", "eni-1"),
    ("eni", "network_interface_id", "", "malformed: '' is not a word"),
    ("eni", "network_interface_id", "\u202eeni", "malformed: '\\u202eeni' is not a word"),
    ("eni", "network_interface_id", "x" * 129, f"malformed: '{'x' * 59} is not a word"),
    ("eni", "network_interface_id", None, MISSING),
    ("gateway", "gateway", "192.168.0.253", "192.168.0.253"),
    ("gateway", "gateway", "fe80::1", "malformed: 'fe80::1' is not an IPv4 address"),
    ("vswitch_cidr", "vswitch_cidr_block", "192.168.0.0/24", "192.168.0.0/24"),
]


@pytest.mark.parametrize(("field", "key", "told", "means"), ROWS)
def test_of_an_interface(field: str, key: str, told: object, means: object) -> None:
    assert words(raw(interface(**{key: told}))[field]) == means


def test_it_says_where() -> None:
    found = raw(interface())["eni"]
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.MISSING, f"{AT}/network-interface-id")


SPOILT = [
    # tree                                       says
    (tree(mac="gone"), "metadata mac: missing (not told)"),
    (tree(mac="x"), "metadata mac: malformed ('x' is not a MAC address)"),
    (tree(mac=["x"]), "metadata mac: malformed (['x'] is not a MAC address)"),
    (tree(network="gone"), "metadata network/interfaces/macs: malformed (lists no interface)"),
    (tree(network={"interfaces": []}), "metadata network/interfaces/macs: malformed (lists no interface)"),
    (tree(macs={}), "metadata network/interfaces/macs: malformed (lists no interface)"),
    (tree(macs={MAC: "x"}), "metadata network/interfaces/macs: malformed (an entry that is no interface)"),
    (
        tree(macs={f"00:16:3e:00:00:{number:02x}": {} for number in range(129)}),
        "metadata network/interfaces/macs: malformed (an entry that is no interface)",
    ),
]


@pytest.mark.parametrize(("told", "says"), SPOILT)
def test_without_macs_there_is_no_book(told: dict[str, Any], says: str) -> None:
    assert str(imds_parse.instance(told, token_required=False)) == says


def test_macs_are_in_lower_case_and_without_slashes() -> None:
    found = parsed(mac="00:16:3E:00:00:01/\n", macs={"00:16:3E:00:00:01/": {}})
    assert (found.primary_mac, found.interfaces[0].mac) == (MAC, MAC)


def test_of_the_instance() -> None:
    found = parsed(**{"instance-id": "i-1", "instance": {"instance-type": "ecs.g8i"}, "region-id": "r", "zone-id": 5})
    assert [words(raw(found)[name]) for name in ("id", "type", "region", "zone")] == [
        "i-1",
        "ecs.g8i",
        "r",
        "malformed: 5 is not a word",
    ]
    assert words(raw(parsed(instance="x"))["type"]) == MISSING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("network-interface-id", "primary-ip-address", "private-ipv4s", "ipv6s", "netmask", "gateway", "vswitch-id")


@given(st.dictionaries(st.sampled_from(KEYS), JSON), JSON)
def test_whatever_is_told_is_a_value_or_says_why_not(told: dict[str, Any], other: Any) -> None:
    (found,) = parsed(macs={MAC: told}, **{"instance-id": other, "instance": other, "zone-id": other}).interfaces
    for value in raw(found).values():
        assert str(value).isprintable()
