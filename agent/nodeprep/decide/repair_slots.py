"""Which Lease a node takes before it repairs: so few nodes at once that a remedy that harms does not harm many.

The operator makes the Leases (components/repair), so there are never more slots than that. A node that was Ready in
this boot may serve jobs, and takes one of few. A new node serves nobody yet, and has slots of its own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide.fleet_notes import SKEW_SECONDS, FleetLease
from nodeprep.decide.repair_policy import RepairPolicy
from nodeprep.values import Value, replace

SERVING_SLOT = "nodeprep-slot-"  # followed by a number from 0; the admission policy knows this prefix
BOOTSTRAP_SLOT = "nodeprep-slot-bootstrap-"
# Seconds that a slot is longer than the deadline of the play. A holder that loses the API server right after it took
# the slot may begin 40 s later (RepairWaits.fresh and .unknown), and its play may outlive its deadline by two minutes
# (repair/remediator). Its clock and that of who takes the slot may differ by two minutes more (SKEW_SECONDS each).
MARGIN_SECONDS = 240.0
NEW_NODE_SECONDS = 3600.0  # age of a Node up to which it may be new; as readiness.bootstrap-limit
RENEWAL_SECONDS = 60.0  # seconds between two renewals while an attempt is under way

STATES_OF_NEW_NODES = (NodeState.BOOTSTRAP, NodeState.REPAIRING, NodeState.VALIDATING, NodeState.AWAITING_HUMAN)


class SlotChoice(Value):
    """The slot to take, "" for none, and then why. `is_own`: this node holds it already, from before a restart."""

    name: str = ""
    version: str = ""
    why: str = ""
    is_own: bool = False


def is_serving(state: AgentState) -> bool:
    """Whether the node was Ready in this boot, so that jobs may run here. What nobody knows counts as yes."""
    return state.was_ready is not False or state.state not in STATES_OF_NEW_NODES


def met(state: AgentState, stated: str, age: float | None) -> AgentState:
    """The agent state of an agent without a memory that reads the Node for the first time.

    `stated` is what the Node says of its state (nodeprep.io/state), and `age` is that of the Node object in seconds,
    None if nobody knows. A young Node of which no agent of ours ever said any is new. Else its memory was lost, or
    nodeprep was just installed on a fleet that works, and it may serve.
    """
    is_young = age is not None and -SKEW_SECONDS <= age < NEW_NODE_SECONDS  # of a Node of tomorrow nobody knows
    return replace(state, was_ready=False) if state.was_ready is None and not stated and is_young else state


def unguarded(state: AgentState) -> AgentState:
    """The agent state of a node that no taint of ours keeps jobs from: it may serve, though it was never Ready."""
    return replace(state, was_ready=None) if state.was_ready is False else state


def duration(deadline: float) -> float:
    """For how many seconds a slot is taken for a play with this deadline."""
    return deadline + MARGIN_SECONDS


def names(policy: RepairPolicy, *, serving: bool) -> tuple[str, ...]:
    """The names of the slots that such a node may take."""
    prefix, count = (SERVING_SLOT, policy.slots) if serving else (BOOTSTRAP_SLOT, policy.bootstrap_slots)
    return tuple(f"{prefix}{number}" for number in range(count))


def choice(leases: Iterable[FleetLease], node: str, policy: RepairPolicy, wall: float, *, serving: bool) -> SlotChoice:
    """The slot that this node holds, else one that is free or whose time is over."""
    found = {lease.name: lease for lease in leases}
    wanted = names(policy, serving=serving)
    there = [found[name] for name in wanted if name in found]
    if not there:
        return SlotChoice(why=f"there is no Lease {wanted[0] if wanted else SERVING_SLOT}: apply components/repair")
    own = next((lease for lease in there if lease.holder == node), None)
    if own is not None:
        return SlotChoice(own.name, own.version, is_own=True)
    start = zlib.crc32(node.encode()) % len(there)  # of many that ask at once few want the same
    free = next((lease for lease in (*there[start:], *there[:start]) if is_free(lease, wall)), None)
    if free is not None:
        return SlotChoice(free.name, free.version)
    holders = ", ".join(sorted({lease.holder for lease in there}))
    return SlotChoice(why=f"as many nodes as may are in repair: {holders} ({len(there)} of {len(there)} slots)")


def is_free(lease: FleetLease, wall: float) -> bool:
    """Whether nobody holds a slot at `wall`, seconds since 1970. One whose time cannot be read is held."""
    if not lease.holder:
        return True
    if lease.renewed is None or lease.duration is None or not math.isfinite(lease.renewed + lease.duration):
        return False
    return wall - lease.renewed > lease.duration + SKEW_SECONDS  # a slot counts as taken for so much longer
