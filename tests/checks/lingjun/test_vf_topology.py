"""lingjun.vf-topology by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.lingjun.vf_topology import CHECK
from nodeprep.facts.alibaba.lingjun import Lingjun
from nodeprep.model import Unreadable, Why
from tests.erdma_values import TOPOLOGY, function, lingjun
from tests.values import say, verdicts

CUT = Unreadable(Why.MALFORMED, TOPOLOGY, detail="line 1, column 9: no JSON")
SILENT = Unreadable(Why.IO_ERROR, TOPOLOGY, 5)

ROWS = [
    ({}, "ok Bound"),
    ({"driver": None}, "fail NotBound"),
    ({"driver": None, "autoprobed": None}, "fail NotBound"),
    ({"driver": None, "autoprobed": False}, "ok BoundLater"),
    ({"driver": "vfio-pci"}, "fail OtherDriver"),
    ({"driver": "vfio-pci", "autoprobed": False}, "fail OtherDriver"),
    ({"present": False, "driver": None}, "fail Missing"),
    ({"present": False, "driver": None, "autoprobed": False}, "fail Missing"),
]


@pytest.mark.parametrize(("different", "says"), ROWS)
def test_says(different: dict[str, Any], says: str) -> None:
    assert say(CHECK, lingjun(function(**different))) == says


def test_a_file_that_is_no_topology_fails_and_one_that_cannot_be_read_does_not() -> None:
    assert say(CHECK, lingjun(functions=CUT)) == "fail Malformed"
    assert say(CHECK, lingjun(functions=SILENT)) == "unknown CannotLook"


def test_other_nodes_have_no_such_file() -> None:
    assert say(CHECK, Lingjun(0.0, ())) == "absent Nothing"


def test_messages() -> None:
    (verdict,) = verdicts(CHECK, lingjun(functions=CUT))
    assert verdict.message == (
        "/var/run/hc-eni-host/vf-topo-vpc is no topology (line 1, column 9: no JSON): "
        "Terway cannot tell which function a pod gets"
    )
    (verdict,) = verdicts(CHECK, lingjun(function(driver=None)))
    assert verdict.message == (
        "virtual function 0000:01:01.6 of /var/run/hc-eni-host/vf-topo-vpc has no driver: "
        "echo 0000:01:01.6 > /sys/bus/pci/drivers/virtio-pci/bind"
    )
    assert (verdict.subject.place, verdict.observed, verdict.expected) == ("0000:01:01.6", "none", "virtio-pci")
    (verdict,) = verdicts(CHECK, lingjun(function(driver="vfio-pci")))
    assert verdict.message.endswith("is bound to vfio-pci; Terway needs virtio-pci")
    (verdict,) = verdicts(CHECK, lingjun(function(present=False)))
    assert "is not on the PCI bus" in verdict.message
