"""The rules of the chaos, over samples made here: each rule finds its violation and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.chaos_rules import AGAIN, PLANTED, Rules, Sample, Turn, waited

SPAN, STEP = 3.0, 0.05
BOOT = "b1"
FINE = {"ready chaos": 1.0, "rounds": 0.0, "last-round": 0.0}

Event = tuple[float, str, dict[str, object]]
Life = list[Event]

BEGIN: Life = [(0.0, "boot", {"id": BOOT}), (0.0, "started", {"pid": 1})]
FAULT: Event = (10.0, "fault", {"name": "x", "limit": 2.0})


def gate(boot: str = BOOT, since: str = "now") -> str:
    return json.dumps({"profile": "chaos", "stage": "ready", "boot_id": boot, "since": since})


def moments(
    opened: list[tuple[float, float]], text: str, shown: bool | None, healthy: bool, rss: int
) -> Iterator[Sample]:
    """Twenty-five seconds of an agent. Its gate stood open in these spans."""
    for number in range(int(25 / STEP)):
        at = number * STEP
        stands = any(begin <= at < end for begin, end in opened)
        ready = float(stands if shown is None else shown)
        metrics = {"ready chaos": ready, "rounds": at // 1, "last-round": at}
        yield Sample(at, {"chaos": text} if stands else {}, metrics, healthy, {"rss": rss}, wall=at)


def said(
    life: Life,
    opened: list[tuple[float, float]],
    *,
    text: str = gate(),
    shown: bool | None = None,
    healthy: bool = True,
    rss: int = 1,
) -> list[str]:
    rules, left, found = Rules(SPAN), [*BEGIN, *life], []
    for sample in moments(opened, text, shown, healthy, rss):
        while left and left[0][0] <= sample.at:
            at, event, words = left.pop(0)
            found.append(rules.tell({"at": at, "event": event, **words}))
        found += rules.see(sample)
    return [" ".join(one.split()[:3]) for one in found if one]


MENDED: Event = (15.0, "mending", {"name": "x"})
KILLED: Life = [(10.0, "ending", {}), (10.0, "proof-wanted", {}), (11.0, "started", {"pid": 2})]
# The deeds, the spans of the open gate, and the violation.
ROWS: dict[str, tuple[Life, list[tuple[float, float]], list[str]]] = {
    "nothing is wrong": ([], [(5, 99)], []),
    "closed in time, and opened after the passes": ([FAULT, MENDED], [(5, 11), (18.1, 99)], []),
    "a fault, and it stays open": ([FAULT], [(5, 99)], ["chaos.ready is there"]),
    "opened too soon after a fault": ([FAULT, MENDED], [(5, 11), (17, 99)], ["chaos.ready appeared 2.00"]),
    "opened while a fault stands": (
        [FAULT],
        [(5, 11), (20, 20.5)],
        ["chaos.ready appeared while", "chaos.ready is there"],
    ),
    "a fault that nobody can have seen": ([FAULT, (11.0, "mending", {"name": "x"})], [(5, 99)], []),
    "a fault while the agent is stopped": ([(9.0, "stopping", {}), FAULT], [(5, 99)], []),
    "a fault until it runs again for long enough": (
        [(9.0, "stopping", {}), FAULT, (20.0, "continued", {})],
        [(5, 99)],
        ["chaos.ready is there"],
    ),
    "a fault that was seen twice for a second, between two stops": (
        [FAULT, (11.5, "stopping", {}), (11.5, "continued", {}), (13.0, "mending", {"name": "x"})],
        [(5, 99)],
        [],
    ),
    "a fault that came and went before it was believed": (
        [FAULT, (11.0, "mending", {"name": "x"})],
        [(5, 10.5), (12, 99)],
        [],
    ),
    "a fault that the silent metadata service hides": (
        [(9.0, "metadata", {"fine": False}), (10.0, "fault", {"name": "x", "limit": 2.0, "by_metadata": True})],
        [(5, 99)],
        [],
    ),
    "a fault on a busy processor": ([(10.0, "slow", {"seconds": 4.0}), FAULT], [(5, 13)], []),
    "proven anew": (KILLED, [(5, 10), (14.1, 99)], []),
    "not proven anew": (KILLED, [(5, 10), (12, 99)], ["chaos.ready appeared 1.00"]),
    "opened too soon after a reset": (
        [(10.0, "was-reset", {"since": 9.5})],
        [(5, 10), (11, 99)],
        ["chaos.ready appeared 1.50"],
    ),
    "opened while a reset was on its way": (
        [(10.0, "reset", {}), (12.0, "was-reset", {"since": 10.0})],
        [(11, 99)],
        [],
    ),
    "what the chaos saw itself": ([(10.0, "wrong", {"text": "no JSON there"})], [(5, 99)], ["no JSON there"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_history(name: str) -> None:
    life, opened, wanted = ROWS[name]
    assert [one for one in said(life, opened) if not one.startswith("nodeprep_ready")] == [
        " ".join(one.split()[:3]) for one in wanted
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (gate(), []),
        (gate(boot="b2"), ["chaos.ready is of"]),
        (gate(since=PLANTED), ["chaos.ready, which nobody's"]),
        ("{", ["chaos.ready does not"]),
        ("[]", ["chaos.ready does not"]),
    ],
)
def test_each_gate_file(text: str, wanted: list[str]) -> None:
    assert said([], [(5, 99)], text=text) == wanted


def test_files_and_metrics_that_differ() -> None:
    assert said([], [(5, 99)], shown=False) == ["nodeprep_ready of chaos"]
    assert said([], [], shown=True) == ["nodeprep_ready of chaos"]


def test_an_agent_that_hangs_or_grows() -> None:
    assert said([], [(5, 99)], healthy=False) == ["/healthz has not"]
    assert said([], [(5, 99)], rss=71 << 20) == ["rss of the"]


def test_a_loop_that_does_not_turn() -> None:
    rules = Rules(SPAN)
    rules.tell({"at": 0.0, "event": "started"})
    found = []
    for number in range(500):
        at = number * STEP
        metrics = {"rounds": 7.0, "last-round": 0.0}
        found += rules.see(Sample(at, {}, metrics, healthy=True, wall=at))
    assert [one.split()[0] for one in found] == ["nodeprep_rounds_total", "nodeprep_last_round_timestamp_seconds"]


def test_a_machine_that_stood_still_held_up_nobody() -> None:
    rules = Rules(SPAN, awake_since=0.0)
    rules.see(Sample(10.0, {"chaos": gate()}))
    rules.tell({"at": 10.0, "event": "fault", "name": "x", "limit": 2.0})
    assert not [one for one in rules.see(Sample(15.0, {"chaos": gate()})) if "began" in one]


def test_a_look_that_came_too_late_is_repeated_before_a_fault_is_certain() -> None:
    rules = Rules(SPAN, awake_since=0.0)
    rules.see(Sample(10.0, {"chaos": gate()}))
    rules.tell({"at": 10.0, "event": "fault", "name": "x", "limit": 2.0})
    at = [20.0 + number * STEP for number in range(int(20 / STEP))]
    began = [one for one in at for text in rules.see(Sample(one, {"chaos": gate()})) if "began" in text]
    assert began == [pytest.approx(20.0 + AGAIN + 2.0, abs=0.5)]


def began(waits: list[tuple[float, float, float]]) -> list[float]:
    """When a fault of 10.0 counts as seen, of an agent that waits for this share of each step in these spans."""
    rules, found = Rules(SPAN, awake_since=0.0), []
    rules.see(Sample(10.0, {"chaos": gate()}))
    rules.tell({"at": 10.0, "event": "fault", "name": "x", "limit": 2.0})
    for number in range(1, int(60 / STEP)):
        at = 10.0 + number * STEP
        share = next((share for begin, end, share in waits if begin < at <= end), 0.0)
        told = rules.see(Sample(at, {"chaos": gate()}, waited=share * STEP))
        found += [at for text in told if "began" in text]
    return found


@pytest.mark.parametrize(
    ("waits", "seen"),
    [
        pytest.param([], 12.0, id="it waits for no processor"),
        pytest.param([(10.0, 10.9, 1.0)], 12.9, id="it has none for a while"),
        pytest.param([(10.0, 15.0, 0.4)], 10.0 + 2.0 / 0.6, id="it shares one"),
        pytest.param([(11.0, 18.0, 1.0)], 18.0 + AGAIN + 2.0, id="a look came too late"),
    ],
)
def test_an_agent_without_a_processor_could_not_act(waits: list[tuple[float, float, float]], seen: float) -> None:
    assert began(waits) == [pytest.approx(seen, abs=0.2)]


def test_how_long_an_agent_waited_for_a_processor() -> None:
    before = {"1": Turn(1.0, 5.0, wants=False), "2": Turn(3.0, 0.0, wants=True)}
    ran = {"1": Turn(1.5, 5.0, wants=True), "2": Turn(3.4, 0.0, wants=True)}
    assert waited(before, ran, 1.0) == 0.0, "who runs wants to run"
    assert waited(before, {"1": Turn(1.5, 5.3, wants=True), "2": ran["2"]}, 1.0) == pytest.approx(0.3)
    assert waited(before, {"1": Turn(1.0, 9.0, wants=False)}, 1.0) == 1.0, "the rest was told of while it waited"
    assert waited(before, {"1": Turn(1.0, 5.0, wants=False), "2": Turn(3.0, 0.0, wants=True)}, 1.0) == 1.0
    assert waited(before, {"1": Turn(1.0, 5.0, wants=False)}, 1.0) == 0.0, "asleep"
    assert waited({}, before, 1.0) == 0.0, "a thread that is new"


@pytest.mark.parametrize(("since", "openings"), [(PLANTED, 0), ("2026-11-24T22:47:06Z", 1)])
def test_what_is_planted_while_a_fault_stands_is_no_opening(since: str, openings: int) -> None:
    """The file may be seen before anybody says that it was planted."""
    rules = Rules(SPAN, awake_since=0.0)
    rules.tell({"at": 0.0, "event": "fault", "name": "x", "limit": 2.0})
    found = []
    for number in range(int(20 / STEP)):
        found += rules.see(Sample(number * STEP, {}))
    rules.tell({"at": 20.0, "event": "ending"})
    found += rules.see(Sample(20.1, {"chaos": gate(since=since)}))
    assert rules.openings == len([one for one in found if "appeared" in one]) == openings


def test_the_time_line_has_a_minute() -> None:
    rules = Rules(SPAN)
    for second in range(100):
        rules.tell({"at": float(second), "event": "done", "what": "nothing"})
    assert len(rules.timeline()) == 61
    assert rules.timeline()[-1] == "   +0.00 s  done nothing"
