"""gpu.expected by its rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.checks.gpu.expected import CHECK
from nodeprep.facts.expected import inventory
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.job_profile import Expectation, GpuCount, GpuWant, Profile
from nodeprep.model import Unreadable, Why
from tests.gpu_values import AT, OTHER, amd, gpu
from tests.values import expected, nic, pci, say, verdicts

H100 = GpuWant("10de:2330")
BOTH = {AT: H100, OTHER: H100}
KEPT = gpu(driver=None, driver_override="vfio-pci")  # for a virtual machine
GARBLED = Unreadable(Why.MALFORMED, f"/sys/bus/pci/devices/{AT}/vendor", detail="not UTF-8")


def told(expect: Expectation, *gpus: PciDevice) -> str:
    bus = pci(nic(), *gpus)
    return say(CHECK, bus, inventory.derive(Profile("site", expect=expect), bus, None))


ELSEWHERE = (gpu(address="0000:81:00.0"), gpu(address="0000:82:00.0"))

ROWS = [
    # expected                                    on the bus                                        says
    (Expectation(), (), "absent Nothing"),
    (Expectation(), (gpu(), amd(address=OTHER)), "ok Present; ok Present"),
    (Expectation(), (gpu(answers=False),), "fail NoAnswer"),
    (Expectation(), (gpu(answers=None),), "ok Present"),
    (Expectation(gpus=BOTH), (gpu(), gpu(address=OTHER)), "ok Present; ok Present"),
    (Expectation(gpus=BOTH), (gpu(),), "fail Missing; ok Present"),
    (Expectation(gpus=BOTH), (), "fail Missing; fail Missing"),
    (Expectation(gpus=BOTH), (gpu(), gpu(address=OTHER, answers=False)), "ok Present; fail NoAnswer"),
    (Expectation(gpus=BOTH), (gpu(), gpu(address=OTHER, id="10de:20b2")), "ok Present; warn OtherGpu"),
    (Expectation(gpus={AT: GpuWant()}), (gpu(id="10de:20b2"),), "ok Present"),
    (Expectation(gpus=BOTH), (gpu(), nic(address=OTHER)), "fail Replaced; ok Present"),
    (Expectation(gpus=BOTH), ELSEWHERE, "fail Missing; fail Missing; ok Present; ok Present"),
    (Expectation(gpus=BOTH, any_slot=True), ELSEWHERE, "ok Present; ok Present"),
    (Expectation(gpu_count=GpuCount(2)), (gpu(), amd(address=OTHER)), "ok Enough; ok Present; ok Present"),
    (Expectation(gpu_count=GpuCount(2)), (gpu(),), "fail TooFewGpus; ok Present"),
    (Expectation(gpu_count=GpuCount(1)), (), "fail TooFewGpus"),
    (Expectation(gpu_count=GpuCount(1)), (gpu(answers=False),), "fail TooFewGpus; fail NoAnswer"),
    (Expectation(gpu_count=GpuCount(1, "10de:20b2")), (gpu(),), "fail TooFewGpus; ok Present"),
    (Expectation(gpu_count=GpuCount(1, "10de:2330")), (gpu(),), "ok Enough; ok Present"),
    (Expectation(gpu_count=GpuCount(1)), (gpu(driver="vfio-pci"),), "fail TooFewGpus; ok Present"),
    (Expectation(gpu_count=GpuCount(1)), (KEPT,), "fail TooFewGpus; ok Present"),
    (Expectation(gpu_count=GpuCount(1)), (gpu(driver=None),), "ok Enough; ok Present"),  # gpu.driver judges that
    (Expectation(gpu_count=GpuCount(0)), (), "ok Enough"),
    (Expectation(gpu_count=GpuCount(1)), (gpu(virtual_function=True),), "fail TooFewGpus"),
    (Expectation(gpus={AT: H100}), (gpu(answers=GARBLED),), "unknown CannotLook"),
]  # fmt: skip


@pytest.mark.parametrize(("expect", "gpus", "says"), ROWS)
def test_says(expect: Expectation, gpus: tuple[PciDevice, ...], says: str) -> None:
    assert told(expect, *gpus) == says


def test_the_message_names_the_gpu_and_who_expects_it() -> None:
    bus = pci(gpu())
    first, _ = verdicts(CHECK, bus, inventory.derive(Profile("site", expect=Expectation(gpus=BOTH)), bus, None))
    assert first.message == (
        f"the PCI bus does not list the GPU {OTHER} (10de:2330), which profile site expects; it lists 1"
    )
    assert (first.subject.place, first.observed, first.expected) == (OTHER, "absent", "10de:2330")


def test_without_a_listing_of_the_bus_nothing_is_missing() -> None:
    assert inventory.derive(Profile("site", expect=Expectation(gpus=BOTH)), None, None).missing_gpus == ()


@given(gone=st.sets(st.integers(0, 7)), moved=st.integers(0, 3))
def test_of_eight_named_gpus_each_that_is_gone_is_missed(gone: set[int], moved: int) -> None:
    """At the captured addresses, or all of them on other buses: as many are missing as are gone."""
    places = [f"0000:{0x10 + 8 * number:02x}:00.0" for number in range(8)]
    there = [f"0000:{0x10 + 8 * number + moved:02x}:00.0" for number in range(8) if number not in gone]
    bus = pci(*(gpu(address=address) for address in there))
    expect = Expectation(gpus=dict.fromkeys(places, H100), any_slot=True)
    found = inventory.derive(Profile("site", expect=expect), bus, None)
    assert len(found.missing_gpus) == len(gone)
    if not moved:
        assert {one.subject.place for one in found.missing_gpus} == {places[number] for number in gone}


def test_nothing_is_expected_of_a_node_without_gpus() -> None:
    assert say(CHECK, pci(nic()), expected()) == "absent Nothing"
