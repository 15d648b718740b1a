"""Whether the node is ready, and what state it is in: walks the table of design 3.1 (states.py) over the memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from nodeprep.decide.against import convictions, roots, suspected, told
from nodeprep.decide.kept import intact, outliving
from nodeprep.decide.legal import few, line
from nodeprep.decide.states import FAILS, NO_REPAIR, TABLE, ReadinessPolicy, Repair, Situation
from nodeprep.facts.past import Past, State
from nodeprep.model import Check, Stage

__all__ = [
    "NO_REPAIR",
    "Assigned",
    "Mode",
    "ProfileStanding",
    "ReadinessPolicy",
    "Repair",
    "advance",
    "begin",
    "missing_gates",
    "node_gates",
    "open_gates",
    "standings",
]


DEVICE, READY = "device", "ready"  # the stages of a profile's gate, as `wait-ready` names them


class Mode(StrEnum):
    """How far the agent may go (design 3.4)."""

    OBSERVE = "observe"
    GATE = "gate"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Assigned:
    """A profile that this node has: its name, its gates, whether it sets the taint (`gating`) and is about RDMA.

    `refused` says why its gate must not open whatever passes, such as a profile that nobody's baseline confirms.
    """

    name: str
    gates: tuple[str, ...]
    gating: bool
    rdma: bool
    refused: str = ""


@dataclass(frozen=True, slots=True)
class ProfileStanding:
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


def begin(past: Past | None, boot_id: str, node_uid: str, now: float) -> Past:
    """The memory at a start: what was kept if it is of this boot and Node, else BOOTSTRAP with what outlives a boot.

    None stands for no memory or one that could not be read. A `node_uid` that is empty, on either side, is not known
    yet and matches; call this again once it is.
    """
    if past is None:
        return Past(boot_id, node_uid, since=now, why="no memory of this node that can be read")
    strange = _strange(past, boot_id, node_uid, now)
    if strange:
        return replace(outliving(past), boot_id=boot_id, node_uid=node_uid or past.node_uid, since=now, why=strange)
    return replace(past, node_uid=node_uid) if node_uid and not past.node_uid else past


def _strange(past: Past, boot_id: str, node_uid: str, now: float) -> str:
    """Why what is remembered says nothing of this boot of this node, "" if it does."""
    if not boot_id or past.boot_id != boot_id:
        return "the node was booted anew"
    if node_uid and past.node_uid and node_uid != past.node_uid:
        return "the Node is another one than before"
    return "" if intact(past, now) else "the memory holds times that have not come yet: it is damaged"


def node_gates(profiles: Sequence[Assigned] | Sequence[ProfileStanding]) -> tuple[str, ...]:
    """The checks that the node's state goes by: gates of its gating profiles, else of all assigned.

    None where no profile demands anything: such a node is ready once it was looked at.
    """
    chosen = [one for one in profiles if one.gating] or profiles
    return tuple(dict.fromkeys(gate for one in chosen for gate in one.gates))


def advance(
    past: Past,
    profiles: Iterable[Assigned],
    checks: Mapping[str, Check],
    policy: ReadinessPolicy,
    now: float,
    *,
    repair: Repair = NO_REPAIR,
) -> Past:
    """The memory with the state that follows; as it is where nothing follows. Call it again until nothing changes."""
    seen = _situation(past, tuple(profiles), checks, policy, now, repair=repair)
    since = past.all_passing_since if past.all_passing_since is not None else now
    if past.all_passing_since != (since if seen.passes else None):
        past = replace(past, all_passing_since=since if seen.passes else None)
    row = next((row for row in TABLE if row.start is past.state and row.event(seen)), None)
    if row is None:
        return _renewed(past, seen)
    about = row.tell(seen)
    return replace(past, state=row.to, since=now, why=line(f"{row.why}: {about}" if about else row.why))


def _renewed(past: Past, seen: Situation) -> Past:
    """The same state, for what keeps it so now: one fault may be gone and another have come."""
    if past.state is not State.UNHEALTHY or not seen.roots:
        return past
    why = line(f"{FAILS}: {told(seen.roots[0])}")
    return past if past.why == why else replace(past, why=why)


def _situation(
    past: Past,
    profiles: tuple[Assigned, ...],
    checks: Mapping[str, Check],
    policy: ReadinessPolicy,
    now: float,
    *,
    repair: Repair,
) -> Situation:
    gates = node_gates(profiles)
    chosen = [one for one in profiles if one.gating] or profiles
    missing = missing_gates(past, gates, now, is_open=past.state is State.READY)
    return Situation(
        refused=next((one.refused for one in chosen if one.refused), ""),
        missing=missing,
        proven=not missing and _looked(past),
        roots=roots(convictions(past, gates, now), checks),
        suspect=suspected(past, gates, now) is not None,
        blind=any(gate in past.blind for gate in gates),
        stood=now - past.since,
        passing=0.0 if past.all_passing_since is None else now - past.all_passing_since,
        now=now,
        policy=policy,
        repair=repair,
    )


def missing_gates(past: Past, gates: Iterable[str], now: float, *, is_open: bool = False) -> tuple[str, ...]:
    """The gates that have not passed often enough in this boot, and for which nobody waits.

    What is open stays so for a while where a gate came to it that is yet to pass, and for as long as that one cannot
    look (design 3.3); nothing opens without it.
    """
    missing = (gate for gate in gates if gate not in past.proofs or not past.proofs[gate].proven)
    return tuple(gate for gate in missing if not (is_open and _is_waited_for(past, gate, now)))


def _is_waited_for(past: Past, gate: str, now: float) -> bool:
    until = past.unproven_until.get(gate)
    return until is not None and (now < until or gate in past.blind)


def _looked(past: Past) -> bool:
    """Whether anything passed at all in this boot: a profile without gates does not open before the first looks."""
    return any(proof.proven for proof in past.proofs.values())


def open_gates(profiles: Iterable[ProfileStanding]) -> tuple[tuple[str, str], ...]:
    """The gates that ought to stand open, by profile and stage."""
    device = [(one.name, DEVICE) for one in profiles if one.device]
    return tuple(sorted((*device, *((one.name, READY) for one in profiles if one.ready))))


def standings(
    past: Past, profiles: Iterable[Assigned], checks: Mapping[str, Check], now: float
) -> tuple[ProfileStanding, ...]:
    """Whether each profile is device-ready and ready (design 3.1)."""
    return tuple(_standing(past, one, checks, now) for one in profiles)


def _standing(past: Past, profile: Assigned, checks: Mapping[str, Check], now: float) -> ProfileStanding:
    of_devices = tuple(gate for gate in profile.gates if gate not in checks or checks[gate].stage is Stage.DEVICE)
    why = _in_the_way(past, profile, checks, now)
    suspect = suspected(past, profile.gates, now)
    if not why and (profile.name, READY) not in past.gates and suspect is not None:
        why = f"just seen to fail, to be confirmed or to pass first: {told(suspect)}"
    if not why and profile.gating and past.state is not State.READY:
        why = f"the node is {past.state}: {past.why}"
    return ProfileStanding(
        name=profile.name,
        device=not profile.refused
        and _holds(past, of_devices, now, is_open=(profile.name, DEVICE) in past.gates)
        and ((profile.name, DEVICE) in past.gates or suspected(past, of_devices, now) is None),
        ready=not why,
        gating=profile.gating,
        rdma=profile.rdma,
        why=line(why),
        gates=profile.gates,
        refused=profile.refused,
    )


def _holds(past: Past, gates: tuple[str, ...], now: float, *, is_open: bool) -> bool:
    missing = missing_gates(past, gates, now, is_open=is_open)
    return _looked(past) and not missing and not convictions(past, gates, now)


def _in_the_way(past: Past, profile: Assigned, checks: Mapping[str, Check], now: float) -> str:
    """The first thing that keeps a profile from being ready, "" if its gates all hold."""
    if profile.refused:
        return profile.refused
    against = roots(convictions(past, profile.gates, now), checks)
    if against:
        return told(against[0])
    is_open = (profile.name, READY) in past.gates
    if _holds(past, profile.gates, now, is_open=is_open):
        return ""
    missing = missing_gates(past, profile.gates, now, is_open=is_open)
    blind = next((gate for gate in missing if gate in past.blind), None)
    if blind is not None:
        return f"{blind} could not look: {past.blind[blind].message}"
    count = f"{len(profile.gates) - len(missing)} of {len(profile.gates)} gate checks passed often enough in this boot"
    return f"{count}; not yet {few(missing)}" if missing else count
