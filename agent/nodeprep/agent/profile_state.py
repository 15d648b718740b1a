"""The profiles in the agent state: what a selection changes there, and what keeps the gate of a profile closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep import job_profile, profile_selection
from nodeprep.agent_state import AgentState
from nodeprep.config.profile_files import NamedProfile
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide import rule_change
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.look import Look
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import asdict, replace

RDMA = "port.present"  # the gate that every profile about RDMA has


def assigned_profiles(
    selection: ProfileSelection, gate: GatePolicy, mode: Mode, agent_state: AgentState
) -> tuple[AssignedProfile, ...]:
    """The profiles whose gates count, and for each reason in `undecided` one whose gate never opens."""
    undecided = tuple(
        AssignedProfile("unknown", (), gating=True, rdma=False, refusal=reason) for reason in selection.undecided
    )
    parts = () if selection.is_guess else selection.parts
    return (*(_assigned_profile(part, selection, gate, mode, agent_state) for part in parts), *undecided)


def _assigned_profile(
    part: NamedProfile, selection: ProfileSelection, gate: GatePolicy, mode: Mode, agent_state: AgentState
) -> AssignedProfile:
    gating = part.is_one_of(gate.profiles)
    rdma = RDMA in part.profile.gates
    unconfirmed = selection.by_hardware and rdma and gating and mode is not Mode.OBSERVE
    refusal = ""
    if unconfirmed and profile_selection.baseline(agent_state) is None and not gate.allow_auto:
        refusal = (
            f"{part.profile.name} was chosen by hardware and nothing says what belongs here: assign a captured "
            "profile, let the node be ready once in mode observe, or set gate.allow-auto"
        )
    return AssignedProfile(part.profile.name, part.profile.gates, gating, rdma, refusal)


def with_new_gates(agent_state: AgentState, selection: ProfileSelection, now: float) -> AgentState:
    """The agent state in which a gate that is new to the node has not passed yet.

    If a check passed under one profile, this proves nothing under another: there may have been nothing to check. So all
    gates of a profile that is new to the node must pass again. If the node had the profile before, only a gate that
    none of its profiles asked for must pass again, and an open gate stays open for a while meanwhile. Passes that are
    not enough yet are counted from zero if the selected profiles change in any way.
    """
    known = {part["names"][0]: part["profile"].get("gates", ()) for part in agent_state.parts if part.get("names")}
    asked = frozenset(gate for gates in known.values() for gate in gates)
    now_asked = ((part.profile.name, frozenset(part.profile.gates)) for part in selection.parts)
    came = {name: gates - asked if name in known else gates for name, gates in now_asked}
    agent_state = _with_gates_to_pass(agent_state, selection)
    new = frozenset(gate for gates in came.values() for gate in gates)
    if not new and agent_state.profile == job_profile.mapping(selection.profile):
        return agent_state
    pass_streaks = {
        check: streak for check, streak in agent_state.pass_streaks.items() if streak.proven and check not in new
    }
    agent_state = (
        agent_state if pass_streaks == agent_state.pass_streaks else replace(agent_state, pass_streaks=pass_streaks)
    )
    is_open = {name for name, _ in agent_state.gates}
    newcomers = (gate for name in is_open & known.keys() for gate in came.get(name, ()))
    return rule_change.with_pending_gates(agent_state, newcomers, now)


def _with_gates_to_pass(agent_state: AgentState, selection: ProfileSelection) -> AgentState:
    """The agent state in which `unproven_until` has only gates that are still asked for and have not passed yet."""
    asked = frozenset(gate for part in selection.parts for gate in part.profile.gates)
    proven = frozenset(check for check, streak in agent_state.pass_streaks.items() if streak.proven)
    waiting = {gate: until for gate, until in agent_state.unproven_until.items() if gate in asked - proven}
    if waiting == agent_state.unproven_until:
        return agent_state
    came = tuple(gate for gate in agent_state.came_with_rules if gate in waiting)
    return replace(agent_state, unproven_until=waiting, came_with_rules=came)


def with_selection(agent_state: AgentState, selection: ProfileSelection) -> AgentState:
    """The agent state with the profiles in force; as it was if the selection is temporary."""
    if selection.temporary:
        return agent_state
    parts = tuple(map(_remembered, selection.parts))
    chosen = (part.profile.name for part in selection.parts if selection.by_hardware)
    after = replace(
        agent_state,
        profile=job_profile.mapping(selection.profile),
        want_by=selection.profile.want_by,
        expect_by=selection.profile.expect_by,
        parts=parts,
        hardware_profiles=tuple(dict.fromkeys((*agent_state.hardware_profiles, *chosen))),
        chosen_by=selection.chosen_by,
        by_hardware=selection.by_hardware,
    )
    return agent_state if after == agent_state else after


def _remembered(part: NamedProfile) -> dict[str, object]:
    """A profile as `profile_selection.remembered_profiles` reads it."""
    told: dict[str, object] = {"names": part.names, "profile": job_profile.mapping(part.profile)}
    by = {"want_by": part.profile.want_by, "expect_by": part.profile.expect_by}
    return told | {key: one for key, one in by.items() if one}


def with_waivers(agent_state: AgentState, waivers: Iterable[Waiver]) -> AgentState:
    """The agent state with the configuration's waivers, for a `check` that cannot read the configuration."""
    own = tuple(asdict(waiver) for waiver in waivers)
    return agent_state if agent_state.waivers == own else replace(agent_state, waivers=own)


def with_baseline(agent_state: AgentState, facts: Mapping[type, object]) -> AgentState:
    """The agent state with the devices and ports of a node that is ready for the first time."""
    look = Look(0.0, live=True, facts=facts)
    rdma = look.get(Rdma)
    if rdma is None:
        return agent_state
    found = profile_capture.capture(
        "baseline",
        rdma,
        pci=look.get(Pci),
        links=look.get(Links),
        devnodes=look.get(DevNodes),
        modules=look.get(Modules),
        cluster=look.get(Cluster),
    )
    return agent_state if found is None else replace(agent_state, baseline=job_profile.mapping(found))
