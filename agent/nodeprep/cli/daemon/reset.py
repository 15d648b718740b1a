"""`nodeprep reset`: tells the agent of this node to start over."""

from __future__ import annotations

from http import HTTPStatus

from nodeprep.cli import terminal
from nodeprep.cli.daemon import agent_socket, directories
from nodeprep.cli.daemon.directories import SOCKET
from nodeprep.cli.usage import UsageError
from nodeprep.doors import node_host


def run(host_root: str | None, socket_dir: str | None, *, inventory: bool = False) -> int:
    """Ask the agent, and print its answer. Raises UsageError if there is no agent."""
    path = f"{socket_dir}/{SOCKET}" if socket_dir else directories.directories(node_host.live_root(host_root)).address
    try:
        answer = agent_socket.ask(path, "POST", "/reset-inventory" if inventory else "/reset")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; wanted the socket of a running nodeprep agent") from error
    if answer.status != HTTPStatus.ACCEPTED:
        raise UsageError(f"{path}: the agent answered {answer.status} {answer.text.strip()}")
    terminal.put(answer.text.strip())
    return 0
