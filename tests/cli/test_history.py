"""`nodeprep history`: what happened to this node, and what it was at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nodeprep.cli.history import history_reading, moment, timeline_page
from nodeprep.cli.history.history_reading import HistoryReading
from nodeprep.cli.nodes import scope
from nodeprep.cli.usage import UsageError
from nodeprep.history import folding
from nodeprep.history.incidents import Selection
from nodeprep.history.node_record import NAME, NodeRecord, line
from nodeprep.history.timeline import Now
from tests.cli import program
from tests.history_values import EPOCH, outage, record, started

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/history.schema.json").read_text())
WEEK = [
    *started(10.0),
    record("configuration", 10.0, digest="5eed5eed00", keys={"mode": "11", "assign": "22"}),
    *outage(1000.0),
    record("policy-not-enforced", 1500.0, message="the admission policy is gone"),
    record("stopped", 2000.0, signal="SIGTERM"),
    *started(2010.0),
]

STEPS = "gate closed 03:36:40 -> passes 03:37:40 -> gate open 03:37:50 (all in 1 min 10 s)"
CLOCK = "times of that boot are shown as the later clock has them, and those of other boots are as they were"
OUTAGE = f"port.state NoSignal mlx5_5/1 -> {STEPS}"


class Node:
    """A node's directories, with a history that an agent left."""

    def __init__(self, place: Path, records: Iterable[NodeRecord], tail: bytes = b"") -> None:
        self.environment = {}
        for name in ("state", "run", "socket"):
            (place / name).mkdir()
            self.environment[f"NODEPREP_{name.upper()}_DIR"] = str(place / name)
        self.file = place / "state" / NAME
        self.file.write_bytes(b"".join(map(line, records)) + tail)

    def says(self, *words: str) -> tuple[int, str, str]:
        done = program.nodeprep("history", *words, **self.environment)
        return done.returncode, done.stdout, done.stderr

    def document(self, *words: str) -> Any:
        code, out, _ = self.says(*words, "-o", "json")
        said = json.loads(out)
        jsonschema.validate(said, SCHEMA, cls=jsonschema.Draft202012Validator)
        return said | {"code": code}


def test_a_timeline_has_a_line_for_each_incident(tmp_path: Path) -> None:
    code, out, _ = Node(tmp_path, WEEK).says()
    assert code == 0
    title, *lines = out.splitlines()
    assert "times in UTC, each record since 2026-11-20 03:20:10; now " in title
    assert title.endswith("nobody knows whether the agent ran after its last record")
    assert lines == [
        "2026-11-20 03:20:10  agent 0.1.0 started in boot one",
        "2026-11-20 03:20:10  mode gate",
        "2026-11-20 03:20:11  state Ready",
        "2026-11-20 03:20:11  gate rdma open",
        "2026-11-20 03:20:10  configuration 5eed5eed00: sets assign, mode",
        f"2026-11-20 03:36:40  {OUTAGE}",
        "2026-11-20 03:45:00  admission policy not enforced: the admission policy is gone",
        "2026-11-20 03:53:20  agent stopped (SIGTERM)",
        "2026-11-20 03:53:30  agent 0.1.0 started in boot one",
        "2026-11-20 03:53:30  mode gate",
        "2026-11-20 03:53:31  state Ready",
        "2026-11-20 03:53:31  gate rdma open",
    ]


def test_it_is_chosen_by_time_device_and_check(tmp_path: Path) -> None:
    node = Node(tmp_path, WEEK)
    for device in ("mlx5_5/1", "mlx5_5", "0000:5d:00.0", "mlx*"):
        assert node.says("--device", device)[1].count("\n") == 2
    assert node.says("--check", "port.*", "--since", "2026-11-20T03:30:00Z")[1].count("\n") == 2
    late = node.says("--check", "port.*", "--since", "2026-11-20T03:40:00Z")[1]
    assert late.splitlines()[1:] == ["nothing of that device and check is in this history since then"]
    assert "port.state" not in node.says("--since", "2026-11-20 03:45")[1]


