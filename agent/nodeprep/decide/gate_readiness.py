"""Whether the node is ready, and in which state it is: reads the table of design 3.1 (state_table.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nodeprep.agent_state import DEVICE_STAGE, READY_STAGE, AgentState, Case, NodeState, PastAttempt
from nodeprep.decide import active_faults, attempt_steps, drill_notice, kubernetes_text, stored_state
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.repair_budget import AttemptOutcome
from nodeprep.decide.state_table import GATE_CHECK_FAILS, TABLE, ReadinessPolicy, Situation
from nodeprep.model import Check, Stage
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, replace

__all__ = [
    "AssignedProfile",
    "Hindrance",
    "Mode",
    "ProfileReadiness",
    "ReadinessPolicy",
    "advance",
    "missing_gates",
    "node_gates",
    "open_gates",
    "profile_readiness",
    "state_at_start",
]


# Reasons of a closed gate that no conviction gives, in the words of the Node's conditions.
PROFILE_REFUSED, CANNOT_LOOK, BOOTSTRAP, TO_BE_CONFIRMED = "ProfileRefused", "CannotLook", "Bootstrap", "ToBeConfirmed"
# Why a stored state says nothing about this boot of this node.
BOOTED_ANEW = "the node was booted anew"
ANOTHER_NODE = "the Node is another one than before"
DAMAGED = "the memory holds times that have not come yet: it is damaged"


class Mode(StrEnum):
    """How far the agent may go (design 3.4)."""

    OBSERVE = "observe"
    GATE = "gate"
    REPAIR = "repair"


class AssignedProfile(Value):
    """A profile of this node: its name, its gates, whether it sets the taint (`gating`) and is about RDMA.

    `refusal` says why its gate must not open whatever passes. An example is a profile that no baseline confirms.
    """

    name: str
    gates: tuple[str, ...]
    gating: bool
    rdma: bool
    refusal: str = ""


class Hindrance(Value):
    """What keeps a profile from being ready: `why` for people, and the same as data.

    `reason` is one CamelCase word: that of a fault, else one of this module or a node state. `check` is the id of the
    check whose finding it is, "" if it is none's. `drill` is the name of the drill that made the fault, "" if none did.
    """

    why: str
    reason: str
    check: str = ""
    drill: str = ""


class ProfileReadiness(Value):
    """One profile: whether its device-stage gates hold, whether all do, and if not what keeps it.

    `why`, `reason`, `check` and `drill` are those of its Hindrance, "" if it is ready. `gates` and `refusal` are those
    of the assigned profile.
    """

    name: str
    device: bool
    ready: bool
    gating: bool
    rdma: bool
    why: str = ""
    gates: tuple[str, ...] = ()
    refusal: str = ""
    reason: str = ""
    check: str = ""
    drill: str = ""


def state_at_start(agent_state: AgentState | None, boot_id: str, node_uid: str, now: float) -> AgentState:
    """The agent state at a start: the stored one if it is of this boot and Node, else what outlives a boot.

    Another Node object of this boot has proven nothing, and is the same machine: a latched fault stays latched.
    `agent_state` is None if there is none or if it could not be read. An empty `node_uid`, on either side, is not known
    yet and matches. Call this again once it is known.
    """
    if agent_state is None:
        return AgentState(boot_id, node_uid, since=now, why="no memory of this node that can be read")
    discard_reason = _discard_reason(agent_state, boot_id, node_uid, now)
    if discard_reason:
        agent_state = replace(
            stored_state.surviving_reboot(agent_state),
            boot_id=boot_id,
            node_uid=node_uid or agent_state.node_uid,
            since=now,
            why=discard_reason,
            was_ready=False if _is_another_boot(agent_state, boot_id) else agent_state.was_ready,
            cases=_latched(agent_state.cases) if discard_reason == ANOTHER_NODE else (),
        )
    elif node_uid and not agent_state.node_uid:
        agent_state = replace(agent_state, node_uid=node_uid)
    return attempt_steps.at_start(agent_state, boot_id, now)


def _latched(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Those that are held. No rule that let a gate stay open in spite of one does so on another Node."""
    return tuple(replace(case, deferred_until=None) for case in cases if case.latched)


def unproven(agent_state: AgentState, now: float) -> AgentState:
    """The agent state as after a boot: nothing is proven, and no gate is open."""
    return replace(agent_state, state=NodeState.BOOTSTRAP, since=now, pass_streaks={}, gates=(), all_passing_since=None)


def _is_another_boot(agent_state: AgentState, boot_id: str) -> bool:
    """Whether it is of another boot for certain. Of a damaged memory nobody knows."""
    return bool(boot_id and agent_state.boot_id) and agent_state.boot_id != boot_id


