"""The remediator's ledger: no attempt twice, also after an end of the process, a torn line and a full disk."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from nodeprep.config import remedy_files
from nodeprep.decide.remediator_limits import PastRun
from nodeprep.repair import attempt_ledger, repair_history
from nodeprep.repair.attempt_ledger import AttemptLedger, LedgerLost
from nodeprep.repair.repair_history import BEGAN, CHECKED, INTERRUPTED, REFUSED, RepairRecord
from nodeprep.values import asdict, replace
from tests.rigs.absent import needs_root

HEADERS = remedy_files.headers()


def record(attempt: str = "a", remedy: str = "link_up", state: str = BEGAN, at: float = 1000.0) -> RepairRecord:
    return RepairRecord(attempt, at, "boot", "remediator", remedy, state)


def test_what_began_is_known_to_the_next_process(tmp_path: Path) -> None:
    ledger = AttemptLedger(str(tmp_path / "ledger"))
    assert ledger.record("a") is None
    ledger.begin(record("a"))
    ledger.begin(record("b", "plugin_restart"))
    ledger.end(record("b", "plugin_restart", "done"))
    for again in (ledger, AttemptLedger(str(tmp_path / "ledger"))):
        assert [getattr(again.record(one), "state", None) for one in "abc"] == [BEGAN, "done", None]
        assert list(again.past(HEADERS)) == [
            PastRun("link_up", 1000.0),
            PastRun("plugin_restart", 1000.0, is_restart=True),
        ]
    assert [
        path.stat().st_mode & 0o777 for path in (tmp_path / "ledger", tmp_path / "ledger" / repair_history.NAME)
    ] == [
        0o700,
        0o600,
    ]


@pytest.mark.parametrize(
    ("state", "is_idle"), [(BEGAN, False), ("failed", False), (INTERRUPTED, False), (REFUSED, True), (CHECKED, True)]
)
def test_what_changed_nothing_is_told(tmp_path: Path, state: str, is_idle: bool) -> None:
    ledger = AttemptLedger(str(tmp_path))
    ledger.begin(record())
    ledger.end(record(state=state))
    assert [one.is_idle for one in ledger.past(HEADERS)] == [is_idle]


def test_the_oldest_attempts_are_forgotten(tmp_path: Path) -> None:
    """In memory as in the file, so that no number of attempts fills either."""
    lines = (json.dumps(asdict(record(f"a{number}"))) for number in range(attempt_ledger.KEPT_ATTEMPTS + 100))
    (tmp_path / repair_history.NAME).write_text("\n".join((*lines, "")))
    ledger = AttemptLedger(str(tmp_path))
    ledger.begin(record("b"))
    assert len(list(ledger.past(HEADERS))) == attempt_ledger.KEPT_ATTEMPTS
    assert [ledger.record(one) is not None for one in ("a0", "a100", "a101", "b")] == [False, False, True, True]


def test_a_torn_line_is_of_an_attempt_that_never_began(tmp_path: Path) -> None:
    ledger = AttemptLedger(str(tmp_path))
    ledger.begin(record("a"))
    path = tmp_path / repair_history.NAME
    path.write_bytes(path.read_bytes() + b'{"id": "b", "at": 10')
    again = AttemptLedger(str(tmp_path))
    assert again.record("b") is None
    again.begin(record("b"))
    assert [one.id for one in repair_history.RepairHistory(str(tmp_path)).records()] == ["a", "b"]


@pytest.mark.parametrize("harm", ["gone", "another", "shorter", "longer"])
def test_nothing_begins_where_the_file_is_not_ours(tmp_path: Path, harm: str) -> None:
    ledger = AttemptLedger(str(tmp_path))
    ledger.begin(record("a"))
    path = tmp_path / repair_history.NAME
    match harm:
        case "gone":
            path.unlink()
        case "another":
            path.with_name("new").write_bytes(path.read_bytes())
            path.with_name("new").rename(path)
        case "shorter":
            os.truncate(path, 10)
        case _:
            path.write_bytes(path.read_bytes() * 2)
    for _ in range(2):
        with pytest.raises(LedgerLost, match=str(path)):
            ledger.begin(record("b"))
        with pytest.raises(LedgerLost, match=str(path)):
            ledger.end(record("a", state="done"))
    assert ledger.record("b") is None
    assert getattr(ledger.record("a"), "state", None) == "done", "what ended is known all the same"


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "[]",
        json.dumps(asdict(record()) | {"at": "soon"}),
        json.dumps(asdict(record()) | {"at": float("nan")}),
        json.dumps(asdict(record()) | {"id": 7}),
        json.dumps({"id": "a"}),
        "",
    ],
)
def test_a_line_that_is_no_record_is_no_beginning(tmp_path: Path, line: str) -> None:
    """Else the attempts that it stood for could run again, and the limits would begin anew."""
    path = tmp_path / repair_history.NAME
    path.write_text(f"{json.dumps(asdict(record()))}\n{line}\n")
    with pytest.raises(LedgerLost, match=f"{path}: line 2: found"):
        AttemptLedger(str(tmp_path))


def fill(ledger: AttemptLedger) -> None:
    for number in range(100):
        ledger.begin(replace(record(f"b{number}"), why="x" * 500))


@needs_root("a full file system is mounted")
def test_nothing_begins_on_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=16k", "small", str(place)), check=True)
    try:
        ledger = AttemptLedger(str(place))
        ledger.begin(record("a"))
        (place / "filler").write_bytes(b"x" * 8192)
        with pytest.raises(
            OSError, match=rf"No space left on device: '{place}/history.jsonl'"
        ):  # it holds eight of them
            fill(ledger)
        on_disk = AttemptLedger(str(place)).open_attempts()
        assert len(on_disk) > 2
        assert all(ledger.record(one.id) for one in on_disk), "what the disk has is known"
        (place / "filler").unlink()
        ledger.begin(record("c"))
        assert AttemptLedger(str(place)).record("c")
    finally:
        subprocess.run(("umount", str(place)), check=True)


def test_an_unreadable_ledger_is_no_beginning(tmp_path: Path) -> None:
    (tmp_path / repair_history.NAME).mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        AttemptLedger(str(tmp_path))
