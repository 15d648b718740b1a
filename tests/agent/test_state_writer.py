"""The memory is kept when something in it counts, and a disk that hangs stops nobody."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import pytest

from nodeprep import state_file
from nodeprep.agent.state_writer import MINOR_SAVE_PERIOD_SECONDS, SAVE_RETRY_SECONDS, SAVE_TIMEOUT_SECONDS, StateWriter
from nodeprep.agent_state import AgentState, BlindSince, Case, NodeState, PassStreak
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.values import replace
from tests.rigs.mounted import seen_with
from tests.rigs.no_thread import NO_THREAD, no_thread
from tests.rigs.waiting import until

PAST = AgentState(
    boot_id="b", state=NodeState.READY, pass_streaks={"port.state": PassStreak(3, 1.0, 31.0, proven=True)}
)
LATE = "no answer"
NEVER = 120.0  # seconds of a disk that hangs: longer than any wait here
CASE = Case("port.state", "0000:5c:00.0", 1, "mlx5_0/1", "NotActive", "it is down")


class Slow(Store):
    """A disk that answers when it is told to."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, directory)
        self.answer = threading.Event()

    def save(self, text: str) -> str:
        self.answer.wait(NEVER)
        return super().save(text)


def state_writer(tmp_path: Path) -> StateWriter:
    return StateWriter(Store(str(tmp_path / "state"), str(tmp_path / "run")))


def kept(one: StateWriter) -> AgentState | None:
    return state_file.load(Store(one.store.directory, one.store.spare)).agent_state


def having_kept(tmp_path: Path, *given: tuple[AgentState, float]) -> StateWriter:
    """One that was given these at these moments. A machine may hold up a write: then all is begun anew."""
    for _ in range(10):
        one = state_writer(Path(tempfile.mkdtemp(dir=tmp_path)))
        for agent_state, at in given:
            one.keep(agent_state, at)
            if LATE in one.trouble:
                break
        else:
            return one
    raise AssertionError("each write was late")


def hear(one: StateWriter) -> None:
    """Wait until it has heard what came of its write."""

    def heard() -> bool:
        one.keep(PAST, clock.now())
        return LATE not in one.trouble

    until(heard, "what came of the write")


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "run").mkdir()


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(replace(PAST, state=NodeState.UNHEALTHY), id="state"),
        pytest.param(replace(PAST, cases=(replace(CASE, convicted_at=5.0),)), id="conviction"),
        pytest.param(replace(PAST, cases=(replace(CASE, flaps=(5.0,)),)), id="a turn"),
        pytest.param(replace(PAST, gates=(("rdma-roce", "ready"),)), id="a gate"),
        pytest.param(replace(PAST, hardware_profiles=("rdma-roce",)), id="what hardware chose"),
        pytest.param(replace(PAST, baseline={"name": "baseline"}), id="what belongs here"),
        pytest.param(replace(PAST, profile={"name": "base"}), id="the profile"),
        pytest.param(replace(PAST, node_uid="u"), id="the Node"),
        pytest.param(replace(PAST, version="2"), id="the version"),
        pytest.param(replace(PAST, pass_streaks={}), id="what is proven"),
        pytest.param(replace(PAST, intolerant={"kube-system/rdma-dp": None}), id="who would not bear the taint"),
    ],
)
def test_what_counts_is_kept_at_once(tmp_path: Path, after: AgentState) -> None:
    found = kept(having_kept(tmp_path, (PAST, 100.0), (after, 100.1)))
    assert found is not None
    assert replace(found, serial=0, at=0.0) == after


def test_since_when_a_daemonset_is_gone_is_kept_at_once_and_not_each_time(tmp_path: Path) -> None:
    name = "kube-system/rdma-dp"
    given: list[tuple[AgentState, float]] = []
    for at, gone, there in ((100.0, None, None), (100.1, 99.0, 99.0), (100.2, 99.5, 99.0), (100.3, None, None)):
        given.append((replace(PAST, taint_tolerated=False, intolerant={name: gone}), at))
        found = kept(having_kept(tmp_path, *given))
        assert found is not None
        assert found.intolerant == {name: there}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(replace(PAST, cases=(CASE,)), id="a suspicion"),
        pytest.param(replace(PAST, blind={"port.state": BlindSince(1.0, "denied")}), id="a look in vain"),
        pytest.param(replace(PAST, passed={"port.state x 1": "4: ACTIVE"}), id="what passed"),
    ],
)
def test_what_only_spares_looks_is_kept_now_and_then(tmp_path: Path, after: AgentState) -> None:
    early = (PAST, 100.0), (after, 100.0 + MINOR_SAVE_PERIOD_SECONDS - 1)
    one = having_kept(tmp_path, *early)
    assert kept(one) == replace(PAST, serial=1, at=getattr(kept(one), "at", 0.0))
    found = kept(having_kept(tmp_path, *early, (after, 100.0 + MINOR_SAVE_PERIOD_SECONDS)))
    assert found is not None
    assert replace(found, serial=0, at=0.0) == after


def test_what_did_not_change_is_not_written(tmp_path: Path) -> None:
    one = having_kept(tmp_path, (PAST, 100.0), (PAST, 100.0 + 10 * MINOR_SAVE_PERIOD_SECONDS))
    assert one.store.serial == 1


