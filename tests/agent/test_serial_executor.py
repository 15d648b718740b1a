"""Calls beside the loop: one at a time, each with its report, whatever becomes of it."""

from __future__ import annotations

from threading import Event

from nodeprep.agent.serial_executor import CallBroke, SerialExecutor
from tests.rigs.waiting import until


def test_a_call_is_busy_until_its_report_was_taken() -> None:
    ended, goes_on = Event(), Event()
    calls = SerialExecutor(ended.set)

    def call() -> str:
        goes_on.wait()
        return "told"

    calls.submit(call)
    assert (calls.busy, calls.reports()) == (True, [])
    goes_on.set()
    until(ended.is_set, "it wakes the loop")
    assert calls.busy, "nobody has its report yet"
    assert calls.reports() == ["told"]
    assert calls.reports() == []
    calls.submit(lambda: "again")
    assert until(calls.reports, "another one goes on") == ["again"]


def test_a_call_that_breaks_has_a_report_too() -> None:
    ended = Event()
    calls = SerialExecutor(ended.set)
    calls.submit(lambda: 1 // 0)
    until(ended.is_set, "it wakes the loop")
    assert calls.reports() == [CallBroke("ZeroDivisionError: integer division or modulo by zero")]
    assert not calls.busy
