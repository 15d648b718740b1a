"""What happened on a node around a moment: what coincides with it, and never what caused it."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep.history import record_words
from nodeprep.history.job_pods import PodEnd
from nodeprep.history.node_record import CONVICTED, STARTED, STILL_CONVICTED, NodeRecord
from nodeprep.values import Value

BEFORE_SECONDS = 600.0  # before an end: so long PyTorch waits for a peer by default (default_pg_nccl_timeout)
AFTER_SECONDS = 60.0  # after it: a confirmation takes up to a minute
TOLD = frozenset({CONVICTED, "latched", "closed-for-shutdown", "repair-ended", "cannot-look", "drill-began"})


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
    """What happened from ten minutes before a pod's end to a minute after it, then what stood before. Nearest first.

    `records` are of its node, with corrected times, oldest first.
    """
    if pod.ended is None:
        return _since_it_began(records, pod)
    found: list[Coincidence] = []
    standing: dict[str, NodeRecord] = {}
    boot = ""
    for one in records:
        distance = pod.ended - one.time
        is_near = -AFTER_SECONDS <= distance <= BEFORE_SECONDS
        if one.event in (CONVICTED, STILL_CONVICTED) and distance > BEFORE_SECONDS:
            standing.setdefault(one.case, one)
        elif one.event == "released" and distance > 0:
            standing.pop(one.case, None)
        if is_near and (one.event in TOLD or (one.event == STARTED and boot not in ("", one.boot))):
            found.append(Coincidence(pod.name, pod.node, _words(one), one.time, distance))
        boot = one.boot
    found += [
        Coincidence(pod.name, pod.node, _words(one), one.time, pod.ended - one.time, is_open=True)
        for one in standing.values()
    ]
    return sorted(found, key=lambda one: (one.is_open, abs(one.seconds or 0.0)))


def _since_it_began(records: Iterable[NodeRecord], pod: PodEnd) -> list[Coincidence]:
    """Of a pod that is gone, with an end that nobody knows: what happened since it was bound, the first first."""
    if not pod.is_gone or pod.began is None:
        return []
    since = [one for one in records if one.time >= pod.began and one.event in TOLD]
    return [Coincidence(pod.name, pod.node, _words(one), one.time, None) for one in since]


def _words(record: NodeRecord) -> str:
    return f"boot {record.boot} began" if record.event == STARTED else record_words.words(record)
