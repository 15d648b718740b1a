"""The drill of this node, as its agent is told of it."""

from __future__ import annotations

from nodeprep.cli.daemon import agent_socket, directories
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.doors import clock
from nodeprep.repair import drill_files

ACCEPTED = 202  # of HTTP: `check` imports this module, and need not import http


def drill_now(at: NodePlace) -> DrillNotice | None:
    """The drill that runs on this live node, None for none. Raises UsageError as `directories` does."""
    if not at.live:
        return None
    notice = drill_files.notice(directories.directories(at.root).socket)
    holds = notice is not None and notice.holds(at.host().boot_id(), clock.now())
    return notice if holds else None


def tell_agent(address: str, notice: DrillNotice) -> bool:
    """Have the agent at this socket read the notice. False if no agent runs here.

    Raises UsageError where one runs and does not take it in: it would report the drill as a fault.
    """
    try:
        answer = agent_socket.ask(address, "POST", "/drill")
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError as error:
        raise UsageError(
            f"{address}: {error.strerror or error}; wanted an agent that can be told of a drill"
        ) from error
    if answer.status != ACCEPTED or notice.words not in answer.text:
        raise UsageError(
            f"{address}: the agent answered {answer.status} {answer.text.strip()}; wanted one that knows of "
            f"{notice.words}: without that it would report a fault"
        )
    return True
