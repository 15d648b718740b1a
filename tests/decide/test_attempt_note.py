"""The attempts on the Node: an agent that lost its disk has no tries anew, and what cannot be read is no empty list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import AgentState
from nodeprep.decide import attempt_note, repair_budget
from nodeprep.decide.repair_policy import RepairPolicy
from tests.agent_state_values import attempt, past
from tests.repair_values import WALL, clock, unhealthy, wrong

POLICY = RepairPolicy()


def test_a_lost_disk_gives_no_try_back() -> None:
    tried = tuple(past(id=f"{n}", at=900.0, wall=WALL - 100) for n in range(2))
    written = attempt_note.text(unhealthy(attempts=tried, attempt=attempt(wall=WALL - 5)))
    fresh, trouble = attempt_note.recalled(unhealthy(wrong()), written, clock(now=50.0, boot_id="another"))
    assert trouble == ""
    assert len(fresh.attempts) == 3
    assert repair_budget.budget(fresh, wrong(), POLICY, clock(now=50.0, boot_id="another")).spent


def test_refusals_are_left_out_and_nothing_is_no_annotation() -> None:
    assert attempt_note.text(unhealthy(attempts=(past("refused"),))) == ""
    assert attempt_note.text(unhealthy()) == ""
    assert attempt_note.recalled(unhealthy(), None, clock()) == (unhealthy(), "")


def test_it_is_recalled_once() -> None:
    written = attempt_note.text(unhealthy(attempts=(past(),)))
    once, _ = attempt_note.recalled(unhealthy(), written, clock())
    assert attempt_note.recalled(once, written, clock())[0] == once


def test_people_read_the_same_as_an_agent() -> None:
    written = attempt_note.text(unhealthy(attempts=(past("released"), past(port=None)), attempt=attempt()))
    read = attempt_note.attempts(written, clock().now)
    assert read == attempt_note.recalled(unhealthy(), written, clock())[0].attempts
    assert [(one.outcome, one.port, one.wall) for one in read or ()] == [
        ("released", 1, WALL),
        ("unreleased", None, WALL),
        ("cut-off", 1, WALL),
    ]
    assert attempt_note.attempts("") == ()


def test_it_stays_short_and_keeps_the_newest() -> None:
    many = tuple(past(id=f"{n}", place=f"0000:{n:02x}:00.0") for n in range(300))
    written = attempt_note.text(unhealthy(attempts=many))
    assert len(written) < attempt_note.TEXT_LIMIT_CHARACTERS
    kept = attempt_note.recalled(unhealthy(), written, clock())[0].attempts
    assert [one.place for one in kept] == [one.place for one in many[-attempt_note.ATTEMPTS_LIMIT :]]


UNREADABLE = [
    "{",
    "{}",
    "[1]",
    '["abcdefgh"]',
    '[["a","b",1,"c","d","e",true,"g"]]',
    '[["a","b",true,"c","d","e",1,"g"]]',
]
UNREADABLE += [f'[["a","b",1,"c","d","e",{10**400},"g"]]']
UNREADABLE += ['[["a","b",1,"c","d","e",NaN,"g"]]', "[" * 9999, '"x"', "1"]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_is_said(text: str) -> None:
    state, trouble = attempt_note.recalled(unhealthy(), text, clock())
    assert state == unhealthy()
    assert trouble.startswith("agent.nodeprep.io/attempts on the Node cannot be read")
    assert attempt_note.attempts(text) is None


def test_an_outcome_of_a_newer_version_counts_as_a_failure() -> None:
    state, _ = attempt_note.recalled(unhealthy(), '[["port.state","x",1,"r","link_up","b",5,"later"]]', clock())
    assert state.attempts[0].outcome == "cut-off"


@given(st.text(max_size=200))
def test_whatever_stands_there_breaks_nothing(text: str) -> None:
    state, trouble = attempt_note.recalled(AgentState(), text, clock())
    assert bool(trouble) != (state == AgentState() and text in ("", "[]"))


def test_an_approval_is_noted_from_the_ledger_on() -> None:
    assert attempt_note.approved(unhealthy(attempt=attempt(approval="mine"))) == "mine"
    assert attempt_note.approved(unhealthy(attempt=attempt(), approved="before")) == "before"
    assert attempt_note.approved(unhealthy(approved="before")) == "before"
