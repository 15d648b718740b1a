"""How long this process was busy: threads that compute, and the kernel's figures of those that waited."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodeprep.doors import clock, processor
from nodeprep.doors.processor import Moment, busy_since, moment


def tasks(directory: Path, **schedstat: str) -> str:
    """A directory such as /proc/self/task."""
    for thread, line in schedstat.items():
        (directory / thread).mkdir(exist_ok=True)
        (directory / thread / "schedstat").write_text(line)
    return str(directory)


def test_what_is_computed_counts() -> None:
    before, began = moment(), time.process_time()
    while time.process_time() - began < 0.2:
        pass
    assert busy_since(before) >= 0.2


def test_this_kernel_says_who_waited() -> None:
    assert moment().waited.keys() == {path.name for path in Path(processor.TASKS).iterdir()}


@pytest.mark.parametrize(
    ("later", "waited"),
    [
        ({"7": "90 1500000000 3"}, 0.5),
        ({"7": "90 1000000000 3"}, 0.0),
        ({"7": "90 1500000000 3", "8": "1 2000000000 1"}, 2.5),  # one that is new has waited since then only
        ({"8": "0 0 0"}, 0.0),  # the other one ended; this kernel counts nothing
        ({"7": "90"}, 0.0),
        ({"7": ""}, 0.0),
    ],
)
def test_what_threads_waited_counts(tmp_path: Path, later: dict[str, str], waited: float) -> None:
    then = Moment(clock.now() - 100.0, time.process_time(), {"7": 1_000_000_000})
    assert waited <= busy_since(then, tasks(tmp_path, **later)) < waited + 0.4, "this test itself computes a little"


def test_two_threads_that_waited_at_once_make_no_time(tmp_path: Path) -> None:
    """Else a device that hangs would be found the later, the more of our threads there are."""
    then = Moment(clock.now() - 1.0, time.process_time(), {})
    took = busy_since(then, tasks(tmp_path, **{"7": "0 60000000000 1", "8": "0 60000000000 1"}))
    assert took <= clock.now() - then.at


def test_where_nobody_tells_who_waited_nobody_did(tmp_path: Path) -> None:
    assert moment(str(tmp_path / "absent")).waited == {}
