"""The agent's directories for its state file, gate files and socket: on the node, wherever its root is mounted."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nodeprep.cli.usage import UsageError
from nodeprep.values import Value

STATE_DIR, RUN_DIR, SOCKET_DIR = "var/lib/nodeprep", "run/nodeprep", "run/nodeprep-agent"
STATE_VARIABLE, RUN_VARIABLE, SOCKET_VARIABLE = "NODEPREP_STATE_DIR", "NODEPREP_RUN_DIR", "NODEPREP_SOCKET_DIR"
OPTIONS = {STATE_VARIABLE: "--state-dir", RUN_VARIABLE: "--run-dir", SOCKET_VARIABLE: "--socket-dir"}
SOCKET = "agent.sock"  # in the socket's directory


class AgentDirectories(Value):
    """`state` outlives a reboot; `run` and `socket` do not (tmpfs).

    Pods that wait for a gate mount `run`, and connect(2) works through a read-only mount. So the socket has a directory
    of its own, which no other pod mounts.
    """

    state: str
    run: str
    socket: str

    @property
    def address(self) -> str:
        """The path of the agent's socket."""
        return f"{self.socket}/{SOCKET}"


def directories(
    root: str,
    state: str | None = None,
    run: str | None = None,
    socket: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> AgentDirectories:
    """Each from its option, else its variable; if none is given, the defaults under the host's root.

    Raises UsageError where some are given and others are not: an agent would then share one of the default places with
    another, or be looked for where it is not.
    """
    typed = {STATE_VARIABLE: state, RUN_VARIABLE: run, SOCKET_VARIABLE: socket}
    given = {name: value or environment.get(name) for name, value in typed.items()}
    if not any(given.values()):
        return AgentDirectories(*(os.path.join(root, one) for one in (STATE_DIR, RUN_DIR, SOCKET_DIR)))  # noqa: PTH118 - as typed
    if missing := [f"{name} ({OPTIONS[name]})" for name, value in given.items() if not value]:
        words = (
            f"{OPTIONS[name]} {value}" if typed[name] else f"{name}={value}" for name, value in given.items() if value
        )
        found, wanted = ", ".join(words), " and ".join(missing)
        raise UsageError(f"found {found} without {wanted}; wanted all three directories or none")
    return AgentDirectories(*(value for value in given.values() if value))


def run_directory(run: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The directory of gate files for a pod that waits: it mounts nothing else, so it needs no other variable."""
    return run or environment.get(RUN_VARIABLE) or f"/{RUN_DIR}"