def _discard_reason(agent_state: AgentState, boot_id: str, node_uid: str, now: float) -> str:
    """Why the stored state says nothing about this boot of this node. "" if it does."""
    if not boot_id or agent_state.boot_id != boot_id:
        return BOOTED_ANEW
    plausible = stored_state.has_plausible_times(agent_state, now)
    if node_uid and agent_state.node_uid and node_uid != agent_state.node_uid:
        return ANOTHER_NODE if plausible else DAMAGED
    return "" if plausible else DAMAGED


def node_gates(profiles: Sequence[AssignedProfile] | Sequence[ProfileReadiness]) -> tuple[str, ...]:
    """The checks that decide the node's state: gates of its gating profiles, else of all assigned profiles.

    There are none if no profile demands anything. Such a node is ready after the first looks.
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
    budget_spent: bool = False,
) -> AgentState:
    """The agent state with the next node state, or the same object. Call it again until nothing changes.

    `budget_spent`: no fault with a remedy has a try left.
    """
    seen = _situation(agent_state, tuple(profiles), checks, policy, now, budget_spent=budget_spent)
    since = agent_state.all_passing_since if agent_state.all_passing_since is not None else now
    if agent_state.all_passing_since != (since if seen.all_pass else None):
        agent_state = replace(agent_state, all_passing_since=since if seen.all_pass else None)
    row = next((row for row in TABLE if row.start is agent_state.state and row.event(seen)), None)
    if row is None:
        return _with_current_reason(agent_state, seen)
    about = row.tell(seen)
    if row.to is NodeState.READY and agent_state.was_ready is not True:
        agent_state = replace(agent_state, was_ready=True)
    entered = now
    if row.start is NodeState.VALIDATING and row.to == seen.before and seen.refused_since is not None:
        entered = seen.refused_since  # nothing ran: a node that is refused again and again has stood so all the time
    return replace(
        agent_state, state=row.to, since=entered, why=kubernetes_text.line(f"{row.why}: {about}" if about else row.why)
    )


def _with_current_reason(agent_state: AgentState, seen: Situation) -> AgentState:
    """The same node state with its current reason: one fault may have gone and another may have come."""
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
    budget_spent: bool,
) -> Situation:
    gates = node_gates(profiles)
    chosen = [one for one in profiles if one.gating] or profiles
    missing = missing_gates(agent_state, gates, now, is_open=agent_state.state is NodeState.READY)
    last = agent_state.attempts[-1] if agent_state.attempts else None
    return Situation(
        refusal=next((one.refusal for one in chosen if one.refusal), ""),
        missing_gates=missing,
        proven=not missing and _has_passes(agent_state),
        roots=active_faults.roots(active_faults.convictions(agent_state, gates, now), checks),
        has_suspect=active_faults.suspected_case(agent_state, gates, now) is not None,
        has_blind_gate=any(gate in agent_state.blind for gate in gates),
        state_age=now - agent_state.since,
        passing_seconds=0.0 if agent_state.all_passing_since is None else now - agent_state.all_passing_since,
        now=now,
        policy=policy,
        runs=attempt_steps.is_running(agent_state),
        validates=attempt_steps.is_validating(agent_state),
        repair="" if agent_state.attempt is None else f"{agent_state.attempt.remedy} for {agent_state.attempt.check}",
        before=last.state_before if last is not None else "",
        refused_since=_refused_since(agent_state, last, now),
        budget_spent=budget_spent,
    )


def _refused_since(agent_state: AgentState, last: PastAttempt | None, now: float) -> float | None:
    """Since when the state stood in which a remedy was refused. None if none was, or if nobody can tell."""
    if last is None or last.outcome != AttemptOutcome.REFUSED or last.boot_id != agent_state.boot_id:
        return None
    return last.state_since if 0.0 < last.state_since <= now else None


def missing_gates(
    agent_state: AgentState, gates: Iterable[str], now: float, *, is_open: bool = False
) -> tuple[str, ...]:
    """The gates that have not passed often enough in this boot, except those with time left to do so.

    An open gate stays open for a while if a check that has not passed yet is added to it, and as long as that check
    cannot look (design 3.3). A closed gate does not open without it.
    """
    missing = (
        gate for gate in gates if gate not in agent_state.pass_streaks or not agent_state.pass_streaks[gate].proven
    )
    return tuple(gate for gate in missing if not (is_open and _is_pending(agent_state, gate, now)))


def _is_pending(agent_state: AgentState, gate: str, now: float) -> bool:
    until = agent_state.unproven_until.get(gate)
    return until is not None and (now < until or gate in agent_state.blind)


def _has_passes(agent_state: AgentState) -> bool:
    """Whether any check is proven in this boot. A profile without gates does not open before the first looks."""
    return any(streak.proven for streak in agent_state.pass_streaks.values())


def open_gates(profiles: Iterable[ProfileReadiness]) -> tuple[tuple[str, str], ...]:
    """The gates that should be open, by profile and stage."""
    device = [(one.name, DEVICE_STAGE) for one in profiles if one.device]
    return tuple(sorted((*device, *((one.name, READY_STAGE) for one in profiles if one.ready))))


def profile_readiness(
    agent_state: AgentState,
    profiles: Iterable[AssignedProfile],
    checks: Mapping[str, Check],
    now: float,
    drill: DrillNotice | None = None,
) -> tuple[ProfileReadiness, ...]:
    """Whether each profile is device-ready and ready (design 3.1). What a `drill` made says so."""
    return tuple(_profile_readiness(agent_state, one, checks, now, drill) for one in profiles)


def _profile_readiness(
    agent_state: AgentState,
    profile: AssignedProfile,
    checks: Mapping[str, Check],
    now: float,
    drill: DrillNotice | None,
) -> ProfileReadiness:
    of_devices = tuple(gate for gate in profile.gates if gate not in checks or checks[gate].stage is Stage.DEVICE)
    hindrance = _hindrance(agent_state, profile, checks, now, drill)
    return ProfileReadiness(
        name=profile.name,
        device=not profile.refusal
        and _gates_hold(agent_state, of_devices, now, is_open=(profile.name, DEVICE_STAGE) in agent_state.gates)
        and (
            (profile.name, DEVICE_STAGE) in agent_state.gates
            or active_faults.suspected_case(agent_state, of_devices, now) is None
        ),
        ready=hindrance is None,
        gating=profile.gating,
        rdma=profile.rdma,
        why=kubernetes_text.line(hindrance.why) if hindrance else "",
        gates=profile.gates,
        refusal=profile.refusal,
        reason=hindrance.reason if hindrance else "",
        check=hindrance.check if hindrance else "",
        drill=hindrance.drill if hindrance else "",
    )


def _gates_hold(agent_state: AgentState, gates: tuple[str, ...], now: float, *, is_open: bool) -> bool:
    missing = missing_gates(agent_state, gates, now, is_open=is_open)
    return _has_passes(agent_state) and not missing and not active_faults.convictions(agent_state, gates, now)


def _hindrance(
    agent_state: AgentState,
    profile: AssignedProfile,
    checks: Mapping[str, Check],
    now: float,
    drill: DrillNotice | None,
) -> Hindrance | None:
    """The first thing that keeps a profile from being ready. None if its gates all hold."""
    if profile.refusal:
        return Hindrance(profile.refusal, PROFILE_REFUSED)
    faults = active_faults.roots(active_faults.convictions(agent_state, profile.gates, now), checks, drill)
    if faults:
        first, reason = faults[0], kubernetes_text.reason(faults[0].reason)
        made = drill.name if drill is not None and drill_notice.has_made(drill, first) else ""
        return Hindrance(active_faults.summary(first, drill), reason, first.check, made)
    is_open = (profile.name, READY_STAGE) in agent_state.gates
    if not _gates_hold(agent_state, profile.gates, now, is_open=is_open):
        return _unproven(agent_state, profile, missing_gates(agent_state, profile.gates, now, is_open=is_open))
    suspect = active_faults.suspected_case(agent_state, profile.gates, now)
    if not is_open and suspect is not None:
        why = f"just seen to fail, to be confirmed or to pass first: {active_faults.summary(suspect)}"
        return Hindrance(why, TO_BE_CONFIRMED, suspect.check)
    if profile.gating and agent_state.state is not NodeState.READY:
        return Hindrance(f"the node is {agent_state.state}: {agent_state.why}", agent_state.state.value)
    return None


def _unproven(agent_state: AgentState, profile: AssignedProfile, missing: tuple[str, ...]) -> Hindrance:
    """What keeps a profile without a convicted fault: a gate that cannot look, or one that has yet to pass."""
    blind = next((gate for gate in missing if gate in agent_state.blind), None)
    if blind is not None:
        return Hindrance(f"{blind} could not look: {agent_state.blind[blind].message}", CANNOT_LOOK, blind)
    count = f"{len(profile.gates) - len(missing)} of {len(profile.gates)} gate checks passed often enough in this boot"
    return Hindrance(f"{count}; not yet {kubernetes_text.few(missing)}" if missing else count, BOOTSTRAP)
