"""What the agent of this node knows, for `check`: its agent state, and how it is."""

from __future__ import annotations

from nodeprep import state_file
from nodeprep.agent_state import AgentState
from nodeprep.cli.daemon import directories
from nodeprep.cli.place import NodePlace
from nodeprep.doors import clock
from nodeprep.doors.files import state_store
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.state_store import Store
from nodeprep.values import Value

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


class AgentKnowledge(Value):
    """The agent state, None if it is not of this boot. `words` describe the agent, "" without one.

    `socket` is the path of the agent's socket.
    """

    agent_state: AgentState | None = None
    words: str = ""
    socket: str = ""


NO_KNOWLEDGE = AgentKnowledge()


def agent_knowledge(at: NodePlace) -> AgentKnowledge:
    """What an agent of this boot saved on this live node. Reading locks its state file for a moment at most.

    Raises UsageError if only some of the variables for its directories are set.
    """
    if not at.live:
        return NO_KNOWLEDGE
    where = directories.directories(at.root)
    recalled = state_file.load(Store(where.state, where.socket, where.run))
    if recalled.agent_state is None:
        return (
            AgentKnowledge(None, f"its state file is ignored: {recalled.trouble}") if recalled.trouble else NO_KNOWLEDGE
        )
    agent_state = recalled.agent_state
    boot_id = at.host().files.text(BOOT_ID)
    pid = state_store.holder(where.state, where.socket)
    if agent_state.boot_id != boot_id:
        other = "its state file is of another boot" if not recalled.trouble else recalled.trouble
        return AgentKnowledge(None, other) if pid is None else NO_KNOWLEDGE
    now = clock.now()
    runs = f"pid {pid}" if pid else f"does not run; its state file is {age(now - agent_state.at)} old"
    why = f": {agent_state.why}" if agent_state.why else ""
    return AgentKnowledge(
        agent_state,
        f"{agent_state.state} for {age(now - agent_state.since)}{why}; nodeprep {agent_state.version}, {runs}",
        where.address,
    )


def age(seconds: float) -> str:
    """A time in its largest unit, such as "3 h"."""
    unit, name = next(((unit, name) for unit, name in UNITS if seconds >= unit), UNITS[-1])
    return f"{max(seconds, 0.0) / unit:.0f} {name}"
