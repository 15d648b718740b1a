"""The memory is kept when something in it counts, and a disk that hangs stops nobody."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nodeprep.agent.keeping import AGAIN, PATIENCE, SELDOM, Keeper
from nodeprep.doors.store import Store
from nodeprep.facts.past import Blind, Case, Past, Proof, State
from nodeprep.memory import recall

PAST = Past(boot_id="b", state=State.READY, proofs={"port.state": Proof(3, 1.0, 31.0, proven=True)})
CASE = Case("port.state", "0000:5c:00.0", 1, "mlx5_0/1", "NotActive", "it is down")


class Slow(Store):
    """A disk that answers when it is told to."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, directory)
        self.answer = threading.Event()

    def save(self, text: str) -> str:
        self.answer.wait(60)
        return super().save(text)


def keeper(tmp_path: Path) -> Keeper:
    return Keeper(Store(str(tmp_path / "state"), str(tmp_path / "run")))


def kept(one: Keeper) -> Past | None:
    return recall(Store(one.store.directory, one.store.spare)).past


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "run").mkdir()


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(replace(PAST, state=State.UNHEALTHY), id="state"),
        pytest.param(replace(PAST, cases=(replace(CASE, convicted_at=5.0),)), id="conviction"),
        pytest.param(replace(PAST, cases=(replace(CASE, turns=(5.0,)),)), id="a turn"),
        pytest.param(replace(PAST, gates=(("rdma-roce", "ready"),)), id="a gate"),
        pytest.param(replace(PAST, held=("rdma-roce",)), id="what hardware chose"),
        pytest.param(replace(PAST, baseline={"name": "baseline"}), id="what belongs here"),
        pytest.param(replace(PAST, profile={"name": "base"}), id="the profile"),
        pytest.param(replace(PAST, node_uid="u"), id="the Node"),
        pytest.param(replace(PAST, version="2"), id="the version"),
        pytest.param(replace(PAST, proofs={}), id="what is proven"),
    ],
)
def test_what_counts_is_kept_at_once(tmp_path: Path, after: Past) -> None:
    one = keeper(tmp_path)
    one.keep(PAST, 100.0)
    one.keep(after, 100.1)
    found = kept(one)
    assert found is not None
    assert replace(found, serial=0, at=0.0) == after


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(replace(PAST, cases=(CASE,)), id="a suspicion"),
        pytest.param(replace(PAST, blind={"port.state": Blind(1.0, "denied")}), id="a look in vain"),
        pytest.param(replace(PAST, passed={"port.state x 1": "4: ACTIVE"}), id="what passed"),
    ],
)
def test_what_only_spares_looks_is_kept_now_and_then(tmp_path: Path, after: Past) -> None:
    one = keeper(tmp_path)
    one.keep(PAST, 100.0)
    one.keep(after, 100.0 + SELDOM - 1)
    assert kept(one) == replace(PAST, serial=1, at=getattr(kept(one), "at", 0.0))
    one.keep(after, 100.0 + SELDOM)
    found = kept(one)
    assert found is not None
    assert replace(found, serial=0, at=0.0) == after


def test_what_did_not_change_is_not_written(tmp_path: Path) -> None:
    one = keeper(tmp_path)
    one.keep(PAST, 100.0)
    one.keep(PAST, 100.0 + 10 * SELDOM)
    assert one.store.serial == 1


def test_a_disk_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    disk = Slow(str(tmp_path / "state"))
    one = Keeper(disk)
    began = time.monotonic()
    one.keep(PAST, 100.0)
    took = time.monotonic() - began
    assert PATIENCE <= took < 10 * PATIENCE
    assert "did not answer" in one.trouble
    worse = replace(PAST, state=State.UNHEALTHY)
    began = time.monotonic()
    one.keep(worse, 101.0)
    assert time.monotonic() - began < PATIENCE, "nor is another write begun beside the one that hangs"
    assert "has not answered" in one.trouble
    disk.answer.set()
    end = time.monotonic() + 30
    while one.trouble and time.monotonic() < end:
        time.sleep(0.05)
        one.keep(worse, 101.0 + AGAIN + time.monotonic() - began)
    assert one.trouble == ""
    found = kept(one)
    assert found is not None
    assert found.state is State.UNHEALTHY
