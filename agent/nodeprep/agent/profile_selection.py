"""Which profiles hold for the agent's node, what it had when it was good, and what its gates may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep import __version__, assessment, job_profile
from nodeprep.agent_state import AgentState, NodeState
from nodeprep.assessment import ProfileSelection, Question
from nodeprep.config.profile_files import BUILT_IN, NamedProfile
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide import upgrade
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, asdict, replace

RESTS_ON = frozenset({Pci, Rdma, Terway, Cni, Cluster})  # what a choice of profiles looks at
FORGET = "nodeprep reset --inventory forgets it"
RDMA = "port.present"  # the gate that every profile about RDMA has


class GuardedSelection(Value):
    """The profiles in force, and why gates must stay shut whatever passes: what nobody can tell, or nobody knows."""

    chosen: ProfileSelection
    doubts: tuple[str, ...] = ()


def choose(question: Question, look: Look, agent_state: AgentState) -> GuardedSelection:
    """The profiles that hold.

    What hardware once chose is held, and what the configuration last said holds on while nobody can tell what it says.
    Hardware that cannot be seen asks for nothing: that opens no gate, and a node that is ready stays so.
    """
    known = remembered(agent_state)
    strange = [name for name in agent_state.held if name not in BUILT_IN]
    chosen = question.choose(look, [name for name in agent_state.held if name in BUILT_IN])
    if chosen.untold:
        if not known or agent_state.by_hardware:  # what hardware chose is no word of the operator's
            return GuardedSelection(chosen, (chosen.untold,))
        by = f"{chosen.untold}; as remembered"
        chosen = replace(chosen, profile=assessment.merged(known), parts=known, by=by, by_hardware=False)
    doubts = [chosen.unseen] if chosen.unseen and agent_state.state is not NodeState.READY else []
    for name in strange if chosen.by_hardware or not chosen.parts else ():
        part = next((one for one in known if one.profile.name == name), None)
        if part is None:
            doubts.append(f"hardware once chose {name}, which nodeprep {__version__} does not know; {FORGET}")
            continue
        parts = (*chosen.parts, part)
        chosen = replace(chosen, profile=assessment.merged(parts), parts=parts)
    return GuardedSelection(assessment.with_baseline(chosen, inventory(agent_state)), tuple(doubts))


def assigned(
    choice: GuardedSelection, gate: GatePolicy, mode: Mode, agent_state: AgentState
) -> tuple[AssignedProfile, ...]:
    """The profiles as their gates are reckoned; a doubt stands as one that never opens."""
    unsure = (AssignedProfile("unknown", (), gating=True, rdma=False, refused=doubt) for doubt in choice.doubts)
    if choice.chosen.untold and choice.doubts:
        return tuple(unsure)  # a guess of the hardware's is no word of the operator's
    return (*(_assigned(part, choice.chosen, gate, mode, agent_state) for part in choice.chosen.parts), *unsure)


def _assigned(
    part: NamedProfile, chosen: ProfileSelection, gate: GatePolicy, mode: Mode, agent_state: AgentState
) -> AssignedProfile:
    gating = part.is_one_of(gate.profiles)
    rdma = RDMA in part.profile.gates
    unconfirmed = chosen.by_hardware and rdma and gating and mode is not Mode.OBSERVE
    refused = ""
    if unconfirmed and inventory(agent_state) is None and not gate.allow_auto:
        refused = (
            f"{part.profile.name} was chosen by hardware and nothing says what belongs here: assign a captured "
            "profile, let the node be ready once in mode observe, or set gate.allow-auto"
        )
    return AssignedProfile(part.profile.name, part.profile.gates, gating, rdma, refused)


def renewed(agent_state: AgentState, chosen: ProfileSelection, now: float, *, configured: bool = False) -> AgentState:
    """The memory, in which nothing is proven of what a profile asks that this node did not have before.

    A check that had nothing to look for under one profile proves nothing under another. Of a profile that the node had
    only a gate that none of its profiles asked for is to pass anew; if it is open it stays so meanwhile, for a while.
    Passes that are not enough yet begin anew whenever another profile is in force, or the same with other demands.
    `configured`: the configuration changed since the start, so what it asks for now came with no version.
    """
    known = {part["names"][0]: part["profile"].get("gates", ()) for part in agent_state.parts if part.get("names")}
    asked = frozenset(gate for gates in known.values() for gate in gates)
    now_asked = ((part.profile.name, frozenset(part.profile.gates)) for part in chosen.parts)
    came = {name: gates - asked if name in known else gates for name, gates in now_asked}
    agent_state = _waiting(agent_state, chosen)
    strange = frozenset(gate for gates in came.values() for gate in gates)
    changed = bool(strange) or agent_state.profile != job_profile.mapping(chosen.profile)
    if not changed:
        return agent_state
    pass_streaks = {
        check: streak for check, streak in agent_state.pass_streaks.items() if streak.proven and check not in strange
    }
    agent_state = (
        agent_state if pass_streaks == agent_state.pass_streaks else replace(agent_state, pass_streaks=pass_streaks)
    )
    is_open = {name for name, _ in agent_state.gates}
    newcomers = (gate for name in is_open & known.keys() for gate in came.get(name, ()))
    return upgrade.with_newcomers(agent_state, newcomers, now, configured=configured)


def _waiting(agent_state: AgentState, chosen: ProfileSelection) -> AgentState:
    """The memory with the new gates that are still asked for and yet to pass."""
    asked = frozenset(gate for part in chosen.parts for gate in part.profile.gates)
    proven = frozenset(check for check, streak in agent_state.pass_streaks.items() if streak.proven)
    waiting = {gate: until for gate, until in agent_state.unproven_until.items() if gate in asked - proven}
    if waiting == agent_state.unproven_until:
        return agent_state
    came = tuple(gate for gate in agent_state.came_with_version if gate in waiting)
    return replace(agent_state, unproven_until=waiting, came_with_version=came)


def held(agent_state: AgentState, chosen: ProfileSelection) -> AgentState:
    """The memory with what was chosen."""
    profile = job_profile.mapping(chosen.profile)
    parts = tuple({"names": part.names, "profile": job_profile.mapping(part.profile)} for part in chosen.parts)
    names = tuple(
        dict.fromkeys((*agent_state.held, *(part.profile.name for part in chosen.parts if chosen.by_hardware)))
    )
    same = (
        agent_state.by_hardware == chosen.by_hardware
        and agent_state.chosen_by == chosen.by
        and agent_state.held == names
    )
    if same and (agent_state.profile, agent_state.parts) == (profile, parts):
        return agent_state
    return replace(
        agent_state, profile=profile, parts=parts, held=names, chosen_by=chosen.by, by_hardware=chosen.by_hardware
    )


def with_waivers(agent_state: AgentState, waivers: Iterable[Waiver]) -> AgentState:
    """The memory with the configuration's waivers, for a `check` that cannot read it."""
    own = tuple(asdict(waiver) for waiver in waivers)
    return agent_state if agent_state.waivers == own else replace(agent_state, waivers=own)


def with_first_baseline(agent_state: AgentState, facts: Mapping[type, object]) -> AgentState:
    """The memory with what a node that is ready for the first time has."""
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
    )
    return agent_state if found is None else replace(agent_state, baseline=job_profile.mapping(found))


def remembered(agent_state: AgentState) -> tuple[NamedProfile, ...]:
    """The profiles that were in force when the memory was kept; none if it holds something else."""
    try:
        return tuple(
            NamedProfile(job_profile.parse(part["profile"]), tuple(part["names"])) for part in agent_state.parts
        )
    except (InvalidValueError, KeyError, TypeError):
        return ()


def inventory(agent_state: AgentState) -> Profile | None:
    """What the node had when it was first ready; None if nothing that can be read says so."""
    try:
        return None if agent_state.baseline is None else job_profile.parse(agent_state.baseline)
    except InvalidValueError:
        return None


def seen_enough(kinds: Iterable[type]) -> bool:
    """Whether what a choice rests on was looked at once."""
    return set(kinds) >= RESTS_ON
