"""`nodeprep reset`: tells the agent of this node to forget what it holds against it."""

from __future__ import annotations

import http.client
import socket

from nodeprep.cli.directories import SOCKET, directories
from nodeprep.cli.output import put
from nodeprep.cli.usage import UsageError
from nodeprep.doors.host import live_root

DEADLINE = 5.0  # seconds


class Connection(http.client.HTTPConnection):
    """HTTP over the agent's unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=DEADLINE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self._path)


def run(host_root: str | None, run_dir: str | None) -> int:
    """Ask for it, and say what the agent answered. Raises UsageError if there is no agent."""
    path = f"{directories(live_root(host_root), None, run_dir).run}/{SOCKET}"
    connection = Connection(path)
    try:
        connection.request("POST", "/reset", body=b"")
        answer = connection.getresponse()
        said = answer.read(1000).decode(errors="replace").strip()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; wanted the socket of a running nodeprep agent") from error
    finally:
        connection.close()
    if answer.status != http.client.ACCEPTED:
        raise UsageError(f"{path}: the agent answered {answer.status} {said}")
    put(said)
    return 0
