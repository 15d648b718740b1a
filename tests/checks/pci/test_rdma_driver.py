"""pci.rdma-driver by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.pci.rdma_driver import AUXILIARY_DRIVERS, CHECK
from nodeprep.facts.expected.inventory import Expected, Shortage
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import AUXILIARY, Auxiliary, PciDevice
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import RdmaDevice
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace
from tests.values import BDF, by_kind, changed, device, expected, link, links, nic, pci, port, rdma, say, verdicts

IDLE = Auxiliary("mlx5_core.rdma.0", None)
TAKEN = Auxiliary("mlx5_core.rdma.0", "mlx5_ib.rdma")
WANTS = expected(devices={BDF: DeviceWant(rdma="mlx5_3")})
KNOWN = expected(devices={BDF: DeviceWant()})
RXE = expected(devices={BDF: DeviceWant(rdma="rxe0", software="rxe")})
SHORT = Shortage(7, 8, "Ethernet ports", "profile rdma-roce (at least 8 ports)")


def modules(*loaded: str, available: tuple[str, ...] | None = ("rdma_rxe", "mlx5_ib", "irdma")) -> Modules:
    return Modules(0.0, loaded, (), available, (), ())


def netlink(mode: str | None) -> RdmaNetlink:
    return RdmaNetlink(0.0, True, (), (), (), (), (), (), mode, ())


def bare(**different: Any) -> PciDevice:
    return nic(**({"rdma": ()} | different))


def software(**different: Any) -> RdmaDevice:
    return device(**({"name": "rxe0", "parent": "eth2"} | different))


def rails(having: int, lacking: int, **different: Any) -> list[PciDevice]:
    found = [nic(address=f"0000:0{index}:00.0", rdma=(f"mlx5_{index}",)) for index in range(having)]
    return found + [bare(**({"address": f"0000:8{index}:00.0"} | different)) for index in range(lacking)]


AUXILIARY_ROWS = [
    ({"auxiliaries": (IDLE,)}, expected(), modules(), "fail NoRdmaDriver kernel_modules(module=mlx5_ib)"),
    ({"auxiliaries": (IDLE,)}, expected(), modules("mlx5_ib"), "fail NotBound"),
    ({"auxiliaries": (IDLE,)}, expected(), modules(available=()), "fail NoModule"),
    ({"auxiliaries": (IDLE,)}, expected(), modules(available=None), "fail NoRdmaDriver kernel_modules(module=mlx5_ib)"),
    ({"auxiliaries": (Auxiliary("new.rdma.0", None),)}, expected(), modules(), "fail NoRdmaDriver"),
    ({"auxiliaries": (TAKEN, IDLE, Auxiliary("x.rdma.1", None))}, expected(), modules("mlx5_ib"), "fail NotBound"),
    ({"auxiliaries": (IDLE,)}, WANTS, modules(), "fail NoRdmaDriver kernel_modules(module=mlx5_ib)"),
    ({"auxiliaries": (IDLE,)}, KNOWN, modules(), "ok NotNeeded"),
    ({"auxiliaries": (IDLE,), "rdma": ("mlx5_3",)}, expected(), modules(), "ok Offered"),
    ({"auxiliaries": (TAKEN,)}, expected(), modules(), "absent Nothing"),
    ({"auxiliaries": (IDLE,), "virtual_function": True}, expected(), modules(), "absent Nothing"),
    ({}, expected(), modules(), "absent Nothing"),
    ({}, WANTS, modules(), "fail NoRdmaDevice"),
    ({}, KNOWN, modules(), "absent Nothing"),
    ({"rdma": ("mlx5_3",)}, WANTS, modules(), "ok Offered"),
]


@pytest.mark.parametrize(("different", "wants", "kernel", "says"), AUXILIARY_ROWS)
def test_hardware(different: dict[str, Any], wants: Expected, kernel: Modules, says: str) -> None:
    assert say(CHECK, pci(bare(**different)), rdma(), wants, kernel) == says


def test_hardware_without_a_look_at_modules() -> None:
    seen = pci(bare(auxiliaries=(IDLE,)))
    assert say(CHECK, seen, rdma(), expected()) == "fail NoRdmaDriver kernel_modules(module=mlx5_ib)"


def test_every_offer_that_has_a_taker_is_one_that_the_facts_find() -> None:
    assert [offer for offer in AUXILIARY_DRIVERS if not AUXILIARY.search(f"{offer}.0")] == []


def test_an_offer_says_nothing_in_a_tree_without_driver_links() -> None:
    assert say(CHECK, pci(bare(auxiliaries=(IDLE,)), drivers_shown=False), rdma(), expected()) == "absent Nothing"


FRONT_END = {"id": "8086:1593", "driver": "ice", "auxiliaries": (Auxiliary("ice.roce.0", None),)}
FAIL = "fail NoRdmaDriver kernel_modules(module=irdma)"


def test_a_front_end_whose_rdma_nobody_loads_only_warns_where_others_carry_rdma() -> None:
    rail = nic(address="0000:01:00.0")
    assert say(CHECK, pci(bare(**FRONT_END)), rdma(), expected(), modules()) == FAIL
    assert say(CHECK, pci(rail, bare(**FRONT_END)), rdma(), expected(), modules()) == "ok Offered; warn NoRdmaDriver"
    short = expected(shortage=SHORT)
    assert say(CHECK, pci(rail, bare(**FRONT_END)), rdma(), short, modules()) == f"ok Offered; {FAIL}"
    assert say(CHECK, pci(rail, bare(**FRONT_END)), rdma(), WANTS, modules()) == f"ok Offered; {FAIL}"


def test_rails_whose_rdma_nobody_loads_fail_though_a_front_end_carries_rdma() -> None:
    front = nic(address="0000:80:00.0", id="15b3:101d", rdma=("mlx5_8",), max_speed=16.0)
    bus = pci(front, *(bare(address=f"0000:0{n}:00.0", auxiliaries=(IDLE,)) for n in range(3)))
    seen = rdma(port(device="mlx5_8", bdf=front.address, rate=100.0, like="15b3:101d B Ethernet"))
    assert say(CHECK, bus, seen, by_kind(bus, seen), modules("mlx5_ib")).count("fail NotBound") == 3


SOFTWARE_ROWS = [
    (modules("rdma_rxe"), {}, "fail NoRdmaLink rdma_link_add(name=rxe0, type=rxe, netdev=eth2)"),
    (
        modules("rdma_rxe"),
        {"netdevs": ("eth2", "eth3")},
        "fail NoRdmaLink rdma_link_add(name=rxe0, type=rxe, netdev=eth2)",
    ),
    (modules("rdma_rxe"), {"netdevs": ()}, "fail NoRdmaLink"),
    (modules(), {}, "fail ModuleNotLoaded kernel_modules(module=rdma_rxe)"),
    (modules(available=None), {}, "fail ModuleNotLoaded kernel_modules(module=rdma_rxe)"),
    (modules(available=()), {}, "fail ModuleNotLoaded"),
    (None, {}, "fail NoRdmaLink rdma_link_add(name=rxe0, type=rxe, netdev=eth2)"),
]


@pytest.mark.parametrize(("kernel", "different", "says"), SOFTWARE_ROWS)
def test_software(kernel: Modules | None, different: dict[str, Any], says: str) -> None:
    assert say(CHECK, pci(bare(**different)), rdma(), RXE, *([kernel] if kernel else [])) == says


def test_a_software_device_is_there_whatever_it_is_called() -> None:
    there = rdma(devices=(software(name="anything"),))
    assert say(CHECK, pci(bare()), there, RXE, modules()) == "ok Offered"
    elsewhere = rdma(devices=(software(bdf="0000:01:00.0"),))
    assert say(CHECK, pci(bare()), elsewhere, RXE, modules()).startswith("fail ModuleNotLoaded")


def test_a_nic_under_a_software_device_is_not_asked_for_another() -> None:
    """Neither where it is the only one of its kind, nor where one of two is down: a guest with Soft-RoCE."""
    plain = [bare(address=f"0000:0{index}:00.0", id="1af4:1041") for index in range(2)]
    for count, state in ((1, "4: ACTIVE"), (1, "1: DOWN"), (2, "1: DOWN")):
        devices = tuple(software(name=f"rxe{index}", bdf=plain[index].address, id="") for index in range(count))
        ports = [port(device=one.name, bdf=one.bdf, like="1af4:1041 software Ethernet") for one in devices]
        seen = rdma(*ports[:-1], changed(ports[-1], state=state), devices=devices)
        assert say(CHECK, pci(*plain), seen, by_kind(pci(*plain), seen)) == "absent Nothing"


def test_a_software_device_does_not_stand_in_for_hardware() -> None:
    assert say(CHECK, pci(bare()), rdma(devices=(software(),)), WANTS) == "fail NoRdmaDevice"
    assert say(CHECK, pci(bare()), rdma(devices=(device(),)), WANTS) == "ok Offered"


def test_a_software_rail_asks_no_device_of_the_nic_under_it() -> None:
    nics = [bare(address=f"0000:0{index}:00.0", id="1af4:1041") for index in (1, 2)]
    devices = tuple(software(name=f"rxe{index}", bdf=one.address) for index, one in enumerate(nics))
    ports = [port(device=one.name, bdf=one.bdf) for one in devices]
    there = rdma(*ports, devices=devices)
    assert say(CHECK, pci(*nics), there, by_kind(pci(*nics), there)) == "absent Nothing"


def test_a_software_device_hides_no_rail_that_lost_its_own() -> None:
    nics = rails(3, 1)
    ports = [port(device=one.rdma[0], bdf=one.address, netdev=None) for one in nics[:3]]
    devices = tuple(device(name=one.device, bdf=one.bdf) for one in ports)
    rxe = software(bdf=nics[3].address)
    there = rdma(*ports, port(device="rxe0", bdf=nics[3].address), devices=(*devices, rxe))
    assert say(CHECK, pci(*nics), there, by_kind(pci(*nics), there)).endswith("fail NoRdmaDevice")


def test_a_copy_that_lost_the_way_from_device_to_nic_blames_none() -> None:
    assert say(CHECK, pci(bare()), rdma(devices=(device(bdf=""),)), WANTS) == "absent Nothing"


LIKES = [
    (2, 1, {}, "fail NoRdmaDevice"),
    (1, 3, {}, "fail NoRdmaDevice"),
    (4, 1, {"driver": None}, "absent"),  # pci.driver-bound says it
    (4, 1, {"id": "8086:1533"}, "absent"),
    (4, 1, {"virtual_function": True}, "absent"),
]


def kinds_of(*nics: PciDevice, found: Links | None = None, netns: RdmaNetlink | None = None) -> Expected:
    ports = [port(device=one.rdma[0], bdf=one.address, netdev=None) for one in nics if one.rdma]
    devices = tuple(device(name=one.device, bdf=one.bdf) for one in ports)
    facts = [pci(*nics), rdma(*ports, devices=devices), *([found] if found else []), *([netns] if netns else [])]
    return by_kind(*facts)


@pytest.mark.parametrize(("having", "lacking", "different", "says"), LIKES)
def test_each_rail_needs_one(having: int, lacking: int, different: dict[str, Any], says: str) -> None:
    nics = rails(having, lacking, **different)
    found = say(CHECK, pci(*nics), rdma(), kinds_of(*nics)).split("; ")
    assert found[having:] == ([says] * lacking if says != "absent" else [])


def test_a_spare_without_one_warns() -> None:
    second = {"address": "0000:00:00.1", "netdevs": ("eth9",)}
    nics = [*rails(2, 0), nic(address="0000:01:00.1", rdma=("mlx5_9",)), bare(**second)]
    wants = kinds_of(*nics, found=links(LONER, addresses=None))
    assert say(CHECK, pci(*nics), rdma(), wants).endswith("warn NoRdmaDevice")


def test_the_class_directory_says_too_who_carries_rdma() -> None:
    nics = [bare(address=f"0000:0{index}:00.0") for index in range(4)]
    ports = [port(device=f"mlx5_{index}", bdf=nics[index].address) for index in range(3)]
    hardware = rdma(*ports, devices=tuple(device(name=one.device, bdf=one.bdf) for one in ports))
    assert say(CHECK, pci(*nics), hardware, by_kind(pci(*nics), hardware)).split("; ")[3:] == ["fail NoRdmaDevice"]
    links_only = rdma(devices=tuple(software(name=f"rxe{index}", bdf=nics[index].address) for index in range(3)))
    assert say(CHECK, pci(*nics), links_only, expected()) == "absent Nothing"


TWIN = nic(address="0000:00:00.1", rdma=(), netdevs=("eth9",))
LEG, LONER = link(name="eth9", bdf="", master="bond0"), link(name="eth9", bdf="")
BOND_ROWS = [
    (TWIN, (links(LEG, addresses=None),), "ok Offered"),
    (TWIN, (links(LONER, addresses=None),), "ok Offered"),  # a spare, as all of its kind
    (TWIN, (), "ok Offered"),  # who is in a bond is not shown
    (nic(address="0000:00:00.1", rdma=(), netdevs=()), (links(LONER, addresses=None),), "ok Offered"),
    (nic(address="0000:00:00.1", rdma=(), netdevs=("eth8",)), (links(LONER, addresses=None),), "ok Offered"),
    (nic(address="0000:07:00.0", rdma=(), netdevs=("eth9",)), (links(LEG, addresses=None),), "fail NoRdmaDevice"),
]


@pytest.mark.parametrize(("second", "shown", "says"), BOND_ROWS)
def test_the_second_port_of_a_bond_has_no_device_of_its_own(
    second: PciDevice, shown: tuple[object, ...], says: str
) -> None:
    nics = [*rails(3, 0), second]
    wants = kinds_of(*nics, found=next(iter(shown), None))  # type: ignore[arg-type]
    assert say(CHECK, pci(*nics), rdma(), wants).rpartition("; ")[2] == says


NAMESPACE_ROWS = [
    ("exclusive", (TAKEN,), "ok InAnotherNamespace"),
    ("exclusive", (), "fail NoRdmaDevice"),
    ("shared", (TAKEN,), "fail NoRdmaDevice"),
    (None, (TAKEN,), "fail NoRdmaDevice"),
]


@pytest.mark.parametrize(("mode", "auxiliaries", "says"), NAMESPACE_ROWS)
def test_a_device_that_was_moved_into_a_pod_is_not_missing(
    mode: str | None, auxiliaries: tuple[Auxiliary, ...], says: str
) -> None:
    bus = pci(bare(auxiliaries=auxiliaries))
    wants = replace(WANTS, kinds=by_kind(bus, rdma(), netlink(mode)).kinds)
    assert say(CHECK, bus, rdma(), wants) == says


def test_a_damaged_id_is_unknown_for_that_nic_only() -> None:
    damage = Unreadable(Why.MALFORMED, "/sys/bus/pci/devices/0000:5c:00.0/vendor")
    found = say(CHECK, pci(*rails(3, 0), bare(id=damage)), rdma(), expected())
    assert found == "ok Offered; ok Offered; ok Offered; unknown CannotLook"


def test_a_nic_that_is_handed_on_has_not_switched_rdma_off() -> None:
    (verdict,) = verdicts(CHECK, pci(bare(driver="vfio-pci")), rdma(), WANTS, modules())
    assert verdict.message.endswith("; vfio-pci has it, which hands it on")
    (switched,) = verdicts(CHECK, pci(bare()), rdma(), WANTS, modules())
    assert "RDMA is off in firmware" in switched.message


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, pci(bare(auxiliaries=(IDLE,))), rdma(), WANTS, modules())
    assert verdict.message == (
        "0000:5c:00.0 (15b3:1021, eth2) offers mlx5_core.rdma.0, which no RDMA driver took; "
        "mlx5_3 is wanted by profile test; load mlx5_ib"
    )
    assert verdict.expected == "mlx5_3"
    *_, verdict = verdicts(CHECK, pci(*rails(3, 1)), rdma(), kinds_of(*rails(3, 1)))
    assert verdict.expected == "an RDMA device"
    assert "one is wanted by profile test (one of 4 rails, 3 of them up)" in verdict.message
