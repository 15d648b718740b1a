"""Which built-in profile suits a node's hardware, by class."""

from __future__ import annotations

import pytest

from nodeprep.facts.pci import Auxiliary, Pci
from nodeprep.facts.rdma import Port, Rdma
from nodeprep.facts.suited import suited
from nodeprep.model import Unreadable, Why
from tests.values import nic, pci, port, rdma

BLIND = Unreadable(Why.IO_ERROR, "/sys", 5)
IB, ROCE, OTHER = port(layer="InfiniBand"), port(), port(layer="Unknown")
PLAIN = nic(rdma=(), auxiliaries=())
OFFERS = nic(rdma=(), auxiliaries=(Auxiliary("mlx5_core.rdma.0", None),))
CONTROLLER = nic(rdma=(), auxiliaries=(), pci_class="020700")
ROWS = [
    # PCI functions         ports                            profile
    ((), (IB, ROCE, ROCE), "rdma-infiniband"),
    ((), (ROCE, OTHER), "rdma-roce"),
    ((OFFERS,), (OTHER,), None),
    ((PLAIN,), (), None),
    ((PLAIN, OFFERS), (), "rdma-roce"),
    ((OFFERS, CONTROLLER), (), "rdma-infiniband"),
    ((OFFERS, CONTROLLER), (ROCE,), "rdma-roce"),
    ((), (port(layer=BLIND),), "rdma-roce"),
    ((CONTROLLER,), (port(layer=BLIND),), "rdma-infiniband"),
    ((nic(pci_class="030200", rdma=(), auxiliaries=()),), (), None),
]


@pytest.mark.parametrize(("functions", "ports", "profile"), ROWS)
def test_suits(functions: tuple[object, ...], ports: tuple[Port, ...], profile: str | None) -> None:
    assert suited(pci(*functions), rdma(*ports)).profile == profile  # type: ignore[arg-type]


def test_says_what_it_looked_for_in_vain() -> None:
    nowhere: list[tuple[Pci | None, Rdma | None, str]] = [
        (pci(), rdma(), "no NIC that offers RDMA"),
        (None, rdma(), "no record of PCI devices"),
    ]
    for functions, devices, words in nowhere:
        found = suited(functions, devices)
        assert found.nothing
        assert found.because == f"no RDMA device in /sys/class/infiniband, {words}"
    assert not suited(pci(), rdma(OTHER)).nothing
