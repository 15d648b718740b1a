"""Which built-in profile suits a node's hardware, by class."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.facts.expected import suited
from nodeprep.facts.machine.pci import Auxiliary, Pci, PciDevice
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import Unreadable, Why
from tests.cni_values import cni, terway
from tests.erdma_values import eri
from tests.values import nic, pci, port, rdma

BLIND = Unreadable(Why.IO_ERROR, "/sys", 5)
IB, ROCE, OTHER = port(layer="InfiniBand"), port(), port(layer="Unknown")
PLAIN = nic(rdma=(), auxiliaries=())
OFFERS = nic(rdma=(), auxiliaries=(Auxiliary("mlx5_core.rdma.0", None),))
CONTROLLER = nic(rdma=(), auxiliaries=(), pci_class="020700")
ERI, BARE_ERI = eri(), eri(driver=None, rdma=())
GPU = nic(address="0000:00:0a.0", id="10de:2330", pci_class="030200", rdma=(), netdevs=())
CONSOLE = nic(address="0000:00:02.0", id="1013:00b8", pci_class="030000", rdma=(), netdevs=())
UNNAMED_GPU = nic(address="0000:00:0b.0", id=BLIND, pci_class="030200", rdma=(), netdevs=())


def roce_ports(count: int, rate: float) -> list[Port]:
    """Ethernet ports of another model."""
    like = "15b3:a2dc MT_0000000884 Ethernet"
    return [port(device=f"roce{one}", bdf=f"0000:0{one}:00.0", like=like, rate=rate) for one in range(count)]


def silent(count: int) -> list[PciDevice]:
    """Ethernet NICs that are made for RDMA, faster than STORAGE, and show none."""
    return [nic(address=f"0000:2{one}:00.0", rdma=(), netdevs=(f"e{one}",)) for one in range(count)]


DOWN: dict[str, Any] = {"state": "1: DOWN", "physical": "2: Polling"}
SLOW_IB = port(bdf="0000:90:00.0", layer="InfiniBand", rate=200.0, like="15b3:101b MT_2 InfiniBand")
STORAGE = nic(address="0000:90:00.0", id="15b3:101b", pci_class="020700", rdma=(), max_speed=16.0)


ROWS = [
    # PCI functions         ports                            profile
    # The network of the fastest ports
    ((), (IB, *roce_ports(2, 100.0)), "rdma-infiniband"),
    ((), (IB, *roce_ports(2, 400.0)), "rdma"),
    ((), (port(layer="InfiniBand", rate=100.0), *roce_ports(8, 400.0)), "rdma-roce"),
    ((), (port(layer="InfiniBand", state="1: DOWN", physical="2: Polling"), *roce_ports(8, 400.0)), "rdma-infiniband"),
    ((CONTROLLER,), tuple(roce_ports(8, 400.0)), "rdma"),
    ((STORAGE,), tuple(roce_ports(8, 400.0)), "rdma-roce"),
    ((*silent(8), GPU), (SLOW_IB,), "rdma-roce"),
    ((*silent(8),), (SLOW_IB,), "rdma-infiniband"),  # it may be a CPU node that uses them without RDMA
    ((*silent(1), GPU), (SLOW_IB,), "rdma-infiniband"),  # a front end that is used without RDMA
    # Another port of the card is for the other network, and the dead one is a spare
    ((), (port(bdf="0000:10:00.0", layer="InfiniBand", **DOWN), port(device="e", bdf="0000:10:00.1")), "rdma-roce"),
    (
        (),
        (port(bdf="0000:10:00.0", layer="InfiniBand", **DOWN), port(device="e", bdf="0000:10:00.1", **DOWN)),
        "rdma-infiniband",
    ),
    ((), (ROCE, OTHER), "rdma-roce"),
    ((OFFERS,), (OTHER,), None),
    ((PLAIN,), (), None),
    ((PLAIN, OFFERS), (), "rdma-roce"),
    ((OFFERS, CONTROLLER), (), "rdma-infiniband"),
    ((OFFERS, CONTROLLER), (ROCE,), "rdma-roce"),
    ((), (port(layer=BLIND),), "rdma-roce"),
    ((CONTROLLER,), (port(layer=BLIND),), "rdma-infiniband"),
    ((nic(pci_class="030200", rdma=(), auxiliaries=()),), (), None),
    # Elastic RDMA, with and without its driver, with and without GPUs
    ((ERI,), (port(bdf=ERI.address),), "rdma-erdma-cpu"),
    ((BARE_ERI, PLAIN), (), "rdma-erdma-cpu"),
    ((ERI, GPU), (port(bdf=ERI.address),), "rdma-erdma-gpu"),
    ((BARE_ERI, GPU), (), "rdma-erdma-gpu"),
    ((BARE_ERI, CONSOLE, UNNAMED_GPU), (), "rdma-erdma-cpu"),
    # RDMA is off: beside GPUs it is wanted
    ((PLAIN, GPU), (), "rdma-roce"),
    ((PLAIN, CONSOLE), (), None),
    ((nic(rdma=(), id="8086:1521"), GPU), (), None),
    ((nic(rdma=(), virtual_function=True), GPU), (), None),
    ((nic(rdma=(), driver="vfio-pci"), GPU), (), None),
    ((nic(rdma=(), netdevs=()), GPU), (), None),
    ((CONTROLLER, GPU), (), "rdma-infiniband"),
    # beside rails it is the front end's
    ((ERI, OFFERS), (), "rdma-roce"),
    ((ERI, PLAIN, GPU), (port(bdf=ERI.address), ROCE), "rdma-roce"),
    ((ERI, PLAIN), (port(bdf=ERI.address), IB), "rdma-infiniband"),
    ((nic(id=BLIND, rdma=(), auxiliaries=()),), (), None),
]


@pytest.mark.parametrize(("functions", "ports", "profile"), ROWS)
def test_suits(functions: tuple[object, ...], ports: tuple[Port, ...], profile: str | None) -> None:
    assert suited.suited(pci(*functions), rdma(*ports)).profile == profile  # type: ignore[arg-type]


def test_says_what_it_looked_for_in_vain() -> None:
    nowhere: list[tuple[Pci | None, Rdma | None, str]] = [
        (pci(), rdma(), "no NIC that offers RDMA"),
        (None, rdma(), "no record of PCI devices"),
    ]
    for functions, devices, words in nowhere:
        found = suited.suited(functions, devices)
        assert found.nothing
        assert found.because == f"no RDMA device in /sys/class/infiniband, {words}"
    assert not suited.suited(pci(), rdma(OTHER)).nothing


def test_says_what_elastic_rdma_it_rests_on() -> None:
    other = eri(address="0000:00:08.0", rdma=())
    assert suited.suited(pci(ERI, other, GPU), rdma()).because == "2 Elastic RDMA interfaces and 1 GPU"
    assert suited.suited(pci(ERI), rdma()).because == "1 Elastic RDMA interface"


NO_CNI = cni(files=(), binaries=())
NETWORKS = [
    # Terway                                                                     CNI       profile
    (terway(), cni(), "tcp-shared-eni"),
    (terway(capabilities=None), NO_CNI, "tcp-shared-eni"),
    (terway(capabilities=BLIND), cni(), "tcp-shared-eni"),
    (terway(capabilities={"cni_exclusive_eni": "eniOnly"}), cni(), "mpijob-exclusive-eni"),
    (terway(present=False), cni(), "base"),
    (terway(present=BLIND), cni(), "base"),
    (None, cni(), "base"),
    (terway(present=False), NO_CNI, None),
    (terway(present=False), cni(files=None), None),
    (terway(present=False), cni(files=BLIND), None),
    (None, None, None),
]


@pytest.mark.parametrize(("by_terway", "by_cni", "profile"), NETWORKS)
def test_a_node_without_rdma_goes_by_its_pods_network(by_terway: Any, by_cni: Any, profile: str | None) -> None:
    found = suited.suited_to_network(by_terway, by_cni)
    assert (found.profile if found else None) == profile
