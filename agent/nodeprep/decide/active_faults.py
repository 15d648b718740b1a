"""The confirmed faults that close the gates of a node now, and which of them explain the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf

from nodeprep.agent_state import AgentState, Case
from nodeprep.decide import drill_notice, fault_causes
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.model import Check


def is_deferred(case: Case, now: float) -> bool:
    """Whether only a new version of nodeprep sees it, so that it does not close the gate yet (design 3.5)."""
    return case.deferred_until is not None and now < case.deferred_until


def convictions(agent_state: AgentState, gates: Collection[str], now: float) -> tuple[Case, ...]:
    """The convicted cases of these checks that close the gate."""
    return tuple(
        case for case in agent_state.cases if case.convicted and case.check in gates and not is_deferred(case, now)
    )


def suspected_case(agent_state: AgentState, gates: Collection[str], now: float) -> Case | None:
    """A case whose last fresh look failed. It is not confirmed yet, but no gate may open now."""
    looked_at = (
        case for case in agent_state.cases if case.looks and case.check in gates and not is_deferred(case, now)
    )
    return next((case for case in looked_at if case.looks[-1][1]), None)


def roots(cases: Iterable[Case], checks: Mapping[str, Check], drill: DrillNotice | None = None) -> tuple[Case, ...]:
    """The cases that no other of them explains, in the order in which a person would look at them.

    What a drill made comes last. What fails now comes before what passed in its last look, or is waived: that one is on
    its way to its release. Of those the last to pass comes first. So while faults end one after the other, the first
    one never comes back.
    """
    found = tuple(cases)
    if not found:
        return ()
    order = {check: number for number, check in enumerate(checks)}
    first = [case for case in found if not _is_consequence(case, found, checks)]

    def place(case: Case) -> tuple[bool, float, int, str, int]:
        made = drill_notice.has_made(drill, case)
        return made, -_passes_since(case), order.get(case.check, len(order)), case.place, case.port or 0

    return tuple(sorted(first, key=place))


def is_repairable(case: Case, least_age: float, now: float) -> bool:
    """Whether a remedy may mend it now: convicted for `least_age` seconds, still failing and not latched."""
    if case.remedy is None or case.latched or case.convicted_at is None:
        return False
    return case.passes == 0 and now - case.convicted_at >= least_age


def summary(case: Case, drill: DrillNotice | None = None) -> str:
    """A conviction in one line, for people. One that a drill made begins with that drill."""
    made = f"{drill.words}: " if drill is not None and drill_notice.has_made(drill, case) else ""
    return f"{made}{case.check} {case.reason}: {case.message or case.name}"


def _is_consequence(case: Case, others: tuple[Case, ...], checks: Mapping[str, Check]) -> bool:
    """Whether others explain it. What passes now explains nothing that fails since then or still does."""
    causes = fault_causes.ancestors(case.check, {name: check.after for name, check in checks.items()}, case.follows)
    near = [one for one in others if one.check in causes and fault_causes.explains(one.subject, case.subject)]
    places = [one.place for one in near if _passes_since(one) >= _passes_since(case)]
    return bool(places if case.lack is None else fault_causes.explain_lack(places, case.lack))


def _passes_since(case: Case) -> float:
    """When it began to pass; never, if its last look failed."""
    if not case.passes:
        return inf
    return case.opened_at if case.passing_since is None else case.passing_since
