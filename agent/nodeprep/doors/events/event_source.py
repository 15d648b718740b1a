"""What every event source has: a descriptor that becomes readable, and what reading it means."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nodeprep.model import Topic

DRAIN_LIMIT_SECONDS = 0.002  # seconds that one event source may be read before the others have their turn


class EventSourceAbsent(Exception):
    """This node has no such event source; `final` if nothing can change that while we run."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class EventSource(ABC):
    """One event source. It is opened again after it was closed; nothing of it blocks."""

    name: str
    topics: frozenset[Topic]

    @abstractmethod
    def open(self) -> int:
        """The descriptor to wait for.

        Raises:
            Absent: there is no such event source here.
            Exception: it could not be opened now.
        """

    @abstractmethod
    def drain(self) -> frozenset[Topic]:
        """Take what has come, or much of it; the topics that it announces.

        Raises:
            Exception: the event source is dead.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; may be called at any time. Raises OSError."""

    def heard(self) -> None:  # noqa: B027 - most event sources have no use for it
        """Another event source announced that devices came, went or changed."""

    def trouble(self) -> str:
        """Why it would not ring though it is open, or ""."""
        return ""
