"""erdma.device by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.erdma.device import CHECK
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from tests.erdma_values import FIRST, SECOND, erdma, erdma_0, eri
from tests.values import pci, rdma, say, verdicts

DEFERRED = erdma(deferred=(FIRST,))
BARE = eri(rdma=())

ROWS = [
    # driver  function                  devices         says
    (erdma(), eri(), (erdma_0(),), "ok Device"),
    (DEFERRED, eri(), (erdma_0(),), "ok Device"),
    (erdma(), BARE, (), "fail NoRdmaDevice erdma_load()"),
    (erdma(deferred=None), BARE, (), "fail NoRdmaDevice erdma_load()"),
    (erdma(deferred=(SECOND,)), BARE, (erdma_0(bdf=SECOND),), "fail NoRdmaDevice erdma_load()"),
    (DEFERRED, eri(rdma=(), driver=None), (), "fail Deferred"),
    (DEFERRED, BARE, (), "fail Deferred"),
    (erdma(), eri(rdma=(), driver=None), (), "absent Nothing"),
    (erdma(), eri(address=SECOND), (), "absent Nothing"),
    (erdma(functions=()), eri(), (), "absent Nothing"),
]


@pytest.mark.parametrize(("driver", "function", "devices", "says"), ROWS)
def test_says(driver: object, function: Any, devices: Any, says: str) -> None:
    assert say(CHECK, driver, pci(function), rdma(devices=devices)) == says


@pytest.mark.parametrize(
    ("mode", "says"), [("exclusive", "ok InAnotherNamespace"), ("shared", "fail NoRdmaDevice erdma_load()")]
)
def test_a_pod_may_have_it_where_namespaces_are_exclusive(mode: str, says: str) -> None:
    told = RdmaNetlink(0.0, True, (), (), (), (), (), (), mode, ())
    assert say(CHECK, erdma(), pci(BARE), rdma(), told) == says


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, DEFERRED, pci(BARE), rdma())
    assert verdict.message == (
        "0000:00:07.0 (1ded:107f) has no RDMA device: erdma waits for the network interface of the same MAC "
        "(/sys/kernel/debug/devices_deferred), which is in a pod's network namespace or not plugged in; ip -d link"
    )
    assert (verdict.subject.place, verdict.observed) == (FIRST, "deferred")
    (verdict,) = verdicts(CHECK, erdma(), pci(BARE), rdma())
    assert verdict.message == "0000:00:07.0 (1ded:107f) is bound to erdma and shows no RDMA device: dmesg | grep erdma"
    assert (verdict.observed, verdict.expected) == ("none", "an RDMA device")
