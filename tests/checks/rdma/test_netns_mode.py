"""rdma.netns-mode by its rows."""

from __future__ import annotations

from typing import Literal

import pytest

from nodeprep.checks.rdma.netns_mode import CHECK, Want
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from tests.values import say, verdicts


def told(mode: str | None, *denied: str) -> RdmaNetlink:
    return RdmaNetlink(0.0, True, (), (), (), (), (), (), mode, denied)


ROWS = [
    # mode       denied         wanted       says
    ("shared", (), None, "ok NothingWanted"),
    ("exclusive", (), None, "ok NothingWanted"),
    ("shared", (), "shared", "ok AsWanted"),
    ("exclusive", (), "exclusive", "ok AsWanted"),
    ("exclusive", (), "shared", "warn OtherMode"),
    ("shared", (), "exclusive", "warn OtherMode"),
    (None, (), "shared", "absent Nothing"),
    (None, ("SYS_GET",), "shared", "unknown CannotLook"),
    ("shared", ("SYS_GET",), "shared", "ok AsWanted"),
    (None, ("SYS_GET",), None, "absent Nothing"),
    (None, ("STAT_GET",), "shared", "absent Nothing"),
]


@pytest.mark.parametrize(("mode", "denied", "wanted", "says"), ROWS)
def test_says(
    mode: str | None, denied: tuple[str, ...], wanted: Literal["shared", "exclusive"] | None, says: str
) -> None:
    assert say(CHECK, told(mode, *denied), want=Want(mode=wanted)) == says


def test_message_says_what_to_set() -> None:
    (to_exclusive,) = verdicts(CHECK, told("shared"), want=Want(mode="exclusive"))
    assert "netns_mode=0" in to_exclusive.message
    (to_shared,) = verdicts(CHECK, told("exclusive"), want=Want(mode="shared"))
    assert "netns_mode=1" in to_shared.message
