"""One line for each transition and none at steady state; what cannot be written stops nobody."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from typing import Any

import pytest

from nodeprep.agent_state import BlindSince, Case, NodeState
from nodeprep.decide.drill_notice import DrillNotice
from nodeprep.decide.gate_readiness import Mode
from nodeprep.doors.events.listener import EventSourceState
from nodeprep.model import Remedy
from nodeprep.publish import history_lines, log_lines, node_status
from nodeprep.publish.log_lines import LINE_LIMIT_BYTES, JsonLines, LogEntry
from nodeprep.publish.node_status import NOT_ENFORCED, ApiStatus, NodeStatus
from nodeprep.values import replace
from tests.agent_state_values import case, finding
from tests.status_values import report, standing, status

DEVICE_ONLY = standing(ready=False, why="plugin.registered fails")
CLOSED = standing(device=False, ready=False, why="port.state fails")
WOULD_RUN = (
    "would-run check=port.state planned=link_up args={'interface': 'eth2'} "
    "why=mode gate: only mode repair runs remedies, and a human goes by the fix fix=nodeprep explain port.state"
)
DRILL = DrillNotice("link-down", "eth1", ("eth1", "0000:5c:00.0"), "b1", 50.0, 1300.0)
LINK_UP = ("port.state", Remedy("link_up", {"interface": "eth2"}))
BLIND = {"imds.reachable": BlindSince(since=300.0, message="100.100.100.200: timeout")}


def says(entry: LogEntry) -> str:
    fields = " ".join(f"{name}={value}" for name, value in entry.fields.items() if value != "")
    return f"{'! ' if entry.warning else ''}{entry.event} {fields}".strip()


def words(before: NodeStatus | None, after: NodeStatus) -> list[str]:
    return [says(entry) for entry in log_lines.transitions(before, after)]


STANDING = "profile=rdma-roce gating=True"
CASE = "check=port.state subject=mlx5_3/1 place=0000:5c:00.0/1"
CONVICTED = f"! convicted {CASE} reason=NoSignal message=mlx5_3/1: NoSignal fix=nodeprep explain port.state"
RELEASED = f"released {CASE} reason=NoSignal stood_seconds=900.0"
ROWS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    # before        after           says ("!" wants a human)
    ({}, {"rounds": 8, "at": 1030.0, "round_time": 1.0}, []),
    ({}, {"state": NodeState.UNHEALTHY, "why": "port.state"}, ["! state from=Ready to=Unhealthy why=port.state"]),
    ({}, {"state": NodeState.AWAITING_HUMAN}, ["! state from=Ready to=AwaitingHuman"]),
    ({"state": NodeState.BOOTSTRAP}, {"why": "all passed"}, ["state from=Bootstrap to=Ready why=all passed"]),
    ({}, {"drill": DRILL}, ["drill-began drill=link-down device=eth1 seconds_left=300"]),
    ({"drill": DRILL}, {"drill": DRILL}, []),
    ({"drill": DRILL}, {}, ["drill-ended drill=link-down device=eth1"]),
    ({}, {"mode": Mode.OBSERVE}, ["mode from=gate to=observe"]),
    ({}, {"profiles": (DEVICE_ONLY,)}, [f"! profile-device-ready {STANDING} device_stage=True why={DEVICE_ONLY.why}"]),
    ({}, {"profiles": (CLOSED,)}, [f"! profile-closed {STANDING} device_stage=False why={CLOSED.why}"]),
    (
        {"profiles": (DEVICE_ONLY,)},
        {"profiles": (CLOSED,)},
        [f"! profile-closed {STANDING} device_stage=False why={CLOSED.why}"],
    ),
    (
        {"profiles": (CLOSED,)},
        {"profiles": (DEVICE_ONLY,)},
        [f"profile-device-ready {STANDING} device_stage=True why={DEVICE_ONLY.why}"],
    ),
    ({"profiles": (CLOSED,)}, {}, [f"profile-ready {STANDING} device_stage=True"]),
    ({"profiles": (CLOSED,)}, {"profiles": (standing(device=False, ready=False, why="another"),)}, []),
    ({"profiles": (standing(), standing(name="base"))}, {}, ["profile-gone profile=base"]),
    ({}, {"cases": (case(convicted_at=None),)}, []),
    ({"cases": (case(convicted_at=None),)}, {"cases": (case(),)}, [CONVICTED]),
    ({}, {"cases": (case(),)}, [CONVICTED]),
    ({"cases": (case(),)}, {"cases": (case(message="seen again", passes=1),)}, []),
    ({"cases": (case(),)}, {"cases": (case(port=2, name="mlx5_3/2", convicted_at=None),)}, [RELEASED]),
    (
        {"cases": (case(),)},
        {"cases": (case(convicted_at=None),)},
        [RELEASED],
    ),
    ({"cases": (case(),)}, {}, [RELEASED]),
    ({"cases": (case(convicted_at=None),)}, {}, []),
    (
        {"cases": (case(),)},
        {"cases": (case(convicted_at=999.0),)},
        [RELEASED, CONVICTED],
    ),
    ({"cases": (case(),)}, {"cases": (case(latched="3 turns"),)}, [f"! latched {CASE} why=3 turns"]),
    ({"cases": (case(latched="3 turns"),)}, {"cases": (case(latched="3 turns"),)}, []),
    ({"blind": BLIND, "at": 899.0}, {"blind": BLIND, "at": 899.9}, []),
    (
        {"blind": BLIND, "at": 899.0},
        {"blind": BLIND, "at": 900.0},
        ["! cannot-look check=imds.reachable seconds=600 message=100.100.100.200: timeout"],
    ),
    ({"blind": BLIND, "at": 900.0}, {"blind": BLIND, "at": 1000.0}, []),
    ({"blind": BLIND, "at": 900.0}, {}, ["can-look check=imds.reachable"]),
    ({"blind": BLIND, "at": 899.0}, {}, []),
    ({"deferred": ("port.mtu",)}, {}, ["deferred-no-more check=port.mtu"]),
    ({"deferred": ("port.mtu",)}, {"deferred": ("port.mtu",)}, []),
    (
        {"pending_gates": ("port.mtu",)},
        {"pending_gates": ("port.mtu", "port.gid")},
        ["gate-pending check=port.gid why=new in this version and yet to pass; a rollout waits until it did"],
    ),
    ({"pending_gates": ("port.mtu",)}, {}, ["gate-pending-no-more check=port.mtu"]),
    ({}, {"planned_remedies": (LINK_UP,)}, [WOULD_RUN]),
    ({"planned_remedies": (LINK_UP,)}, {"planned_remedies": (LINK_UP,)}, []),
    ({"planned_remedies": (LINK_UP,)}, {}, []),
    ({"event_sources": {"link": EventSourceState(True)}}, {"event_sources": {"link": EventSourceState(True)}}, []),
    ({}, {"event_sources": {"link": EventSourceState(True, 2)}}, []),
    (
        {"event_sources": {"link": EventSourceState(True)}},
        {"event_sources": {"link": EventSourceState(False, why="ENOBUFS")}},
        ["! event-source-died event_source=link why=ENOBUFS"],
    ),
    (
        {"event_sources": {"link": EventSourceState(False)}},
        {"event_sources": {"link": EventSourceState(False, 1, "still")}},
        [],
    ),
    (
        {"event_sources": {"link": EventSourceState(False)}},
        {"event_sources": {"link": EventSourceState(True, 1)}},
        ["event-source-back event_source=link restarts=1"],
    ),
    (
        {"event_sources": {"link": EventSourceState(True, 1)}},
        {"event_sources": {"link": EventSourceState(True, 2)}},
        ["event-source-restarted event_source=link restarts=2"],
    ),
    ({}, {"store_trouble": "no space"}, ["! store-trouble message=no space"]),
    ({"store_trouble": "no space"}, {"store_trouble": "no space"}, []),
    ({"store_trouble": "no space"}, {"store_trouble": "read-only"}, ["! store-trouble message=read-only"]),
    ({"store_trouble": "no space"}, {}, ["store-fine-again"]),
    ({}, {"config_trouble": "c.yaml:3: bad"}, ["! config-trouble message=c.yaml:3: bad"]),
    ({"config_trouble": "c.yaml:3: bad"}, {}, ["config-fine-again"]),
    (
        {},
        {"exposed": ("/host/opt/cni/bin",)},
        [f"! mounts-trouble message={node_status.exposed_mounts_message(('/host/opt/cni/bin',))}"],
    ),
    ({"exposed": ("/host/opt/cni/bin",)}, {"exposed": ("/host/opt/cni/bin",)}, []),
    (
        {"report": report(profile="base", chosen_by="hardware")},
        {},
        ["profile-chosen from=base to=rdma-roce chosen_by=configuration"],
    ),
    (
        {"report": report(chosen_by="hardware")},
        {},
        ["profile-chosen from=rdma-roce to=rdma-roce chosen_by=configuration"],
    ),
]


@pytest.mark.parametrize(("before", "after", "told"), ROWS)
def test_a_transition(before: dict[str, Any], after: dict[str, Any], told: list[str]) -> None:
    assert words(status(**before), status(**after)) == told


def test_what_is_seen_of_a_conviction_says_what_to_do() -> None:
    mended = replace(finding(), fix="ip link set eth2 up", verdict=replace(finding().verdict, remedy=LINK_UP[1]))
    other = replace(finding(place="0000:5d:00.0"), fix="of another port")
    after = status(cases=(case(),), planned_remedies=(LINK_UP,), report=report(other, mended))
    assert [one.fields["fix"] for one in log_lines.transitions(status(), after) if "fix" in one.fields] == [
        "ip link set eth2 up",
        "ip link set eth2 up",
    ]


def test_a_conviction_names_the_drill_that_made_it() -> None:
    during = status(cases=(case(opened_at=60.0),), drill=DRILL)
    assert words(status(drill=DRILL), during) == [CONVICTED.replace("reason=", "drill=link-down reason=")]
    before = status(cases=(case(opened_at=40.0),), drill=DRILL)
    assert words(status(drill=DRILL), before) == [CONVICTED]


def test_a_verdict_that_only_a_new_version_finds_wants_a_human() -> None:
    (said,) = words(status(), status(deferred=("port.mtu",)))
    assert said.startswith("! deferred check=port.mtu why=only this version finds")


def test_the_first_round_tells_what_the_memory_holds_and_warns_of_no_gate_that_is_still_closed() -> None:
    first = status(
        state=NodeState.BOOTSTRAP, why="new boot", profiles=(CLOSED,), cases=(case(),), blind=BLIND, at=901.0
    )
    assert words(None, first) == [
        "mode to=gate",
        "profile-chosen to=rdma-roce chosen_by=configuration",
        CONVICTED,
        "state to=Bootstrap why=new boot",
        f"profile-closed {STANDING} device_stage=False why={CLOSED.why}",
        "! cannot-look check=imds.reachable seconds=601 message=100.100.100.200: timeout",
    ]


def closed(why: str, **different: Any) -> dict[str, Any]:
    """A round that closes the gate for this reason, which is told of the profile too."""
    return {
        "state": NodeState.UNHEALTHY,
        "why": why,
        "profiles": (standing(ready=False, why=f"so: {why}"),),
    } | different


CUT = [
    # reason                                            cases                           as the line says it
    ("a gate check fails: port.state NoSignal: mlx5_3/1: No", (case(),), "a gate check fails: port.state NoSignal"),
    ("port.state NoSignal: again: and again", (case("eni.up"), case()), "port.state NoSignal"),
    ("port.state NoSignal", (case(),), "port.state NoSignal"),
    ("port.state NotActive: of before", (case(),), "port.state NotActive: of before"),
    ("port.state NoSignal: nobody has said so", (case(convicted_at=None),), "port.state NoSignal: nobody has said so"),
    ("2 of 3 gate checks passed: not yet port.mtu", (case(),), "2 of 3 gate checks passed: not yet port.mtu"),
]


@pytest.mark.parametrize(("why", "cases", "cut"), CUT)
def test_what_follows_from_a_conviction_comes_after_it_and_names_it(
    why: str, cases: tuple[Case, ...], cut: str
) -> None:
    *convicted, state, profile = words(status(), status(**closed(why, cases=cases)))
    assert [line.startswith("! convicted ") for line in convicted] == [True] * sum(one.convicted for one in cases)
    assert state == f"! state from=Ready to=Unhealthy why={cut}"
    assert profile == f"! profile-device-ready {STANDING} device_stage=True why=so: {cut}"


def test_what_is_released_comes_before_the_gate_that_opens() -> None:
    before = status(**closed("port.state NoSignal: x", cases=(case(),)))
    assert [one.event for one in log_lines.transitions(before, status())] == ["released", "state", "profile-ready"]


STARTED = [
    # before, reason that the start gave      whether the state's line has one
    (None, "a new boot", False),
    (None, "another", True),
    (status(state=NodeState.UNHEALTHY), "a new boot", True),
]


@pytest.mark.parametrize(("before", "started", "has"), STARTED)
def test_the_reason_of_a_start_is_said_once(before: NodeStatus | None, started: str, has: bool) -> None:
    after = status(state=NodeState.BOOTSTRAP, why="a new boot")
    (said,) = [one for one in log_lines.transitions(before, after, started=started) if one.event == "state"]
    assert said.fields.get("why") == ("a new boot" if has else None)


@pytest.fixture
def pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return reading, writing


def logger(handler: logging.Handler) -> logging.Logger:
    own = logging.Logger("test")  # noqa: LOG001 - one that no other test shares
    own.addHandler(handler)
    return own


def lines(reading: int) -> list[dict[str, Any]]:
    text = b""
    while True:
        try:
            piece = os.read(reading, 65536)
        except BlockingIOError:
            break
        if not piece:
            break
        text += piece
    return [json.loads(one) for one in text.decode("ascii").splitlines()]


def test_a_line_is_json_with_time_level_and_event_first(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    log_lines.tell(
        (LogEntry("state", {"to": NodeState.READY}), LogEntry("convicted", {"n": 1.5}, warning=True)),
        logger(JsonLines(writing)),
    )
    first, second = lines(reading)
    assert list(first) == ["time", "level", "event", "to"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {"level": "info", "event": "state", "to": "Ready"}
    assert (second["level"], second["event"], second["n"]) == ("warning", "convicted", 1.5)


def record(name: str, **fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"levelname": "INFO", "msg": name, "fields": fields})


@pytest.mark.parametrize("nasty", ["a\nb", "\x1b[2J", "\x7f", "\x9b", "\u2028", "\0", "\udcff", '"}{', "\r"])
def test_control_characters_are_escaped(nasty: str) -> None:
    text = log_lines.line(record(nasty, device=nasty))
    assert re.fullmatch(r"[ -~]+\n", text)
    assert json.loads(text)["device"] == json.loads(text)["event"] == nasty


def test_a_field_cannot_pass_for_another_line_or_event() -> None:
    told = json.loads(log_lines.line(record("state", event="forged", time="never", level="critical")))
    assert (told["event"], told["level"]) == ("state", "info")
    assert told["time"] != "never"


@pytest.mark.parametrize("count", [1, 8, 2000])
def test_a_line_always_goes_into_a_pipe_at_once(count: int) -> None:
    text = log_lines.line(record("state", **{f"f{number}": "\u00e9" * 5000 for number in range(count)}))
    assert len(text) <= LINE_LIMIT_BYTES
    told = json.loads(text)
    assert told["event"] == "state"
    assert len(told) == (3 + count if count < 100 else 3)


def test_fields_are_cut_and_a_mapping_in_them_too() -> None:
    told = json.loads(log_lines.line(record("would-run", message="x" * 5000, args={"interface": "y" * 5000})))
    assert (len(told["message"]), len(told["args"]["interface"])) == (1000, 1000)
    assert told["message"].endswith("x...")


def test_a_trace_is_one_line(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    own = logger(JsonLines(writing))
    try:
        int("why\nnot")
    except ValueError:
        own.exception("broke")
    (told,) = lines(reading)
    assert told["trace"].startswith("Traceback")
    assert "test_log_lines.py" in told["trace"]
    assert told["trace"].count("\n") > 2


def test_a_pipe_that_nobody_reads_stops_nobody_and_the_next_line_says_what_was_lost(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    own = logger(JsonLines(writing))
    for number in range(2000):
        log_lines.tell([LogEntry("state", {"number": number, "why": "x" * 80})], own)
    written = lines(reading)
    log_lines.tell([LogEntry("state", {"number": "after"})], own)
    log_lines.tell([LogEntry("state", {"number": "later"})], own)
    after, later = lines(reading)
    assert after["lost_lines"] == 2000 - len(written) > 0
    assert "lost_lines" not in later


def test_a_closed_or_full_stderr_never_raises(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    broken = JsonLines(writing)
    log_lines.tell([LogEntry("state")], logger(broken))
    os.close(writing)
    log_lines.tell([LogEntry("state")], logger(broken))
    assert broken.lost == 2
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device, not a file of ours
        handler = JsonLines(full.fileno())
        log_lines.tell([LogEntry("state")], logger(handler))
        assert handler.lost == 1


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_record_that_cannot_be_made_is_lost_and_does_not_raise(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    handler = JsonLines(writing)
    logger(handler).info("%d files", "many")
    log_lines.tell([LogEntry("state", {"why": Broken()})], logger(handler))
    assert handler.lost == 2
    assert lines(reading) == []


PROGRAM = """
import logging
from nodeprep.publish.log_lines import LogEntry, tell, to_stderr
logger = to_stderr(verbose={verbose})
tell([LogEntry("state", {{"to": "Ready"}})], logger)
logging.getLogger("urllib3").debug("chatter")
logging.getLogger("urllib3").warning("retry %d", 2)
"""


@pytest.mark.parametrize(
    ("verbose", "events"), [(False, ["state", "retry 2"]), (True, ["state", "chatter", "retry 2"])]
)
def test_the_whole_program_speaks_json_on_stderr(verbose: bool, events: list[str]) -> None:
    import subprocess

    argv = [sys.executable, "-c", PROGRAM.format(verbose=verbose)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert [json.loads(one)["event"] for one in done.stderr.splitlines()] == events


KEPT = [
    # a line of the log, what the node's history keeps of it
    (LogEntry("config-trouble", {"message": "c.yaml:3: 'token: s3cret' is no key"}, True), [("config-trouble", {})]),
    (LogEntry("config-fine-again"), [("config-fine-again", {})]),
    (LogEntry("state", {"from": "", "to": "Ready", "fix": "look"}), [("state", {"to": "Ready"})]),
    (LogEntry("would-run", {"check": "port.state"}), []),
    (LogEntry("event-source-died", {"event_source": "links"}, True), []),
    (LogEntry("repair-step", {"step": "asked"}), []),
    (LogEntry("repair-step", {"step": "running"}), [("repair-step", {"step": "running"})]),
]


@pytest.mark.parametrize(("entry", "kept"), KEPT)
def test_what_the_history_keeps_of_a_line(entry: LogEntry, kept: list[tuple[str, dict[str, Any]]]) -> None:
    """The file is not the configuration's, so nothing that was written there may come into it."""
    records = history_lines.records([entry], status().agent_state, 1.75e9, 1000.0)
    assert [(one.event, dict(one.fields)) for one in records] == kept


@pytest.mark.parametrize(("enforced", "says"), [(None, ""), (True, ""), (False, NOT_ENFORCED)])
def test_a_policy_is_missed_on_the_node_only_after_it_was_tried(enforced: bool | None, says: str) -> None:
    assert ApiStatus(policy_enforced=enforced).for_condition == says
    assert ApiStatus(denied="no", policy_enforced=enforced).for_condition == "; ".join(filter(None, ("no", says)))
