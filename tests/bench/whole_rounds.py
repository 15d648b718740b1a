"""Whole rounds of the agent, one after another: every fact observed, every check due. Prints lines of JSON.

    python tests/bench/whole_rounds.py COUNT HOST-ROOT STATE-DIRECTORY

tests/bench/agent.py runs it, in a process of its own: what a bench imports is not the agent's memory.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from nodeprep.agent.loop import Agent, AgentParts
from nodeprep.config.configuration import Settings
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.files.state_store import Store
from nodeprep.doors.node_host import Host
from nodeprep.publish.metrics import MetricsPage

LINES = 20


def resident(pid: int) -> float:
    """MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main(count: int, root: str, place: str) -> None:
    metrics = MetricsPage()
    means = AgentParts(
        host_of=lambda excluded, metadata: Host(root, excluded=excluded, metadata=metadata),
        read_settings=Settings,
        event_sources=EventSources(root),
        store=Store(place, place),
        run_directory=place,
        listeners=(metrics.show,),
    )
    agent = Agent(means, Settings())
    agent._begin()
    gc.freeze()  # as the program does, before its first round
    for number in range(1, count + 1):
        agent._schedule.begun_at.clear()
        agent.turn(frozenset())
        if number % 10 == 0:
            metrics.page()
        if number % (count // LINES) == 0:
            told = {"round": number, "resident": resident(os.getpid()), "blocks": sys.getallocatedblocks()}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
