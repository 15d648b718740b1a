"""A damaged memory may hold times that have not come yet: what rests on one of them opens no gate."""

from __future__ import annotations

from dataclasses import replace

from nodeprep.decide.upgrade import HOLD
from nodeprep.facts.past import Blind, Case, Past, Proof


def plausible(past: Past, now: float) -> Past:
    """The memory without times after `now`: such proofs are none, such passes do not count, convictions stand."""
    return replace(
        past,
        proofs={check: _proof(proof, now) for check, proof in past.proofs.items()},
        cases=tuple(_case(case, now) for case in past.cases),
        blind={check: Blind(_by(one.since, now), one.message) for check, one in past.blind.items()},
        upgraded_at=None if past.upgraded_at is None or _is_to_come(past.upgraded_at, now) else past.upgraded_at,
        intolerant={name: None if _is_to_come(gone, now) else gone for name, gone in past.intolerant.items()},
        unproven_until={gate: at for gate, at in past.unproven_until.items() if not _is_to_come(at, now + HOLD)},
    )


def _is_to_come(at: float | None, now: float) -> bool:
    return at is not None and not at <= now  # what is no number at all (NaN) is in no past either


def _by(at: float, now: float) -> float:
    return now if _is_to_come(at, now) else at


def _proof(proof: Proof, now: float) -> Proof:
    return Proof() if _is_to_come(proof.first, now) or _is_to_come(proof.last, now) else proof


def _case(case: Case, now: float) -> Case:
    spared = None if _is_to_come(case.spared_until, now + HOLD) else case.spared_until
    times = (case.opened_at, case.passing_since, case.convicted_at, case.latched_at, *case.turns)
    if not any(_is_to_come(at, now) for at in (*times, *(at for at, _ in case.looks))):
        return case if spared == case.spared_until else replace(case, spared_until=spared)
    return replace(
        case,
        opened_at=_by(case.opened_at, now),
        looks=tuple(look for look in case.looks if not _is_to_come(look[0], now)),
        passes=0,
        passing_since=None,
        convicted_at=None if case.convicted_at is None else _by(case.convicted_at, now),
        latched_at=None if case.latched_at is None else _by(case.latched_at, now),
        turns=tuple(_by(turn, now) for turn in case.turns),
        spared_until=None,
    )
