"""What every event source has: a descriptor that becomes readable, and the topics that a read announces."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nodeprep.model import Topic

DRAIN_LIMIT_SECONDS = 0.002  # seconds that one event source may be read before the others get a turn


class EventSourceAbsent(Exception):
    """This node has no such event source. `final`: nothing can change that while we run."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class EventSource(ABC):
    """One event source. It may be opened again after it was closed. None of its methods blocks."""

    name: str
    topics: frozenset[Topic]

    @abstractmethod
    def open(self) -> int:
        """The descriptor to wait for.

        Raises:
            EventSourceAbsent: there is no such event source here.
            Exception: it could not be opened now.
        """

    @abstractmethod
    def drain(self) -> frozenset[Topic]:
        """Read the events that have come, or many of them. Returns the topics that they announce.

        Raises:
            Exception: the event source is dead.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything. May be called at any time. Raises OSError."""

    def heard(self) -> None:  # noqa: B027 - most event sources have no use for it
        """Called after another event source announced that devices came, went or changed."""

    def trouble(self) -> str:
        """Why it would announce nothing although it is open, or ""."""
        return ""
