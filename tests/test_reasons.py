"""Checks say exactly their declared reasons. Each reason says what to do, and its placeholders can be filled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nodeprep.checks import CHECKS
from nodeprep.model import EVERYWHERE, NODE, Check, Reason, Remedy, Status, Subject, Verdict, filled, values_of
from tests.values import placeholders

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"[A-Z][a-z]+[A-Za-z0-9]*")
OF_EACH_VERDICT = {"name", "place", "observed", "expected"}

EVERY = pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)


def test_each_check_says_in_its_own_test_what_it_declares_and_nothing_else(tmp_path: Path) -> None:
    """The runner refuses an undeclared reason: then the check's test fails."""
    found = tmp_path / "given.json"
    run = [sys.executable, "-m", "pytest", "-q", "-p", "tests.given", "-p", "no:cacheprovider", "tests/checks"]
    environment = {**os.environ, "GIVEN": str(found)}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    everywhere = {(one.name, one.status) for one in EVERYWHERE}
    told = json.loads(found.read_text())
    given = {(check, reason, Status(status)) for check, reason, status in told["given"]}
    declared = {(check.id, one.name, one.status) for check in CHECKS.values() for one in check.reasons}
    assert declared - given == set(), "declared, and its own test never sees it"
    assert {one for one in given - declared if one[1:] not in everywhere} == set()
    assert told["hidden"] == [], "a fault that one other unreadable field hides (tests/unreadable_fields.py)"
    assert told["pairs"] > 5000


@EVERY
def test_reasons_are_words_each_declared_once_with_a_status(check: Check) -> None:
    pairs = Counter((one.name, one.status) for one in check.reasons)
    assert [pair for pair, count in pairs.items() if count > 1] == []
    assert [one.name for one in check.reasons if not NAME.fullmatch(one.name)] == []
    assert not pairs.keys() & {(one.name, one.status) for one in EVERYWHERE}, "these are the runner's"
    assert any(one.status is Status.OK for one in check.reasons), "no node is ever right"


@EVERY
def test_who_has_nothing_to_mend_has_no_fix(check: Check) -> None:
    assert [one for one in check.reasons if one.fix and one.status not in (Status.FAIL, Status.WARN)] == []
    for one in check.reasons:
        assert bool(check.advice(one.name, one.status)) == (one.status in (Status.FAIL, Status.WARN))


@EVERY
def test_a_fix_is_a_template_of_plain_words(check: Check) -> None:
    for fix in (check.fix, *(one.fix for one in check.reasons)):
        assert [name for name in placeholders(fix) if not re.fullmatch("[a-z]+", name)] == []
        assert fix == fix.strip()
        assert "\n" not in fix


@EVERY
def test_a_fix_of_a_fault_names_no_other_reason(check: Check) -> None:
    """Each reason has its own advice: an operator need not choose."""
    names = {one.name for one in check.reasons}
    for fix in (check.fix, *(one.fix for one in check.reasons)):
        assert not [name for name in names if f"{name}:" in fix or f"{name}, " in fix]


def test_what_the_runner_says_itself_can_be_filled_for_every_device() -> None:
    silent = [one for one in EVERYWHERE if one.fix]
    assert {one.status for one in silent} == {Status.FAIL, Status.WARN}
    assert all(placeholders(one.fix) <= OF_EACH_VERDICT for one in silent)


FAULT = Verdict(
    Subject("0000:5c:00.0", 1, "mlx5_3/1"),
    Status.FAIL,
    "NoSignal",
    "it is down",
    Remedy("link_up", {"interface": "eth2", "name": "rxe0"}),
    "DOWN",
    "ACTIVE",
    args={"leg": "eth3", "interface": "bond0"},
)
FILLED = [
    # a fix                                          with the values of FAULT              with none
    ("Look.", "Look.", "Look."),
    ("echo {place} {name}", "echo 0000:5c:00.0 mlx5_3/1", "echo ADDRESS NAME"),
    ("{observed}, not {expected}", "DOWN, not ACTIVE", "OBSERVED, not EXPECTED"),
    ("ip link set {leg} up", "ip link set eth3 up", "ip link set LEG up"),
    ("ip link set {interface} up", "ip link set bond0 up", "ip link set INTERFACE up"),
    ("ethtool {nobody}", "ethtool NOBODY", "ethtool NOBODY"),
    ("{{a: {leg}}}", "{a: eth3}", "{a: LEG}"),
]


@pytest.mark.parametrize(("fix", "known", "unknown"), FILLED)
def test_a_fix_is_filled_from_its_verdict(fix: str, known: str, unknown: str) -> None:
    assert filled(fix, FAULT) == known
    assert filled(fix) == unknown


def test_what_a_device_calls_itself_is_no_template() -> None:
    strange = Verdict(Subject("", None, "{place}{0}"), Status.FAIL, "NoSignal", "it is down")
    assert filled("see {name} at {place}", strange) == "see {place}{0} at ADDRESS"


def test_an_empty_value_is_none() -> None:
    assert values_of(Verdict(NODE, Status.FAIL, "NoSignal", "it is down", args={"key": ""})) == {"name": "node"}


def test_a_name_that_stands_with_two_statuses_has_a_fix_for_each() -> None:
    check = CHECKS["pci.rdma-driver"]
    found = {one.status: one.fix for one in check.reasons if one.name == "NoRdmaDriver"}
    assert found.keys() == {Status.FAIL, Status.WARN}
    assert found[Status.FAIL] != found[Status.WARN]
    assert check.advice("NoRdmaDriver", Status.WARN) == found[Status.WARN]


def test_a_reason_without_a_fix_of_its_own_has_the_checks() -> None:
    check = CHECKS["port.state"]
    assert Reason("NotActive", Status.FAIL) in check.reasons
    assert check.advice("NotActive", Status.FAIL) == check.fix
    assert check.advice("SaidByAnOlderAgent", Status.FAIL) == check.fix
