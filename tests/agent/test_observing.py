"""Facts observed for a loop that must not stop: by threads that really hang, and really come back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors import processor
from nodeprep.doors.node_host import Host
from nodeprep.model import CannotLook, Fact, Unreadable, Why
from nodeprep.observer import Observation, Observer
from tests.rigs.no_thread import NO_THREAD, no_thread

LONG = 30.0  # seconds that no test waits


class Quick:
    """Answers at once."""


class Other:
    """Answers at once, too."""


class Stuck:
    """Waits for a pipe."""


class Pipe:
    """A named pipe: opening it for reading hangs in the kernel until somebody writes. `begun` is set just before."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.begun = threading.Event()

    def read(self, _: Host) -> str:
        self.begun.set()
        with self.path.open() as file:
            return file.read()

    def write(self) -> None:
        with self.path.open("w") as file:
            file.write("late")


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "pipe")
    yield made
    descriptor = os.open(made.path, os.O_RDWR | os.O_NONBLOCK)  # lets go who still waits
    os.close(descriptor)


def fact(kind: type, observe: Callable[[Any], object], deadline: float = LONG) -> Fact:
    return Fact(kind, observe, deadline=deadline)


QUICK = fact(Quick, lambda _: "quick")
OTHER = fact(Other, lambda _: "other")


def kinds(seen: list[Observation]) -> set[str]:
    return {one.fact.kind.__name__ for one in seen}


def answers(observer: Observer, *wanted: type) -> list[Observation]:
    """What it gathers until each of these was told: without a processor for a moment, a quick one comes later."""
    seen: list[Observation] = []
    end = time.monotonic() + LONG
    while not {one.fact.kind for one in seen}.issuperset(wanted):
        assert time.monotonic() < end, f"only {kinds(seen)}"
        seen += observer.gather()
        time.sleep(0.01)
    return seen


def test_what_answers_is_taken() -> None:
    observer = Observer(Host("/"), lambda: None)
    observer.begin([QUICK, OTHER])
    seen = answers(observer, Quick, Other)
    assert {one.fact.kind: one.value for one in seen} == {Quick: "quick", Other: "other"}
    assert not observer.under_way
    assert observer.next_deadline() is None


def test_what_takes_a_moment_is_waited_for() -> None:
    def moment(_: Host) -> str:
        time.sleep(0.03)
        return "quick"

    def gathered_at_once() -> set[str]:
        observer = Observer(Host("/"), lambda: None)
        observer.begin([fact(Quick, moment), OTHER])
        return kinds(observer.gather())

    # Without a processor for a moment it is rightly not waited for; that is not so each time.
    assert any(gathered_at_once() == {"Quick", "Other"} for _ in range(5))


def test_one_that_hangs_delays_nobody_and_wakes_when_it_comes_back(pipe: Pipe) -> None:
    woken = threading.Event()
    observer = Observer(Host("/"), woken.set)
    observer.begin([fact(Stuck, pipe.read), QUICK, OTHER])
    began = time.monotonic()
    assert kinds(answers(observer, Quick, Other)) == {"Quick", "Other"}
    assert time.monotonic() - began < LONG / 3
    assert set(observer.under_way) == {Stuck}
    observer.begin([QUICK])
    assert kinds(answers(observer, Quick)) == {"Quick"}
    woken.clear()
    pipe.write()
    assert woken.wait(LONG)
    (late,) = answers(observer, Stuck)
    assert late.value == "late"
    assert late.seconds > 0


def test_one_that_is_late_is_unreadable_once_and_not_begun_again(pipe: Pipe) -> None:
    observer = Observer(Host("/"), lambda: None)
    stuck = fact(Stuck, pipe.read, deadline=0.5)
    observer.begin([stuck])
    assert pipe.begun.wait(LONG)
    assert observer.next_deadline() is not None
    (overdue,) = answers(observer, Stuck)
    assert isinstance(overdue.value, Unreadable)
    assert (overdue.value.kind, overdue.value.path) == (Why.TIMEOUT, "Stuck")
    threads = threading.active_count()
    observer.begin([stuck])
    assert observer.gather() == []
    assert threading.active_count() == threads, "another thread would hang beside the first"
    assert observer.next_deadline() is None


