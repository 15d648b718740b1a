"""rdma.verbs-class by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.rdma.verbs_class import CHECK, Want
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.rdma.devnodes import ClassEntry, DevNodes
from nodeprep.model import NODE, Unreadable, Why
from tests.machines import SHAPES
from tests.values import by_kind, device, expected, port, rdma, say, verdicts

BROKEN = Unreadable(Why.IO_ERROR, "/sys/class/infiniband_verbs/uverbs0/ibdev", 5)
ENTRY = ClassEntry("uverbs0", "mlx5_3", None, "231:192")
UMAD = ClassEntry("umad0", "mlx5_3", 1, "231:0")
NAMELESS = ClassEntry("uverbs0", None, None, None)
OTHER = device(name="mlx5_4", bdf="0000:5d:00.0")
LOAD_VERBS = "kernel_modules(module=ib_uverbs)"
LOAD_UMAD = "kernel_modules(module=ib_umad)"


def nodes(**different: Any) -> DevNodes:
    usual: dict[str, Any] = {
        "at": 0.0,
        "live": True,
        "verbs": (ENTRY,),
        "verbs_abi": "6",
        "mads": (UMAD,),
        "rdma_cm": None,
        "nodes": (),
    }
    return DevNodes(**(usual | different))


def modules(*loaded: str) -> Modules:
    return Modules(0.0, loaded, (), None, (), ())


ONE = rdma(port(), devices=(device(),))

ROWS = [
    # on      entries of the class    profile wants  says
    ("live", (ENTRY,), None, "ok Reachable"),
    ("dead", (ENTRY,), None, "ok Reachable"),
    ("live", None, None, f"fail VerbsNotLoaded {LOAD_VERBS}"),
    ("dead", None, True, "absent Nothing"),  # a tree without /sys/module may lack the class, too
    ("dead", None, False, "absent Nothing"),
    ("dead", None, None, "absent Nothing"),
    ("live", (), None, "fail NoEntry"),
    ("dead", (), True, "absent Nothing"),  # a copy that left links out
    ("dead", (), None, "absent Nothing"),
    ("live", (ClassEntry("uverbs1", "mlx5_4", None, "231:193"),), None, "fail NoEntry"),
    ("dead", (ClassEntry("uverbs1", "mlx5_4", None, "231:193"),), None, "fail NoEntry"),
    ("dead", (NAMELESS,), None, "absent Nothing"),
    ("live", (ClassEntry("uverbs0", BROKEN, None, None),), None, "unknown CannotLook"),  # type: ignore[arg-type]
    ("live", BROKEN, None, "unknown CannotLook"),
]


@pytest.mark.parametrize(("on", "verbs", "wanted", "says"), ROWS)
def test_says(on: str, verbs: object, wanted: bool | None, says: str) -> None:
    shown = nodes(verbs=verbs, live=on == "live")
    assert say(CHECK, ONE, shown, expected(verbs=wanted)) == says


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ((ClassEntry("uverbs0", BROKEN, None, None),), "unknown CannotLook; unknown CannotLook; fail TooFewEntries"),  # type: ignore[arg-type]
        ((NAMELESS,), "fail TooFewEntries"),
        ((NAMELESS, ClassEntry("uverbs1", None, None, None)), "absent Nothing"),
    ],
)
def test_two_devices_and_one_entry_are_one_too_few_whosever_it_is(entries: Any, says: str) -> None:
    two = rdma(port(), devices=(device(), OTHER))
    assert say(CHECK, two, nodes(verbs=entries), expected()) == says


def test_no_rdma_device_needs_no_verbs() -> None:
    assert say(CHECK, rdma(), nodes(verbs=None, mads=None), expected(verbs=True)) == "absent Nothing"


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (("ib_core", "mlx5_ib"), f"fail VerbsNotLoaded {LOAD_VERBS}"),
        (("ib_core", "ib_uverbs"), "absent Nothing"),
        (("mlx5_core",), "absent Nothing"),  # a copy that kept some modules only
    ],
)
def test_a_dead_tree_may_show_that_the_module_is_missing(loaded: tuple[str, ...], says: str) -> None:
    shown = nodes(verbs=None, live=False)
    assert say(CHECK, ONE, shown, expected(), modules(*loaded)) == says


def test_an_empty_class_in_a_dead_tree_says_nothing_of_modules() -> None:
    assert say(CHECK, ONE, nodes(verbs=(), live=False), expected(), modules("ib_core")) == "absent Nothing"


def test_a_device_of_the_front_end_only_warns() -> None:
    """As it does without an RDMA device: a driver that is gone too must not make the node better."""
    pci, seen, links = SHAPES["8 x 400 RoCE, 2 x 2 x 100 front end"].facts()
    names = [one.name for one in seen.devices]
    for lacking, status in (("mlx5_0", "fail"), ("mlx5_8", "warn")):
        entries = tuple(ClassEntry(f"uverbs{name}", name, None, None) for name in names if name != lacking)
        found = verdicts(CHECK, pci, seen, links, nodes(verbs=entries), by_kind(pci, seen, links))
        assert [str(one.status) for one in found if one.reason == "NoEntry"] == [status]


def test_each_device_is_judged_by_itself() -> None:
    both = rdma(port(), devices=(device(), OTHER))
    found = verdicts(CHECK, both, nodes(), expected())
    assert [(one.subject.place, one.reason) for one in found] == [
        ("0000:5c:00.0", "Reachable"),
        ("0000:5d:00.0", "NoEntry"),
    ]


def test_one_damaged_entry_is_not_taken_for_another_devices() -> None:
    damaged = ClassEntry("uverbs1", BROKEN, None, None)  # type: ignore[arg-type]
    both = rdma(port(), devices=(device(), OTHER))
    assert say(CHECK, both, nodes(verbs=(ENTRY, damaged)), expected()) == "ok Reachable; unknown CannotLook"


def test_a_management_device_beside_another_has_no_entry() -> None:
    both = rdma(port(), devices=(device(), device(name="smi0")))
    assert say(CHECK, both, nodes(), expected()) == "ok Reachable; ok BesideAnother"


def test_message_of_a_missing_module_says_who_wants_it_and_what_to_run() -> None:
    (live,) = verdicts(CHECK, ONE, nodes(verbs=None), expected())
    assert live.subject == NODE
    assert "wanted by 1 RDMA devices" in live.message
    assert "modprobe ib_uverbs" in live.message


RAIL = port(layer="InfiniBand")
NO_UMAD = "ok Reachable; warn NoUmad"
UMAD_NOT_LOADED = f"ok Reachable; warn UmadNotLoaded {LOAD_UMAD}"

UMAD_ROWS = [
    # on      entries           layer        node type  says
    ("live", (UMAD,), "InfiniBand", "1: CA", "ok Reachable"),
    ("live", (), "InfiniBand", "1: CA", NO_UMAD),
    ("dead", (), "InfiniBand", "1: CA", "ok Reachable"),
    ("live", None, "InfiniBand", "1: CA", UMAD_NOT_LOADED),
    ("dead", None, "InfiniBand", "1: CA", "ok Reachable"),
    ("live", (ClassEntry("umad0", "mlx5_3", 2, None),), "InfiniBand", "1: CA", NO_UMAD),
    ("dead", (ClassEntry("umad0", "mlx5_3", 2, None),), "InfiniBand", "1: CA", NO_UMAD),
    ("dead", (ClassEntry("umad0", "mlx5_3", None, None),), "InfiniBand", "1: CA", "ok Reachable"),
    ("live", (ClassEntry("umad0", None, None, None),), "InfiniBand", "1: CA", "ok Reachable"),
    ("live", None, "Ethernet", "1: CA", "ok Reachable"),
    ("live for the plugin", None, "Ethernet", "1: CA", UMAD_NOT_LOADED),
    ("live", (), "Ethernet", "1: CA", "ok Reachable"),
    ("live for the plugin", (), "Ethernet", "1: CA", NO_UMAD),
    ("live for the plugin", (), "Ethernet", None, NO_UMAD),
    ("live for the plugin", (), "Ethernet", "4: RNIC", "ok Reachable"),
    ("live for the plugin", (), "Unknown", "7: unspecified", "ok Reachable"),
    ("live", (), BROKEN, "1: CA", "ok Reachable; unknown CannotLook"),
]


@pytest.mark.parametrize(("on", "mads", "layer", "node_type", "says"), UMAD_ROWS)
def test_umad(on: str, mads: object, layer: object, node_type: str | None, says: str) -> None:
    shown = nodes(mads=mads, live=on.startswith("live"))
    node = rdma(port(layer=layer), devices=(device(node_type=node_type),))
    assert say(CHECK, node, shown, expected(), want=Want(umad=on.endswith("plugin"))) == says


def test_message_of_a_missing_umad_names_the_ports() -> None:
    two = rdma(RAIL, port(layer="InfiniBand", device="mlx5_4"), devices=(device(),))
    (_, warning) = verdicts(CHECK, two, nodes(mads=None), expected())
    assert "mlx5_3/1, mlx5_4/1" in warning.message
