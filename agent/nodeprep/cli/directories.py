"""Where the agent keeps its memory and its gate files: on the node, wherever its root is mounted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

STATE_DIR, RUN_DIR = "var/lib/nodeprep", "run/nodeprep"
SOCKET = "agent.sock"  # in the run directory


@dataclass(frozen=True, slots=True)
class Directories:
    """`state` outlives a reboot; `run` does not (tmpfs)."""

    state: str
    run: str


def directories(
    root: str, state: str | None = None, run: str | None = None, environment: Mapping[str, str] = os.environ
) -> Directories:
    """As the options say, else NODEPREP_STATE_DIR and NODEPREP_RUN_DIR, else their places under the host's root."""
    return Directories(
        state or environment.get("NODEPREP_STATE_DIR") or os.path.join(root, STATE_DIR),  # noqa: PTH118 - as typed
        run or environment.get("NODEPREP_RUN_DIR") or os.path.join(root, RUN_DIR),  # noqa: PTH118 - as typed
    )
