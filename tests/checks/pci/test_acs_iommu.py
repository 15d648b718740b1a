"""pci.acs-iommu by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.pci.acs_iommu import CHECK
from nodeprep.facts.machine.pci import Bridge, Pci
from nodeprep.facts.machine.system import System
from nodeprep.model import NODE, Unreadable, Why
from tests.values import nic, pci, say, verdicts

PORT, UNRELATED = "0000:5a:00.0", "0000:00:1c.0"
DENIED = Unreadable(Why.DENIED, f"/sys/bus/pci/devices/{PORT}/config")
GPU = nic(address="0000:17:00.0", id="10de:2330", pci_class="030200", rdma=(), netdevs=(), bridges=("0000:15:01.0",))


def machine(virtual: bool | None = False, cmdline: str = "iommu=pt") -> System:
    return System(0.0, "node", "6.1.0", "", virtual, "", "", cmdline)


def bus(acs: int | None | Unreadable, iommu: str | None = "identity") -> Pci:
    bridges = (Bridge(PORT, acs), Bridge("0000:15:01.0", 0), Bridge(UNRELATED, 0x1F))  # type: ignore[arg-type]
    return pci(nic(bridges=(PORT,), iommu=iommu), GPU, nic(address="0000:01:00.0", rdma=()), bridges=bridges)


ROWS = [
    (0x0, "ok Direct"),
    (0x1, "ok Direct"),  # source validation alone redirects nothing
    (0x4, "warn Redirected"),
    (0x8, "warn Redirected"),
    (0x1D, "warn Redirected"),
    (0x13, "ok Direct"),
    (None, "ok Direct"),
    (DENIED, "unknown CannotLook"),
]


@pytest.mark.parametrize(("acs", "says"), ROWS)
def test_says(acs: int | None | Unreadable, says: str) -> None:
    assert say(CHECK, bus(acs), machine()) == says


@pytest.mark.parametrize("virtual", [True, None])
def test_only_bare_metal_is_judged(virtual: bool | None) -> None:
    assert say(CHECK, bus(0x1D), machine(virtual)) == "absent Nothing"


def test_only_nodes_with_both_are_judged() -> None:
    bridges = (Bridge(PORT, 0x1D),)
    assert say(CHECK, pci(nic(bridges=(PORT,)), bridges=bridges), machine()) == "absent Nothing"
    assert say(CHECK, pci(nic(rdma=(), bridges=(PORT,)), GPU, bridges=bridges), machine()) == "absent Nothing"


def test_bridges_that_the_operator_laid_out_are_left_alone() -> None:
    system = machine(cmdline="quiet pci=config_acs=xx1xxxx@0000:5a:00.0")
    (verdict,) = verdicts(CHECK, bus(0x1D), system)
    assert verdict.reason == "Direct"
    assert "as config_acs= on the kernel command line asks" in verdict.message


@pytest.mark.parametrize(("iommu", "mentioned"), [("DMA-FQ", True), ("identity", False), (None, False)])
def test_translating_groups_are_mentioned_and_no_alarm(iommu: str | None, mentioned: bool) -> None:
    (verdict,) = verdicts(CHECK, bus(0x0, iommu), machine())
    assert verdict.reason == "Direct"
    assert ("IOMMU groups of type DMA-FQ" in verdict.message) is mentioned


def test_one_verdict_names_the_bridges() -> None:
    above = tuple(f"0000:0{index}:00.0" for index in range(9))
    bridges = tuple(Bridge(address, 0x1D) for address in above)
    (verdict,) = verdicts(CHECK, pci(nic(bridges=above), GPU, bridges=bridges), machine())
    assert verdict.subject == NODE
    assert verdict.observed == " ".join(above)
    assert f"9 of 9 bridges above GPUs and RDMA NICs redirect peer-to-peer traffic: {', '.join(above[:8])}, ..." in (
        verdict.message
    )
