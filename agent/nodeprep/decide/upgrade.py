"""A bad release halts its own rollout: what only the new version sees does not close the gate yet (design 3.5)."""

from __future__ import annotations

from dataclasses import replace

from nodeprep.facts.past import Case, Past, passed_key

HOLD = 600.0  # seconds after an upgrade; design 3.5


def took_over(past: Past, version: str, now: float) -> Past:
    """The memory as the version that starts now finds it: if another one wrote it, what that passed is kept aside."""
    if past.version == version:
        return past
    if not past.version:
        return replace(past, version=version)
    return replace(past, version=version, former_passed=past.passed, upgraded_at=now)


def spared_until(past: Past, case: Case) -> float | None:
    """Until when a conviction must not close the gate: the former version passed this subject with the same value."""
    if past.upgraded_at is None or case.convicted_at is None:
        return None
    if not past.upgraded_at <= case.convicted_at < past.upgraded_at + HOLD:
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
