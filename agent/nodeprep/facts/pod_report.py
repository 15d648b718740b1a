"""Facts that another pod of ours observed: what its report says of this node (docs/adr/0039)."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from nodeprep.codec import Codec, CodecError
from nodeprep.model import Unreadable, Why, not_mounted
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

T = TypeVar("T")
WORDS = 120  # characters of what is wrong with a report


class PodReport(Value, Generic[T]):
    """Where the report of a fact lies, how often it is written in seconds, and of how many bytes it is at most.

    `instead` is what the agent's pod does not have, and `manifest` brings the pod that has it.
    """

    kind: type[T]
    path: str
    seconds: float
    limit: int
    instead: str
    manifest: str

    def content(self, found: T | Unreadable) -> object:
        """What the report says of an observation, as plain JSON."""
        return _codec(cast("Hashable", self.kind)).encode(found)

    def read(self, host: Host) -> T | Unreadable:
        """What the report says: a stranger's word, so anything else than such an observation is Unreadable."""
        report = host.report(self.path, period=self.seconds, limit=self.limit)
        if report is None:
            return not_mounted(self.instead, self.manifest)
        if isinstance(report, Unreadable):
            return report
        is_blind = isinstance(report.content, dict) and report.content.get("_") == Unreadable.__name__
        try:
            kind: type[T | Unreadable] = Unreadable if is_blind else self.kind
            return _codec(cast("Hashable", self.kind)).decode(kind, report.content)[0]
        except (CodecError, RecursionError) as error:
            return Unreadable(Why.MALFORMED, self.path, detail=str(error)[:WORDS])


@cache
def _codec(kind: Hashable) -> Codec:
    return Codec((cast("type", kind),))
