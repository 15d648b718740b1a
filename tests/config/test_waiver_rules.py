"""Whom a waiver means, and what is said of one that excuses nothing."""

from __future__ import annotations

import pytest

from nodeprep.config import waiver_rules
from nodeprep.config.waiver_rules import Waiver
from nodeprep.model import Finding, Severity, Status, Subject, Verdict

PORT = Subject("0000:5d:00.0", 1, "mlx5_0/1")
SECOND = Subject("0000:5d:00.0", 2, "mlx5_0/2")
NIC = Subject("0000:5d:00.0", None, "0000:5d:00.0 (15b3:1021, mlx5_0/eth0)")
SOFT = Subject("rxe0", 1, "rxe0/1")
LINK = Subject("bond0", None, "bond0")

MEANT = [
    # device              means
    ("*", {PORT, SECOND, NIC, SOFT, LINK}),
    ("mlx5_0", {PORT, SECOND, NIC}),
    ("mlx5_0/1", {PORT}),
    ("mlx5_*/2", {SECOND}),
    ("0000:5d:00.0", {PORT, SECOND, NIC}),
    ("0000:5d:00.0/1", {PORT}),
    ("eth0", {NIC}),
    ("15b3:1021", {NIC}),
    ("rxe0", {SOFT}),
    ("bond0", {LINK}),
    ("mlx5_", set()),
    ("mlx5_1", set()),
    ("1", set()),
    ("", set()),
]


@pytest.mark.parametrize(("device", "means"), MEANT)
def test_whom_a_device_means(device: str, means: set[Subject]) -> None:
    waiver = Waiver("port.state", "2026-03-01", "x", device=device)
    assert {one for one in (PORT, SECOND, NIC, SOFT, LINK) if waiver.means(one)} == means


def found(status: Status, subject: Subject = PORT, check: str = "port.state") -> Finding:
    return Finding(check, Severity.GATE, Verdict(subject, status, "Down", "it is down"))


IDLE = [
    # check          device     nodes    findings                               notes
    ("port.state", "*", "*", [found(Status.FAIL)], []),
    ("port.state", "mlx5_0", "*", [found(Status.FAIL)], []),
    (
        "port.state",
        "mlx5_9",
        "*",
        [found(Status.FAIL)],
        ["the waiver of port.state for mlx5_9 (RMA) matches nothing: no finding is about mlx5_9"],
    ),
    (
        "port.state",
        "mlx5_0",
        "*",
        [found(Status.OK)],
        ["the waiver of port.state for mlx5_0 (RMA) excuses nothing: no fault of it is seen"],
    ),
    ("port.*", "*", "*", [found(Status.OK)], ["the waiver of port.* (RMA) excuses nothing: no fault of it is seen"]),
    ("port.state", "mlx5_9", "other-*", [found(Status.FAIL)], []),  # another node's
    ("port.rate", "*", "*", [found(Status.FAIL)], []),  # not judged here: --only, a check that did not run
    ("port.state", "mlx5_9", "*", [], []),
]


@pytest.mark.parametrize(("check", "device", "nodes", "findings", "notes"), IDLE)
def test_what_is_said_of_one_that_excuses_nothing(
    check: str, device: str, nodes: str, findings: list[Finding], notes: list[str]
) -> None:
    waiver = Waiver(check, "2026-03-01", "RMA", device=device, nodes=(nodes,))
    assert list(waiver_rules.apply_waivers(findings, (waiver,), "gpu-17", "2026-02-01")[1]) == notes


def test_of_two_that_excuse_the_same_neither_is_said() -> None:
    waivers = (Waiver("port.state", "2026-03-01", "RMA"), Waiver("port.*", "2026-03-01", "RMA"))
    assert waiver_rules.apply_waivers([found(Status.FAIL)], waivers, "gpu-17", "2026-02-01")[1] == ()


def test_devices_of_which_something_is_excused_here_and_today() -> None:
    """One for all devices names none."""
    named = [
        Waiver("port.state", "2026-12-21", "known", "mlx5_8"),
        Waiver("port.rate", "2026-12-21", "known", "mlx5_8"),
        Waiver("port.state", "2026-12-21", "known", "0000:90:*", ("node-1*",)),
        Waiver("port.state", "2026-12-21", "known", "mlx5_1", ("node-2",)),
        Waiver("port.state", "2026-11-24", "over", "mlx5_2"),
        Waiver("port.state", "2027-11-24", "too far", "mlx5_3"),
        Waiver("port.state", "2026-12-21", "all"),
    ]
    assert waiver_rules.excused_devices(named, "node-17", "2026-11-25") == ("0000:90:*", "mlx5_8")