def test_what_stands_says_for_how_long(tmp_path: Path) -> None:
    """Only of a node whose agent runs: otherwise nobody watched."""
    *_, last = Node(tmp_path, WEEK[:8]).says()[1].splitlines()
    assert "port.state NoSignal mlx5_5/1 -> gate closed 03:36:40 -> no end is recorded; nobody is known" in last
    reading = HistoryReading("gpu-17", Now(EPOCH + 4600, 4600, "one", 4599), tuple(WEEK[:8]))
    title, *_, last = timeline_page.page(reading, Selection(), wide=False)
    assert title.endswith("now 2026-11-20 04:36:40, the agent runs")
    assert last.endswith("-> gate closed 03:36:40 -> still so after 1 h")


def test_an_end_that_nobody_saw_has_a_line(tmp_path: Path) -> None:
    killed = [*started(10.0), *started(500.0), *started(20.0, "two", EPOCH + 1000)]
    lines = Node(tmp_path, killed).says()[1].splitlines()
    assert [line[21:] for line in lines if "nobody watched" in line] == [
        "last record before the agent ended unseen; nobody watched until 2026-11-20 03:28:20",
        "last record before a boot without a shutdown; nobody watched until 2026-11-20 03:37:00",
    ]


def test_wide_is_a_line_for_each_record(tmp_path: Path) -> None:
    _, out, _ = Node(tmp_path, WEEK).says("-o", "wide")
    assert len(out.splitlines()) == len(WEEK) + 1
    assert "2026-11-20 03:36:40  port.state NoSignal mlx5_5/1: no carrier" in out.splitlines()


def test_json_is_by_the_schema_and_can_be_read_again(tmp_path: Path) -> None:
    node = Node(tmp_path, WEEK)
    said = node.document()
    assert (said["code"], len(said["records"]), said["torn"]) == (0, len(WEEK), False)
    again = history_reading.of_document(json.dumps(said), "gpu-17")
    assert again is not None
    assert [one.event for one in again.records] == [one.event for one in WEEK]
    assert history_reading.of_document("{}", "gpu-17") is None


def test_a_snapshot_takes_the_last_records_with_it(tmp_path: Path) -> None:
    secret = record("policy-not-enforced", 2020.0, message="with password=hunter2 it said")
    node = Node(tmp_path, [*(record("mode", float(n), to="gate") for n in range(60)), *WEEK, secret])
    file = str(tmp_path / "node.json")
    assert program.nodeprep("snapshot", "-o", file, "--settle", "0", **node.environment).returncode == 0
    code, out, _ = node.says("--snapshot", file, "-o", "wide")
    assert (code, len(out.splitlines())) == (0, 52), "with the title, and a start after no end"
    assert "port.state NoSignal mlx5_5/1" in out
    assert "hunter2" not in Path(file).read_text()
    assert node.says("--snapshot", file, "--at", "2026-11-20T03:37:00Z")[0] == 1
    assert node.says("gpu-17", "--snapshot", file)[0] == 2
    node.file.unlink()
    assert program.nodeprep("snapshot", "--force", "-o", file, "--settle", "0", **node.environment).returncode == 0
    assert "no history; wanted a snapshot of a node on which" in node.says("--snapshot", file)[2]


AT = [
    ("03:30", 0, "READY", ["profile   rdma: open since 2026-11-20 03:20:11"]),
    ("03:37:00", 1, "NOT READY", ["open      port.state NoSignal mlx5_5/1 since 2026-11-20 03:36:40", "03:36:40"]),
    ("03:53:25", 3, "NOBODY KNOWS: the agent ended at 2026-11-20 03:53:20 UTC (SIGTERM) and started again at ", []),
    ("03:00", 3, "NOBODY KNOWS: that is before what this history keeps", []),
]


@pytest.mark.parametrize(("when", "code", "word", "lines"), AT)
def test_what_it_was_at_a_time(tmp_path: Path, when: str, code: int, word: str, lines: list[str]) -> None:
    node = Node(tmp_path, WEEK)
    told = node.says("--at", f"2026-11-20T{when}Z")
    assert told[0] == code, told[1]
    assert f"UTC: {word}" in told[1].splitlines()[0]
    assert all(one in told[1] for one in lines)
    said = node.document("--at", f"2026-11-20T{when}Z")
    assert (said["code"], said["verdict"]) == (code, {0: "ready", 1: "not-ready", 3: "unknown"}[code])