@pytest.mark.usefixtures("held_interpreter")
def test_one_that_computes_for_long_is_not_late(pipe: Pipe) -> None:
    """No device has a part in it: a node whose processors are all taken must not be told to have hung ones."""

    def compute(_: Host) -> str:
        until = time.thread_time() + 1.5
        while time.thread_time() < until:
            pass
        return "in the end"

    observer = Observer(Host("/"), lambda: None)
    observer.begin([fact(Other, compute, deadline=1.0), fact(Stuck, pipe.read, deadline=1.0)])
    seen = {one.fact.kind: one.value for one in answers(observer, Other, Stuck)}
    assert isinstance(seen[Stuck], Unreadable), "this one does hang"
    # The other has ten deadlines, which a machine may use up where much else runs.
    other = seen[Other]
    assert other == "in the end" or (isinstance(other, Unreadable) and other.kind is Why.BUSY)


def test_one_that_hung_while_we_were_busy_is_found_to_hang_once_we_are_not(pipe: Pipe) -> None:
    observer = Observer(Host("/"), lambda: None)
    observer.begin([fact(Stuck, pipe.read, deadline=0.001)])
    assert pipe.begun.wait(LONG)
    then = processor.moment()
    observer._asked[Stuck] = processor.ProcessorMoment(then.at - 1e6, then.computed - 1e6, then.waited)
    (first,) = answers(observer, Stuck)
    assert isinstance(first.value, Unreadable)
    assert (first.value.kind, first.value.path) == (Why.BUSY, "Stuck")
    assert observer.gather() == []
    assert observer.next_deadline() is None
    observer._asked[Stuck] = processor.moment()
    (second,) = answers(observer, Stuck)
    assert isinstance(second.value, Unreadable)
    assert second.value.kind is Why.TIMEOUT
    assert observer.gather() == []


def test_what_a_late_one_says_in_the_end_is_old_and_dropped(pipe: Pipe) -> None:
    woken = threading.Event()
    observer = Observer(Host("/"), woken.set)
    stuck = fact(Stuck, pipe.read, deadline=0.0)
    observer.begin([stuck])
    assert kinds(answers(observer, Stuck)) == {"Stuck"}
    woken.clear()
    pipe.write()
    assert woken.wait(LONG)
    assert observer.gather() == []
    assert not observer.under_way
    assert not observer.late
    observer.begin([fact(Stuck, lambda _: "again")])
    assert [one.value for one in answers(observer, Stuck)] == ["again"]


def test_one_that_breaks_is_unreadable_and_spoils_no_other() -> None:
    def broken(_: Host) -> object:
        raise ValueError("no such thing")

    def blind(_: Host) -> object:
        raise CannotLook(Unreadable(Why.DENIED, "/secret"))

    observer = Observer(Host("/"), lambda: None)
    observer.begin([fact(Stuck, broken), fact(Other, blind), QUICK])
    values = {one.fact.kind: one.value for one in answers(observer, Stuck, Other, Quick)}
    stuck = values[Stuck]
    assert isinstance(stuck, Unreadable)
    assert "ValueError: no such thing" in stuck.detail
    assert values[Other] == Unreadable(Why.DENIED, "/secret")
    assert values[Quick] == "quick"


def test_a_root_that_is_not_mounted_shows_nothing(tmp_path: Path) -> None:
    observer = Observer(Host(str(tmp_path)), lambda: None)
    observer.begin([QUICK])
    (one,) = observer.gather()
    assert isinstance(one.value, Unreadable)
    assert "not mounted" in one.value.detail
    assert not observer.under_way


