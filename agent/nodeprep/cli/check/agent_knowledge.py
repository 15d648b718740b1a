"""What the agent of this node knows, for `check`: its agent state, and how it is."""

from __future__ import annotations

from nodeprep import state_file
from nodeprep.agent_state import AgentState
from nodeprep.cli.daemon import directories
from nodeprep.cli.place import NodePlace
from nodeprep.doors import clock
from nodeprep.doors.files import state_store
from nodeprep.doors.files.host_root import BOOT_ID
from nodeprep.doors.files.line_file import LineFile
from nodeprep.doors.files.state_store import Store
from nodeprep.history.node_record import CONVICTED, FOLDED, MODE, NAME
from nodeprep.history.repeat_offenders import RepeatPolicy
from nodeprep.values import Value

REPEATS_SHOWN = 3  # devices that fail again and again
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


def repeats(at: NodePlace, policy: RepeatPolicy) -> tuple[str, ...]:
    """A note on each device of this live node that fails again and again, by the history that its agent keeps."""
    if not at.live:
        return ()
    file = LineFile(directories.directories(at.root).state, NAME, MODE)
    wanted = (f'"event":"{CONVICTED}"'.encode(), f'"event":"{FOLDED}"'.encode())
    try:
        lines = [one for one in file.lines() if any(word in one for word in wanted)]
    except OSError:
        return ()  # `nodeprep history` says why
    if not lines:
        return ()
    from nodeprep.history import node_record, repeat_offenders

    records = filter(None, map(node_record.record_of, lines))
    found = repeat_offenders.counted(records).offenders(clock.wall(), policy)
    days = f"{policy.repeat_days} days"
    return tuple(
        f"{one.check} convicted {one.device} in {one.hours} different hours of the last {days}; see nodeprep history "
        f"--device {one.device}"
        for one in found[:REPEATS_SHOWN]
    )


def age(seconds: float) -> str:
    """A time in its largest unit, such as "3 h"."""
    unit, name = next(((unit, name) for unit, name in UNITS if seconds >= unit), UNITS[-1])
    return f"{max(seconds, 0.0) / unit:.0f} {name}"
