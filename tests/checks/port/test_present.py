"""port.present: who is missing, and what a count lacks."""

from __future__ import annotations

from nodeprep.checks.port.present import CHECK
from nodeprep.facts.expected.inventory import MissingDevice, Shortage
from nodeprep.model import SEVERAL, Subject
from tests.values import expected, port, rdma, say, verdicts

GONE = MissingDevice(Subject("0000:5d:00.0", 1, "mlx5_4/1 at 0000:5d:00.0"), None, "profile rails")
OTHER = MissingDevice(Subject("0000:5e:00.0", 1, "mlx5_5/1 at 0000:5e:00.0"), None, "profile rails")
SHORT = Shortage(7, 8, "Ethernet 400 Gb/s ports", "profile rails (at least 8 ports)")


def test_ports_and_nothing_missing() -> None:
    assert say(CHECK, rdma(port()), expected()) == "ok Present"


def test_each_missing_port_is_told_where_it_was() -> None:
    found = verdicts(CHECK, rdma(port()), expected(missing_ports=(GONE, OTHER)))
    assert [(verdict.subject, verdict.reason) for verdict in found] == [
        (GONE.subject, "Missing"),
        (OTHER.subject, "Missing"),
    ]
    assert found[0].message == (
        "mlx5_4/1 at 0000:5d:00.0 is not there: profile rails wants it, the node shows 1 RDMA port; "
        "see whether the NIC is on the bus (lspci -nn) and what its driver said (dmesg)"
    )


def test_a_missing_port_fails() -> None:
    assert say(CHECK, rdma(port()), expected(missing_ports=(GONE,))) == "fail Missing"


def test_too_few_is_the_nodes() -> None:
    (verdict,) = verdicts(CHECK, rdma(port(), port(number=2)), expected(shortage=SHORT, wants_rdma=True))
    assert (verdict.subject, verdict.status, verdict.reason) == (SEVERAL, "fail", "TooFewPorts")
    assert verdict.message == (
        "7 of at least 8 Ethernet 400 Gb/s ports are there; wanted by profile rails (at least 8 ports); "
        "compare ls /sys/class/infiniband with lspci -nn"
    )


def test_nothing_there_and_nothing_expected_is_no_question() -> None:
    assert say(CHECK, rdma(), expected()) == "absent Nothing"