def test_a_disk_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    disk = Slow(str(tmp_path / "state"))
    one = StateWriter(disk)
    began = time.monotonic()
    one.keep(PAST, 100.0)
    took = time.monotonic() - began
    assert SAVE_TIMEOUT_SECONDS <= took < NEVER / 2
    silence = f"{disk.directory}: no answer; the memory may not be kept; see findmnt -T {disk.directory}"
    assert one.trouble == silence
    worse = replace(PAST, state=NodeState.UNHEALTHY)

    def seconds(version: int) -> float:
        begins = time.monotonic()
        one.keep(replace(worse, version=str(version)), 101.0)  # each time another, or nothing would be to be kept
        return time.monotonic() - begins

    assert min(seconds(version) for version in range(5)) < SAVE_TIMEOUT_SECONDS, (
        "nor is another begun beside the one that hangs"
    )
    assert one.trouble == silence, "in the same words, or each round would tell it anew"
    disk.answer.set()

    def is_kept() -> bool:
        one.keep(worse, 101.0 + SAVE_RETRY_SECONDS + time.monotonic() - began)
        return not one.trouble

    until(is_kept, "it is kept once the disk answers")
    found = kept(one)
    assert found is not None
    assert found.state is NodeState.UNHEALTHY


def test_what_comes_of_a_write_that_hung_is_heard(tmp_path: Path) -> None:
    disk = Slow(str(tmp_path / "state"))
    one = StateWriter(disk)
    one.keep(PAST, 100.0)
    assert LATE in one.trouble
    disk.answer.set()
    hear(one)
    assert one.trouble == "", "though nothing changed, and it is no time to try again"
    assert disk.serial == 1, "it was kept once"


def test_what_went_wrong_with_a_write_that_hung_is_heard(tmp_path: Path) -> None:
    disk = Slow(str(tmp_path / "gone"))
    (tmp_path / "gone").touch()
    one = StateWriter(disk)
    one.keep(PAST, 100.0)
    disk.answer.set()
    hear(one)
    assert one.trouble.startswith(f"{disk.directory}: File exists")


FULL = """
import json, os, sys, time
from nodeprep.agent.state_writer import SAVE_RETRY_SECONDS, StateWriter
from nodeprep.doors import clock
from nodeprep.doors.files.state_store import Store
from nodeprep.agent_state import AgentState, NodeState
from nodeprep.state_file import load
full, spare = sys.argv[1], sys.argv[2]
one = StateWriter(Store(full, spare))
ready, sick = AgentState("b", state=NodeState.READY), AgentState("b", state=NodeState.UNHEALTHY)
def keep(what, at):
    one.keep(what, at)
    while "no answer" in one.trouble:  # a busy machine takes its time
        time.sleep(0.05)
        one.keep(what, clock.now())
def says():
    return [one.trouble.partition(";")[0], str(load(Store(full, full)).agent_state.state)]
keep(ready, clock.now())
told = [says()]
with open(full + "/ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError:
        pass
for _ in range(2):
    keep(sick, clock.now())
    told.append(says())
os.unlink(full + "/ballast")
keep(sick, clock.now())
told.append(says())
keep(sick, clock.now() + SAVE_RETRY_SECONDS)
print(json.dumps([*told, says()]))
"""


def test_what_a_full_disk_did_not_take_is_kept_when_there_is_room(tmp_path: Path) -> None:
    """Though nothing changes any more."""
    full, spare = str(tmp_path / "state"), str(tmp_path / "run")
    refused = [f"{full}: No space left on device", "Ready"]
    said = seen_with('mount -t tmpfs -o size=64k none "$1"', FULL, full, spare)
    assert said == [["", "Ready"], refused, refused, refused, ["", "Unhealthy"]]


class Broken(Store):
    """A disk with a fault of ours."""

    fault: Exception | None = None

    def save(self, text: str) -> str:
        if self.fault is not None:
            raise self.fault
        return super().save(text)


@pytest.mark.parametrize("fault", [RuntimeError("no such luck"), TypeError("no text"), OSError(5, "broke")])
def test_a_fault_of_ours_is_told_and_tried_again(
    tmp_path: Path, fault: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    disk = Broken(str(tmp_path / "state"), str(tmp_path / "run"))
    disk.fault = fault
    one = StateWriter(disk)
    one.keep(PAST, 100.0)
    hear(one)
    assert one.trouble.startswith(f"{disk.directory}: {type(fault).__name__}: {fault}; the memory may not be kept")
    assert capfd.readouterr().err == ""
    disk.fault = None
    one.keep(PAST, clock.now() + SAVE_RETRY_SECONDS)
    hear(one)
    assert one.trouble == ""
    assert kept(one) is not None


def test_where_no_thread_can_be_started_that_is_told(tmp_path: Path) -> None:
    one = state_writer(tmp_path)
    with no_thread():
        one.keep(PAST, 100.0)
    assert one.trouble.startswith(f"{one.store.directory}: no thread can be started ({NO_THREAD})")
    assert kept(one) is None
    one.keep(PAST, clock.now() + SAVE_RETRY_SECONDS)
    hear(one)
    assert one.trouble == ""
    assert kept(one) is not None
