"""What happened on a node near a pod's end: the nearest first, what stood for long last, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.history import coincidence, node_state
from nodeprep.history.job_pods import PodEnd
from nodeprep.history.node_record import NodeRecord
from tests.history_values import EPOCH, PORT, outage, record, started

DIED = PodEnd("worker-3", "gpu-17", EPOCH + 1000.8)
MEMLOCK: dict[str, Any] = {"check": "limits.memlock", "subject": "", "place": "", "reason": "TooLow"}


def told(records: list[NodeRecord], pod: PodEnd = DIED) -> list[tuple[str, float, bool]]:
    return [(one.words, round(one.seconds or 0.0, 1), one.is_open) for one in coincidence.coincidences(records, pod)]


PORT_DOWN = "port.state NoSignal mlx5_5/1"
CASES: list[tuple[str, list[NodeRecord], list[tuple[str, float, bool]]]] = [
    ("just before", outage(1000.0), [(PORT_DOWN, 0.8, False)]),
    ("just after", outage(1010.0), [(PORT_DOWN, -9.2, False)]),
    ("too late", outage(1100.0), []),
    ("too early, and over", outage(20.0, seconds=20.0), []),
    ("since long before", outage(50.0, seconds=5000.0), [(PORT_DOWN, 950.8, True)]),
    ("over a moment before", outage(50.0, seconds=900.0), [(f"{PORT_DOWN}, over 51 s before", 950.8, False)]),
    ("over long before", outage(10.0, seconds=30.0), []),
    ("what PyTorch waited for", outage(395.0, seconds=540.0), [(PORT_DOWN, 605.8, False)]),
    (
        "stands in the base of a folded history",
        [base for base in [node_state.base(None, outage(50.0)[:3])] if base is not None],
        [(PORT_DOWN, 950.8, True)],
    ),
    (
        "mended by a boot long before",
        [*outage(20.0)[:3], *started(20.0, "two", EPOCH + 40)],
        [],
    ),
    (
        "a node that crashed and came back late",
        [*started(10.0), *started(20.0, "two", EPOCH + 5000)],
        [("boot two began", -4019.2, False)],
    ),
    (
        "records that are lost",
        [*started(10.0), record("lost", 999.0, count=3, why="full")],
        [("3 records are lost: full", 1.8, False)],
    ),
    (
        "the nearest first",
        [record("convicted", 900.0, **MEMLOCK), *outage(1000.0)],
        [(PORT_DOWN, 0.8, False), ("limits.memlock TooLow", 100.8, False)],
    ),
    ("an agent that restarts is no event of the node", [*started(10.0), *started(990.0)], []),
    (
        "a boot is",
        [*started(10.0), *started(20.0, "two", EPOCH + 985.0)],
        [("boot two began", -4.2, False)],
    ),
    (
        "a fault that stood through a restart of the agent",
        [*outage(50.0)[:3], record("started", 400.0), record("still-convicted", 401.0, **PORT)],
        [(PORT_DOWN, 950.8, True)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[one[0] for one in CASES])
def test_what_coincides(case: tuple[str, list[NodeRecord], list[tuple[str, float, bool]]]) -> None:
    assert told(case[1]) == case[2]


def test_a_pod_without_an_end_coincides_with_nothing() -> None:
    assert told(outage(1000.0), PodEnd("worker-3", "gpu-17", None, runs=True)) == []


def test_a_pod_that_is_gone_with_an_unknown_end_is_told_what_happened_since_it_was_bound() -> None:
    gone = PodEnd("worker-3", "gpu-17", is_gone=True, began=EPOCH + 900)
    (found,) = coincidence.coincidences([*outage(500.0), *outage(1000.0)], gone)
    assert (found.words, found.time, found.seconds) == (PORT_DOWN, EPOCH + 1000.0, None)
    assert coincidence.coincidences(outage(1000.0), PodEnd("worker-3", "gpu-17", is_gone=True)) == []
