"""What humans write on the Node about repairs: a pause fails closed, an approval counts once and for its remedy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.decide import repair_orders
from nodeprep.decide.repair_orders import RepairApproval

WALL = 1796083200.0  # 2026-12-01T00:00:00Z
TOMORROW, YESTERDAY, LATER = "2026-12-02T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-02T00:00:01Z"

PAUSES = [
    # annotation, what is said of it
    (None, ""),
    ("", "this node is paused (no reason given) without an end"),  # somebody put it there
    ("  ", "this node is paused (no reason given) without an end"),
    (f"cable swap;until={TOMORROW}", "this node is paused (cable swap) until 2026-12-02T00:00:00Z"),
    (f"cable swap;until={YESTERDAY}", ""),
    ("x;until=2026-12-01T01:00:00+02:00", ""),
    (f";until={TOMORROW}", "this node is paused (no reason given) until 2026-12-02T00:00:00Z"),
    ("cable swap", "without an end: remove nodeprep.io/pause there, or add ;until=TIME to it"),
    ("cable swap;until=tomorrow", "found the time 'tomorrow', wanted one as 2026-01-31T12:00:00Z, so it holds"),
    ("cable swap;until=2026-11-30T00:00:00", "wanted one as 2026-01-31T12:00:00Z, so it holds"),  # no zone
    ("cable swap;until=", "wanted one as 2026-01-31T12:00:00Z, so it holds"),
    (f"cable swap; until={YESTERDAY}", "without an end"),
    (f"a;until={YESTERDAY};until={TOMORROW}", "so it holds"),
    ("two\nlines", "this node is paused (two lines) without an end"),
]


@pytest.mark.parametrize(("text", "says"), PAUSES)
def test_a_pause_holds(text: str | None, says: str) -> None:
    told = repair_orders.paused(text, WALL, "this node")
    assert bool(told) == bool(says)
    assert says in told
    assert told.isprintable()


APPROVALS = [
    (f"firmware;until={TOMORROW}", RepairApproval(f"firmware;until={TOMORROW}", "firmware", WALL + 86400)),
    (f" firmware;until={TOMORROW} ", RepairApproval(f"firmware;until={TOMORROW}", "firmware", WALL + 86400)),
    ("firmware", None),
    ("", None),
    ("firmware;until=", None),
    ("firmware;until=2026-12-02", None),
    ("firmware;until=2026-12-02T00:00:00", None),
    (f"*;until={TOMORROW}", None),
    (f"firmware,reboot;until={TOMORROW}", None),
    (f"Firmware;until={TOMORROW}", None),
    (f"{'f' * 300};until={TOMORROW}", None),
]


@pytest.mark.parametrize(("text", "found"), APPROVALS)
def test_an_approval_is_read(text: str, found: RepairApproval | None) -> None:
    assert repair_orders.approval(text) == found


OWN = f"firmware;until={TOMORROW}"
UNAPPROVED = [
    # annotation, the one used before, why not
    (OWN, "", ""),
    (OWN, f"firmware;until={YESTERDAY}", ""),
    (OWN, OWN, "was used, or ends no later than one that was"),
    (OWN, OWN.replace("Z", "+00:00"), "was used"),  # the same moment
    (OWN, f"reboot;until={TOMORROW}", "ends no later"),
    (OWN, f"firmware;until={LATER}", "ends no later"),  # it may have been used before that one
    (OWN, "what a newer version wrote", ""),
    (f"firmware;until={YESTERDAY}", "", "is over"),
    ("firmware;until=2026-12-01T00:00:00Z", "", "is over"),
    ("firmware;until=2027-12-01T00:00:00Z", "", "is for more than 7 days"),
    (f"reboot;until={TOMORROW}", "", "firmware runs only after an approval"),
    ("firmware", "", "firmware runs only after an approval"),
    ("", "", "firmware runs only after an approval: nodeprep repair approve firmware NODE"),
]


@pytest.mark.parametrize(("text", "used", "why"), UNAPPROVED)
def test_a_remedy_is_approved(text: str, used: str, why: str) -> None:
    told = repair_orders.unapproved(repair_orders.approval(text), "firmware", used, WALL)
    assert bool(told) == bool(why)
    assert why in told


REASONS = [
    # a reason of a pause, what is wrong with it
    ("switch upgrade", ""),
    ("", "found nothing, wanted why"),
    ("   ", "found nothing, wanted why"),
    ("until=noon", ""),
    ("a;until=noon", "found ';until=' in it"),
    ("two\nlines", "cannot be printed"),
    ("\udcff", "cannot be printed"),
    ("x" * 256, ""),
    ("x" * 257, "found 257 characters, wanted at most 256"),
]


@pytest.mark.parametrize(("why", "wrong"), REASONS)
def test_a_reason_is_a_line_that_can_be_read_back(why: str, wrong: str) -> None:
    told = repair_orders.unusable_reason(why)
    assert bool(told) == bool(wrong)
    assert wrong in told


MOMENTS = st.integers(0, 4_000_000_000)  # seconds since 1970: until 2096


@given(st.text(max_size=80), st.none() | MOMENTS, MOMENTS)
def test_a_pause_is_read_as_it_was_written(why: str, until: int | None, wall: int) -> None:
    if repair_orders.unusable_reason(why):
        return
    told = repair_orders.paused(repair_orders.pause_text(why, until), wall, "it")
    assert bool(told) == (until is None or wall < until)
    assert not told or f"it is paused ({why.strip()}) " in told
    assert not told or ("without an end" in told) == (until is None)


@given(st.from_regex(repair_orders.REMEDY.pattern, fullmatch=True), MOMENTS, st.floats(0, 0.99))
def test_an_approval_is_read_as_it_was_written(remedy: str, until: int, part: float) -> None:
    text = repair_orders.approval_text(remedy, until + part)
    assert repair_orders.approval(text) == RepairApproval(text, remedy, until)


@pytest.mark.parametrize("at", [1e300, -1e300, 1e12, math.inf, math.nan])
def test_what_is_no_moment_of_any_calendar(at: float) -> None:
    assert repair_orders.time_text(at) == repair_orders.NO_MOMENT


@given(st.text(max_size=80), st.text(max_size=40))
def test_whatever_is_written_is_read(before: str, after: str) -> None:
    text = f"{before};until={after}"
    assert repair_orders.paused(text, WALL, "this node").isprintable()
    found = repair_orders.approval(text)
    assert found is None or repair_orders.REMEDY.fullmatch(found.remedy)
