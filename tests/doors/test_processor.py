"""How long this process was busy: threads that compute, and the kernel's figures of those that waited."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nodeprep.doors import clock, processor
from nodeprep.doors.processor import ProcessorMoment
from nodeprep.model import Why
from tests.rigs.ending import ending


def tasks(directory: Path, **schedstat: str) -> str:
    """A directory such as /proc/self/task."""
    for thread, line in schedstat.items():
        (directory / thread).mkdir(exist_ok=True)
        (directory / thread / "schedstat").write_text(line)
    return str(directory)


def test_what_is_computed_counts() -> None:
    before, began = processor.moment(), time.process_time()
    while time.process_time() - began < 0.2:
        pass
    assert processor.busy_since(before) >= 0.2


def test_this_kernel_says_who_waited() -> None:
    assert processor.moment().waited.keys() == {path.name for path in Path(processor.TASKS).iterdir()}


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
    then = ProcessorMoment(clock.now() - 100.0, time.process_time(), {"7": 1_000_000_000})
    assert waited <= processor.busy_since(then, tasks(tmp_path, **later)) < waited + 0.4, (
        "this test itself computes a little"
    )


@pytest.mark.parametrize(
    ("waited", "deadline", "means"),
    [(0.0, 100.0, Why.TIMEOUT), (40.0, 100.0, Why.TIMEOUT), (60.0, 100.0, Why.BUSY), (60.0, 70.0, Why.TIMEOUT)],
)
def test_a_server_was_silent_only_if_we_could_have_heard_it(
    tmp_path: Path, waited: float, deadline: float, means: Why
) -> None:
    """For half of the deadline: else a node under load would take its own kubelet for dead."""
    then = ProcessorMoment(clock.now() - 100.0, time.process_time(), {"7": 0})
    where = tasks(tmp_path, **{"7": f"90 {waited * 1e9:.0f} 3"})
    assert processor.silence(then, deadline, where) is means


STAT = "{} (a) R b) {} 1 7 7 0"  # a name may hold what ends one


@pytest.mark.parametrize(("state", "all_of_it"), [("R", True), ("S", False), ("D", False)])
def test_a_thread_that_waits_now_has_waited_for_who_knows_how_long(
    tmp_path: Path, state: str, *, all_of_it: bool
) -> None:
    then = ProcessorMoment(clock.now() - 100.0, time.process_time(), {"7": 0})
    where = tasks(tmp_path, **{"7": "90 0 3"})
    (tmp_path / "7" / "stat").write_text(STAT.format(7, state))
    assert (processor.busy_since(then, where) >= 100.0) is all_of_it


def test_who_asks_is_no_thread_that_waits(tmp_path: Path) -> None:
    own = str(threading.get_native_id())
    where = tasks(tmp_path, **{own: "90 0 3"})
    (tmp_path / own / "stat").write_text(STAT.format(own, "R"))
    assert processor.busy_since(ProcessorMoment(clock.now() - 100.0, time.process_time(), {own: 0}), where) < 1.0


def test_a_thread_that_others_keep_from_a_processor_is_busy_while_it_waits() -> None:
    """The kernel adds to its figure only when it runs again."""
    cpu, begun = max(os.sched_getaffinity(0)), threading.Event()

    def compute() -> None:
        os.sched_setaffinity(0, {cpu})
        begun.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 5_000_000)  # it holds no lock of the interpreter

    hashlib.pbkdf2_hmac("sha256", b"", b"", 1)  # what it loads at first it loads with that lock
    taken = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    thread, idle = threading.Thread(target=compute), []
    with ending(subprocess.Popen((sys.executable, "-c", taken), stdout=subprocess.PIPE)) as other:
        assert other.stdout is not None
        other.stdout.readline()
        thread.start()
        begun.wait()
        time.sleep(0.2)
        os.sched_setscheduler(thread.native_id or 0, os.SCHED_IDLE, os.sched_param(0))
        before = processor.moment()
        for _ in range(20):
            time.sleep(0.1)
            idle.append(clock.now() - before.at - processor.busy_since(before))
        other.kill()
    with suppress(PermissionError):  # else it goes on as it is, when nothing else wants the processor
        os.sched_setscheduler(thread.native_id or 0, os.SCHED_OTHER, os.sched_param(0))
    thread.join()
    assert max(idle) < 0.3, "it computed or waited for all of two seconds"


def test_two_threads_that_waited_at_once_make_no_time(tmp_path: Path) -> None:
    """Else a device that hangs would be found the later, the more of our threads there are."""
    then = ProcessorMoment(clock.now() - 1.0, time.process_time(), {})
    took = processor.busy_since(then, tasks(tmp_path, **{"7": "0 60000000000 1", "8": "0 60000000000 1"}))
    assert took <= clock.now() - then.at


def test_where_nobody_tells_who_waited_nobody_did(tmp_path: Path) -> None:
    assert processor.moment(str(tmp_path / "absent")).waited == {}
