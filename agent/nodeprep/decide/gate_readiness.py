"""Whether the node is ready, and what state it is in: walks the table of design 3.1 (states.py) over the memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide import active_faults, kubernetes_text, stored_state
from nodeprep.decide.state_table import GATE_CHECK_FAILS, NO_REPAIR, TABLE, ReadinessPolicy, Repair, Situation
from nodeprep.model import Check, Stage
from nodeprep.values import Value, replace

__all__ = [
    "NO_REPAIR",
    "AssignedProfile",
    "Mode",
    "ProfileReadiness",
    "ReadinessPolicy",
    "Repair",
    "advance",
    "begin",
    "missing_gates",
    "node_gates",
    "open_gates",
    "profile_readiness",
]


DEVICE, READY = "device", "ready"  # the stages of a profile's gate, as `wait-ready` names them


class Mode(StrEnum):
    """How far the agent may go (design 3.4)."""

    OBSERVE = "observe"
    GATE = "gate"
    REPAIR = "repair"


class AssignedProfile(Value):
    """A profile that this node has: its name, its gates, whether it sets the taint (`gating`) and is about RDMA.

    `refused` says why its gate must not open whatever passes, such as a profile that nobody's baseline confirms.
    """

    name: str
    gates: tuple[str, ...]
    gating: bool
    rdma: bool
    refused: str = ""


class ProfileReadiness(Value):
    """One profile: whether its device-stage gates hold, whether all do, and what is in the way, for people.

    `gates` and `refused` are those of the profile as it is assigned.
    """

    name: str
    device: bool
    ready: bool
    gating: bool
    rdma: bool
    why: str = ""
    gates: tuple[str, ...] = ()
    refused: str = ""


def begin(agent_state: AgentState | None, boot_id: str, node_uid: str, now: float) -> AgentState:
    """The memory at a start: what was kept if it is of this boot and Node, else BOOTSTRAP with what outlives a boot.

    None stands for no memory or one that could not be read. A `node_uid` that is empty, on either side, is not known
    yet and matches; call this again once it is.
    """
    if agent_state is None:
        return AgentState(boot_id, node_uid, since=now, why="no memory of this node that can be read")
    strange = _strange(agent_state, boot_id, node_uid, now)
    if strange:
        return replace(
            stored_state.surviving_reboot(agent_state),
            boot_id=boot_id,
            node_uid=node_uid or agent_state.node_uid,
            since=now,
            why=strange,
        )
    return replace(agent_state, node_uid=node_uid) if node_uid and not agent_state.node_uid else agent_state


def _strange(agent_state: AgentState, boot_id: str, node_uid: str, now: float) -> str:
    """Why what is remembered says nothing of this boot of this node, "" if it does."""
    if not boot_id or agent_state.boot_id != boot_id:
        return "the node was booted anew"
    if node_uid and agent_state.node_uid and node_uid != agent_state.node_uid:
        return "the Node is another one than before"
    return (
        ""
        if stored_state.has_plausible_times(agent_state, now)
        else "the memory holds times that have not come yet: it is damaged"
    )


def node_gates(profiles: Sequence[AssignedProfile] | Sequence[ProfileReadiness]) -> tuple[str, ...]:
    """The checks that the node's state goes by: gates of its gating profiles, else of all assigned.

    None where no profile demands anything: such a node is ready once it was looked at.
    """
    chosen = [one for one in profiles if one.gating] or profiles
    return tuple(dict.fromkeys(gate for one in chosen for gate in one.gates))


def advance(
    agent_state: AgentState,
    profiles: Iterable[AssignedProfile],
    checks: Mapping[str, Check],
    policy: ReadinessPolicy,
    now: float,
    *,
    repair: Repair = NO_REPAIR,
) -> AgentState:
    """The memory with the state that follows; as it is where nothing follows. Call it again until nothing changes."""
    seen = _situation(agent_state, tuple(profiles), checks, policy, now, repair=repair)
    since = agent_state.all_passing_since if agent_state.all_passing_since is not None else now
    if agent_state.all_passing_since != (since if seen.passes else None):
        agent_state = replace(agent_state, all_passing_since=since if seen.passes else None)
    row = next((row for row in TABLE if row.start is agent_state.state and row.event(seen)), None)
    if row is None:
        return _renewed(agent_state, seen)
    about = row.tell(seen)
    return replace(
        agent_state, state=row.to, since=now, why=kubernetes_text.line(f"{row.why}: {about}" if about else row.why)
    )


def _renewed(agent_state: AgentState, seen: Situation) -> AgentState:
    """The same state, for what keeps it so now: one fault may be gone and another have come."""
    if agent_state.state is not NodeState.UNHEALTHY or not seen.roots:
        return agent_state
    why = kubernetes_text.line(f"{GATE_CHECK_FAILS}: {active_faults.summary(seen.roots[0])}")
    return agent_state if agent_state.why == why else replace(agent_state, why=why)


def _situation(
    agent_state: AgentState,
    profiles: tuple[AssignedProfile, ...],
    checks: Mapping[str, Check],
    policy: ReadinessPolicy,
    now: float,
    *,
    repair: Repair,
) -> Situation:
    gates = node_gates(profiles)
    chosen = [one for one in profiles if one.gating] or profiles
    missing = missing_gates(agent_state, gates, now, is_open=agent_state.state is NodeState.READY)
    return Situation(
        refused=next((one.refused for one in chosen if one.refused), ""),
        missing=missing,
        proven=not missing and _looked(agent_state),
        roots=active_faults.roots(active_faults.convictions(agent_state, gates, now), checks),
        suspect=active_faults.suspected(agent_state, gates, now) is not None,
        blind=any(gate in agent_state.blind for gate in gates),
        stood=now - agent_state.since,
        passing=0.0 if agent_state.all_passing_since is None else now - agent_state.all_passing_since,
        now=now,
        policy=policy,
        repair=repair,
    )


def missing_gates(
    agent_state: AgentState, gates: Iterable[str], now: float, *, is_open: bool = False
) -> tuple[str, ...]:
    """The gates that have not passed often enough in this boot, and for which nobody waits.

    What is open stays so for a while where a gate came to it that is yet to pass, and for as long as that one cannot
    look (design 3.3); nothing opens without it.
    """
    missing = (
        gate for gate in gates if gate not in agent_state.pass_streaks or not agent_state.pass_streaks[gate].proven
    )
    return tuple(gate for gate in missing if not (is_open and _is_waited_for(agent_state, gate, now)))


def _is_waited_for(agent_state: AgentState, gate: str, now: float) -> bool:
    until = agent_state.unproven_until.get(gate)
    return until is not None and (now < until or gate in agent_state.blind)


def _looked(agent_state: AgentState) -> bool:
    """Whether anything passed at all in this boot: a profile without gates does not open before the first looks."""
    return any(streak.proven for streak in agent_state.pass_streaks.values())


def open_gates(profiles: Iterable[ProfileReadiness]) -> tuple[tuple[str, str], ...]:
    """The gates that ought to stand open, by profile and stage."""
    device = [(one.name, DEVICE) for one in profiles if one.device]
    return tuple(sorted((*device, *((one.name, READY) for one in profiles if one.ready))))


def profile_readiness(
    agent_state: AgentState, profiles: Iterable[AssignedProfile], checks: Mapping[str, Check], now: float
) -> tuple[ProfileReadiness, ...]:
    """Whether each profile is device-ready and ready (design 3.1)."""
    return tuple(_profile_readiness(agent_state, one, checks, now) for one in profiles)


def _profile_readiness(
    agent_state: AgentState, profile: AssignedProfile, checks: Mapping[str, Check], now: float
) -> ProfileReadiness:
    of_devices = tuple(gate for gate in profile.gates if gate not in checks or checks[gate].stage is Stage.DEVICE)
    why = _in_the_way(agent_state, profile, checks, now)
    suspect = active_faults.suspected(agent_state, profile.gates, now)
    if not why and (profile.name, READY) not in agent_state.gates and suspect is not None:
        why = f"just seen to fail, to be confirmed or to pass first: {active_faults.summary(suspect)}"
    if not why and profile.gating and agent_state.state is not NodeState.READY:
        why = f"the node is {agent_state.state}: {agent_state.why}"
    return ProfileReadiness(
        name=profile.name,
        device=not profile.refused
        and _holds(agent_state, of_devices, now, is_open=(profile.name, DEVICE) in agent_state.gates)
        and (
            (profile.name, DEVICE) in agent_state.gates or active_faults.suspected(agent_state, of_devices, now) is None
        ),
        ready=not why,
        gating=profile.gating,
        rdma=profile.rdma,
        why=kubernetes_text.line(why),
        gates=profile.gates,
        refused=profile.refused,
    )


def _holds(agent_state: AgentState, gates: tuple[str, ...], now: float, *, is_open: bool) -> bool:
    missing = missing_gates(agent_state, gates, now, is_open=is_open)
    return _looked(agent_state) and not missing and not active_faults.convictions(agent_state, gates, now)


def _in_the_way(agent_state: AgentState, profile: AssignedProfile, checks: Mapping[str, Check], now: float) -> str:
    """The first thing that keeps a profile from being ready, "" if its gates all hold."""
    if profile.refused:
        return profile.refused
    against = active_faults.roots(active_faults.convictions(agent_state, profile.gates, now), checks)
    if against:
        return active_faults.summary(against[0])
    is_open = (profile.name, READY) in agent_state.gates
    if _holds(agent_state, profile.gates, now, is_open=is_open):
        return ""
    missing = missing_gates(agent_state, profile.gates, now, is_open=is_open)
    blind = next((gate for gate in missing if gate in agent_state.blind), None)
    if blind is not None:
        return f"{blind} could not look: {agent_state.blind[blind].message}"
    count = f"{len(profile.gates) - len(missing)} of {len(profile.gates)} gate checks passed often enough in this boot"
    return f"{count}; not yet {kubernetes_text.few(missing)}" if missing else count
