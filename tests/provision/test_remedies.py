"""Each remedy that the guest can need, on a real kernel and systemd: mended, nothing twice, and still after a reboot.

A test makes the fault by its own command, and shows by its own command that it is gone. All cases share two boots: a
play takes half a minute in an emulated guest. With NODEPREP_REPAIR_TABLE the rows of docs/repair.md are written there
(`make prove-repair`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.provision.remedy_cases import CASES, PROFILE_TEXT, RemedyCase
from tests.provision.roce_node import NOTHING_TO_DO, PROFILE, RAIL, check, nodeprep, put, repair, said
from tests.rigs.lab_channel import GuestError
from tests.rigs.systemd_guest import Completed, SystemdGuest

TABLE = os.environ.get("NODEPREP_REPAIR_TABLE")
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.remedy)
pytestmark = [pytest.mark.prove, pytest.mark.timeout(7200)]


@dataclass
class Story:
    """What became of one case. `error` is a script of the test that failed, which spoils the case."""

    case: RemedyCase
    before: dict[str, str] = field(default_factory=dict)
    done: Completed | None = None
    after: dict[str, str] = field(default_factory=dict)
    again: Completed | None = None
    booted: dict[str, str] = field(default_factory=dict)
    changed: int = 0
    error: str = ""


@pytest.fixture(scope="module")
def stories(booted: SystemdGuest) -> Iterator[dict[str, Story]]:
    """Every case in turn, then one reboot, and every case looked at again."""
    put(booted, PROFILE, PROFILE_TEXT)
    told = {case.remedy: Story(case) for case in CASES}
    for story in told.values():
        try:
            mend(booted, story)
        except GuestError as error:
            story.error = f"in the first boot: {error}\n{said(story.done) if story.done else ''}"
        print(f"{story.case.remedy}: {story.error.splitlines()[:1] or 'mended'}", flush=True)
    booted.reboot(online=[RAIL])
    for story in told.values():
        try:
            booted.shell(story.case.given)
            booted.shell(story.case.booted or story.case.mended)
            story.booted = verdicts(booted, story.case)
        except GuestError as error:
            story.error = story.error or f"after the reboot: {error}"
    if TABLE:
        Path(TABLE).write_text("".join(map(row, told.values())))
    yield told
    booted.restore()


def mend(guest: SystemdGuest, story: Story) -> None:
    case = story.case
    guest.shell(case.given)
    guest.shell(case.fault)
    story.before = verdicts(guest, case)
    story.done = repair(guest, case.check)
    guest.shell(case.mended)
    story.after = verdicts(guest, case)
    story.again = repair(guest, case.check)
    told = json.loads(nodeprep(guest, "repair", "history", "-o", "json").text)
    story.changed = sum(one["changed"] or 0 for one in told if one["remedy"] == case.remedy)


def verdicts(guest: SystemdGuest, case: RemedyCase) -> dict[str, str]:
    """The reasons of the check's findings, each with its status."""
    told = json.loads(check(guest, "--only", case.check, "-o", "json").text)
    return {one["reason"]: one["status"] for one in told["findings"] if one["check"] == case.check}


def row(story: Story) -> str:
    """Of one case that holds in all: remedy, check and reason, between tabs."""
    try:
        test_it_mends_its_fault({story.case.remedy: story}, story.case)
        test_a_second_repair_does_nothing({story.case.remedy: story}, story.case)
        test_it_still_passes_after_a_reboot({story.case.remedy: story}, story.case)
    except AssertionError:
        return ""
    case = story.case
    return f"{case.remedy}\t{case.check}\t{case.reason}\n"


@EACH
def test_it_mends_its_fault(stories: dict[str, Story], case: RemedyCase) -> None:
    story = stories[case.remedy]
    assert not story.error
    assert story.before.get(case.reason) in ("fail", "warn"), story.before
    assert story.done is not None
    assert story.done.returncode == 0, said(story.done)
    assert f"{case.remedy}" in story.done.text
    assert story.changed > 0
    assert set(story.after.values()) == {"ok"}, story.after


@EACH
def test_a_second_repair_does_nothing(stories: dict[str, Story], case: RemedyCase) -> None:
    story = stories[case.remedy]
    assert story.again is not None
    assert story.again.returncode == 0, said(story.again)
    assert story.again.text.splitlines()[0] == NOTHING_TO_DO


@EACH
def test_it_still_passes_after_a_reboot(stories: dict[str, Story], case: RemedyCase) -> None:
    story = stories[case.remedy]
    assert not story.error
    assert set(story.booted.values()) == {"ok"}, story.booted
