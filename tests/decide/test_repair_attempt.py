"""The steps from the ledger to the end: the question leaves once, silence ends nothing early, a start only asks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nodeprep import state_file
from nodeprep.agent import state_writer
from nodeprep.agent_state import AgentState, PassStreak
from nodeprep.decide import attempt_steps, gate_readiness, repair_attempt
from nodeprep.decide.attempt_steps import AttemptStep
from nodeprep.decide.repair_attempt import (
    AttemptAction,
    AttemptReport,
    LedgerSaved,
    RunAnswer,
    StatusAnswer,
)
from nodeprep.values import replace
from tests.agent_state_values import BOOT, agent_state, attempt, past
from tests.repair_values import NOW, terms, unhealthy, wrong

ID = "a" * 32
LIMIT = 120.0  # seconds; `readiness.validation-limit` as it is shipped
A = AttemptAction
STEPS = [*AttemptStep, "a step of a newer version"]


def at(step: str, ago: float = 5.0, **different: Any) -> AgentState:
    """A node whose attempt is in this step for so many seconds, and its case passed once since."""
    one = attempt(step, step_since=NOW - ago, heard_at=NOW - ago, **different)
    return unhealthy(wrong(passes=1, passing_since=NOW - 1), attempt=one)


MOVES: list[tuple[AgentState, AttemptReport, str, AttemptAction]] = [
    # state, report, the step after it or how it ended, what is done at once
    (at("ledger"), LedgerSaved(ID), "asked", A.SEND_RUN),
    (at("ledger"), LedgerSaved(ID, "disk full"), "refused unsaved", A.SAVE),
    (at("ledger"), RunAnswer(ID, is_running=True), "ledger", A.NOTHING),
    (at("asked"), LedgerSaved(ID), "asked", A.NOTHING),
    (at("running"), LedgerSaved(ID), "running", A.NOTHING),
    (at("asked"), RunAnswer(ID, is_running=True), "running", A.SAVE),
    (at("asked"), RunAnswer(ID, refused="in-use"), "refused in-use", A.SAVE),
    (at("asked"), RunAnswer(ID, refused="seen"), "asked", A.NOTHING),
    (at("asked"), RunAnswer(ID, sent=False), "refused unsent", A.SAVE),
    (at("asked"), RunAnswer(ID), "asked", A.NOTHING),  # hung up: it may have heard
    (at("running"), RunAnswer(ID, refused="busy"), "running", A.NOTHING),
    (at("asked"), StatusAnswer(ID, "running"), "running", A.SAVE),
    (at("asked"), StatusAnswer(ID, "done", "done"), "validating done", A.SAVE),
    (at("asked"), StatusAnswer(ID, "done", "refused", "in-use"), "refused in-use", A.SAVE),
    (at("asked", 9.9), StatusAnswer(ID, "unknown"), "asked", A.NOTHING),  # its question may be on its way
    (at("asked", 10.0), StatusAnswer(ID, "unknown"), "validating unheard", A.SAVE),
    (at("asked"), StatusAnswer(ID), "asked", A.NOTHING),
    (at("asked"), StatusAnswer(ID, "a newer word"), "asked", A.NOTHING),
    (at("running"), StatusAnswer(ID, "running"), "running", A.NOTHING),
    (at("running"), StatusAnswer(ID, "done", "failed"), "validating failed", A.SAVE),
    (at("running"), StatusAnswer(ID, "done", "interrupted"), "validating interrupted", A.SAVE),
    (at("running"), StatusAnswer(ID, "done", "refused", "doubt"), "refused doubt", A.SAVE),
    (at("running", 10.0), StatusAnswer(ID, "unknown"), "validating unheard", A.SAVE),
    (at("running"), StatusAnswer(ID), "running", A.NOTHING),
    (at("running"), StatusAnswer(ID, "running", hangs=True), "running", A.SAVE),
    (at("asked"), StatusAnswer(ID, "running", hangs=True), "running", A.SAVE),
    (at("validating"), StatusAnswer(ID, "running"), "validating", A.NOTHING),
    (at("odd"), StatusAnswer(ID, "running"), "running", A.SAVE),
    (at("odd"), LedgerSaved(ID), "odd", A.NOTHING),
    *((at(step), LedgerSaved("b" * 32), step, A.NOTHING) for step in STEPS),
    *((at(step), StatusAnswer("b" * 32, "done", "done"), step, A.NOTHING) for step in STEPS),
]


@pytest.mark.parametrize(("state", "report", "to", "action"), MOVES)
def test_a_report_moves_it(state: AgentState, report: AttemptReport, to: str, action: AttemptAction) -> None:
    result = repair_attempt.after(state, report, terms())
    assert (stands(result.state), result.action) == (to, action)


def stands(state: AgentState) -> str:
    """The step and end of the attempt, or how the last one came out."""
    if state.attempt is not None:
        return f"{state.attempt.step} {state.attempt.end}".strip()
    return f"{state.attempts[-1].outcome} {state.attempts[-1].refused}"


def test_nothing_moves_where_there_is_none() -> None:
    assert repair_attempt.after(unhealthy(), LedgerSaved(ID), terms()).state == unhealthy()
    assert repair_attempt.due(unhealthy(), terms()).action is A.NOTHING


def test_only_the_answer_to_the_saving_sends_the_question() -> None:
    """Whatever is reported and however time goes by, from no other step the question leaves."""
    reports = [report for _, report, _, _ in MOVES]
    for step in STEPS:
        for ago in (0.0, 100.0, 9999.0):
            results = [repair_attempt.due(at(step, ago), terms())]
            results += [repair_attempt.after(at(step, ago), report, terms()) for report in reports]
            sends = [one for one in results if one.action is A.SEND_RUN]
            assert len(sends) == (reports.count(LedgerSaved(ID)) if step == "ledger" else 0)
            assert all(stands(one.state) == "asked" for one in sends)


DUE = [
    # step, seconds since the remediator last said something, what is to be done
    ("ledger", 0.0, A.SAVE),
    ("ledger", 9999.0, A.SAVE),
    ("asked", 179.9, A.ASK_STATUS),
    ("asked", 180.0, A.SAVE),  # deadline and a minute
    ("running", 179.9, A.ASK_STATUS),
    ("running", 180.0, A.SAVE),
    ("validating", 9999.0, A.LOOK),
    ("odd", 0.0, A.ASK_STATUS),
]


@pytest.mark.parametrize(("step", "ago", "action"), DUE)
def test_what_is_due(step: str, ago: float, action: AttemptAction) -> None:
    result = repair_attempt.due(at(step, ago), terms())
    assert result.action is action
    if ago == 180.0:
        assert stands(result.state) == "validating lost"


def test_as_long_as_the_remediator_says_that_it_runs_it_does() -> None:
    state = at("running", 5000.0)
    assert state.attempt is not None
    heard = replace(state, attempt=replace(state.attempt, heard_at=NOW - 59.9))
    assert repair_attempt.due(heard, terms()).action is A.ASK_STATUS
    assert stands(repair_attempt.due(heard, terms(NOW + 1)).state) == "validating lost"


def test_no_silence_ends_what_sleeps_in_the_kernel() -> None:
    """Its container cannot end either, so no remediator comes again to say how it stands. A reboot ends it."""
    heard = repair_attempt.after(at("running"), StatusAnswer(ID, "running", hangs=True), terms()).state
    for seconds in (0.0, 3600.0, 86400.0):
        assert repair_attempt.due(heard, terms(NOW + seconds)).action is A.ASK_STATUS
    gone = repair_attempt.after(heard, StatusAnswer(ID, "running"), terms(NOW + 3600)).state
    assert stands(repair_attempt.due(gone, terms(NOW + 3660)).state) == "validating lost"
    done = repair_attempt.after(heard, StatusAnswer(ID, "done", "timed-out"), terms(NOW + 3600)).state
    assert stands(done) == "validating timed-out"
    assert attempt_steps.at_start(heard, "another boot", NOW).attempt is None


def test_what_a_remedy_disturbed_passes_anew_once_its_play_is_over() -> None:
    streaks = {check: PassStreak(3, 1.0, 40.0, proven=True) for check in ("port.flap", "port.state", "eni.up")}
    state = replace(at("running"), pass_streaks=streaks)
    ended = repair_attempt.after(state, StatusAnswer("a" * 32, "done", "done"), terms()).state
    assert dict(ended.disturbed) == {"port.flap": NOW, "counter.physical": NOW}
    assert ended.pass_streaks.keys() == {"port.state", "eni.up"}, "its own case has passes of its own"
    refused = repair_attempt.after(state, StatusAnswer("a" * 32, "done", refused="in-use"), terms()).state
    assert (dict(refused.disturbed), refused.pass_streaks) == ({}, streaks), "nothing ran"


def test_what_was_seen_before_the_end_of_the_play_is_forgotten() -> None:
    after = repair_attempt.after(at("running"), StatusAnswer(ID, "done", "done"), terms()).state
    (case,) = after.cases
    assert (case.looks, case.passes, case.passing_since, case.convicted) == ((), 0, None, True)


STARTS = [
    ("ledger", "asked"),
    ("asked", "asked"),
    ("running", "running"),
    ("validating", "validating"),
    ("odd", "asked"),
]


@pytest.mark.parametrize(("step", "found"), STARTS)
def test_a_start_only_asks(step: str, found: str) -> None:
    state = gate_readiness.state_at_start(at(step), BOOT, "uid-1", NOW + 3)
    assert stands(state) == found
    assert gate_readiness.state_at_start(state, BOOT, "uid-1", NOW + 3) == state
    assert repair_attempt.due(state, terms(NOW + 3)).action is not A.SEND_RUN


@pytest.mark.parametrize("step", ["ledger", "asked", "running", "odd"])
def test_a_start_after_hours_asks_before_it_gives_up(step: str) -> None:
    long_ago = at(step, 9999.0)
    state = gate_readiness.state_at_start(long_ago, BOOT, "uid-1", NOW + 3)
    assert repair_attempt.due(state, terms(NOW + 3)).action is A.ASK_STATUS


BLAMED = [
    ("ledger", {}),
    ("asked", {"link_up": 1.8e9}),
    ("running", {"link_up": 1.8e9}),
    ("validating", {"link_up": 1.8e9}),
]


@pytest.mark.parametrize(("step", "unhelpful"), BLAMED)
def test_a_remedy_that_a_boot_cut_off_is_told_to_the_fleet(step: str, unhelpful: dict[str, float]) -> None:
    """It may have brought the boot about, on each node on which it runs."""
    assert gate_readiness.state_at_start(at(step), "of another boot", "uid-1", 5.0).unhelpful == unhelpful


def test_another_node_or_a_damaged_memory_of_this_boot_ends_no_attempt() -> None:
    for kept in (at("running"), replace(at("running"), at=NOW + 9), replace(at("running"), boot_id="")):
        assert stands(gate_readiness.state_at_start(kept, BOOT, "uid-2", NOW)) == "running"


def test_a_boot_cuts_it_off() -> None:
    state = gate_readiness.state_at_start(at("running", approval="mine"), "another", "uid-1", NOW)
    assert (state.attempt, stands(state)) == (None, "cut-off ")
    assert (state.approved, state.slot, state.was_ready) == ("mine", "nodeprep-slot-0", False)


def test_times_to_come_are_taken_for_now() -> None:
    """Else an attempt would be awaited for ever."""
    state = gate_readiness.state_at_start(at("running", -9e9), BOOT, "uid-1", NOW)
    assert state.attempt is not None
    assert (state.attempt.step_since, state.attempt.heard_at) == (NOW, NOW)


@pytest.mark.parametrize("step", STEPS)
def test_it_is_stored_as_it_is(step: str) -> None:
    """A step that this version does not know costs nothing else of the memory."""
    state = replace(at(step), attempts=(past("an outcome of a newer version"),), disturbed={"port.flap": 5.0})
    assert state_file.loads(state_file.dumps(state)) == state


def test_a_memory_of_before_repairs_is_read() -> None:
    """Nobody knows whether such a node was Ready in this boot."""
    fields = ("attempt", "attempts", "disturbed", "was_ready", "approved", "helped", "unhelpful", "held", "slot")
    text = state_file.dumps(agent_state())
    for name in fields:
        text = _without(text, name)
    assert '"was_ready"' not in text
    assert state_file.loads(text) == agent_state()
    assert agent_state().was_ready is None


def _without(text: str, name: str) -> str:
    start = text.index(f',"{name}":')
    end = text.find(',"', start + 1)
    return text[:start] + text[end if end > 0 else text.index("}}", start) :]


def test_what_is_told_while_it_runs_costs_no_saving() -> None:
    """The remediator says each second that it runs. All else is saved."""
    state = at("running")
    assert state.attempt is not None
    heard = replace(state, attempt=replace(state.attempt, heard_at=NOW, slot_until=NOW + 99))
    assert state_writer.essence(heard) == state_writer.essence(state)
    others = (
        replace(state, attempt=None),
        replace(state, attempt=replace(state.attempt, step="validating")),
        replace(state, attempts=(past(),)),
        replace(state, disturbed={"port.flap": 1.0}),
        replace(state, approved="x"),
        replace(state, was_ready=None),
        replace(state, slot="x"),
        replace(state, helped={"x": 1.0}),
        replace(state, unhelpful={"x": 1.0}),
        replace(state, held={"x": 1.0}),
    )
    assert all(state_writer.essence(one) != state_writer.essence(state) for one in others)


RENEWALS = [(360.0, False), (300.1, False), (299.9, True), (-5.0, True)]


@pytest.mark.parametrize(("left", "renews"), RENEWALS)
def test_a_slot_is_renewed_each_minute(left: float, *, renews: bool) -> None:
    assert repair_attempt.renews_slot(attempt(step_since=NOW, slot_until=NOW + left), NOW, LIMIT) is renews
    assert not repair_attempt.renews_slot(attempt(step_since=NOW, slot="", slot_until=NOW + left), NOW, LIMIT)


# step, the seconds after which it counts as one without an end, with a deadline and a limit of the validation
ENDLESS = [
    *((step, deadline, LIMIT, deadline + 900) for step in ("asked", "running") for deadline in (120.0, 600.0)),
    ("running", 120.0, 86400.0, 1020.0),
    ("validating", 120.0, LIMIT, 1680.0),  # a judgement of 22 minutes, and the 6 of its slot
    ("validating", 600.0, LIMIT, 2160.0),
    ("validating", 120.0, 1800.0, 4560.0),
    ("validating", 120.0, 86400.0, 173760.0),
]


@pytest.mark.parametrize(("step", "deadline", "limit", "after"), ENDLESS)
def test_a_step_without_an_end_loses_its_slot(step: str, deadline: float, limit: float, after: float) -> None:
    """What hangs in the kernel says for ever that it runs. Other nodes are mended meanwhile, and none before."""
    one = attempt(step, deadline=deadline, step_since=NOW, slot_until=NOW + deadline + 240)
    over = NOW + after
    for now in itertools.takewhile(lambda now: now <= over + 3600, itertools.count(NOW, 10.0)):
        assert one.slot_until > min(now, over - 70), "it holds its slot for as long as it may run"
        if repair_attempt.renews_slot(one, now, limit):
            one = replace(one, slot_until=now + deadline + 240, heard_at=now)
    assert over - 70 < one.slot_until <= over


def test_a_renewed_slot_lasts_as_long_as_a_new_one() -> None:
    state = repair_attempt.with_renewed_slot(at("running"), NOW)
    assert state.attempt is not None
    assert state.attempt.slot_until == NOW + 120 + 240
    assert repair_attempt.with_renewed_slot(unhealthy(), NOW) == unhealthy()


def test_a_slot_is_given_back_when_the_attempt_is_over() -> None:
    assert repair_attempt.slot_to_give_back(replace(at("validating"), slot="nodeprep-slot-0")) == ""
    assert repair_attempt.slot_to_give_back(unhealthy(slot="nodeprep-slot-0")) == "nodeprep-slot-0"


def test_a_running_remedy_is_one_that_may_run() -> None:
    assert [attempt_steps.is_running(at(step)) for step in STEPS] == [True, True, True, False, True]
    assert [attempt_steps.is_validating(at(step)) for step in STEPS] == [False, False, False, True, False]
    assert not attempt_steps.is_running(unhealthy())
