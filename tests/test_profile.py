"""Profiles as plain mappings: what is read, what is refused and where, what a child inherits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep import job_profile
from nodeprep.job_profile import AtLeast, DeviceWant, Expectation, GpuCount, GpuWant, PortWant, Profile
from nodeprep.typed_yaml import InvalidValueError

TOP: dict[str, Any] = {"apiVersion": "nodeprep.io/v1", "kind": "Profile", "name": "site"}
BDF = "0000:5c:00.0"
ADDRESS_AS = 'a PCI address as the kernel writes it, such as "0000:5c:00.0"'

WORD = st.text("abcxyz-_0", min_size=1, max_size=6)
COUNT = st.none() | st.integers(0, 1 << 40)
AMOUNT = st.none() | st.floats(0, 1e8)
DEVICES = st.builds(DeviceWant, *[st.none() | WORD] * 6, COUNT, AMOUNT)
LAYERS = st.none() | st.sampled_from(("InfiniBand", "Ethernet", "Unknown"))
PORTS = st.builds(PortWant, AMOUNT, LAYERS, st.none() | WORD, COUNT, st.none() | st.booleans(), st.booleans())
PLACES = WORD | st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True)
EXPECTATIONS = st.builds(
    Expectation,
    st.dictionaries(PLACES, DEVICES, max_size=2),
    st.dictionaries(PLACES.map(lambda place: f"{place}/1"), PORTS, max_size=2),
    st.none(),
    st.lists(WORD, max_size=2).map(tuple),
    st.none() | st.booleans(),
    any_slot=st.booleans(),
) | st.builds(Expectation, at_least=st.builds(AtLeast, st.integers(0, 64), LAYERS, AMOUNT))
PROFILES = st.builds(
    Profile,
    WORD,
    st.none() | WORD,
    st.lists(WORD, max_size=3).map(" ".join),
    st.lists(WORD, max_size=2).map(tuple),
    EXPECTATIONS,
    st.dictionaries(WORD, st.dictionaries(WORD, st.integers(), max_size=2), max_size=2),
    st.lists(WORD, max_size=2).map(tuple),
    st.lists(WORD, max_size=2).map(tuple),
)


@settings(deadline=None)
@given(PROFILES)
def test_a_profile_comes_back_from_its_mapping(profile: Profile) -> None:
    assert job_profile.parse(job_profile.mapping(profile)) == profile


def test_a_profile_that_says_nothing_has_a_short_mapping() -> None:
    assert job_profile.mapping(Profile("site")) == TOP


def test_whole_numbers_are_written_without_a_point() -> None:
    rate = job_profile.mapping(Profile("site", expect=Expectation(ports={f"{BDF}/1": PortWant(rate=400.0)})))
    assert repr(rate["expect"]["ports"][f"{BDF}/1"]["rate"]) == "400"


TOP_KEYS = "apiVersion, kind, name, extends, description, gates, rests-on, expect, want, exclude"
ROWS = [
    # given                                               the error
    ([], "the file: found a list, wanted keys with values"),
    ({}, "apiVersion: found nothing, wanted nodeprep.io/v1"),
    (TOP | {"apiVersion": "nodeprep.io/v2"}, "apiVersion: found 'nodeprep.io/v2', wanted nodeprep.io/v1"),
    (TOP | {"kind": "Config"}, "kind: found 'Config', wanted Profile"),
    (TOP | {"name": ""}, "name: found '', wanted a name"),
    (TOP | {"name": 5}, "name: found 5, wanted a word (quote it if it looks like a number)"),
    (TOP | {"name": "a\nb"}, "name: found 'a\\nb', wanted a word (quote it if it looks like a number)"),
    (TOP | {"gate": []}, "gate: found 'gate', wanted 'gates'"),
    (TOP | {"colour": []}, f"colour: found 'colour', wanted one of {TOP_KEYS}"),
    (TOP | {"gates": True}, "gates: found true, wanted a list of words"),
    (TOP | {"gates": ["a", 7]}, "gates[1]: found 7, wanted a word (quote it if it looks like a number)"),
    (TOP | {"want": []}, "want: found a list, wanted keys with values"),
    (TOP | {"want": {"port.mtu": 4200}}, "want.port.mtu: found 4200, wanted keys with values"),
    (TOP | {"expect": []}, "expect: found a list, wanted keys with values"),
    (TOP | {"expect": {"port": {}}}, "expect.port: found 'port', wanted 'ports'"),
    (TOP | {"expect": {"verbs": "yes"}}, "expect.verbs: found 'yes', wanted true or false"),
    (TOP | {"expect": {"devices": {BDF: {"width": 16}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-width": 16.5}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-width": True}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-width": -1}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-width": 1 << 63}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-speed": True}}}}, None),
    (TOP | {"expect": {"devices": {BDF: {"pcie-speed": float("inf")}}}}, None),
    (
        TOP | {"expect": {"devices": {"0000:5C:00.0": {}}}},
        "expect.devices.0000:5C:00.0: found '0000:5C:00.0', wanted " + ADDRESS_AS,
    ),
    (TOP | {"expect": {"devices": {"5c:00.0": {}}}}, None),
    (TOP | {"expect": {"resources": {"nvidia.com/gpu": "8"}}}, None),
    (TOP | {"expect": {"resources": {"nvidia.com/gpu": -1}}}, None),
    (
        TOP | {"expect": {"resources": {"gpu": 8}}},
        "expect.resources.gpu: found 'gpu', wanted an extended resource such as \"nvidia.com/gpu\"",
    ),
    (
        TOP | {"expect": {"ports": {BDF: {}}}},
        f"expect.ports.{BDF}: found '{BDF}', wanted a port such as \"0000:5c:00.0/1\", or at-least for a count",
    ),
    (TOP | {"expect": {"ports": {f"{BDF}/0": {}}}}, None),
    (TOP | {"expect": {"ports": {f"{BDF}/x": {}}}}, None),
    (TOP | {"expect": {"ports": {"5c:00.0/1": {}}}}, None),
    (TOP | {"expect": {"ports": {"at-least": None}}}, None),
    (
        TOP | {"expect": {"ports": {"at-least": -1}}},
        "expect.ports.at-least: found -1, wanted a whole number, 0 to 2^63-1",
    ),
    (TOP | {"expect": {"ports": {"at-least": 8, "speed": 400}}}, None),
    (TOP | {"expect": {"ports": {f"{BDF}/1": {"rate": "400"}}}}, None),
    (
        TOP | {"expect": {"ports": {f"{BDF}/1": {"link-layer": "RoCE"}}}},
        f"expect.ports.{BDF}/1.link-layer: found 'RoCE', wanted one of InfiniBand, Ethernet, Unknown",
    ),
    (
        TOP | {"expect": {"gpus": {"gpu0": {}}}},
        "expect.gpus.gpu0: found 'gpu0', wanted a PCI address such as \"0000:1b:00.0\", or at-least for a count",
    ),
    (TOP | {"expect": {"gpus": {BDF: {"model": "H100"}}}}, f"expect.gpus.{BDF}.model: found 'model', wanted one of id"),
    (TOP | {"expect": {"gpus": {BDF: {"id": 10}}}}, None),
    (TOP | {"expect": {"gpus": {"at-least": "8"}}}, None),
    (TOP | {"expect": {"gpus": {"at-least": 8, BDF: {}}}}, None),
    (TOP | {"expect": {"gpus": 8}}, None),
]


GPUS = [
    (Expectation(gpus={BDF: GpuWant("10de:2330")}), {"gpus": {BDF: {"id": "10de:2330"}}}),
    (Expectation(gpus={BDF: GpuWant()}), {"gpus": {BDF: {}}}),
    (Expectation(gpu_count=GpuCount(8)), {"gpus": {"at-least": 8}}),
    (Expectation(gpu_count=GpuCount(8, "10de:2330")), {"gpus": {"at-least": 8, "id": "10de:2330"}}),
]


@pytest.mark.parametrize(("expect", "written"), GPUS)
def test_gpus_are_named_or_counted(expect: Expectation, written: dict[str, object]) -> None:
    profile = Profile("site", gates=("gpu.expected",), expect=expect)
    assert job_profile.mapping(profile)["expect"] == written
    assert job_profile.parse(job_profile.mapping(profile)) == profile
    assert profile.needed_gates == ("gpu.expected",)
    assert job_profile.extend(Profile("child"), profile).expect == expect


def test_a_child_that_counts_gpus_names_none_of_its_parents() -> None:
    parent = Profile("parent", expect=Expectation(gpus={BDF: GpuWant()}))
    whole = job_profile.extend(Profile("child", expect=Expectation(gpu_count=GpuCount(4))), parent).expect
    assert (whole.gpus, whole.gpu_count) == ({}, GpuCount(4))


@pytest.mark.parametrize(("given", "says"), ROWS, ids=range(len(ROWS)))
def test_what_cannot_be_meant_is_refused_at_its_key(given: object, says: str | None) -> None:
    with pytest.raises(InvalidValueError) as error:
        job_profile.parse(given)
    assert says is None or str(error.value) == says


def test_what_is_left_empty_is_not_said() -> None:
    assert job_profile.parse(
        TOP | {"gates": None, "want": None, "expect": {"devices": None, "ports": None}}
    ) == Profile("site")


def test_a_description_over_lines_is_one_text() -> None:
    assert job_profile.parse(TOP | {"description": "Jobs\n  of all\nkinds\n"}).description == "Jobs of all kinds"


PARENT = Profile(
    "parent",
    extends="base",
    description="parent's",
    gates=("a", "b"),
    expect=Expectation(
        devices={BDF: DeviceWant("x")}, at_least=AtLeast(1, "Ethernet"), modules=("ib_core",), verbs=True
    ),
    want={"port.mtu": {"at-least": 4200, "deep": 1}, "port.flap": {"fail-at": 2}},
    exclude=("/a",),
)
NAMED = Expectation(ports={f"{BDF}/1": PortWant(400.0)})


def test_a_child_that_says_nothing_is_its_parent_under_its_own_name() -> None:
    child = job_profile.extend(Profile("child", extends="parent"), PARENT)
    assert job_profile.mapping(child) == job_profile.mapping(PARENT) | {"name": "child", "extends": "parent"}


def test_gates_modules_and_exclusions_add_up_once() -> None:
    child = Profile("child", gates=("b", "c"), exclude=("/b", "/a"), expect=Expectation(modules=("ib_umad", "ib_core")))
    whole = job_profile.extend(child, PARENT)
    assert whole.gates == ("a", "b", "c")
    assert whole.exclude == ("/a", "/b")
    assert whole.expect.modules == ("ib_core", "ib_umad")


RESTS = [
    # the child's       the parent's    of the child
    ((), ("a",), ("a",)),
    (("b",), ("a",), ("b",)),
    (("b",), (), ("b",)),
]


@pytest.mark.parametrize(("own", "its", "whole"), RESTS)
def test_a_child_may_rest_on_other_gates(own: tuple[str, ...], its: tuple[str, ...], whole: tuple[str, ...]) -> None:
    gates = ("a", "b")
    child, parent = Profile("child", rests_on=own), Profile("parent", gates=gates, rests_on=its)
    assert job_profile.extend(child, parent).rests_on == whole
    assert job_profile.extend(child, parent).needed_gates == whole


ALL_GATES = ("pci.expected-nic", "port.present", "port.state", "port.rate")
NEEDED = [
    # expects                                                   gates        rests on besides port.rate
    (Expectation(), ALL_GATES, ()),
    (Expectation(at_least=AtLeast(8)), ALL_GATES, ()),
    (Expectation(devices={BDF: DeviceWant("x")}), ALL_GATES, ("pci.expected-nic",)),
    (Expectation(devices={"mlx5_0": DeviceWant("x")}), ALL_GATES, ()),
    (NAMED, ALL_GATES, ("port.present", "port.state")),
    (Expectation(ports={f"{BDF}/1": PortWant(required=False)}), ALL_GATES, ()),
    (NAMED, ("port.rate", "port.state"), ("port.state",)),
]


@pytest.mark.parametrize(("expect", "gates", "more"), NEEDED)
def test_what_is_named_by_address_is_needed(expect: Expectation, gates: tuple[str, ...], more: tuple[str, ...]) -> None:
    profile = Profile("captured", gates=gates, rests_on=("port.rate", "gone.gate"), expect=expect)
    assert profile.needed_gates == ("port.rate", *more)


def test_numbers_are_taken_key_by_key() -> None:
    whole = job_profile.extend(Profile("child", want={"port.mtu": {"at-least": 9000}, "pci.link": {"x": 1}}), PARENT)
    assert whole.want == {"port.mtu": {"at-least": 9000, "deep": 1}, "port.flap": {"fail-at": 2}, "pci.link": {"x": 1}}


DEVICE_AT = {"0000:5c:00.0": DeviceWant(id="15b3:1021")}
ANY_SLOT = [
    # the child                        its parent                                          any slot
    (Expectation(), Expectation(DEVICE_AT, any_slot=True), True),
    (Expectation(DEVICE_AT), Expectation(DEVICE_AT, any_slot=True), False),
    (Expectation(DEVICE_AT, any_slot=True), Expectation(DEVICE_AT), True),
    (Expectation(ports={"0000:5c:00.0/1": PortWant()}), Expectation(DEVICE_AT, any_slot=True), False),
    (Expectation(at_least=AtLeast(8)), Expectation(DEVICE_AT, any_slot=True), True),
]


@pytest.mark.parametrize(("own", "its", "any_slot"), ANY_SLOT)
def test_the_slots_are_those_of_who_names_the_devices(own: Expectation, its: Expectation, *, any_slot: bool) -> None:
    whole = job_profile.extend(Profile("child", expect=own), Profile("parent", expect=its))
    assert whole.expect.any_slot is any_slot
    said = job_profile.mapping(whole)
    assert ("any-slot" in said["expect"]) is any_slot
    assert job_profile.parse(said).expect.any_slot is any_slot


def test_resources_are_taken_name_by_name() -> None:
    parent = Profile("parent", expect=Expectation(resources={"nvidia.com/gpu": 8, "rdma/hca": 63}))
    child = Profile("child", expect=Expectation(resources={"rdma/hca": 0}))
    assert job_profile.extend(child, parent).expect.resources == {"nvidia.com/gpu": 8, "rdma/hca": 0}
    assert job_profile.parse(job_profile.mapping(parent)) == parent


def test_verbs_said_to_be_false_stay_false() -> None:
    assert job_profile.extend(Profile("child", expect=Expectation(verbs=False)), PARENT).expect.verbs is False


@pytest.mark.parametrize(
    ("own", "its", "ports", "at_least"),
    [
        (NAMED, Expectation(at_least=AtLeast(1)), NAMED.ports, None),
        (Expectation(at_least=AtLeast(2)), NAMED, {}, AtLeast(2)),
        (Expectation(), NAMED, NAMED.ports, None),
        (Expectation(), Expectation(at_least=AtLeast(1)), {}, AtLeast(1)),
    ],
)
def test_ports_are_named_or_counted_as_the_child_says(
    own: Expectation, its: Expectation, ports: object, at_least: AtLeast | None
) -> None:
    expect = job_profile.extend(Profile("child", expect=own), Profile("parent", expect=its)).expect
    assert (expect.ports, expect.at_least) == (ports, at_least)
