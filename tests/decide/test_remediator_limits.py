"""The remediator's own limits, over the past of a node: what may run, and which word refuses the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.config import remedy_files
from nodeprep.decide import remediator_limits
from nodeprep.decide.remediator_limits import PastRun, RefusedRun, RemediatorLimits, RunRefusal
from nodeprep.decide.remediator_protocol import RunRequest
from nodeprep.decide.remedy_header import RemedyHeader, SafetyClass
from nodeprep.values import replace

HEADERS = remedy_files.headers()
LINK_UP, RESTART, MEMLOCK = HEADERS["link_up"], HEADERS["plugin_restart"], HEADERS["memlock"]
THIRD = replace(LINK_UP, name="erdma_install", safety=SafetyClass.S3)
FOURTH = replace(LINK_UP, name="reboot", safety=SafetyClass.S4)
NOW = 1_800_000_000.0
HOUR = 3600.0


def request(header: RemedyHeader, *, check: bool = False, deadline: float = 120.0) -> RunRequest:
    return RunRequest("0" * 32, header.name, {}, check, deadline)


def runs(count: int, header: RemedyHeader = LINK_UP, ago: float = HOUR) -> list[PastRun]:
    return [PastRun(header.name, NOW - ago, header.uses_runtime)] * count


def attempts(count: int) -> list[PastRun]:
    """That were refused by the machine, or only checked."""
    return [PastRun("mtu", NOW - HOUR, is_idle=True)] * count


def test_the_headers_here_are_what_the_table_needs() -> None:
    assert (LINK_UP.safety, LINK_UP.is_act, RESTART.is_act) == (SafetyClass.S1, False, True)


USUAL = RemediatorLimits()
TABLE = [
    # limits, header, past, the reason or None
    (USUAL, LINK_UP, [], None),
    (USUAL, LINK_UP, runs(5), None),
    (USUAL, LINK_UP, runs(6), RunRefusal.DAY),
    (USUAL, LINK_UP, runs(6, ago=25 * HOUR), None),
    (USUAL, LINK_UP, runs(6, ago=24 * HOUR), None),
    (USUAL, LINK_UP, runs(6, ago=24 * HOUR - 1), RunRefusal.DAY),
    (USUAL, LINK_UP, runs(6, ago=-HOUR), RunRefusal.DAY),  # the clock was set back
    (USUAL, LINK_UP, runs(6, HEADERS["mtu"]), None),
    (USUAL, LINK_UP, runs(24, HEADERS["mtu"]), RunRefusal.DAY),
    (USUAL, RESTART, runs(2, RESTART), None),
    (USUAL, RESTART, runs(3, RESTART), RunRefusal.DAY),
    (USUAL, RESTART, runs(3, HEADERS["terway_restart"]), RunRefusal.DAY),  # together
    (USUAL, MEMLOCK, runs(3, RESTART), RunRefusal.DAY),  # it may end with a restart of the agent's pod
    (USUAL, RESTART, runs(3, MEMLOCK), RunRefusal.DAY),
    (USUAL, LINK_UP, runs(3, RESTART), None),
    (USUAL, LINK_UP, attempts(239), None),
    (USUAL, LINK_UP, attempts(240), RunRefusal.ATTEMPTS),
    (USUAL, LINK_UP, attempts(235) + runs(5), RunRefusal.ATTEMPTS),
    (USUAL, HEADERS["mtu"], attempts(100), None),
    (replace(USUAL, runs=0), LINK_UP, [], RunRefusal.DAY),
    (replace(USUAL, remedies=frozenset({"link_up"})), LINK_UP, [], None),
    (replace(USUAL, remedies=frozenset({"mtu"})), LINK_UP, [], RunRefusal.REMEDY),
    (replace(USUAL, remedies=frozenset()), LINK_UP, [], RunRefusal.REMEDY),
    (USUAL, None, [], RunRefusal.REMEDY),
    (USUAL, replace(LINK_UP, safety=SafetyClass.S2), [], None),
    (replace(USUAL, highest=SafetyClass.S1), replace(LINK_UP, safety=SafetyClass.S2), [], RunRefusal.CLASS),
    (USUAL, THIRD, [], RunRefusal.CLASS),
    (replace(USUAL, highest=SafetyClass.S3), THIRD, [], RunRefusal.CLASS),  # a class names nobody
    (replace(USUAL, third_class=frozenset({"erdma_install"})), THIRD, [], None),
    (replace(USUAL, third_class=frozenset({"other"})), THIRD, [], RunRefusal.CLASS),
    (replace(USUAL, highest=SafetyClass.S4, third_class=frozenset({"reboot"})), FOURTH, [], RunRefusal.CLASS),
]


@pytest.mark.parametrize(("limits", "header", "past", "reason"), TABLE)
def test_what_may_run(
    limits: RemediatorLimits, header: RemedyHeader | None, past: list[PastRun], reason: RunRefusal | None
) -> None:
    asked = request(header or replace(LINK_UP, name="format_disk"))
    if reason is None:
        assert remediator_limits.hold(limits, header, asked, past, NOW) == header
        return
    with pytest.raises(RefusedRun) as refused:
        remediator_limits.hold(limits, header, asked, past, NOW)
    assert refused.value.reason is reason
    assert str(refused.value).startswith(asked.remedy)


def test_a_deadline_has_a_limit() -> None:
    assert remediator_limits.hold(USUAL, LINK_UP, request(LINK_UP, deadline=600.0), [], NOW) is LINK_UP
    with pytest.raises(RefusedRun, match=r"found a deadline of 600\.5 s, wanted at most 600 \(--max-deadline\)"):
        remediator_limits.hold(USUAL, LINK_UP, request(LINK_UP, deadline=600.5), [], NOW)


def test_a_check_is_no_run_but_is_held_to_the_rest() -> None:
    assert remediator_limits.hold(USUAL, LINK_UP, request(LINK_UP, check=True), runs(99), NOW) is LINK_UP
    with pytest.raises(RefusedRun, match=r"found 240 attempts within 24 hours, wanted fewer than 240"):
        remediator_limits.hold(USUAL, LINK_UP, request(LINK_UP, check=True), attempts(240), NOW)
    with pytest.raises(RefusedRun):
        remediator_limits.hold(USUAL, THIRD, request(THIRD, check=True), [], NOW)


IDLE = PastRun("link_up", NOW - HOUR, is_idle=True)


@pytest.mark.parametrize("check", [False, True])
def test_what_changes_nothing_is_an_attempt(check: bool) -> None:
    """So nobody keeps a processor busy all day, and the ledger of a day is short."""
    asked = request(LINK_UP, check=check)
    past = [IDLE] * 239
    assert remediator_limits.hold(USUAL, LINK_UP, asked, past, NOW) is LINK_UP
    assert remediator_limits.hold(USUAL, LINK_UP, asked, [*past, replace(IDLE, at=NOW - 25 * HOUR)], NOW) is LINK_UP
    with pytest.raises(RefusedRun, match=r"found 240 attempts within 24 hours, wanted fewer than 240 \(--attempts-"):
        remediator_limits.hold(USUAL, LINK_UP, asked, [*past, IDLE], NOW)


@given(
    st.lists(st.tuples(st.sampled_from(sorted(HEADERS)), st.floats(-2 * 86400, 3 * 86400)), max_size=80),
    st.integers(0, 30),
    st.integers(0, 10),
    st.integers(0, 5),
)
def test_no_day_has_more_runs_than_the_limits(
    asked: list[tuple[str, float]], most: int, each: int, restarts: int
) -> None:
    """Requests come in any order of a wall clock that goes forth: what is allowed goes into the past."""
    limits = RemediatorLimits(highest=SafetyClass.S2, runs=most, runs_each=each, restarts=restarts)
    past: list[PastRun] = []
    for name, at in sorted(asked, key=lambda one: one[1]):
        header = HEADERS[name]
        try:
            remediator_limits.hold(limits, header, request(header), past, NOW + at)
        except RefusedRun:
            continue
        past.append(PastRun(name, NOW + at, header.uses_runtime))
    for run in past:
        day = [one for one in past if run.at - 86400 < one.at <= run.at]
        assert len(day) <= most
        assert len([one for one in day if one.remedy == run.remedy]) <= each
        assert len([one for one in day if one.is_restart]) <= max(restarts, 0)
        assert HEADERS[run.remedy].safety in (SafetyClass.S1, SafetyClass.S2)
