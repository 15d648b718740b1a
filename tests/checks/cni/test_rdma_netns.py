"""cni.rdma-netns by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.cni.rdma_netns import CHECK
from nodeprep.facts.network.cni import CniFile, CniNetwork
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.model import Unreadable, Why, guarded
from tests.cni_values import cni, cni_file
from tests.values import say, verdicts

MOVING = cni_file("10-sriov.conflist", "sriov", "rdma")
INSIDE = cni_file("00-multus.conf", "multus", delegates=("sriov", "rdma"))
PLAIN = cni_file("10-calico.conflist", "calico")
BROKEN: CniNetwork = guarded(Unreadable(Why.MALFORMED, "/etc/cni/net.d/20-x.conf"))


def told(mode: str | None, *denied: str) -> RdmaNetlink:
    return RdmaNetlink(0.0, True, (), (), (), (), (), (), mode, denied)


ROWS = [
    # files                       mode         denied         says
    ((MOVING,), "exclusive", (), "ok Exclusive"),
    ((MOVING,), "shared", (), "warn Shared"),
    ((INSIDE,), "shared", (), "warn Shared"),
    ((PLAIN, MOVING), "shared", (), "warn Shared"),
    ((CniFile("00-x.conf", BROKEN), MOVING), "shared", (), "warn Shared"),
    ((PLAIN,), "shared", (), "absent Nothing"),
    ((MOVING,), None, (), "absent Nothing"),
    ((MOVING,), None, ("SYS_GET",), "unknown CannotLook"),
    ((PLAIN,), None, ("SYS_GET",), "absent Nothing"),
    (None, "shared", (), "absent Nothing"),
]


@pytest.mark.parametrize(("files", "mode", "denied", "says"), ROWS)
def test_says(files: tuple[CniFile, ...] | None, mode: str | None, denied: tuple[str, ...], says: str) -> None:
    assert say(CHECK, cni(files=files), told(mode, *denied)) == says


def test_message_says_what_to_set_and_who_wants_it() -> None:
    (said,) = verdicts(CHECK, cni(MOVING), told("shared"))
    assert "netns_mode=0" in said.message
    assert "10-sriov.conflist" in said.message
