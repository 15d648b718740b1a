"""Who would not bear our taint: DaemonSets that serve device plugins or the network, as they were last seen here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from nodeprep.agent_state import AgentState
from nodeprep.decide.look_schedule import RECORD_VALIDITY_SECONDS
from nodeprep.model import Finding, Status
from nodeprep.values import replace

# While it fails, our taint would keep away the pods that serve device plugins or the network (design 3.4).
TOLERATES_GATE = "plugin.tolerates-gate"
OTHERS_TAINT = "BootstrapNotTolerated"  # its reason where only the taint that others set is not tolerated
ABSENT_LIMIT_SECONDS = (
    600.0  # seconds without any pod of it until a DaemonSet counts no more: an update takes seconds to minutes
)


def with_tolerations(
    agent_state: AgentState, findings: Iterable[Finding], now: float, *, full_round: bool
) -> AgentState:
    """The memory after what was last seen of who tolerates our taint; the very same value if nothing changed.

    Who was seen not to is believed until a pod of the same DaemonSet tolerates it, or none was here for a while: under
    the taint a pod that is just being made anew would never come. Nobody was ever seen who does not: the taint may
    stand, for a gate must not stay open because a server does not answer.
    """
    told = [one for one in findings if one.check == TOLERATES_GATE]
    if not told and not full_round:
        return agent_state
    intolerant = {one.subject.name for one in told if not _tolerates(one)}
    tolerant = {one.subject.name for one in told if one.status is Status.OK or one.verdict.reason == OTHERS_TAINT}
    unseen = any(one.status is Status.UNKNOWN for one in told)
    after: dict[str, float | None] = dict.fromkeys(sorted(intolerant))
    for name, gone in _known(agent_state, intolerant).items():
        since = None if unseen else now if gone is None else gone
        if name not in intolerant | tolerant and (since is None or now - since < ABSENT_LIMIT_SECONDS):
            after[name] = since
    if (after, not after) == (agent_state.intolerant, agent_state.taint_tolerated):
        return agent_state
    return replace(agent_state, intolerant=after, taint_tolerated=not after)


def recheck_at(agent_state: AgentState, since: float | None, looked: float) -> float:
    """When these pods are to be looked at beside their period, inf if not.

    The taint ought to stand `since` then, None if it ought not; `looked` is when the pods were last looked at. It is
    set at once, by what was last seen, for a gate waits for no server. But that may be a period old and plugins are
    updated, so one look bears it out. Where it is withheld, whoever mends that should not wait for a period either.
    """
    if since is None or (looked >= since and agent_state.taint_tolerated):
        return inf
    return max(since, looked + RECORD_VALIDITY_SECONDS)


def why_untainted(agent_state: AgentState) -> str:
    """Why no taint is set, for people; "" if nothing is in its way."""
    if agent_state.taint_tolerated:
        return ""
    first = min(filter(None, agent_state.intolerant), default="a DaemonSet")
    more = f" and {len(agent_state.intolerant) - 1} more" if len(agent_state.intolerant) > 1 else ""
    return f"no taint: {first}{more} does not tolerate it; see nodeprep explain {TOLERATES_GATE}"


def _tolerates(finding: Finding) -> bool:
    return finding.status not in {Status.FAIL, Status.WARN} or finding.verdict.reason == OTHERS_TAINT


def _known(agent_state: AgentState, intolerant: set[str]) -> Mapping[str, float | None]:
    """Those of before; a memory that does not say who it was has one without a name, until somebody is seen."""
    if agent_state.intolerant or agent_state.taint_tolerated or intolerant:
        return agent_state.intolerant
    return {"": None}
