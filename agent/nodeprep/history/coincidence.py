"""What happened on a node around a moment: what coincides with it, and never what caused it."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.history import node_state, record_words
from nodeprep.history.job_pods import PodEnd
from nodeprep.history.node_record import BASE, CONVICTED, LOST, RELEASED, STARTED, STILL_CONVICTED, NodeRecord
from nodeprep.history.node_state import OpenCase
from nodeprep.values import Struct, Value, field, replace

BEFORE_SECONDS = 900.0  # before an end: PyTorch waits 600 s for a peer by default, and then aborts and exits
AFTER_SECONDS = 60.0  # after it: a confirmation takes up to a minute
TOLD = frozenset({CONVICTED, LOST, "latched", "closed-for-shutdown", "repair-ended", "cannot-look", "drill-began"})


class Coincidence(Value):
    """Something on a pod's node near its end: `seconds` before it, negative if after it. `is_open`: it stood then.

    `time` is its wall time in seconds since 1970. `seconds` is None where nobody knows when the pod ended.
    """

    pod: str
    node: str
    words: str
    time: float
    seconds: float | None
    is_open: bool = False


def coincidences(records: Iterable[NodeRecord], pod: PodEnd) -> list[Coincidence]:
    """What happened from 15 minutes before a pod's end to a minute after it, then what stood before. Nearest first.

    `records` are of its node, with corrected times, oldest first.
    """
    if pod.ended is None:
        return _since_it_began(records, pod)
    walk = _Walk(pod, pod.ended)
    for one in records:
        walk.take(one)
    found = [*walk.found, *(walk.told(one, is_open=True) for one in walk.standing.values())]
    return sorted(found, key=lambda one: (one.is_open, abs(one.seconds or 0.0)))


class _Walk(Struct):
    """Goes through the records of a pod's node. `standing` are faults from before the window that are not over."""

    pod: PodEnd
    ended: float
    found: list[Coincidence] = field(default_factory=list)
    standing: dict[str, NodeRecord] = field(default_factory=dict)
    suspects: dict[str, NodeRecord] = field(default_factory=dict)  # stood at a start, and are not told again yet
    boot: str = ""
    has_booted: bool = False  # since the end of the pod

    def take(self, one: NodeRecord) -> None:
        distance = self.ended - one.time
        if one.event == BASE:
            self.standing = {key: _of_case(one, case) for key, case in node_state.replay([one]).cases.items()}
        elif one.event == STARTED and distance > 0:
            self.suspects |= self.standing
            self.standing = {}
        elif one.event == STILL_CONVICTED and one.case in self.suspects:
            self.standing[one.case] = self.suspects.pop(one.case)
        elif one.event in (CONVICTED, STILL_CONVICTED) and distance > BEFORE_SECONDS:
            self.standing.setdefault(one.case, one)
        elif one.event == RELEASED and distance > 0:
            self._over(self.standing.pop(one.case, None), distance)
        if -AFTER_SECONDS <= distance <= BEFORE_SECONDS and one.event in TOLD:
            self.found.append(self.told(one))
        if one.event == STARTED and self.boot not in ("", one.boot):
            self._booted(one, distance)
        self.boot = one.boot

    def _over(self, stood: NodeRecord | None, distance: float) -> None:
        """A fault from before the window that ended within it."""
        if stood is not None and distance <= BEFORE_SECONDS:
            self.found.append(replace(self.told(stood), words=f"{_words(stood)}, over {distance:.0f} s before"))

    def _booted(self, one: NodeRecord, distance: float) -> None:
        """A boot near the end, and the first one after it however late: a node that crashed comes back when it can."""
        is_next = distance < 0 and not self.has_booted
        self.has_booted = self.has_booted or distance < 0
        if is_next or 0 <= distance <= BEFORE_SECONDS:
            self.found.append(self.told(one))

    def told(self, one: NodeRecord, *, is_open: bool = False) -> Coincidence:
        return Coincidence(self.pod.name, self.pod.node, _words(one), one.time, self.ended - one.time, is_open)


def _of_case(record: NodeRecord, case: OpenCase) -> NodeRecord:
    """The conviction that a base record says of."""
    fields = {"check": case.check, "place": case.place, "subject": case.name, "reason": case.reason}
    return replace(record, time=case.since, event=CONVICTED, fields=fields)


def _since_it_began(records: Iterable[NodeRecord], pod: PodEnd) -> list[Coincidence]:
    """Of a pod that is gone, with an end that nobody knows: what happened since it was bound, the first first."""
    if not pod.is_gone or pod.began is None:
        return []
    since = [one for one in records if one.time >= pod.began and one.event in TOLD]
    return [Coincidence(pod.name, pod.node, _words(one), one.time, None) for one in since]


def _words(record: NodeRecord) -> str:
    return f"boot {record.boot} began" if record.event == STARTED else record_words.words(record)
