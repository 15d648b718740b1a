"""What the Node object tells the agent: its uid, a human's request to start over, and what it keeps for a lost disk."""

from __future__ import annotations

from nodeprep import __version__, profile_selection
from nodeprep.agent import profile_state
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import BUILT_IN
from nodeprep.decide import attempt_note, desired, gate_readiness, repair_slots
from nodeprep.decide.attempt_note import ATTEMPTS
from nodeprep.decide.desired import HARDWARE_PROFILES_ANNOTATION, RESET_DONE_ANNOTATION, AgentTrouble, Desired
from nodeprep.decide.repair_budget import BudgetClock
from nodeprep.decide.repair_orders import APPROVED
from nodeprep.publish.publisher import NodeAnnotations
from nodeprep.values import Value, replace

INVENTORY = "inventory"  # ends a request to start over that also forgets devices and the hardware's profiles


class NodeMeeting(Value):
    """The agent state after the Node was read.

    `is_new`: the Node is another object than before. `reset`: a human asks the agent to start over; `inventory`: it
    also forgets the devices and the hardware's profiles. `forgotten` says why nobody knows what was tried here.
    """

    agent_state: AgentState
    is_new: bool = False
    reset: bool = False
    inventory: bool = False
    forgotten: str = ""


def meet_node(agent_state: AgentState, heard: NodeAnnotations, at: BudgetClock, *, forgetful: bool) -> NodeMeeting:
    """The agent state after the Node was read. Another Node object of the same name has proven nothing.

    `forgetful`: there was no state file at the start, so the agent takes what the Node kept. A node whose disk was lost
    must not look like a node that never had what it lost, nor like one on which nothing was tried.
    """
    kept, forgotten = dict(heard.annotations), ""
    is_new = heard.uid not in ("", agent_state.node_uid)
    known = agent_state.node_uid
    if is_new:
        agent_state = replace(
            gate_readiness.state_at_start(agent_state, agent_state.boot_id, heard.uid, at.now),
            node_uid=heard.uid,
            version=__version__,
            configuration=agent_state.configuration,
        )
    if forgetful:  # what the hardware shows now removes no name: it may have lost devices
        names = (name for name in kept.get(HARDWARE_PROFILES_ANNOTATION, "").split(",") if name in BUILT_IN)
        known_names = dict.fromkeys((*agent_state.hardware_profiles, *names))
        agent_state = replace(agent_state, hardware_profiles=tuple(known_names), approved=kept.get(APPROVED, ""))
        agent_state, forgotten = attempt_note.recalled(agent_state, kept.get(ATTEMPTS), at)
        age = None if heard.created is None else at.wall - heard.created
        agent_state = repair_slots.met(agent_state, heard.stated, age)
    if kept.get(RESET_DONE_ANNOTATION) == heard.reset:  # done before the agent state was lost
        agent_state = replace(agent_state, reset_done=heard.reset)
    if heard.reset in ("", agent_state.reset_done):
        return NodeMeeting(agent_state, is_new=is_new and bool(known), forgotten=forgotten)
    agent_state = replace(agent_state, reset_done=heard.reset)
    return NodeMeeting(
        agent_state, is_new=is_new and bool(known), reset=True, inventory=heard.reset.endswith(INVENTORY)
    )


def before_looking(agent_state: AgentState, settings: Settings, trouble: AgentTrouble, now: float) -> Desired:
    """What should be on the Node by the agent state alone, so that a closed gate is closed before the first look."""
    own = settings.agent
    selection = profile_selection.before_looking(settings, agent_state)
    profiles = profile_state.assigned_profiles(selection, own.gate, own.mode, agent_state) if selection else ()
    return desired.desired(
        agent_state,
        (),
        gate_readiness.profile_readiness(agent_state, profiles, CHECKS, now),
        own.mode,
        CHECKS,
        now=now,
        gate=own.gate,
        confirmation=own.confirmation,
        readiness=own.readiness,
        trouble=trouble,
        full_round=False,
    )
