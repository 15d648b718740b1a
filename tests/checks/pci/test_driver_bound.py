"""pci.driver-bound by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.pci.driver_bound import CHECK
from nodeprep.facts.alibaba.erdma import Erdma
from nodeprep.facts.expected.inventory import Expected, Shortage
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import PciDevice
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Unreadable, Why
from tests.erdma_values import erdma
from tests.values import BDF, by_kind, expected, nic, pci, port, rdma, say, verdicts

ALIAS = "pci:v000015B3d00001021sv000015B3sd00000041bc02sc00i00"
PROFILE = expected(devices={BDF: DeviceWant(driver="mlx5_core")})
INDEX = ("ib_core", "mlx5_core", "mlx5_ib", "virtio_pci", "erdma")
DENIED = Unreadable(Why.DENIED, "/sys/bus/pci/devices/0000:5c:00.0/driver_override", 13)


def modules(**different: Any) -> Modules:
    usual: dict[str, Any] = {
        "at": 0.0,
        "loaded": (),
        "loading": (),
        "available": INDEX,
        "versions": (),
        "wanted": ((ALIAS, ("mlx5_core",)),),
    }
    return Modules(**(usual | different))


def unbound(**different: Any) -> PciDevice:
    return nic(**({"driver": None, "rdma": (), "netdevs": ()} | different))


def others(count: int, **different: Any) -> list[PciDevice]:
    return [nic(**({"address": f"0000:{index:02x}:00.0"} | different)) for index in range(1, count + 1)]


PROFILE_ROWS = [
    ({}, PROFILE, modules(), "fail NoDriver kernel_modules(module=mlx5_core)"),
    ({}, PROFILE, modules(loaded=("mlx5_core",)), "fail NotBound driver_bind(bdf=0000:5c:00.0, driver=mlx5_core)"),
    ({}, PROFILE, modules(available=("ib_core",), wanted=()), "fail NoModule"),
    ({}, PROFILE, modules(available=None, wanted=()), "fail NoDriver kernel_modules(module=mlx5_core)"),
    ({}, PROFILE, modules(available=DENIED), "fail NoDriver kernel_modules(module=mlx5_core)"),
    ({}, PROFILE, None, "fail NoDriver kernel_modules(module=mlx5_core)"),
    ({"driver_override": "vfio-pci"}, PROFILE, modules(), "fail DriverOverride"),
    ({"driver_override": DENIED}, PROFILE, modules(), "fail NoDriver"),
    ({"modalias": DENIED}, PROFILE, modules(), "fail NoDriver kernel_modules(module=mlx5_core)"),
    ({"virtual_function": True}, PROFILE, modules(), "absent Nothing"),
    # A name that a copy lost is found again by modalias; a driver that names its module otherwise too.
    (
        {},
        expected(devices={BDF: DeviceWant(driver="unnamed")}),
        modules(),
        "fail NoDriver kernel_modules(module=mlx5_core)",
    ),
    (
        {},
        expected(devices={BDF: DeviceWant(rdma="mlx5_3")}),
        modules(),
        "fail NoDriver kernel_modules(module=mlx5_core)",
    ),
    (
        {},
        expected(devices={BDF: DeviceWant(driver="virtio-pci")}),
        modules(loaded=("virtio_pci",), wanted=()),
        "fail NotBound driver_bind(bdf=0000:5c:00.0, driver=virtio-pci)",
    ),
    ({}, expected(devices={BDF: DeviceWant(driver="erdma")}), modules(wanted=()), "fail NoDriver erdma_load()"),
    ({}, expected(devices={BDF: DeviceWant()}), modules(), "ok NotNeeded"),
    ({}, expected(), modules(), "ok NotNeeded"),
]


@pytest.mark.parametrize(("different", "wants", "kernel", "says"), PROFILE_ROWS)
def test_without_a_driver(different: dict[str, Any], wants: object, kernel: Modules | None, says: str) -> None:
    facts = (pci(unbound(**different)), wants, *([kernel] if kernel else []))
    assert say(CHECK, *facts) == says


BOUND_ROWS = [
    ("mlx5_core", "mlx5_core", "ok Bound"),
    ("mlx5_core", None, "ok Bound"),
    ("virtio-pci", "virtio_pci", "ok Bound"),
    ("unnamed", "mlx5_core", "ok Bound"),
    ("mlx5_core", "unnamed", "ok Bound"),
    ("vfio-pci", None, "ok PassedThrough"),
    ("vfio-pci", "mlx5_core", "fail WrongDriver"),
    ("vfio-pci", "vfio-pci", "ok PassedThrough"),
]


@pytest.mark.parametrize(("driver", "want", "says"), BOUND_ROWS)
def test_with_a_driver(driver: str, want: str | None, says: str) -> None:
    assert say(CHECK, pci(nic(driver=driver)), expected(devices={BDF: DeviceWant(driver=want)})) == says


def last(*devices: PciDevice, **wants: Any) -> str:
    return say(CHECK, pci(*devices), expected(**wants), modules(available=None, wanted=())).rpartition("; ")[2]


LIKES = [
    # carry RDMA, have no driver   says of the last
    (2, 1, "fail NoDriver kernel_modules(module=mlx5_core)"),
    (2, 2, "fail NoDriver kernel_modules(module=mlx5_core)"),
    (1, 7, "fail NoDriver kernel_modules(module=mlx5_core)"),
    (0, 3, "fail NoDriver"),
]


def kinds_of(*devices: PciDevice) -> Expected:
    carriers = [one for one in devices if one.rdma]
    ports = (port(device=f"mlx5_{n}", bdf=one.address) for n, one in enumerate(carriers))
    return by_kind(pci(*devices), rdma(*ports))


@pytest.mark.parametrize(("bound", "bare", "says"), LIKES)
def test_each_rail_needs_its_driver(bound: int, bare: int, says: str) -> None:
    found = [*others(bound), *(unbound(address=f"0000:8{index}:00.0") for index in range(bare))]
    said = say(CHECK, pci(*found), kinds_of(*found), modules(available=None, wanted=())).split("; ")
    assert said[bound:] == [says] * bare


def test_a_spare_without_a_driver_warns_and_names_both_camps() -> None:
    found = [*others(1), *others(1, address="0000:01:00.1"), *others(1, address="0000:02:00.0")]
    found.append(unbound(address="0000:02:00.1"))
    *_, verdict = verdicts(CHECK, pci(*found), kinds_of(*found), modules())
    assert (verdict.status, verdict.reason) == ("warn", "UnlikeOthers")
    assert verdict.message == (
        "0000:02:00.1 (15b3:1021) has no driver; of 2 ports of rails' cards alike, up: mlx5_1/1; "
        "down: 0000:02:00.1 (15b3:1021); no job is known to need it"
    )


def test_a_plain_nic_without_a_driver_warns_where_its_likes_have_theirs() -> None:
    plain = {"id": "8086:1533", "rdma": ()}
    assert last(*others(3, **plain), unbound(id="8086:1533")) == "warn UnlikeOthers"
    assert last(*others(3, **plain), unbound(id="8086:1572")) == "ok NotNeeded"


def test_likes_that_are_handed_on_do_not_speak_for_a_driver() -> None:
    assert last(*others(4, driver="vfio-pci", rdma=()), unbound()) == "ok NotNeeded"


def test_virtual_functions_are_no_likes() -> None:
    assert last(*others(4, virtual_function=True), unbound()) == "ok NotNeeded"


def test_other_hardware_is_no_like() -> None:
    assert last(*others(4, id="15b3:101d"), unbound()) == "ok NotNeeded"


def test_one_set_aside_for_a_guest_is_left_alone_unless_the_profile_wants_it() -> None:
    assert last(*others(4), unbound(driver_override="vfio-pci")) == "ok PassedThrough"
    taken = [*others(4), unbound(driver_override="nouveau")]
    assert say(CHECK, pci(*taken), kinds_of(*taken)).endswith("fail DriverOverride")


def test_an_infiniband_controller_always_needs_its_driver() -> None:
    seen = pci(unbound(pci_class="020700"))
    assert say(CHECK, seen, expected(), modules()) == "fail NoDriver kernel_modules(module=mlx5_core)"


def test_without_a_claim_by_any_module_the_kernel_lacks_it_if_its_index_is_shown() -> None:
    seen = pci(unbound(pci_class="020700"))
    assert say(CHECK, seen, expected(), modules(wanted=((ALIAS, ()),))) == "fail NoModule"
    assert say(CHECK, seen, expected(), modules(available=None, wanted=())) == "fail NoDriver"
    assert say(CHECK, seen, expected()) == "fail NoDriver"


SHORT = Shortage(7, 8, "Ethernet ports", "profile rdma-roce (at least 8 ports)")


def test_ports_that_a_profile_misses_make_its_likes_suspects() -> None:
    fail = "fail NoDriver kernel_modules(module=mlx5_core)"
    assert last(*others(1), unbound(), shortage=SHORT) == fail
    assert last(*others(1), unbound(id="8086:1533"), shortage=SHORT) == "ok NotNeeded"
    assert last(*others(1, rdma=()), unbound(), shortage=SHORT) == fail  # nothing carries RDMA: any may be it
    assert last(*others(1), unbound()) == "warn UnlikeOthers"


def test_a_tree_without_driver_links_is_not_judged() -> None:
    assert say(CHECK, pci(unbound(), drivers_shown=False), PROFILE) == "absent Nothing"


def test_the_usual_driver_decides_between_modules_that_claim_it() -> None:
    claimed = modules(wanted=((ALIAS, ("catch_all", "mlx5_core")),))
    infiniband = pci(unbound(pci_class="020700"))
    assert say(CHECK, pci(unbound()), PROFILE, claimed) == "fail NoDriver kernel_modules(module=mlx5_core)"
    assert say(CHECK, infiniband, expected(), claimed) == "fail NoModule"  # catch_all is what modprobe would try
    named = [*others(1, driver="unnamed"), *others(1, address="0000:02:00.0"), unbound()]
    told = say(CHECK, pci(*named), kinds_of(*named), modules(available=None, wanted=()))
    assert told.endswith("fail NoDriver kernel_modules(module=mlx5_core)")


DEFERRED = erdma(functions=(BDF,), deferred=(BDF,))
ELASTIC = [
    # Elastic RDMA          kernel                               says
    (None, modules(wanted=()), "fail NoDriver erdma_load()"),
    (None, modules(wanted=(), loaded=("erdma",)), "fail NotBound driver_bind(bdf=0000:5c:00.0, driver=erdma)"),
    (None, modules(wanted=(), available=("ib_core",)), "fail NoModule"),
    (erdma(functions=(BDF,), deferred=()), modules(wanted=()), "fail NoDriver erdma_load()"),
    (DEFERRED, modules(wanted=(), loaded=("erdma",)), "ok Deferred"),
]


@pytest.mark.parametrize(("fact", "kernel", "says"), ELASTIC)
def test_an_elastic_rdma_interface_always_needs_its_driver(fact: Erdma | None, kernel: Modules, says: str) -> None:
    facts = [pci(unbound(id="1ded:107f")), expected(), kernel, *([fact] if fact else [])]
    assert say(CHECK, *facts) == says


def test_what_machines_read() -> None:
    (verdict,) = verdicts(CHECK, pci(unbound()), PROFILE, modules())
    assert (verdict.observed, verdict.expected) == ("none", "mlx5_core")
    (verdict,) = verdicts(CHECK, pci(unbound(pci_class="020700", driver_override="nouveau")), expected(), modules())
    assert (verdict.observed, verdict.expected) == ("none", "a driver")
    (verdict,) = verdicts(CHECK, pci(unbound(driver_override="nouveau")), PROFILE, modules())
    assert (verdict.observed, verdict.expected) == ("none", "mlx5_core")
    (verdict,) = verdicts(CHECK, pci(unbound(pci_class="020700")), expected(), modules())
    assert verdict.expected == "a driver"


def test_message() -> None:
    (verdict,) = verdicts(CHECK, pci(unbound()), PROFILE, modules(loaded=("mlx5_core",)))
    assert verdict.message == (
        "0000:5c:00.0 (15b3:1021) has no driver; it is wanted by profile test; "
        "module mlx5_core is loaded and did not take it: see dmesg"
    )