def test_a_fact_is_asked_of_where_links_lead_now(tmp_path: Path) -> None:
    """What a link was resolved to is forgotten between two looks, also while another look hangs."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "file").write_text("1")
    (tmp_path / "two" / "file").write_text("2")
    link = tmp_path / "data"
    link.symlink_to("one")
    observer = Observer(Host(str(tmp_path), live=False), lambda: None)
    read = fact(Quick, lambda host: host.files.text("/data/file"))
    observer.begin([read])
    assert [one.value for one in answers(observer, Quick)] == ["1"]
    link.unlink()
    link.symlink_to("two")
    observer.begin([read])
    assert [one.value for one in answers(observer, Quick)] == ["2"]


def test_links_of_sysfs_are_followed_anew_where_something_was_heard_of(tmp_path: Path) -> None:
    """A look that only its period asked for may go by where they led, if that still stands there."""
    for name in ("one", "two"):
        (tmp_path / "sys" / name).mkdir(parents=True)
        (tmp_path / "sys" / name / "file").write_text(name)
    link = tmp_path / "sys" / "class"
    link.symlink_to("one")
    observer = Observer(Host(str(tmp_path), live=False), lambda: None)
    read = fact(Quick, lambda host: host.files.text("/sys/class/file"))

    def seen(*, anew: bool) -> object:
        observer.begin([read], anew=anew)
        (one,) = answers(observer, Quick)
        return one.value

    assert seen(anew=False) == "one"
    link.unlink()
    link.symlink_to("two")
    assert seen(anew=False) == "one", "both still stand there"
    assert seen(anew=True) == "two"


def test_a_module_that_is_not_there_or_breaks_spoils_its_own_fact_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while an upgrade replaces the files of the one that runs."""
    (tmp_path / "torn_door.py").write_text("raise RuntimeError('half written')\n")
    monkeypatch.syspath_prepend(tmp_path)
    observer = Observer(Host("/"), lambda: None)
    gone = Fact(Stuck, lambda _: "seen", deadline=LONG, doors=("nodeprep.doors.gone",))
    torn = Fact(Other, lambda _: "seen", deadline=LONG, doors=("torn_door",))
    observer.begin([gone, torn, QUICK])
    values = {one.fact.kind: one.value for one in answers(observer, Stuck, Other, Quick)}
    details = [one.detail for one in (values[Stuck], values[Other]) if isinstance(one, Unreadable)]
    assert details == [
        "ModuleNotFoundError: No module named 'nodeprep.doors.gone'",
        "RuntimeError: half written",
    ]
    assert values[Quick] == "quick"


def test_where_no_thread_can_be_started_that_is_seen_and_the_next_look_is_as_ever() -> None:
    observer = Observer(Host("/"), lambda: None)
    with no_thread():
        observer.begin([QUICK, OTHER])
        seen = observer.gather()
    blind = {one.fact.kind: one.value for one in seen}
    assert blind == {
        kind: Unreadable(Why.IO_ERROR, kind.__name__, detail=f"no thread can be started: {NO_THREAD}")
        for kind in (Quick, Other)
    }
    assert not observer.under_way
    observer.begin([QUICK, OTHER])
    assert {one.value for one in answers(observer, Quick, Other)} == {"quick", "other"}


def test_where_no_second_thread_can_be_started_what_the_first_left_is_not_waited_for(pipe: Pipe) -> None:
    woken = threading.Event()
    observer = Observer(Host("/"), woken.set)
    observer.begin([fact(Stuck, pipe.read), QUICK])
    assert pipe.begun.wait(LONG)
    with no_thread():
        (quick,) = observer.gather()
    assert isinstance(quick.value, Unreadable)
    assert set(observer.under_way) == {Stuck}
    pipe.write()
    assert woken.wait(LONG)
    (late,) = observer.gather()
    assert late.value == "late"
