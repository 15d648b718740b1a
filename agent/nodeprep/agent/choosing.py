"""Which profiles hold for the agent's node, what it had when it was good, and what its gates may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from nodeprep import __version__
from nodeprep.config.profiles import BUILT_IN, Named
from nodeprep.config.waivers import Waiver
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.readiness import Assigned, Mode
from nodeprep.decide.upgrade import with_newcomers
from nodeprep.facts.capture import capture
from nodeprep.facts.cluster import Cluster
from nodeprep.facts.cni import Cni
from nodeprep.facts.devnodes import DevNodes
from nodeprep.facts.links import Links
from nodeprep.facts.modules import Modules
from nodeprep.facts.past import Past, State
from nodeprep.facts.pci import Pci
from nodeprep.facts.rdma import Rdma
from nodeprep.facts.terway import Terway
from nodeprep.look import Look
from nodeprep.profile import Profile, ProfileError, mapping, parse
from nodeprep.question import Chosen, Question, merged, with_baseline

RESTS_ON = frozenset({Pci, Rdma, Terway, Cni, Cluster})  # what a choice of profiles looks at
FORGET = "nodeprep reset --inventory forgets it"
RDMA = "port.present"  # the gate that every profile about RDMA has


@dataclass(frozen=True, slots=True)
class Choice:
    """The profiles in force, and why gates must stay shut whatever passes: what nobody can tell, or nobody knows."""

    chosen: Chosen
    doubts: tuple[str, ...] = ()


def choose(question: Question, look: Look, past: Past) -> Choice:
    """The profiles that hold.

    What hardware once chose is held, and what the configuration last said holds on while nobody can tell what it says.
    Hardware that cannot be seen asks for nothing: that opens no gate, and a node that is ready stays so.
    """
    known = remembered(past)
    strange = [name for name in past.held if name not in BUILT_IN]
    chosen = question.choose(look, [name for name in past.held if name in BUILT_IN])
    if chosen.untold:
        if not known or past.by_hardware:  # what hardware chose is no word of the operator's
            return Choice(chosen, (chosen.untold,))
        by = f"{chosen.untold}; as remembered"
        chosen = replace(chosen, profile=merged(known), parts=known, by=by, by_hardware=False)
    doubts = [chosen.unseen] if chosen.unseen and past.state is not State.READY else []
    for name in strange if chosen.by_hardware or not chosen.parts else ():
        part = next((one for one in known if one.profile.name == name), None)
        if part is None:
            doubts.append(f"hardware once chose {name}, which nodeprep {__version__} does not know; {FORGET}")
            continue
        parts = (*chosen.parts, part)
        chosen = replace(chosen, profile=merged(parts), parts=parts)
    return Choice(with_baseline(chosen, inventory(past)), tuple(doubts))


def assigned(choice: Choice, gate: GatePolicy, mode: Mode, past: Past) -> tuple[Assigned, ...]:
    """The profiles as their gates are reckoned; a doubt stands as one that never opens."""
    unsure = (Assigned("unknown", (), gating=True, rdma=False, refused=doubt) for doubt in choice.doubts)
    if choice.chosen.untold and choice.doubts:
        return tuple(unsure)  # a guess of the hardware's is no word of the operator's
    return (*(_assigned(part, choice.chosen, gate, mode, past) for part in choice.chosen.parts), *unsure)


def _assigned(part: Named, chosen: Chosen, gate: GatePolicy, mode: Mode, past: Past) -> Assigned:
    gating = part.is_one_of(gate.profiles)
    rdma = RDMA in part.profile.gates
    unconfirmed = chosen.by_hardware and rdma and gating and mode is not Mode.OBSERVE
    refused = ""
    if unconfirmed and inventory(past) is None and not gate.allow_auto:
        refused = (
            f"{part.profile.name} was chosen by hardware and nothing says what belongs here: assign a captured "
            "profile, let the node be ready once in mode observe, or set gate.allow-auto"
        )
    return Assigned(part.profile.name, part.profile.gates, gating, rdma, refused)


def renewed(past: Past, chosen: Chosen, now: float, *, configured: bool = False) -> Past:
    """The memory, in which nothing is proven of what a profile asks that this node did not have before.

    A check that had nothing to look for under one profile proves nothing under another. Of a profile that the node had
    only a gate that none of its profiles asked for is to pass anew; if it is open it stays so meanwhile, for a while.
    Passes that are not enough yet begin anew whenever another profile is in force, or the same with other demands.
    `configured`: the configuration changed since the start, so what it asks for now came with no version.
    """
    known = {part["names"][0]: part["profile"].get("gates", ()) for part in past.parts if part.get("names")}
    asked = frozenset(gate for gates in known.values() for gate in gates)
    now_asked = ((part.profile.name, frozenset(part.profile.gates)) for part in chosen.parts)
    came = {name: gates - asked if name in known else gates for name, gates in now_asked}
    past = _waiting(past, chosen)
    strange = frozenset(gate for gates in came.values() for gate in gates)
    changed = bool(strange) or past.profile != mapping(chosen.profile)
    if not changed:
        return past
    proofs = {check: proof for check, proof in past.proofs.items() if proof.proven and check not in strange}
    past = past if proofs == past.proofs else replace(past, proofs=proofs)
    is_open = {name for name, _ in past.gates}
    newcomers = (gate for name in is_open & known.keys() for gate in came.get(name, ()))
    return with_newcomers(past, newcomers, now, configured=configured)


def _waiting(past: Past, chosen: Chosen) -> Past:
    """The memory with the new gates that are still asked for and yet to pass."""
    asked = frozenset(gate for part in chosen.parts for gate in part.profile.gates)
    proven = frozenset(check for check, proof in past.proofs.items() if proof.proven)
    waiting = {gate: until for gate, until in past.unproven_until.items() if gate in asked - proven}
    if waiting == past.unproven_until:
        return past
    came = tuple(gate for gate in past.came_with_version if gate in waiting)
    return replace(past, unproven_until=waiting, came_with_version=came)


def held(past: Past, chosen: Chosen) -> Past:
    """The memory with what was chosen."""
    profile = mapping(chosen.profile)
    parts = tuple({"names": part.names, "profile": mapping(part.profile)} for part in chosen.parts)
    names = tuple(dict.fromkeys((*past.held, *(part.profile.name for part in chosen.parts if chosen.by_hardware))))
    same = past.by_hardware == chosen.by_hardware and past.chosen_by == chosen.by and past.held == names
    if same and (past.profile, past.parts) == (profile, parts):
        return past
    return replace(past, profile=profile, parts=parts, held=names, chosen_by=chosen.by, by_hardware=chosen.by_hardware)


def with_waivers(past: Past, waivers: Iterable[Waiver]) -> Past:
    """The memory with the configuration's waivers, for a `check` that cannot read it."""
    own = tuple({one.name: getattr(waiver, one.name) for one in fields(waiver)} for waiver in waivers)
    return past if past.waivers == own else replace(past, waivers=own)


def with_first_baseline(past: Past, facts: Mapping[type, object]) -> Past:
    """The memory with what a node that is ready for the first time has."""
    look = Look(0.0, live=True, facts=facts)
    rdma = look.get(Rdma)
    if rdma is None:
        return past
    found = capture(
        "baseline",
        rdma,
        pci=look.get(Pci),
        links=look.get(Links),
        devnodes=look.get(DevNodes),
        modules=look.get(Modules),
    )
    return past if found is None else replace(past, baseline=mapping(found))


def remembered(past: Past) -> tuple[Named, ...]:
    """The profiles that were in force when the memory was kept; none if it holds something else."""
    try:
        return tuple(Named(parse(part["profile"]), tuple(part["names"])) for part in past.parts)
    except (ProfileError, KeyError, TypeError):
        return ()


def inventory(past: Past) -> Profile | None:
    """What the node had when it was first ready; None if nothing that can be read says so."""
    try:
        return None if past.baseline is None else parse(past.baseline)
    except ProfileError:
        return None


def seen_enough(kinds: Iterable[type]) -> bool:
    """Whether what a choice rests on was looked at once."""
    return set(kinds) >= RESTS_ON
