"""erdma.mode: by the driver's parameter, else by the kind of the RDMA device."""

from __future__ import annotations

import pytest

from nodeprep.checks.erdma.mode import CHECK, Want
from nodeprep.facts.alibaba.erdma import Erdma
from nodeprep.model import Unreadable, Why
from tests.erdma_values import FIRST, SECOND, erdma, erdma_0
from tests.values import rdma, say, verdicts

CUT = Unreadable(Why.MALFORMED, "/sys/module/erdma/parameters/compat_mode")
COMPAT, DEFAULT, MAINLINE = erdma(), erdma(compat=False), erdma(compat=None)
CA, RNIC = erdma_0(node_type="1: CA"), erdma_0(node_type="4: RNIC")

ROWS = [
    # driver   device  wanted     says
    (COMPAT, RNIC, "compat", "ok AsWanted"),
    (COMPAT, CA, "default", "fail OtherMode"),
    (DEFAULT, CA, "compat", "fail OtherMode"),
    (DEFAULT, CA, "default", "ok AsWanted"),
    (COMPAT, CA, None, "ok NothingWanted"),
    (MAINLINE, CA, "compat", "ok AsWanted"),
    (MAINLINE, RNIC, "compat", "fail OtherMode"),
    (MAINLINE, RNIC, "default", "ok AsWanted"),
    (MAINLINE, CA, "default", "fail OtherMode"),
    (MAINLINE, erdma_0(node_type="9: NEWER"), "compat", "absent Nothing"),
    (MAINLINE, erdma_0(node_type=None), "compat", "absent Nothing"),
    (MAINLINE, erdma_0(node_type=CUT), "compat", "unknown CannotLook"),
    (MAINLINE, erdma_0(bdf=SECOND), "compat", "absent Nothing"),
    (erdma(compat=CUT), CA, "compat", "unknown CannotLook"),
    (erdma(loaded=False, compat=None), CA, "compat", "absent Nothing"),
    (erdma(functions=(), loaded=False, compat=None), CA, "compat", "absent Nothing"),
]


@pytest.mark.parametrize(("driver", "device", "wanted", "says"), ROWS)
def test_says(driver: Erdma, device: object, wanted: str | None, says: str) -> None:
    assert say(CHECK, driver, rdma(devices=(device,)), want=Want(wanted)) == says  # type: ignore[arg-type]


def test_without_rdma_devices_the_parameter_speaks_alone() -> None:
    assert say(CHECK, DEFAULT, want=Want("compat")) == "fail OtherMode"
    assert say(CHECK, MAINLINE, want=Want("compat")) == "absent Nothing"


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, DEFAULT, rdma(), want=Want("compat"))
    assert verdict.message == (
        "0000:00:07.0 (1ded:107f): erdma runs in default mode (/sys/module/erdma/parameters/compat_mode is N); compat "
        "is wanted by profile site (mode): when no job holds /dev/infiniband, "
        "rmmod erdma && modprobe erdma compat_mode=Y, and the same in /etc/modprobe.d"
    )
    assert (verdict.subject.place, verdict.observed, verdict.expected) == (FIRST, "default", "compat")
    (verdict,) = verdicts(CHECK, MAINLINE, rdma(devices=(CA,)), want=Want("default"))
    assert "erdma runs in compat mode (erdma_0 is '1: CA'); default is wanted" in verdict.message
    assert "compat_mode=N" in verdict.message
