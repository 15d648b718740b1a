"""Who does not tolerate our taint: DaemonSets that serve device plugins or the network, as last seen here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from nodeprep.agent_state import AgentState
from nodeprep.decide.look_schedule import RECORD_VALIDITY_SECONDS
from nodeprep.model import Finding, Status
from nodeprep.values import replace

# While it fails, our taint would keep away pods that serve device plugins or the network (design 3.4).
TOLERATES_GATE = "plugin.tolerates-gate"
OTHERS_TAINT = "BootstrapNotTolerated"  # its reason if only the taint that others set is not tolerated
ABSENT_LIMIT_SECONDS = (
    600.0  # seconds without any pod of it until a DaemonSet counts no more: an update takes seconds to minutes
)


def with_tolerations(
    agent_state: AgentState, findings: Iterable[Finding], now: float, *, full_round: bool
) -> AgentState:
    """The agent state after what was last seen of who tolerates our taint. The same object if nothing changed.

    A DaemonSet counts as intolerant until one of its pods tolerates the taint, or until none was here for a while:
    under the taint, a pod that is just being replaced would never come. If no intolerant one was ever seen, the taint
    may be set: a gate must not stay open because a server does not answer.
    """
    verdicts = [one for one in findings if one.check == TOLERATES_GATE]
    if not verdicts and not full_round:
        return agent_state
    intolerant = {one.subject.name for one in verdicts if not _tolerates(one)}
    tolerant = {one.subject.name for one in verdicts if one.status is Status.OK or one.verdict.reason == OTHERS_TAINT}
    unseen = any(one.status is Status.UNKNOWN for one in verdicts)
    after: dict[str, float | None] = dict.fromkeys(sorted(intolerant))
    for name, absent_since in _intolerant_before(agent_state, intolerant).items():
        since = None if unseen else now if absent_since is None else absent_since
        if name not in intolerant | tolerant and (since is None or now - since < ABSENT_LIMIT_SECONDS):
            after[name] = since
    if (after, not after) == (agent_state.intolerant, agent_state.taint_tolerated):
        return agent_state
    return replace(agent_state, intolerant=after, taint_tolerated=not after)


def recheck_at(agent_state: AgentState, since: float | None, looked: float) -> float:
    """When to look at these pods beside their period. inf if not.

    The taint is due since `since`, None if it is not due. `looked` is when the pods were last looked at. The taint is
    set at once, by what was last seen, because a gate does not wait for a server. But that may be a period old, and
    plugins are updated. So one look confirms it. If the taint is withheld, whoever mends that should not wait for a
    period either.
    """
    if since is None or (looked >= since and agent_state.taint_tolerated):
        return inf
    return max(since, looked + RECORD_VALIDITY_SECONDS)


def taint_hindrance(agent_state: AgentState) -> str:
    """Why no taint is set, for people. "" if nothing prevents it."""
    if agent_state.taint_tolerated:
        return ""
    first = min(filter(None, agent_state.intolerant), default="a DaemonSet")
    more = f" and {len(agent_state.intolerant) - 1} more" if len(agent_state.intolerant) > 1 else ""
    return f"no taint: {first}{more} does not tolerate it; see nodeprep explain {TOLERATES_GATE}"


def _tolerates(finding: Finding) -> bool:
    return finding.status not in {Status.FAIL, Status.WARN} or finding.verdict.reason == OTHERS_TAINT


def _intolerant_before(agent_state: AgentState, intolerant: set[str]) -> Mapping[str, float | None]:
    """Those of before. A state that does not say who it was has one without a name, until one is seen."""
    if agent_state.intolerant or agent_state.taint_tolerated or intolerant:
        return agent_state.intolerant
    return {"": None}
