"""rdma.device-nodes by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.rdma.device_nodes import CHECK
from nodeprep.facts.rdma.devnodes import ClassEntry, DevNode, DevNodes
from nodeprep.model import NODE, Unreadable, Why
from tests.values import device, rdma, say, verdicts

DENIED = Unreadable(Why.DENIED, "/dev/infiniband/uverbs3", 13)
ENTRY = ClassEntry("uverbs3", "mlx5_3", None, "231:195")
UMAD = ClassEntry("umad3", "mlx5_3", 1, "231:3")
NODE_OF_ENTRY = DevNode("uverbs3", "231:195", 0o666)
NODE_OF_UMAD = DevNode("umad3", "231:3", 0o600)
BLIND = DevNode("uverbs3", DENIED, DENIED)  # type: ignore[arg-type]
MEND = " rdma_device_nodes()"
MISSING = f"fail NodeMissing{MEND}"


def nodes(*found: DevNode, **different: Any) -> DevNodes:
    usual: dict[str, Any] = {
        "at": 0.0,
        "live": True,
        "verbs": (ENTRY,),
        "verbs_abi": "6",
        "mads": None,
        "rdma_cm": None,
        "nodes": found,
    }
    return DevNodes(**(usual | different))


ONE = rdma(devices=(device(),))

ROWS = [
    # node                                says
    (NODE_OF_ENTRY, "ok InPlace"),
    (DevNode("uverbs3", None, None), "ok InPlace"),  # as a copied tree keeps it
    (DevNode("uverbs3", "231:195", 0o777), "ok InPlace"),
    (DevNode("uverbs4", "231:195", 0o666), MISSING),
    (DevNode("uverbs3", "231:196", 0o666), f"fail WrongNumber{MEND}"),
    (DevNode("uverbs3", "", None), f"fail NotADevice{MEND}"),
    (DevNode("uverbs3", "231:195", 0o660), f"warn NotForEverybody{MEND}"),
    (DevNode("uverbs3", "231:195", 0o664), f"warn NotForEverybody{MEND}"),
    (DevNode("uverbs3", "231:195", 0o662), f"warn NotForEverybody{MEND}"),
    (BLIND, "unknown CannotLook"),
]


@pytest.mark.parametrize(("node", "says"), ROWS)
def test_says(node: DevNode, says: str) -> None:
    assert say(CHECK, ONE, nodes(node)) == says


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (nodes(), MISSING),
        (nodes(live=False), "absent Nothing"),
        (nodes(nodes=None, live=False), "absent Nothing"),
        (nodes(nodes=None), MISSING),
        (nodes(NODE_OF_UMAD, verbs=None, mads=(UMAD,)), "ok InPlace"),
        (nodes(NODE_OF_UMAD, live=False), MISSING),
        (nodes(verbs=()), "absent Nothing"),
        (nodes(verbs=None), "absent Nothing"),
        (nodes(NODE_OF_ENTRY, verbs=(ClassEntry("uverbs3", None, None, None),)), "absent Nothing"),
        (nodes(NODE_OF_ENTRY, verbs=(ClassEntry("uverbs3", "mlx5_3", None, None),)), "ok InPlace"),
        (nodes(nodes=DENIED), "unknown CannotLook"),
    ],
)
def test_what_is_not_recorded_is_no_fault(shown: DevNodes, says: str) -> None:
    assert say(CHECK, ONE, shown) == says


def test_a_node_without_rdma_needs_none() -> None:
    assert say(CHECK, rdma(), nodes(rdma_cm="10:122")) == "absent Nothing"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((NODE_OF_ENTRY, NODE_OF_UMAD), "ok InPlace"),
        ((NODE_OF_ENTRY,), f"warn NodeMissing{MEND}"),
        ((NODE_OF_ENTRY, DevNode("umad3", "231:4", 0o600)), f"warn WrongNumber{MEND}"),
        ((NODE_OF_ENTRY, DevNode("umad3", "", 0o600)), f"warn NotADevice{MEND}"),
        ((NODE_OF_UMAD,), MISSING),
        ((DevNode("uverbs3", "231:196", 0o666),), f"fail WrongNumber{MEND}"),  # before the warning of its umad
        ((DevNode("umad4", "231:4", 0o600),), MISSING),
    ],
)
def test_umad_nodes_only_warn(found: tuple[DevNode, ...], says: str) -> None:
    assert say(CHECK, ONE, nodes(*found, mads=(UMAD,))) == says


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (DevNode("rdma_cm", "10:122", 0o666), "ok InPlace"),
        (DevNode("rdma_cm", "10:122", 0o600), f"warn NotForEverybody{MEND}"),
        (DevNode("rdma_cm", "10:123", 0o666), f"fail WrongNumber{MEND}"),
        (DevNode("other", "10:122", 0o666), MISSING),
    ],
)
def test_connection_manager(node: DevNode, says: str) -> None:
    shown = nodes(NODE_OF_ENTRY, node, rdma_cm="10:122")
    assert say(CHECK, ONE, shown) == f"ok InPlace; {says}"
    assert verdicts(CHECK, ONE, shown)[1].subject == NODE


def test_one_damaged_class_leaves_the_connection_manager_unknown() -> None:
    broken = Unreadable(Why.IO_ERROR, "/sys/class/misc/rdma_cm/dev", 5)
    shown = nodes(NODE_OF_ENTRY, rdma_cm=broken)
    assert say(CHECK, ONE, shown) == "ok InPlace; unknown CannotLook"


OWNER_LOST = Unreadable(Why.IO_ERROR, "/sys/class/infiniband_verbs/uverbs3/ibdev", 5)


@pytest.mark.parametrize(("node", "says"), [(NODE_OF_ENTRY, "absent Nothing"), (DevNode("other", "", None), MISSING)])
def test_the_node_of_an_entry_is_missed_whosever_it_is(node: DevNode, says: str) -> None:
    entry = ClassEntry("uverbs3", OWNER_LOST, None, "231:195")  # type: ignore[arg-type]
    assert say(CHECK, ONE, nodes(node, verbs=(entry,))) == says


def test_the_connection_manager_is_judged_where_the_class_cannot_be_listed() -> None:
    shown = nodes(NODE_OF_ENTRY, verbs=OWNER_LOST, rdma_cm="10:122")
    assert say(CHECK, ONE, shown) == f"{MISSING}; unknown CannotLook"


def test_messages_of_what_is_there_and_what_is_not() -> None:
    (device_says, manager) = verdicts(
        CHECK, ONE, nodes(NODE_OF_ENTRY, DevNode("rdma_cm", "10:122", 0o666), rdma_cm="10:122")
    )
    assert device_says.message == "mlx5_3 at 0000:5c:00.0: 1 of 1 device nodes are in place"
    assert manager.message == "the connection manager: 1 of 1 device nodes are in place"
    (missing,) = verdicts(CHECK, ONE, nodes())
    assert "uverbs3 of mlx5_3 at 0000:5c:00.0 is missing, wanted as 231:195 by its class" in missing.message
    (unnumbered,) = verdicts(CHECK, ONE, nodes(verbs=(ClassEntry("uverbs3", "mlx5_3", None, None),)))
    assert "is missing, wanted as a device by its class" in unnumbered.message


def test_message_names_the_device_the_node_and_both_numbers() -> None:
    (verdict,) = verdicts(CHECK, ONE, nodes(DevNode("uverbs3", "231:196", 0o666)))
    assert verdict.subject.place == "0000:5c:00.0"
    assert verdict.message.startswith(
        "/dev/infiniband/uverbs3 of mlx5_3 at 0000:5c:00.0 is device 231:196, its class says 231:195"
    )


RULES = "for the next boot put rdma-core's rules (mode 0666) back into /lib/udev/rules.d."
FIXES = [
    # node, as it is found                                its class                            what to run
    ((), ENTRY, "mknod -m 0666 /dev/infiniband/uverbs3 c 231 195"),
    ((NODE_OF_ENTRY,), UMAD, "mknod -m 0600 /dev/infiniband/umad3 c 231 3"),
    (
        (DevNode("uverbs3", "231:196", 0o666),),
        ENTRY,
        "rm /dev/infiniband/uverbs3 && mknod -m 0666 /dev/infiniband/uverbs3 c 231 195",
    ),
    (
        (DevNode("uverbs3", "", 0o666),),
        ENTRY,
        "rm /dev/infiniband/uverbs3 && mknod -m 0666 /dev/infiniband/uverbs3 c 231 195",
    ),
    (
        (),
        ClassEntry("uverbs3", "mlx5_3", None, None),
        "mknod -m 0666 /dev/infiniband/uverbs3 c MAJOR MINOR",
    ),
    (
        (DevNode("uverbs3", "231:195", 0o660),),
        ENTRY,
        f"chmod 0666 /dev/infiniband/uverbs3; {RULES}",
    ),
]


@pytest.mark.parametrize(("found", "entry", "command"), FIXES)
def test_the_fix_makes_the_node_for_udev_does_not(found: tuple[DevNode, ...], entry: ClassEntry, command: str) -> None:
    kind = "mads" if entry is UMAD else "verbs"
    (verdict,) = verdicts(CHECK, ONE, nodes(*found, **{"verbs": (), kind: (entry,)}))
    assert CHECK.fix_of(verdict) == command
