"""The agent state at a start: what was saved, without what nothing proves any more."""

from __future__ import annotations

from nodeprep import __version__, profile_selection, state_file
from nodeprep.agent_state import AgentState, NodeState
from nodeprep.codec import Rest
from nodeprep.decide import gate_readiness, rule_change
from nodeprep.decide.rule_change import RULE_HOLD_SECONDS
from nodeprep.doors.files.state_store import Store
from nodeprep.publish import gate_files
from nodeprep.values import Value, replace


class StartState(Value):
    """The agent state at a start.

    `forgetful`: no saved state could be read, or it is of a start that never heard its Node. `trouble` says why it
    could not be read, for people. `cut_off` are the ids of attempts that a reboot ended: nobody told of that yet.
    """

    agent_state: AgentState
    rest: Rest
    trouble: str
    forgetful: bool
    cut_off: tuple[str, ...] = ()


def start(store: Store, run_directory: str, boot_id: str, configuration: str, now: float) -> StartState:
    """The agent state at a start in this boot, under the configuration of this digest."""
    recalled = state_file.load(store)
    found_open = gate_files.open_gates(run_directory, boot_id)
    known = recalled.agent_state and still_true(recalled.agent_state, __version__, now)
    here = gate_readiness.state_at_start(known, boot_id, "", now)
    agent_state = rule_change.after_rule_change(here, __version__, configuration, now)
    if recalled.agent_state is None and not recalled.trouble and not found_open:
        agent_state = replace(agent_state, why=f"the first start here: no memory in {store.directory}")
    # A start without a memory saves one at once. Killed before it heard its Node, it leaves what that kept to us.
    forgetful = recalled.agent_state is None or not recalled.agent_state.node_uid
    # If the machine did not go down after all, what was closed for that opens at once.
    was_announced = bool(agent_state.shutdown)
    sure = replace(agent_state, shutdown="") if was_announced else vouched(agent_state, found_open, now)
    over = {one.id for one in recalled.agent_state.attempts} if recalled.agent_state is not None else set()
    cut_off = tuple(one.id for one in here.attempts if one.id not in over)
    return StartState(resumed(sure), recalled.rest, recalled.trouble, forgetful, cut_off)


def still_true(agent_state: AgentState, version: str, now: float) -> AgentState:
    """The agent state without values that another version may have saved without knowing them.

    A version writes back unknown keys as it found them. So a gate that the other version did not ask for is new to this
    version, even if an older value is there.
    """
    if agent_state.version == version:
        return agent_state
    profiles = profile_selection.remembered_profiles(agent_state)
    asked = frozenset(gate for part in profiles for gate in part.profile.gates)
    waiting = {
        gate: at
        for gate, at in agent_state.unproven_until.items()
        if gate in asked and 0 <= at - RULE_HOLD_SECONDS <= now
    }
    intolerant = {} if agent_state.taint_tolerated else dict.fromkeys(agent_state.intolerant)
    known = replace(agent_state, unproven_until=waiting, intolerant=intolerant, shutdown="")
    changed_at = agent_state.rules_changed_at
    if changed_at is None or 0 <= changed_at <= now:
        return known
    return rule_change.forgotten(known)


def vouched(agent_state: AgentState, there: frozenset[tuple[str, str]], now: float) -> AgentState:
    """The agent state; nothing in it is proven if it says that a gate is open and the gate file is missing.

    If the state could not be saved any more, it may be older than the closing of a gate. The missing file shows this.
    """
    missing = set(agent_state.gates) - there
    if not missing:
        return agent_state
    profile, stage = min(missing)
    why = f"the gate file {profile}.{stage} was gone at the start"
    return replace(
        agent_state, state=NodeState.BOOTSTRAP, since=now, why=why, pass_streaks={}, gates=(), all_passing_since=None
    )


def resumed(agent_state: AgentState) -> AgentState:
    """The agent state with passes counted from zero: nobody has looked since, and the state may be older than it says.

    Proven checks stay proven, and convictions stay.
    """
    pass_streaks = {check: streak for check, streak in agent_state.pass_streaks.items() if streak.proven}
    cases = tuple(replace(case, passes=0, passing_since=None) if case.convicted else case for case in agent_state.cases)
    return replace(agent_state, pass_streaks=pass_streaks, cases=cases, all_passing_since=None)
