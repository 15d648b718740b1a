"""What is believed of what is seen: convictions, releases, latches, proofs, and when to look again (design 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodeprep.decide import cases
from nodeprep.decide.answers import Answer, answers
from nodeprep.decide.plausible import plausible
from nodeprep.decide.policy import RULES, DampingPolicy, Glance, Rule
from nodeprep.decide.proofs import blinded, passing, proven
from nodeprep.decide.upgrade import spared_until, waiting_on
from nodeprep.facts.kernel_log import PROBED, KernelLog
from nodeprep.facts.past import Case, Past, State
from nodeprep.model import Check, Finding, Subject

__all__ = ["RULES", "DampingPolicy", "Glance", "Rule", "remember", "reset", "wanted_looks"]


def remember(  # noqa: PLR0917 - the memory, and what one round says to it
    past: Past,
    findings: Iterable[Finding],
    fresh: Mapping[str, Glance],
    checks: Mapping[str, Check],
    policy: DampingPolicy,
    now: float,
    log: KernelLog | None = None,
) -> Past:
    """The memory after a round; the very same value if nothing changed.

    `findings` are the standing ones of all checks, `fresh` the checks that were looked at afresh, by id: only those
    count. `log` frees latches of devices that were set up anew since.
    """
    now = max((now, *(glance.ended for glance in fresh.values())))
    before = plausible(past, now)
    said = answers(findings, fresh, checks)
    blind = blinded(before.blind, said)
    after = replace(
        before,
        proofs=proven(before.proofs, said, policy),
        cases=_freed(_cases(before, said, policy), log, now),
        blind=blind,
        unproven_until=waiting_on(before, blind, now),
        passed=passing(before.passed, said),
    )
    return past if after == past else after


def wanted_looks(
    past: Past, checks: Mapping[str, Check], gates: Iterable[str], policy: DampingPolicy
) -> dict[str, float]:
    """By check id, when a look is wanted that no period gives. A time that has gone by means at once.

    It is wanted to confirm a failure, or for the next pass of a proof (of a gate that is not proven) or of a release.
    """
    wanted: dict[str, float] = {}
    for case in past.cases:
        check = checks.get(case.check)
        at = None if check is None else _wanted(case, policy.rules[check.damping], policy)
        if at is not None:
            wanted[case.check] = min(at, wanted.get(case.check, at))
    for gate in gates:
        proof = past.proofs.get(gate)
        if gate in checks and proof is not None and proof.passes and not proof.proven:
            at = _next_pass(proof.first, proof.last, policy)
            wanted[gate] = min(at, wanted.get(gate, at))
    return wanted


def reset(past: Past, now: float) -> Past:
    """The memory after a human said so: nothing is proven, nothing is held against anyone."""
    return replace(
        past,
        state=State.BOOTSTRAP,
        since=now,
        why="reset by a human",
        proofs={},
        cases=(),
        blind={},
        all_passing_since=None,
    )


def _cases(past: Past, said: tuple[Answer, ...], policy: DampingPolicy) -> tuple[Case, ...]:
    """All cases after these answers: those that were there in their order, then the new ones."""
    by_check = {answer.check.id: answer for answer in said}
    failures = {answer.check.id: answer.failures for answer in said}
    kept: list[Case] = []
    for case in past.cases:
        answer = by_check.get(case.check)
        failure = failures[case.check].pop(case.subject, None) if answer else None
        after = case if answer is None else _after(past, case, answer, failure, policy)
        kept += () if after is None else (after,)
    for check, others in failures.items():
        for subject in sorted(others, key=_place):
            opened = _after(past, None, by_check[check], others[subject], policy)
            kept += () if opened is None else (opened,)
    return tuple(kept)


def _after(
    past: Past, case: Case | None, answer: Answer, failure: Finding | None, policy: DampingPolicy
) -> Case | None:
    """One case after a fresh answer of its check, None where there is none any more."""
    if failure is not None:
        after = cases.failed(case, failure, answer.glance, answer.check, policy)
        was_spared = case is None or not case.convicted or case.spared_until is not None
        return replace(after, spared_until=spared_until(past, after)) if was_spared else after
    if case is None:
        return None
    if not answer.could_look_at(case.subject):
        return cases.unseen(case)
    return cases.passed(case, answer.glance, answer.check, policy)


def _freed(found: tuple[Case, ...], log: KernelLog | None, now: float) -> tuple[Case, ...]:
    """The cases, without the latches of devices that the kernel set up anew. What a process wrote frees none."""
    if log is None or not any(case.latched for case in found):
        return found
    lines = (line for line in log.lines if line.from_kernel and line.at <= now and PROBED.search(line.text))
    probed: dict[str, float] = {}
    for line in lines:
        if line.bdf:
            probed[line.bdf] = max(line.at, probed.get(line.bdf, line.at))
    return tuple(cases.freed(case, probed) for case in found)


def _wanted(case: Case, rule: Rule, policy: DampingPolicy) -> float | None:
    """When to look at a subject again; after a look in vain the period will do."""
    if case.blind or not case.looks:
        return None
    last, fault = case.looks[-1]
    if case.convicted:
        if not case.passes or case.passing_since is None or case.latched:
            return None
        return _next_pass(case.passing_since, last, policy)
    if not fault:
        return None
    first = case.looks[cases.first_failure(case.looks, rule.of)][0]
    return _sooner(last, rule.step, first, rule.reach)


def _next_pass(first: float, last: float, policy: DampingPolicy) -> float:
    return _sooner(last, policy.pass_every, first, policy.pass_span)


def _sooner(last: float, step: float, first: float, span: float) -> float:
    """A step after the last look, or when the span from the first one is over if that comes before."""
    following, end = _since(last, step), _since(first, span)
    return min(following, end) if end > last else following


def _since(start: float, seconds: float) -> float:
    """The first time that is no less than so many seconds after `start`, however the sum was rounded."""
    at = start + seconds
    while at - start < seconds:
        at = math.nextafter(at, math.inf)
    return at


def _place(subject: Subject) -> tuple[str, int]:
    return subject.place, -1 if subject.port is None else subject.port
