"""The note on the own Lease. Two threads write it, each alone: no older text comes after a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class FleetNote:
    """What the agent tells others about repairs now (decide/fleet_notes.text), "" for nothing.

    `told` is what its Lease says, as far as we know.
    """

    def __init__(self) -> None:
        self.text = self.told = ""
        self._lock = Lock()

    @contextmanager
    def held(self) -> Iterator[str]:
        """The text, for a request that writes it."""
        with self._lock:
            yield self.text
