"""What every bell has: a descriptor that becomes readable, and what reading it means."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nodeprep.model import Topic

PATIENCE = 0.002  # seconds that one bell may be read before the others have their turn


class Absent(Exception):
    """This node has no such bell; `final` if nothing can change that while we run."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Source(ABC):
    """One bell. It is opened again after it was closed; nothing of it blocks."""

    name: str
    topics: frozenset[Topic]

    @abstractmethod
    def open(self) -> int:
        """The descriptor to wait for.

        Raises:
            Absent: there is no such bell here.
            Exception: it could not be opened now.
        """

    @abstractmethod
    def drain(self) -> frozenset[Topic]:
        """Take what has come, or much of it; the topics that it announces.

        Raises:
            Exception: the bell is dead.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; may be called at any time. Raises OSError."""

    def heard(self) -> None:  # noqa: B027 - most bells have no use for it
        """Another bell announced that devices came, went or changed."""

    def trouble(self) -> str:
        """Why it would not ring though it is open, or ""."""
        return ""
