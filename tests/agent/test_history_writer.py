"""A node's history is written beside the rounds: a disk that hangs or is full costs the newest records, and is said."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from nodeprep.agent import history_writer
from nodeprep.agent.history_writer import HistoryWriter
from nodeprep.doors.files.line_file import LineFile
from nodeprep.history import node_record, node_state
from nodeprep.history.node_record import LOST, NAME, NodeRecord, line, record_of
from tests.history_values import EPOCH, PORT, outage, record, started
from tests.rigs.absent import needs_root
from tests.rigs.no_thread import NO_THREAD, no_thread


def kept(directory: Path) -> list[NodeRecord]:
    found = [record_of(one) for one in LineFile(str(directory), NAME, 0o600).lines()]
    assert None not in found
    return [one for one in found if one is not None]


def written(directory: Path, records: Iterable[NodeRecord]) -> HistoryWriter:
    writer = HistoryWriter(str(directory))
    assert writer.recall() == ""
    writer.add(records)
    writer.finish(60)
    return writer


def test_what_is_added_is_kept_and_recalled(tmp_path: Path) -> None:
    records = [*started(10.0), *outage(1000.0), record("configuration", 1200.0, keys={"mode": "11"})]
    assert written(tmp_path, records).trouble == ""
    assert kept(tmp_path) == records
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    again = written(tmp_path, [])
    assert again.keys == {"mode": "11"}
    assert list(again.repeats.hours) == [(PORT["check"], PORT["place"])]
    assert kept(tmp_path) == records, "a start writes nothing by itself"


def test_who_repeats_is_known_without_a_restart_and_after_one(tmp_path: Path) -> None:
    writer = written(tmp_path, [one for hour in (1, 2, 3) for one in outage(hour * 3600.0)])
    offenders = writer.repeats.offenders(EPOCH + 4 * 3600)
    assert [one.hours for one in offenders] == [3]
    assert written(tmp_path, []).repeats.offenders(EPOCH + 4 * 3600) == offenders


def test_it_folds_while_it_writes_and_goes_on(tmp_path: Path) -> None:
    records = [*started(10.0), *(one for number in range(400) for one in outage(100.0 + number * 200.0))]
    writer = HistoryWriter(str(tmp_path))
    writer.recall()
    for first in range(0, len(records), 50):
        writer.add(records[first : first + 50])
        writer.finish(60)
    found = kept(tmp_path)
    single = [one for one in found if one.event not in ("folded", "base")]
    assert node_record.KEPT_RECORDS <= len(single) < node_record.FOLDED_AT_RECORDS
    assert single == records[-len(single) :]
    assert node_state.replay(found).ready == ("rdma",)
    assert written(tmp_path, outage(1e6)).trouble == ""
    assert kept(tmp_path)[-1].at == 1e6 + 70


class Slow(LineFile):
    """A disk that answers when it is told to."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, NAME, 0o600)
        self.asked, self.answer = threading.Event(), threading.Event()

    def append(self, lines: bytes) -> int:
        self.asked.set()
        self.answer.wait(120)
        return super().append(lines)


def test_a_disk_that_hangs_stops_nobody_and_loses_only_the_newest(tmp_path: Path) -> None:
    writer = HistoryWriter(str(tmp_path))
    slow = writer.file = Slow(str(tmp_path))
    many = history_writer.PENDING_LIMIT_RECORDS + 20
    began = time.monotonic()
    writer.add([record("state", 0.0, to="Ready")])
    assert slow.asked.wait(60), "the thread has taken the first"
    assert writer.waiting == 1
    for number in range(many):
        writer.add([record("state", number + 1.0, to="Ready")])
    assert time.monotonic() - began < 30, "nothing waited for the disk"
    assert "no answer from the disk" in writer.trouble
    slow.answer.set()
    writer.finish(60)
    found = kept(tmp_path)
    assert [one.at for one in found if one.event != LOST] == [float(n) for n in range(many - 20 + 1)]
    assert [one.fields["count"] for one in found if one.event == LOST] == [20]
    assert writer.trouble == ""


FULL = """
import sys
from nodeprep.agent.history_writer import HistoryWriter
from nodeprep.history.node_record import NodeRecord
from pathlib import Path
place = Path(sys.argv[1])
writer = HistoryWriter(str(place))
(place / "ballast").write_bytes(b"x" * 40960)
for number in range(200):
    writer.add([NodeRecord(1.0, float(number), "b", "state", {"to": "x" * 200})])
    writer.finish(60)
print(writer.trouble)
(place / "ballast").unlink()
writer.add([NodeRecord(2.0, 1000.0, "b", "state", {"to": "Ready"})])
writer.finish(60)
print(writer.trouble)
"""


