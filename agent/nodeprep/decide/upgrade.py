"""A bad release halts its own rollout: what only the new version sees does not close the gate yet (design 3.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from nodeprep.facts.past import Case, Past, passed_key

HOLD = 600.0  # seconds after an upgrade; design 3.5


def took_over(past: Past, version: str, now: float) -> Past:
    """The memory as the version that starts now finds it: if another one wrote it, what that passed is kept aside."""
    if past.version == version:
        return past
    if not past.version:
        return replace(past, version=version)
    return replace(
        past,
        version=version,
        former_passed=past.passed,
        former_gates=past.gates,
        upgraded_at=now,
        came_with_version=(),
    )


def spared_until(past: Past, case: Case) -> float | None:
    """Until when a conviction must not close the gate: the former version passed this subject with the same value.

    Or did not ask for it, and the gate came with this version to a profile that was open.
    """
    if past.upgraded_at is None or case.convicted_at is None or case.convicted_at >= past.upgraded_at + HOLD:
        return None
    if case.check in awaited(past):
        return past.upgraded_at + HOLD
    if case.convicted_at < past.upgraded_at:
        return None
    former = past.former_passed.get(passed_key(case.check, case.subject))
    return past.upgraded_at + HOLD if former and former == case.observed else None


def changed_by_upgrade(past: Past, now: float) -> tuple[Case, ...]:
    """Convictions that are spared now."""
    return tuple(one for one in disputed(past) if one.spared_until is not None and now < one.spared_until)


def disputed(past: Past) -> tuple[Case, ...]:
    """Convictions that only this version sees, spared or not any more; while there is one, `/readyz` says no.

    A gate closes in the end, for the new version may be right; that the rollout goes on is for a human to say.
    """
    return tuple(one for one in past.cases if one.convicted and one.spared_until is not None)


def with_newcomers(past: Past, gates: Iterable[str], now: float, *, configured: bool = False) -> Past:
    """The memory after these gates came to a profile that is open: it stays so for a while, though they are to pass.

    `configured`: the configuration changed since the start, so they are its own and no rollout waits for them.
    """
    fresh = sorted(set(gates) - past.unproven_until.keys())
    if not fresh:
        return past
    upgraded = past.upgraded_at is not None and past.upgraded_at <= now < past.upgraded_at + HOLD
    past = replace(
        past,
        unproven_until={**past.unproven_until, **dict.fromkeys(fresh, now + HOLD)},
        came_with_version=(*past.came_with_version, *(fresh if upgraded and not configured else ())),
    )
    cases = (replace(one, spared_until=spared_until(past, one)) if one.check in fresh else one for one in past.cases)
    return replace(past, cases=tuple(cases))


def awaited(past: Past) -> frozenset[str]:
    """Gates that came with this version to a profile that was open, and that are yet to pass."""
    return frozenset(past.came_with_version) & past.unproven_until.keys()


def waiting_on(past: Past, blind: Collection[str], now: float) -> dict[str, float]:
    """`Past.unproven_until` after a round that leaves these checks blind: who can look again has its time anew."""
    seen = past.blind.keys() - set(blind)
    return {gate: now + HOLD if gate in seen else until for gate, until in past.unproven_until.items()}
