"""What is told of repairs: each step, end and refusal once, and nothing while nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.agent_state import PastAttempt
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.repair_approach import ApproachStep
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.publish import repair_lines
from nodeprep.publish.node_status import NodeStatus
from nodeprep.publish.repair_status import RepairStatus
from nodeprep.values import replace
from tests.agent_state_values import attempt, past
from tests.status_values import status

IDLE = Suppression(SuppressionReason.IDLE, "port.mtu", "mtu", "in use by pod jobs/a", 1030.0)
WAY = RepairStatus("link_up", "port.state")
WHERE = "link_up for port.state NoSignal of 0000:5c:00.0/1"


def seen(repair: RepairStatus | None = None, mode: Mode = Mode.REPAIR, **memory: Any) -> NodeStatus:
    found = status(mode=mode, repair=repair or RepairStatus())
    return replace(found, agent_state=replace(found.agent_state, **memory))


def told(before: NodeStatus | None, after: NodeStatus) -> list[str]:
    made = repair_lines.lines(before, after)
    assert all(one.message.isprintable() and one.event.message == one.message for one in made)
    return [f"{'! ' if one.warning else ''}{one.reason} {one.message}" for one in made]


def at(step: str, **different: Any) -> NodeStatus:
    """On its way, at that step."""
    way = replace(WAY, step=step, **different)
    running = step in list(AttemptStep)
    return seen(way, attempt=attempt(step, end="done" if step == "validating" else "") if running else None)


def test_nothing_is_told_while_nothing_changes() -> None:
    for one in (seen(), seen(RepairStatus(suppressions=(IDLE,))), at("taint"), at("running")):
        assert told(one, one) == []


def test_every_step_has_words() -> None:
    assert repair_lines.STEPS.keys() == {*ApproachStep, *AttemptStep}
    assert repair_lines.OUTCOMES.keys() == set(AttemptOutcome)


STEPS = [
    (seen(), at("taint"), ["RepairPlanned link_up for port.state: waits until the API server shows our taint"]),
    (at("fleet"), at("slot"), ["RepairStep link_up for port.state: no other node is in the way; takes a slot"]),
    (at("ready"), at("asked"), [f"RepairStep {WHERE}: the remediator is asked to run it"]),
    (at("asked"), at("running"), [f"RepairStep {WHERE}: the remediator runs it"]),
    (at("running"), at("validating"), [f"RepairStep {WHERE}: is over; the check is looked at anew"]),
    (None, at("running"), [f"RepairStep {WHERE}: the remediator runs it"]),
    (seen(), at("taint", is_retry=True), []),  # it was told before, and comes each half minute
    (at("taint", is_retry=True), at("pods", is_retry=True), []),
    (
        at("ready", is_retry=True),
        at("asked", is_retry=True),
        [f"RepairStep {WHERE}: the remediator is asked to run it"],
    ),
    (at("taint"), seen(), []),  # the fault is gone
]


@pytest.mark.parametrize(("before", "after", "says"), STEPS)
def test_a_step_is_told_once(before: NodeStatus | None, after: NodeStatus, says: list[str]) -> None:
    assert told(before, after) == says


ENDS = [
    (past("released"), [f"RepairHelped {WHERE}: helped: the check passes"]),
    (
        past("changed"),
        [f"RepairHelped {WHERE}: mended what it is for; the check is held for something else now"],
    ),
    (past("unreleased"), [f"! RepairFailed {WHERE}: did not help: the check did not pass in time"]),
    (
        past("refused", refused="in-use"),
        [f"RepairRefused {WHERE}: did not run: the remediator refused it (in-use): see its log"],
    ),
    (past("a newer word"), [f"! RepairFailed {WHERE}: a newer word"]),
]


@pytest.mark.parametrize(("one", "says"), ENDS)
def test_an_end_is_told_once(one: Any, says: list[str]) -> None:
    before, after = seen(attempts=(past("released", id="0" * 32),)), seen(attempts=(past("released", id="0" * 32), one))
    assert told(before, after) == says
    assert told(None, after) == [], "a start does not tell what a former life told"


def test_what_a_reboot_ended_is_told_by_the_start_after_it() -> None:
    """Or nobody tells of a remedy that takes the machine down each time."""
    over = seen(attempts=(past("released", id="0" * 32), past("cut-off", id="1" * 32)))
    says = [f"! RepairFailed {WHERE}: {repair_lines.OUTCOMES[AttemptOutcome.CUT_OFF]}"]
    first = replace(over, cut_off=("1" * 32,))
    assert told(None, first) == says
    assert told(first, first) == []


HELD = [
    (
        seen(),
        seen(RepairStatus(suppressions=(IDLE,))),
        ["RepairSuppressed mtu for port.mtu does not run (idle): in use by pod jobs/a"],
    ),
    (
        seen(RepairStatus(suppressions=(replace(IDLE, why="in use by pod jobs/b"),))),
        seen(RepairStatus(suppressions=(IDLE,))),
        [],
    ),
    (
        seen(RepairStatus(suppressions=(IDLE,))),
        seen(RepairStatus(suppressions=(replace(IDLE, reason=SuppressionReason.HELD),))),
        ["! RepairSuppressed mtu for port.mtu does not run (held): in use by pod jobs/a"],
    ),
    (seen(mode=Mode.GATE), seen(RepairStatus(suppressions=(IDLE,)), Mode.GATE), []),  # the log says what would run
]


IN_USE = past("refused", id="1" * 32, refused="in-use")
AGAIN = replace(IN_USE, id="2" * 32)
BY_REMEDIATOR = RepairStatus(suppressions=(replace(IDLE, check=IN_USE.check, remedy=IN_USE.remedy),))
REPEATS = [
    # attempts before, attempts and status after, what is told
    ((), (IN_USE,), ["RepairRefused", "RepairSuppressed"]),
    ((IN_USE,), (AGAIN,), []),  # each question about a device in use is an attempt: it is told once
    ((IN_USE,), (replace(AGAIN, refused="doubt"),), ["RepairRefused", "RepairSuppressed"]),
    ((IN_USE,), (replace(AGAIN, place="mlx5_9"),), ["RepairRefused", "RepairSuppressed"]),  # another device
    ((past("unreleased", id="1" * 32),), (AGAIN,), ["RepairRefused", "RepairSuppressed"]),
]


@pytest.mark.parametrize(("before", "after", "reasons"), REPEATS)
def test_what_is_refused_again_for_the_same_reason_is_told_once(
    before: tuple[PastAttempt, ...], after: tuple[PastAttempt, ...], reasons: list[str]
) -> None:
    said = repair_lines.lines(seen(attempts=before), seen(BY_REMEDIATOR, attempts=after))
    assert [line.reason for line in said] == reasons


def test_the_steps_of_an_attempt_are_told_once_for_a_fault_that_is_refused() -> None:
    for step in ("ledger", "asked", "running"):
        after = at(step)
        assert told(seen(), after)
        refused = replace(after.agent_state, attempts=(IN_USE,))
        assert told(seen(attempts=(IN_USE,)), replace(after, agent_state=refused)) == []
    ended = at("validating")
    ended = replace(ended, agent_state=replace(ended.agent_state, attempts=(IN_USE,)))
    assert told(seen(attempts=(IN_USE,)), ended), "this time it ran"


@pytest.mark.parametrize(("before", "after", "says"), HELD)
def test_what_is_held_back_is_told_once_for_a_reason(before: NodeStatus, after: NodeStatus, says: list[str]) -> None:
    assert told(before, after) == says
