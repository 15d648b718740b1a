"""What agents tell each other about repairs: one annotation on the Lease of each agent, which only that agent writes.

Nobody watches nodes. An agent that wants to repair writes its own note first and then lists the Leases, so of several
that want the same at once, the last to write sees them all. A note that cannot be read counts as a node that says
everything: it brings a hold nearer, and never ends one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from nodeprep.agent_state import AgentState, Case
from nodeprep.decide import attempt_steps
from nodeprep.decide.repair_budget import AttemptOutcome, BudgetClock
from nodeprep.values import Value, asdict, field, field_names, replace

NOTE = "agent.nodeprep.io/repair"  # the annotation, on the Lease of an agent
NOTE_LIMIT_CHARACTERS = 4096  # of an annotation that is read; ours has some hundreds
ENTRIES_LIMIT = 32  # of one kind in a note, the newest: faults and remedies are closed sets of some dozens
KEY_LIMIT_CHARACTERS = 160
UNDER_WAY = 0.0  # instead of a time: the remedy runs, so no clock says that somebody comes before it
SKEW_SECONDS = 60.0  # seconds by which clocks of nodes and of people may differ
FAULT_MEMORY_SECONDS = 2400.0  # for which a fault stays in the note: the window and the hold of fleet_holds


class RepairNote(Value):
    """What one agent says: by fault or remedy, a time in seconds since 1970.

    `faults` ("check/reason") are convictions of a node that serves. `trying` is the remedy that it is about to run or
    runs. `helped` and `unhelpful` are remedies that ended there with and without a release. `held` are remedies that it
    saw held in the fleet. `unreadable`: it says something that nobody can read.
    """

    faults: Mapping[str, float] = field(default_factory=dict)
    trying: Mapping[str, float] = field(default_factory=dict)
    helped: Mapping[str, float] = field(default_factory=dict)
    unhelpful: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    unreadable: bool = False


PARTS = tuple(name for name in field_names(RepairNote) if name != "unreadable")
UNREADABLE = RepairNote(unreadable=True)
NOTHING_SAID = RepairNote()


class FleetLease(Value):
    """A Lease of our namespace: an agent's, a slot, or the fleet's own.

    `renewed` is seconds since 1970, `duration` seconds, None where it is not set or no such thing. `note` is what an
    agent's says. `orders` are the annotations that humans write, by key; they count on the fleet's own Lease.
    """

    name: str
    holder: str = ""
    renewed: float | None = None
    duration: float | None = None
    version: str = ""
    note: RepairNote = NOTHING_SAID
    orders: Mapping[str, str] = field(default_factory=dict)


def fault_name(check: str, reason: str) -> str:
    """What is the same fault on several nodes: never a device, for each node has its own."""
    return f"{check}/{reason}"


def note(
    state: AgentState, faults: Iterable[Case], serving: bool, trying: Mapping[str, float], clock: BudgetClock
) -> RepairNote:
    """What this agent says now. `faults` are its convictions that close a gate.

    `trying` is the remedy that it wants to run, with the time at which it first said so: who says so anew each time
    would let others pass (`fleet_holds`). For one that runs, the time is UNDER_WAY.
    """
    attempt = state.attempt
    hung = {attempt.remedy: attempt.wall} if attempt is not None and attempt_steps.is_hung(attempt, clock.now) else {}
    return RepairNote(
        faults=_faults(state, faults, clock) if serving else {},
        trying=trying,
        helped=_newest(state.helped),
        unhelpful=_newest({**state.unhelpful, **hung}),
        held=_newest(state.held),
    )


def text(said: RepairNote) -> str:
    """The annotation: what is empty is left out."""
    told = {name: part for name, part in asdict(said).items() if name in PARTS and part}
    return json.dumps(told, separators=(",", ":"), sort_keys=True)


def parsed(annotation: str | None) -> RepairNote:
    """What an annotation says. Keys of a newer version are passed over."""
    if annotation is None:
        return NOTHING_SAID
    if len(annotation) > NOTE_LIMIT_CHARACTERS:
        return UNREADABLE
    try:
        found = json.loads(annotation)
        if not isinstance(found, dict):
            return UNREADABLE
        return replace(NOTHING_SAID, **{name: _times(found[name]) for name in PARTS if name in found})
    except (ValueError, TypeError, RecursionError, OverflowError):  # the last: a number of 400 digits is no float
        return UNREADABLE


def _times(given: object) -> Mapping[str, float]:
    if not isinstance(given, dict) or len(given) > ENTRIES_LIMIT:
        raise TypeError("no mapping of times")
    return {_key(name): _moment(at) for name, at in given.items()}


def _key(name: str) -> str:
    if len(name) > KEY_LIMIT_CHARACTERS:
        raise ValueError("no name of a fault or remedy")
    return name


def _moment(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise TypeError("no time")
    return float(given)


def _faults(state: AgentState, faults: Iterable[Case], clock: BudgetClock) -> Mapping[str, float]:
    """Convictions, and faults that were tried lately: one that is mended tells as much about the fleet.

    What a node had before it was Ready tells nothing: new nodes have the same fault as a rule.
    """
    found: dict[str, float] = {}
    for past in state.attempts:
        is_of_now = clock.wall - past.wall < FAULT_MEMORY_SECONDS and past.outcome != AttemptOutcome.CUT_OFF
        if is_of_now and past.serving:
            found[fault_name(past.check, past.reason)] = past.wall
    for case in faults:
        if case.convicted_at is not None:
            found[fault_name(case.check, case.reason)] = clock.wall - max(clock.now - case.convicted_at, 0.0)
    return _newest(found)


def _newest(times: Mapping[str, float]) -> Mapping[str, float]:
    return dict(sorted(times.items(), key=lambda one: one[1])[-ENTRIES_LIMIT:])
