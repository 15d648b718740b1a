"""When the remediator ends the process of an attempt: at its time, unless that waits for what sleeps in the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nodeprep.decide.remediator_limits import RemediatorLimits
from nodeprep.doors import clock
from nodeprep.repair.attempt_ledger import AttemptLedger
from nodeprep.repair.remediator import HostWay, Remediator, RunningAttempt
from nodeprep.repair.repair_history import BEGAN, RepairRecord
from tests.rigs.waiting import until


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(("sleep", "86418")) as made:
        yield made
        made.kill()


ENDS = [
    # it waits for what sleeps in the kernel, it was cancelled, its process is ended
    (False, False, True),
    (True, False, False),
    (True, True, False),
]


@pytest.mark.parametrize(("hangs", "is_cancelled", "ends"), ENDS)
def test_an_attempt_is_ended_at_its_time(
    tmp_path: Path, process: subprocess.Popen[bytes], hangs: bool, is_cancelled: bool, ends: bool
) -> None:
    told: list[Mapping[str, object]] = []
    remediator = Remediator(AttemptLedger(str(tmp_path)), RemediatorLimits(), {}, HostWay(), told.append)
    record = RepairRecord("0" * 32, 0.0, "boot", "remediator", "link_up", BEGAN)
    remediator._guard(RunningAttempt(record, process, clock.now(), hangs=hangs, is_cancelled=is_cancelled))
    assert [one["event"] for one in told] == (["attempt-hangs"] if ends else [])
    if ends:
        until(lambda: process.poll() is not None, "its end")
    assert (process.poll() is not None) == ends