@needs_root("it mounts a small disk")
def test_a_full_disk_is_said_and_so_is_what_it_cost(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=64k none "{tmp_path}" && "$0" -c "$1" "{tmp_path}" && cat "{tmp_path}/{NAME}"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, FULL]
    said, after, *lines = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\n")
    assert b"No space left on device; the newest records are lost; see df" in said
    assert after == b""
    *whole, lost, last = [one for one in map(record_of, lines) if one is not None]
    assert [one.at for one in whole] == [float(number) for number in range(len(whole))]
    assert (lost.event, lost.fields["count"]) == (LOST, 200 - len(whole))
    assert last.at == 1000.0


def test_a_file_that_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    said = HistoryWriter(str(tmp_path)).recall()
    assert said.startswith(f"{tmp_path}/{NAME}: ")
    assert said.endswith("the history is not read")


def test_where_no_thread_can_be_started_the_records_wait(tmp_path: Path) -> None:
    writer = HistoryWriter(str(tmp_path))
    with no_thread():
        writer.add(outage(1.0))
    assert NO_THREAD in writer.trouble
    writer.add([record("state", 99.0, to="Ready")])
    writer.finish(60)
    assert [one.at for one in kept(tmp_path)] == [*(one.at for one in outage(1.0)), 99.0]
    assert writer.trouble == ""


@pytest.mark.parametrize("tail", [b'{"time":1,"at":2', b"\x00\x00\x00", b'{"event":"folded"}\n', b'{"event":"base"}\n'])
def test_a_damaged_file_is_gone_on_with(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / NAME).write_bytes(b"".join(map(line, started(1.0))) + tail)
    assert written(tmp_path, outage(100.0)).trouble == ""
    lines = list(LineFile(str(tmp_path), NAME, 0o600).lines())
    found = [one for one in map(record_of, lines) if one is not None]
    assert found == [*started(1.0), *outage(100.0)]


def test_damaged_counts_do_not_stop_a_start(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        '{"time":1,"at":0,"boot":"b","event":"folded","cases":{"a b c":[NaN,0,1]},"names":7}\n'
    )
    writer = written(tmp_path, outage(1.0))
    assert (writer.trouble, list(writer.repeats.hours)) == ("", [(PORT["check"], PORT["place"])])


class Unfoldable(LineFile):
    """A disk with room for lines, and none for another file."""

    def replace(self, lines: Iterable[bytes]) -> int:  # noqa: ARG002 - as the file has it
        raise OSError(28, "No space left on device", self.path)


def test_where_it_cannot_be_folded_nothing_that_is_kept_counts_as_lost(tmp_path: Path) -> None:
    writer = HistoryWriter(str(tmp_path))
    writer.file = Unfoldable(str(tmp_path), NAME, 0o600)
    for first in range(0, 1300, 50):
        writer.add(record("state", float(number), to="Ready") for number in range(first, first + 50))
        writer.finish(60)
    assert "it cannot be folded" in writer.trouble
    assert [one.at for one in kept(tmp_path)] == [float(number) for number in range(1300)]
    for number in range(40):
        writer.add(record("mounts-trouble", float(number), message="x" * 600) for _ in range(100))
        writer.finish(60)
    assert (tmp_path / NAME).stat().st_size <= node_record.SIZE_LIMIT_BYTES
    assert "the newest records are lost" in writer.trouble
    writer.file = LineFile(str(tmp_path), NAME, 0o600)
    writer.try_again(started(9000.0))
    writer.finish(60)
    *_, lost, _, _, _, _ = kept(tmp_path)
    assert (lost.event, writer.trouble) == (LOST, "")
    assert (tmp_path / NAME).stat().st_size <= node_record.SIZE_LIMIT_BYTES


def test_a_configuration_with_each_key_set_is_kept_whole(tmp_path: Path) -> None:
    keys = {f"confirmation.some-key-{number:02}": "abcd" for number in range(150)}
    written(tmp_path, [record("configuration", 1.0, digest="ab", changed=sorted(keys), keys=keys)])
    assert written(tmp_path, []).keys == keys
