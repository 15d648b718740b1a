"""Repairs of the fleet as Nodes and Leases tell them: values in, tables and plain values out.

A Node keeps its last attempts. A Lease of an agent says what it tries, what helped and what did not. What humans
ordered stands on Nodes and on the Lease of the fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodeprep.agent_state import PastAttempt
from nodeprep.cli import page_layout, terminal
from nodeprep.cli.nodes import fleet_table
from nodeprep.decide import attempt_note, fleet_holds, fleet_notes, kubernetes_text, repair_orders, repair_slots
from nodeprep.decide.fleet_notes import FleetLease, RepairNote
from nodeprep.doors import clock
from nodeprep.job_profile import API_VERSION
from nodeprep.values import Value, field

FLEET_WORD = "fleet"  # in place of a Node: what stands on the Lease of the fleet
Times = Mapping[str, float]
# What a note says of a remedy, in words.
SAID: Mapping[str, Callable[[RepairNote], Times]] = {
    "trying": lambda note: note.trying,
    "helped": lambda note: note.helped,
    "did not help": lambda note: note.unhelpful,
    "seen held": lambda note: note.held,
}
ORDER_COLUMNS = ("ORDER", "FOR", "SAYS")
SLOT_COLUMNS = ("SLOT", "HOLDER", "RENEWED", "TIME")
REMEDY_COLUMNS = ("REMEDY", "SAID", "BY", "NEWEST")
FAULT_COLUMNS = ("FAULT", "ON", "NEWEST")
ATTEMPT_COLUMNS = ("TIME", "NODE", "REMEDY", "FOR", "DEVICE", "END")
Row = tuple[str, ...]


class NodeAttempt(Value):
    """One attempt that a Node keeps. `wall` is when it ended, seconds since 1970."""

    node: str
    attempt: PastAttempt


class FleetRepairs(Value):
    """What Nodes and Leases said at `now`, seconds since 1970. `leases` is None where they could not be listed.

    `nodes` are the annotations of each. `named`: only these Nodes were asked for. Leases are those of the whole fleet
    all the same, for a hold rests on them.
    """

    now: float
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    leases: tuple[FleetLease, ...] | None = None
    named: bool = False

    @property
    def attempts(self) -> list[NodeAttempt]:
        """The attempts of all Nodes, newest last."""
        found = [
            NodeAttempt(name, one)
            for name, said in self.nodes.items()
            for one in attempt_note.attempts(said.get(attempt_note.ATTEMPTS, "")) or ()
        ]
        return sorted(found, key=lambda one: (one.attempt.wall, one.node))

    @property
    def notes(self) -> Mapping[str, RepairNote]:
        """What agents say, by Node."""
        said = fleet_holds.notes_of(self.leases or ())
        return {name: note for name, note in said.items() if not self.named or name in self.nodes}

    @property
    def slots(self) -> list[FleetLease]:
        """The slots of the fleet, those of nodes that serve first."""
        found = [one for one in self.leases or () if one.name.startswith(repair_slots.SERVING_SLOT)]
        return sorted(found, key=lambda one: (one.name.startswith(repair_slots.BOOTSTRAP_SLOT), one.name))

    @property
    def orders(self) -> list[Row]:
        """What humans ordered: the kind, for whom, and in words."""
        fleet = next((one.orders for one in self.leases or () if one.name == fleet_holds.FLEET), {})
        found = _orders(FLEET_WORD, fleet, self.now)
        return found + [one for name in sorted(self.nodes) for one in _orders(name, self.nodes[name], self.now)]

    @property
    def holds(self) -> list[str]:
        """What keeps remedies from all nodes, a line each."""
        leases = self.leases or ()
        notes = fleet_holds.notes_of(leases)
        remedies = sorted({one for note in notes.values() for part in (note.unhelpful, note.held) for one in part})
        held = [hold.why for one in remedies if (hold := fleet_holds.held(leases, one, self.now))]
        for fault in sorted({one for note in notes.values() for one in note.faults}):
            until = fleet_holds.correlated_until(notes, fault, self.now)
            if until is not None:
                ends = fleet_table.age(until - self.now)
                held.append(f"{fault} is on several nodes at once, so no node that serves mends it for {ends}")
        return held

    @property
    def troubles(self) -> list[str]:
        """What cannot be read, a line each."""
        blind = [f"Lease {fleet_holds.AGENT}{name}" for name, note in self.notes.items() if note.unreadable]
        lines = [f"{one}: {fleet_notes.NOTE} cannot be read, and counts as every fault" for one in sorted(blind)]
        for name, said in self.nodes.items():
            if attempt_note.attempts(said.get(attempt_note.ATTEMPTS, "")) is None:
                lines.append(f"{name}: {attempt_note.UNREADABLE}")
        return lines


def lines(told: FleetRepairs, width: int | None) -> list[str]:
    """The page: a table for each kind of thing that is said, or a sentence that there is none."""
    page = [terminal.clean(one) for one in told.holds]
    for columns, rows, none in (
        (ORDER_COLUMNS, told.orders, "no repair is paused or approved"),
        (SLOT_COLUMNS, [_slot_row(one, told.now) for one in told.slots if one.holder], _free(told)),
        (REMEDY_COLUMNS, _remedy_rows(told), "no agent says anything of a remedy"),
        (FAULT_COLUMNS, _fault_rows(told), "no agent says that it has a fault"),
        (ATTEMPT_COLUMNS, [_attempt_row(one) for one in told.attempts], "no Node keeps an attempt"),
    ):
        page += [""] if page else []
        page += page_layout.columns([columns, *rows], width) if rows else [none]
        page += [_free(told)] if rows and columns is SLOT_COLUMNS else []
    return page


def document(told: FleetRepairs) -> dict[str, Any]:
    """All of it as plain values; null where the Leases could not be listed."""
    return {
        "apiVersion": API_VERSION,
        "kind": "FleetRepairs",
        "attempts": [_plain_attempt(one) for one in told.attempts],
        "orders": [dict(zip(("kind", "for", "says"), one, strict=True)) for one in told.orders],
        "slots": None if told.leases is None else [_plain_slot(one, told.now) for one in told.slots],
        "agents": None if told.leases is None else {name: _plain_note(one) for name, one in told.notes.items()},
        "holds": None if told.leases is None else told.holds,
        "troubles": told.troubles,
    }


def _orders(whom: str, annotations: Mapping[str, str], now: float) -> list[Row]:
    found: list[Row] = []
    pause = annotations.get(repair_orders.PAUSE)
    if pause is not None:
        found.append(("pause", whom, _pause_words(pause, now)))
    approve = annotations.get(repair_orders.APPROVE)
    if approve is not None:
        found.append(("approve", whom, _approval_words(approve, annotations.get(repair_orders.APPROVED, ""), now)))
    resumed = sorted(key for key in annotations if key.startswith(fleet_holds.RESUMED))
    return found + [
        ("resume", whom, f"{key.removeprefix(fleet_holds.RESUMED)} at {annotations[key]}") for key in resumed
    ]


def _pause_words(text: str, now: float) -> str:
    why, mark, until = text.partition(repair_orders.MARK)
    if not text.strip():
        return "empty, and pauses nothing"
    if not mark:
        return f"{why}, without an end"
    if repair_orders.moment(until) is None:
        return f"{why or 'no reason given'}, until {until!r}, which is no time: it holds"
    return f"{why or 'no reason given'}, until {until}" + ("" if repair_orders.paused(text, now, "") else ": over")


def _approval_words(text: str, used: str, now: float) -> str:
    found = repair_orders.approval(text)
    if found is None:
        return f"{text}: cannot be read, and approves nothing"
    state = ""
    if found.text == used:
        state = ": used"
    elif found.until <= now:
        state = ": over"
    elif repair_orders.is_used(found, used):
        state = ": ends no later than one that was used"
    elif repair_orders.unapproved(found, found.remedy, used, now):
        state = ": approves nothing"
    return f"{found.remedy}, until {repair_orders.time_text(found.until)}{state}"


def _slot_row(slot: FleetLease, now: float) -> Row:
    renewed = "?" if slot.renewed is None else f"{fleet_table.age(now - slot.renewed)} ago"
    return slot.name, slot.holder, renewed, _slot_words(slot, now)


def _slot_words(slot: FleetLease, now: float) -> str:
    if slot.renewed is None or slot.duration is None:
        return "no end can be read: held until a human frees it"
    if repair_slots.is_free(slot, now):
        return "over: the next may take it"
    left = slot.renewed + slot.duration - now
    return f"{fleet_table.age(left)} left" if left > 0 else "ends now"


def _free(told: FleetRepairs) -> str:
    if told.leases is None:
        return "slots are not known"
    free = sum(not one.holder for one in told.slots)
    return (
        f"{free} of {len(told.slots)} slots are free" if told.slots else "there are no slots: apply components/repair"
    )


def _remedy_rows(told: FleetRepairs) -> list[Row]:
    said = {word: _by_name(told.notes, part) for word, part in SAID.items()}
    remedies = sorted({remedy for found in said.values() for remedy in found})
    return [
        (remedy, word, *_by(found[remedy], told.now))
        for remedy in remedies
        for word, found in said.items()
        if remedy in found
    ]


def _fault_rows(told: FleetRepairs) -> list[Row]:
    faults = _by_name(told.notes, lambda note: note.faults)
    return [(fault, *_by(times, told.now)) for fault, times in sorted(faults.items())]


def _by_name(notes: Mapping[str, RepairNote], part: Callable[[RepairNote], Times]) -> Mapping[str, dict[str, float]]:
    """By fault or remedy, the times of the nodes that say it."""
    found: dict[str, dict[str, float]] = {}
    for node, note in notes.items():
        for name, at in part(note).items():
            found.setdefault(name, {})[node] = at
    return found


def _by(times: Times, now: float) -> Row:
    return kubernetes_text.few(sorted(times)), f"{fleet_table.age(now - max(times.values()))} ago"


def _attempt_row(one: NodeAttempt) -> Row:
    attempt = one.attempt
    device = attempt.place if attempt.port is None else f"{attempt.place}/{attempt.port}"
    fault = fleet_notes.fault_name(attempt.check, attempt.reason)
    return _minute(attempt.wall), one.node, attempt.remedy, fault, device, attempt.outcome


def _plain_attempt(one: NodeAttempt) -> dict[str, Any]:
    attempt = one.attempt
    return {
        "node": one.node,
        "time": repair_orders.time_text(attempt.wall),
        "remedy": attempt.remedy,
        "check": attempt.check,
        "reason": attempt.reason,
        "place": attempt.place,
        "port": attempt.port,
        "outcome": attempt.outcome,
    }


def _plain_slot(slot: FleetLease, now: float) -> dict[str, Any]:
    return {
        "name": slot.name,
        "holder": slot.holder or None,
        "renewed": None if slot.renewed is None else repair_orders.time_text(slot.renewed),
        "seconds": slot.duration,
        "free": repair_slots.is_free(slot, now),
    }


def _plain_note(note: RepairNote) -> dict[str, Any]:
    return {
        "faults": _stamped(note.faults),
        "trying": _stamped(note.trying),
        "helped": _stamped(note.helped),
        "unhelpful": _stamped(note.unhelpful),
        "held": _stamped(note.held),
        "unreadable": note.unreadable,
    }


def _stamped(times: Times) -> dict[str, str]:
    return {name: repair_orders.time_text(at) for name, at in sorted(times.items())}


def _minute(at: float) -> str:
    """As the history of a host shows it."""
    known = repair_orders.time_text(at) != repair_orders.NO_MOMENT
    return clock.utc_minute(at) if known else repair_orders.NO_MOMENT
