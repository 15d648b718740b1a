"""What the Leases of all agents say against a repair: paused, correlated, held, or being tried out elsewhere.

- *Correlated*: the same fault on several serving nodes at once is no fault of these nodes, but of a switch, a release
  or a configuration. It holds for a while after the last of them. New nodes have the same fault as a rule, so they are
  neither counted nor held.
- *Held*: a remedy that within a day ended on several nodes without a release, and helped none of them since, does not
  help. It holds until a human resumes it.
- *Tried out*: while no node says that a remedy helped, as many nodes at most try it as may fail before it is held. So a
  remedy that never helps ends with the third node, also where ten begin at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nodeprep.decide import fleet_notes, repair_orders
from nodeprep.decide.fleet_notes import SKEW_SECONDS, FleetLease, RepairNote
from nodeprep.decide.repair_refusal import SuppressionReason
from nodeprep.values import Value, replace

FLEET = "nodeprep-repair"  # the Lease on which humans pause and resume; no agent may write it
AGENT = "agent-"  # followed by a node: the Lease of its agent
RESUMED = "nodeprep.io/resumed."  # followed by a remedy: an annotation on it with a time, RFC 3339
NODES_LIMIT = 3  # nodes with the same fault, or on which a remedy did not help
WINDOW_SECONDS = 600.0  # seconds within which they have the same fault
UNHELPFUL_SECONDS = 86400.0  # seconds within which it did not help: over months each remedy meets three broken cables
HOLD_SECONDS = 1800.0  # seconds for which it holds after the last of them
TRYING_SECONDS = 900.0  # seconds after which somebody who tried is taken for gone: the longest play, and its validation


class FleetHindrance(Value):
    """What holds a remedy back in the whole fleet, and since when a human has to look (`held`: the wall time, or 0)."""

    reason: SuppressionReason
    why: str
    held_at: float = 0.0


def hindrance(
    leases: Iterable[FleetLease], node: str, fault: str, remedy: str, wall: float, *, serving: bool
) -> FleetHindrance | None:
    """What holds this remedy for this fault back on this node, None for nothing.

    `fault` is as in `fleet_notes.fault_name`, `wall` is seconds since 1970.
    """
    known = {lease.name: lease for lease in leases}
    fleet = known.get(FLEET)
    if fleet is None:
        return FleetHindrance(SuppressionReason.SLOT, f"there is no Lease {FLEET}: apply components/repair")
    paused = repair_orders.paused(fleet.orders.get(repair_orders.PAUSE), wall, f"the fleet (Lease {FLEET})")
    if paused:
        return FleetHindrance(SuppressionReason.PAUSED, paused)
    notes = believed(known.values(), wall)
    if node not in notes:
        why = f"the list has no Lease {AGENT}{node}: what this agent says of itself is not there yet"
        return FleetHindrance(SuppressionReason.SLOT, why)
    return (
        _held(notes, remedy, _resumed(fleet, remedy, wall), wall)
        or (_correlated(notes, fault, wall) if serving else None)
        or _tried_out(notes, node, remedy, _resumed(fleet, remedy, wall), wall)
    )


def notes_of(leases: Iterable[FleetLease]) -> Mapping[str, RepairNote]:
    """What each agent says, by its node."""
    return {node: lease.note for node, lease in _of_agents(leases)}


def believed(leases: Iterable[FleetLease], wall: float) -> Mapping[str, RepairNote]:
    """What each agent says, by its node, as far as it can be so at `wall`, seconds since 1970.

    A time that has not come yet is none at which a remedy helped or was seen held: it would outlast each human's
    word. That it did not help is believed all the same, and `nodeprep repair resume` names who says so. An agent
    that renewed nothing for longer than a remedy takes is gone with its node: it tries nothing any more, and what
    ran there did not help.
    """
    return {node: _believed(lease, wall) for node, lease in _of_agents(leases)}


def _of_agents(leases: Iterable[FleetLease]) -> Iterator[tuple[str, FleetLease]]:
    return ((one.name.removeprefix(AGENT), one) for one in leases if one.name.startswith(AGENT))


def _believed(lease: FleetLease, wall: float) -> RepairNote:
    note = lease.note
    note = replace(note, helped=_past(note.helped, wall), held=_past(note.held, wall))
    if lease.renewed is None or wall - lease.renewed <= TRYING_SECONDS:
        return note
    died = {remedy: lease.renewed for remedy, at in note.trying.items() if at == fleet_notes.UNDER_WAY}
    return replace(note, trying={}, unhelpful={**note.unhelpful, **died})


def _past(times: Mapping[str, float], wall: float) -> dict[str, float]:
    return {remedy: at for remedy, at in times.items() if at <= wall + SKEW_SECONDS}


def held(leases: Iterable[FleetLease], remedy: str, wall: float) -> FleetHindrance | None:
    """What holds a remedy in the whole fleet because it did not help, None for nothing, at `wall` (since 1970)."""
    known = tuple(leases)
    return _held(believed(known, wall), remedy, resumed_at(known, remedy, wall), wall)


def against(leases: Iterable[FleetLease], remedy: str, wall: float) -> Mapping[str, float]:
    """When a remedy last did not help or was seen held, by the node that says so, since a human last resumed it."""
    known = tuple(leases)
    since = resumed_at(known, remedy, wall)
    said = {
        node: max(note.unhelpful.get(remedy, 0.0), note.held.get(remedy, 0.0))
        for node, note in believed(known, wall).items()
    }
    return {node: at for node, at in said.items() if at > since}


def resumed_at(leases: Iterable[FleetLease], remedy: str, wall: float) -> float:
    """When a human last resumed a remedy, seconds since 1970; 0 for never."""
    fleet = next((lease for lease in leases if lease.name == FLEET), None)
    return 0.0 if fleet is None else _resumed(fleet, remedy, wall)


def correlated_until(notes: Mapping[str, RepairNote], fault: str, wall: float) -> float | None:
    """Until when a fault is held as that of several nodes, seconds since 1970; None if it is not.

    A node that says what nobody can read counts as one that has it now.
    """
    times = sorted(min(note.faults[fault], wall) for note in notes.values() if fault in note.faults)
    times += [wall] * sum(note.unreadable for note in notes.values())
    found = [
        last + HOLD_SECONDS
        for first, last in zip(times, times[NODES_LIMIT - 1 :], strict=False)
        if last - first <= WINDOW_SECONDS
    ]
    until = max(found, default=0.0)
    return until if wall < until else None


def _correlated(notes: Mapping[str, RepairNote], fault: str, wall: float) -> FleetHindrance | None:
    until = correlated_until(notes, fault, wall)
    if until is None:
        return None
    nodes = sorted(node for node, note in notes.items() if fault in note.faults)
    why = (
        f"{fault} is on {len(nodes)} nodes within {WINDOW_SECONDS / 60:g} min ({_few(nodes)}): look for what they"
        f" share, such as a switch or a change of configuration; repairs go on in {max(until - wall, 0) / 60:.0f} min"
    )
    return FleetHindrance(SuppressionReason.CORRELATED, why)


def _held(notes: Mapping[str, RepairNote], remedy: str, resumed: float, wall: float) -> FleetHindrance | None:
    """A hold that another agent saw counts too: the nodes on which a remedy failed may be gone by now."""
    failed = {node: at for node, note in notes.items() if (at := note.unhelpful.get(remedy)) is not None}
    failed = {node: at for node, at in failed.items() if at > max(resumed, wall - UNHELPFUL_SECONDS)}
    blind = [node for node, note in notes.items() if note.unreadable]
    seen = {node: at for node, note in notes.items() if (at := note.held.get(remedy, 0.0)) > resumed}
    if not seen and (len(failed) + len(blind) < NODES_LIMIT or not failed):
        return None
    at = max([*seen.values(), *failed.values()])
    nodes = _few(sorted([*failed, *blind]))
    where = f"on {nodes}" if nodes else f"on several nodes, as {_few(sorted(seen))} saw"
    why = (
        f"{remedy} ended without a release {where}, so no node runs it: find out why, then"
        f" nodeprep repair resume --remedy {remedy}"
    )
    return FleetHindrance(SuppressionReason.HELD, why, min(at, wall))


def _tried_out(
    notes: Mapping[str, RepairNote], node: str, remedy: str, resumed: float, wall: float
) -> FleetHindrance | None:
    """Who tries it in vain so far leaves fewer to try, unless it helped somewhere since a human last looked."""
    if any(note.helped.get(remedy, 0.0) > resumed for note in notes.values()):
        return None
    since = max(resumed, wall - UNHELPFUL_SECONDS)
    failed = {other for other, note in notes.items() if note.unhelpful.get(remedy, 0.0) > since}
    own = (min(notes[node].trying.get(remedy, wall), wall), node)
    first = sorted(
        other
        for other, note in notes.items()
        if other not in failed | {node} and _tries(note, remedy, wall) and (min(note.trying[remedy], wall), other) < own
    )
    if len(first) + len(failed - {node}) < NODES_LIMIT:
        return None
    why = f"{remedy} has helped nowhere yet and is tried out on {_few(sorted({*first, *failed}))}: then comes this node"
    return FleetHindrance(SuppressionReason.SLOT, why)


def _tries(note: RepairNote, remedy: str, wall: float) -> bool:
    at = note.trying.get(remedy)
    return at is not None and (at == fleet_notes.UNDER_WAY or wall - at < TRYING_SECONDS)


def _resumed(fleet: FleetLease, remedy: str, wall: float) -> float:
    """When a human last resumed a remedy, seconds since 1970. What cannot be read, or is to come, resumes nothing."""
    at = repair_orders.moment(fleet.orders.get(f"{RESUMED}{remedy}", ""))
    return 0.0 if at is None or at > wall + fleet_notes.SKEW_SECONDS else at


def _few(nodes: list[str]) -> str:
    more = len(nodes) - NODES_LIMIT
    return ", ".join(nodes[:NODES_LIMIT]) + (f" and {more} more" if more > 0 else "")
