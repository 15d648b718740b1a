"""module.core by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.module.core import CHECK
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Auxiliary, PciDevice
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.model import NODE, Subject, Unreadable, Why
from tests.values import device, expected, nic, pci, rdma, say, verdicts

BOTH = ("ib_core", "ib_uverbs")
NONE = expected()
WANTS = expected(wants_rdma=True)
PLAIN = nic(rdma=(), id="8086:1533")
UNREADABLE = Unreadable(Why.DENIED, "/lib/modules/6.1.0/modules.dep", 13)


def modules(*loaded: str, available: Any = (*BOTH, "rdma_ucm", "ib_umad"), loading: tuple[str, ...] = ()) -> Modules:
    return Modules(0.0, loaded, loading, available, (), ())


def nodes(verbs: Any) -> DevNodes:
    return DevNodes(at=0.0, live=True, verbs=verbs, verbs_abi=None, mads=(), rdma_cm=None, nodes=None)


ROWS = [
    # loaded, hardware, expected, says
    (BOTH, nic(), NONE, "ok Loaded"),
    (("ib_core",), nic(), NONE, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    (("ib_uverbs",), nic(), NONE, "fail NotLoaded kernel_modules(module=ib_core)"),
    ((), nic(), NONE, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    ((), PLAIN, NONE, "absent Nothing"),
    ((), nic(rdma=(), pci_class="020700"), NONE, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    (
        (),
        nic(rdma=(), auxiliaries=(Auxiliary("ice.roce.0", None),)),
        NONE,
        "fail NotLoaded kernel_modules(module=ib_uverbs)",
    ),
    ((), PLAIN, WANTS, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    ((), PLAIN, expected(modules=("ib_uverbs",)), "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    (BOTH, PLAIN, expected(modules=("rdma_ucm",)), "fail NotLoaded kernel_modules(module=rdma_ucm)"),
    ((*BOTH, "rdma_ucm"), PLAIN, expected(modules=("rdma-ucm",)), "ok Loaded"),
]


@pytest.mark.parametrize(("loaded", "hardware", "wants", "says"), ROWS)
def test_says(loaded: tuple[str, ...], hardware: PciDevice, wants: Expected, says: str) -> None:
    assert say(CHECK, modules(*loaded), rdma(), pci(hardware), wants) == says


INDEX_ROWS = [
    ((), "fail NoModule"),
    (("ib_core",), "fail NoModule"),
    (None, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
    (UNREADABLE, "fail NotLoaded kernel_modules(module=ib_uverbs)"),
]


@pytest.mark.parametrize(("available", "says"), INDEX_ROWS)
def test_whether_the_kernel_has_it(available: Any, says: str) -> None:
    assert say(CHECK, modules(available=available), rdma(), WANTS) == says


def test_what_is_at_work_is_loaded_whatever_a_partial_copy_lists() -> None:
    shown = rdma(devices=(device(),))
    extra = expected(modules=("rdma_ucm",))
    assert say(CHECK, modules(available=None), shown, NONE, nodes(())) == "ok Loaded"
    assert say(CHECK, modules("mlx5_core", available=None), shown, extra, nodes(())) == "ok Loaded"
    assert say(CHECK, modules("rdma_ucm", available=None), shown, extra, nodes(())) == "ok Loaded; ok Loaded"
    assert say(CHECK, modules(), shown, extra, nodes(())).endswith("; fail NotLoaded kernel_modules(module=rdma_ucm)")
    says = "fail NotLoaded kernel_modules(module=ib_uverbs)"
    assert say(CHECK, modules("ib_core"), shown, NONE, nodes(None)) == says
    assert say(CHECK, modules("ib_core"), shown, NONE) == says


def test_each_missing_module_is_a_finding_and_the_pair_is_one() -> None:
    found = verdicts(CHECK, modules(), rdma(), expected(modules=("rdma_ucm", "ib_uverbs", "ib_umad")))
    assert [verdict.subject for verdict in found] == [NODE, Subject("rdma_ucm"), Subject("ib_umad")]
    assert [verdict.subject.name for verdict in found] == ["ib_core and ib_uverbs", "rdma_ucm", "ib_umad"]


def test_message() -> None:
    shown = rdma(devices=(device(), device(name="mlx5_4")))
    (verdict,) = verdicts(CHECK, modules("ib_core", loading=("ib_uverbs",)), shown, NONE)
    assert verdict.message == (
        "ib_uverbs: not loaded; needed by RDMA device mlx5_3; ib_uverbs is being loaded or unloaded right now"
    )
