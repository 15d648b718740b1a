"""What of the memory may be believed after a start, and what outlives a boot."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.decide.upgrade import HOLD
from nodeprep.facts.past import Case, Past


def outliving(past: Past) -> Past:
    """What is still true of a node after a boot; all else is as of a node that was never looked at."""
    return Past(
        version=past.version,
        serial=past.serial,
        held=past.held,
        profile=past.profile,
        chosen_by=past.chosen_by,
        parts=past.parts,
        baseline=past.baseline,
        passed=past.passed,
        taint_borne=past.taint_borne,
        intolerant=dict.fromkeys(past.intolerant),
        reset_done=past.reset_done,
    )


def intact(past: Past, now: float) -> bool:
    """Whether every time in it lies in this boot, between its start and now; else somebody or something damaged it."""
    return all(0 <= time <= now for time in _times(past))


def _times(past: Past) -> Iterator[float]:
    yield from (past.at, past.since)
    yield from (time for time in (past.upgraded_at, past.all_passing_since) if time is not None)
    yield from (time for time in past.intolerant.values() if time is not None)
    yield from (time - HOLD for time in past.unproven_until.values())  # when they came
    yield from (blind.since for blind in past.blind.values())
    for proof in past.proofs.values():
        yield from (proof.first, proof.last)
    for case in past.cases:
        yield from _times_of(case)


def _times_of(case: Case) -> Iterator[float]:
    yield case.opened_at
    yield from (time for time, _ in case.looks)
    yield from case.turns
    yield from (time for time in (case.passing_since, case.convicted_at, case.latched_at) if time is not None)
    if case.spared_until is not None:
        yield case.spared_until - HOLD  # when the version changed