def test_a_folded_history_has_its_older_days_as_counts(tmp_path: Path) -> None:
    days = [one for number in range(400) for one in outage(100.0 + number * 200.0, seconds=30.0)]
    lines = folding.folded([line(one).rstrip(b"\n") for one in [*started(10.0), *days]])
    node = Node(tmp_path, [], b"".join(lines))
    code, out, _ = node.says()
    told = out.splitlines()
    assert (code, told[1]) == (0, "before that, by day:")
    assert told[2].startswith("2026-11-20           port.state 0000:5d:00.0/1 NoSignal ")
    assert "note: " not in out
    assert node.document()["counts"]
    assert node.says("--device", "mlx5_5")[0] == 0


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    stepped = [*WEEK, record("state", 3000.0, offset=EPOCH + 3600, to="Ready")]
    head = b"\x00\x00\n"
    node = Node(tmp_path, [], head + b"".join(map(line, stepped)) + b'{"time":1,"at"')
    notes = [one for one in node.says()[1].splitlines() if one.startswith("note: ")]
    assert notes == [
        "note: the last line is torn: it was being written when its writer ended",
        "note: 1 line is no record and is passed over",
        f"note: the clock was set forward by 1 h in boot one, before 2026-11-20 05:10:00; {CLOCK}",
    ]


WRONG = [
    (("--at", "yesterday"), "--at: found 'yesterday', wanted a UTC time such as 2026-11-28T03:12:30Z or 03:12, "),
    (("--since", "25:99"), "--since: found '25:99', wanted a UTC time"),
    (("--at", "1h", "--device", "x"), "--at is one moment of the whole node: it cannot be combined with "),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_wrong_use_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    code, out, err = Node(tmp_path, WEEK).says(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(says)


def test_a_node_without_an_agent_says_so(tmp_path: Path) -> None:
    code, out, err = Node(tmp_path, []).says()
    assert (code, out) == (2, "")
    assert "no history; wanted a node on which nodeprep's agent runs" in err


NOW = 1795838400.0  # 2026-11-28T04:00:00Z
MOMENTS = [
    ("2026-11-28T03:12:30Z", NOW - 47.5 * 60),
    ("2026-11-28T11:12:30+08:00", NOW - 47.5 * 60),
    ("2026-11-28 03:12", NOW - 48 * 60),
    ("03:12", NOW - 48 * 60),
    ("04:01", NOW + 60 - 86400),
    ("90m", NOW - 5400),
    ("2h", NOW - 7200),
    ("3d", NOW - 3 * 86400),
]


@pytest.mark.parametrize(("typed", "wanted"), MOMENTS)
def test_moments(typed: str, wanted: float) -> None:
    assert moment.seconds("--at", typed, NOW) == wanted


@pytest.mark.parametrize("typed", ["", "x", "2026-13-01", "3w", "03:12:30:01", "-1h"])
def test_what_is_no_moment(typed: str) -> None:
    with pytest.raises(UsageError, match="--at: found"):
        moment.seconds("--at", typed, NOW)


def test_spans() -> None:
    assert [moment.span(one) for one in (0, 59.6, 70, 3600, 90061)] == ["0 s", "1 min", "1 min 10 s", "1 h", "1 d 1 h"]


def test_check_tells_a_device_that_fails_again_and_again(tmp_path: Path) -> None:
    hours = [one for hour in (2, 3, 4) for one in outage(1000.0, "one", time.time() - 3600.0 * hour - 1000.0)]
    node = Node(tmp_path, hours)
    said = json.loads(program.nodeprep("check", "--only", "time.sync", "-o", "json", **node.environment).stdout)
    note = (
        "port.state convicted mlx5_5/1 in 3 different hours of the last 14 days; see nodeprep history --device mlx5_5/1"
    )
    assert said["notes"] == [note]
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: nodeprep.io/v1\nkind: Config\nhistory: {repeat-hours: 4}\n")
    words = ("check", "--only", "time.sync", "-o", "json", "--config", str(config))
    assert json.loads(program.nodeprep(*words, **node.environment).stdout)["notes"] == []


def test_nodes_tells_the_first_three_nodes_with_such_a_device() -> None:
    known = [(f"gpu-{number}", "port.state mlx5_5/1 in 3 hours") for number in range(5)]
    assert scope.repeats_note(known[:1]) == (
        "gpu-0 fails again and again: port.state mlx5_5/1 in 3 hours (nodeprep history gpu-0)",
    )
    assert scope.repeats_note(known)[3:] == ("so do 2 Nodes more",)
    assert scope.repeats_note([]) == ()
