"""`nodeprep explain` of a check, of a family, of a reason, and of what is none of them."""

from __future__ import annotations

import pytest

from nodeprep.checks import CHECKS
from nodeprep.cli.check import check_sheet
from nodeprep.model import Check, filled
from tests.cli.program import nodeprep


def test_a_family_lists_its_checks_with_their_questions() -> None:
    done = nodeprep("explain", "port")
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert rows == [[one.id, one.question] for one in CHECKS.values() if one.id.startswith("port.")]


def test_a_reason_names_each_check_that_says_it_with_status_and_fix() -> None:
    done = nodeprep("explain", "NoSignal")
    state = CHECKS["port.state"]
    said = [one for one in state.reasons if one.name == "NoSignal"]
    told = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert said
    for reason in said:
        fix = " ".join(filled(state.advice("NoSignal", reason.status)).split())
        assert f"port.state: {reason.status} fix {fix}" in told


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.id)
def test_each_reason_can_be_explained(check: Check) -> None:
    for reason in check.reasons:
        assert f"{check.id}: {reason.status}" in check_sheet.reason_sheet(reason.name, 80)


def test_a_reason_of_any_check_is_told_once() -> None:
    assert check_sheet.reason_sheet("CannotLook", 80) == ["any check: unknown"]


def test_what_is_none_of_them_is_one_line_with_the_nearest() -> None:
    done = nodeprep("explain", "port.sate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "there is no check 'port.sate'; nearest: port.state, port.rate, port.names\n"
