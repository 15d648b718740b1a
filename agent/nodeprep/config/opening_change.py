"""What of a changed configuration can only open gates, so that every node may go by it at once (docs/adr/0048)."""

from __future__ import annotations

from nodeprep.config.configuration import Settings
from nodeprep.decide.gate_readiness import Mode
from nodeprep.values import replace

MODES = tuple(Mode)  # each may do more to a node than the one before


def opened(started: Settings, in_force: Settings, changed: Settings) -> Settings:
    """The settings in force with the lower of both modes, and with the waivers of the start and of the changed ones.

    `started` are the settings that the agent was started with. A waiver that came since, and is gone again, is gone.
    """
    new = tuple(one for one in changed.waivers if one not in started.waivers)
    mode = min(in_force.agent.mode, changed.agent.mode, key=MODES.index)
    own = in_force.agent_part if mode is in_force.agent.mode else replace(in_force.agent, mode=mode)
    return replace(in_force, waivers=(*started.waivers, *new), agent_part=own)
