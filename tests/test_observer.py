"""Facts in threads that really hang and come back: for a caller that waits, and for a loop that must not stop."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors import processor
from nodeprep.doors.node_host import Host
from nodeprep.doors.processor import ProcessorMoment
from nodeprep.model import CannotLook, Fact, Unreadable, Why
from nodeprep.observer import AGENT_STALL_SECONDS, Observation, Observer, PendingFact
from tests.rigs.no_thread import NO_THREAD, no_thread
from tests.rigs.waiting import until

LONG = 30.0  # seconds; no test waits that long
FAVOURED = -20  # a nice value: on a busy machine a thread without a processor would look as one that hangs


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
def favoured() -> Iterator[None]:
    """The calling thread, and those that it starts, go before others where the kernel lets us say so.

    Linux divides the processor between sessions, and by priority within each (sched(7), autogroup).
    """
    usual, session = os.getpriority(os.PRIO_PROCESS, 0), Path("/proc/self/autogroup")
    # A kernel without CONFIG_SCHED_AUTOGROUP has no such file, and some sandboxes an empty one.
    _, _, group = (session.read_text() if session.exists() else "").strip().rpartition(" ")
    with suppress(OSError):  # an ordinary user
        os.setpriority(os.PRIO_PROCESS, 0, FAVOURED)
        session.write_text(str(FAVOURED))
    yield
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, usual)
        session.write_text(group)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "pipe")
    yield made
    descriptor = os.open(made.path, os.O_RDWR | os.O_NONBLOCK)  # releases the threads that still wait
    os.close(descriptor)


def fact(kind: type, observe: Callable[[Any], object], deadline: float = LONG) -> Fact:
    return Fact(kind, observe, deadline=deadline)


QUICK = fact(Quick, lambda _: "quick")
OTHER = fact(Other, lambda _: "other")


def kinds(seen: list[Observation]) -> set[str]:
    return {one.fact.kind.__name__ for one in seen}


def answers(observer: Observer, *wanted: type) -> list[Observation]:
    """The gathered answers until each of these is there: without a processor for a moment, a quick one comes later."""
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


@pytest.mark.usefixtures("favoured")
def test_what_takes_a_moment_is_waited_for() -> None:
    def moment(_: Host) -> str:
        time.sleep(0.03)
        return "quick"

    def gathered_at_once() -> set[str]:
        observer = Observer(Host("/"), lambda: None)
        observer.begin([fact(Quick, moment), OTHER])
        return kinds(observer.gather())

    # Without a processor for a moment, the loop rightly does not wait for it. This does not happen each time.
    assert any(gathered_at_once() == {"Quick", "Other"} for _ in range(20))


def test_one_that_hangs_delays_nobody_and_wakes_when_it_comes_back(pipe: Pipe) -> None:
    woken = threading.Event()
    observer = Observer(Host("/"), woken.set)
    observer.begin([fact(Stuck, pipe.read), QUICK, OTHER])
    assert kinds(answers(observer, Quick, Other)) == {"Quick", "Other"}
    assert set(observer.under_way) == {Stuck}
    observer.begin([QUICK])
    assert kinds(answers(observer, Quick)) == {"Quick"}
    woken.clear()
    pipe.write()
    assert woken.wait(LONG)
    (late,) = answers(observer, Stuck)
    assert late.value == "late"
    assert late.seconds > 0


@pytest.mark.usefixtures("favoured")
def test_one_that_hangs_costs_the_others_a_moment(pipe: Pipe) -> None:
    """Another thread takes what waits behind it after AGENT_STALL_SECONDS, and not after its deadline."""

    def seconds() -> float:
        observer = Observer(Host("/"), lambda: None)
        began = time.monotonic()
        observer.begin([fact(Stuck, pipe.read, deadline=LONG), QUICK])
        answers(observer, Quick)
        return time.monotonic() - began

    # Without a processor for a moment it takes longer. This does not happen each time.
    assert any(seconds() < 5 * AGENT_STALL_SECONDS for _ in range(5))


@pytest.mark.usefixtures("favoured")
@pytest.mark.parametrize("waits", [True, False])
def test_while_one_computes_no_other_thread_takes_the_next(*, waits: bool) -> None:
    """Threads that read thousands of files at the same time took twice as long: 2.6 s and 5.5 s for 1,016 devices."""

    def computes(_: Host) -> int:
        end = time.thread_time() + 3 * AGENT_STALL_SECONDS
        while time.thread_time() < end:
            pass
        return threading.get_ident()

    def threads() -> set[object]:
        observer = Observer(Host("/"), lambda: None)
        both = [fact(Stuck, computes), fact(Other, lambda _: threading.get_ident())]
        if waits:
            return set(observer.look(both).facts.values())
        observer.begin(both)
        return {one.value for one in answers(observer, Stuck, Other)}

    # Without a processor for a moment, it looks as one that hangs. This does not happen each time.
    assert any(len(threads()) == 1 for _ in range(10))


@pytest.mark.usefixtures("favoured")
@pytest.mark.parametrize("waits", [True, False])
def test_one_that_hangs_costs_the_others_a_moment_also_while_we_compute(*, waits: bool, pipe: Pipe) -> None:
    """What another thread of ours does says nothing of the fact that hangs."""
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            sum(range(1000))

    def seconds() -> float:
        observer = Observer(Host("/"), lambda: None)
        answered = threading.Event()
        both = [fact(Stuck, pipe.read), fact(Other, lambda _: answered.set())]
        began = time.monotonic()
        ask = observer.look if waits else partial(answers_of, observer)
        asking = threading.Thread(target=ask, args=(both,), daemon=True)
        asking.start()
        assert answered.wait(LONG)
        return time.monotonic() - began

    threading.Thread(target=compute, daemon=True).start()
    try:
        assert any(seconds() < 1.0 for _ in range(5))
    finally:
        done.set()


def answers_of(observer: Observer, facts: list[Fact]) -> None:
    observer.begin(facts)
    answers(observer, Other)


def test_one_that_computes_for_ever_is_not_waited_for() -> None:
    """A driver may compute in the kernel while it waits for its device."""
    ended = threading.Event()

    def computes(_: Host) -> None:
        while not ended.is_set():
            sum(range(1000))

    try:
        observer = Observer(Host("/"), lambda: None)
        observer.begin([fact(Stuck, computes), OTHER])
        assert kinds(answers(observer, Other)) == {"Other"}
    finally:
        ended.set()


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
    """No device is involved: if a node's processors are all taken, its devices do not hang."""

    def compute(_: Host) -> str:
        until = time.thread_time() + 1.5
        while time.thread_time() < until:
            pass
        return "in the end"

    observer = Observer(Host("/"), lambda: None)
    observer.begin([fact(Other, compute, deadline=1.0), fact(Stuck, pipe.read, deadline=1.0)])
    seen = {one.fact.kind: one.value for one in answers(observer, Other, Stuck)}
    assert isinstance(seen[Stuck], Unreadable), "this one does hang"
    # The other has ten deadlines. A busy machine may use them up.
    other = seen[Other]
    assert other == "in the end" or (isinstance(other, Unreadable) and other.kind is Why.BUSY)


def test_one_that_hung_while_we_were_busy_is_found_to_hang_once_we_are_not(pipe: Pipe) -> None:
    observer = Observer(Host("/"), lambda: None)
    observer.begin([fact(Stuck, pipe.read, deadline=0.001)])
    assert pipe.begun.wait(LONG)
    then = processor.moment()
    observer.under_way[Stuck].asked = ProcessorMoment(then.at - 1e6, then.computed - 1e6, then.waited)
    (first,) = answers(observer, Stuck)
    assert isinstance(first.value, Unreadable)
    assert (first.value.kind, first.value.path) == (Why.BUSY, "Stuck")
    assert observer.gather() == []
    assert observer.next_deadline() is None
    observer.under_way[Stuck].asked = processor.moment()
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
    """Resolved links are forgotten between two looks, also while another look hangs."""
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
    """A look because of its period may reuse where they led, if that is still there."""
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


@pytest.mark.parametrize(
    ("spent", "busy", "why", "more"),
    [
        (2.0, 0.0, None, 1.0),
        (2.0, 1.5, None, 1.0),
        (4.0, 0.0, Why.TIMEOUT, -1.0),
        (4.0, 2.5, None, 1.5),
        (25.0, 23.0, None, 1.0),
        (29.0, 28.5, None, 1.0),  # after ten deadlines at the latest
        (31.0, 30.5, Why.BUSY, -1.0),
        (31.0, 60.0, Why.BUSY, -1.0),  # two threads that waited count twice
        (31.0, 20.0, Why.TIMEOUT, -8.0),
    ],
)
def test_what_time_a_fact_has(spent: float, busy: float, why: Why | None, more: float) -> None:
    """Time in which we ourselves are busy does not count."""

    def is_so() -> bool:
        now = processor.moment()
        asked = ProcessorMoment(now.at - spent, now.computed - busy, now.waited)
        pending = PendingFact(QUICK, deadline=3.0, asked=asked, began=now.at - spent)
        late = pending.overdue(now.at)
        return (late.kind if late else None) is why and pending.seconds_left(now.at) == pytest.approx(more, abs=0.4)

    # While another thread of this process is runnable for a moment, all the time counts as busy.
    until(is_so, f"{why}, {more} s")


def test_what_no_thread_has_taken_is_not_late() -> None:
    pending = PendingFact(QUICK, deadline=0.0, asked=ProcessorMoment(0.0, 0.0, {}))
    assert pending.overdue(processor.moment().at) is None


class Overtaken(float):
    """A deadline of 0. While it is compared with its fact, the answer comes."""

    def __init__(self) -> None:
        self.begun, self.may_answer, self.answered = threading.Event(), threading.Event(), threading.Event()

    def observe(self, _: Host) -> str:
        self.begun.set()
        assert self.may_answer.wait(LONG)
        return "in time"

    def follow(self, _: Host) -> str:
        """Of the fact after it, which the same thread takes next."""
        self.answered.set()
        return "next"

    def end(self) -> None:
        self.may_answer.set()
        assert self.answered.wait(LONG)

    def __ge__(self, spent: float) -> bool:
        self.end()
        return False


def test_an_answer_that_came_while_the_agent_was_starved_is_taken() -> None:
    """Its deadline was over before the agent had a processor again."""
    slow = Overtaken()
    observer = Observer(Host("/"))
    observer.begin([fact(Stuck, slow.observe, deadline=0.0), fact(Other, slow.follow)])
    slow.end()
    assert "in time" in [one.value for one in observer.gather()]
    assert Stuck not in observer.under_way


def test_an_answer_that_comes_while_its_deadline_is_held_against_it_is_taken() -> None:
    """Its thread may have ended. Nobody knows then how long it waited for a processor."""
    slow = Overtaken()
    observer = Observer(Host("/"), slow.answered.set)
    observer.begin([fact(Stuck, slow.observe, deadline=slow)])
    assert slow.begun.wait(LONG)
    assert [one.value for one in answers(observer, Stuck)] == ["in time"]


def test_one_thread_takes_the_facts_of_all_rounds(pipe: Pipe) -> None:
    """To start a thread costs as much as to read a port. A second one, for a fact that hangs, ends with it."""
    threads = set()

    def note(_: Host) -> str:
        threads.add(threading.current_thread())
        return "quick"

    observer = Observer(Host("/"))
    for _ in range(20):
        observer.begin([fact(Quick, note)])
        answers(observer, Quick)
    assert len(threads) < 20  # the next round may begin before it waits
    observer.begin([fact(Stuck, pipe.read)])
    assert pipe.begun.wait(LONG)
    observer.begin([fact(Quick, note)])
    answers(observer, Quick)
    pipe.write()
    answers(observer, Stuck)
    until(lambda: sum(one.is_alive() for one in threads) <= 1, "thread that is over")


def test_a_look_waits_for_all_and_says_nothing_of_what_was_not_asked(pipe: Pipe) -> None:
    observer = Observer(Host("/"))
    assert observer.look([fact(Stuck, pipe.read, deadline=0.05)]).facts.keys() == {Stuck}
    assert observer.look([QUICK, OTHER]).facts == {Quick: "quick", Other: "other"}


@pytest.mark.parametrize("first", [True, False])
def test_in_a_look_one_that_hangs_delays_no_other_and_is_accused_in_time(*, first: bool, pipe: Pipe) -> None:
    """The waiting thread is idle: polling would be computing, and computing time does not count against a device."""
    stuck = fact(Stuck, pipe.read, deadline=1.0)
    computed = time.process_time()
    look = Observer(Host("/")).look([stuck, QUICK] if first else [QUICK, stuck])
    assert look.facts[Quick] == "quick"
    assert look.facts[Stuck] == Unreadable(Why.TIMEOUT, "Stuck", detail="no answer in 1 s")
    assert time.process_time() - computed < 0.5


def test_in_a_look_one_that_is_late_is_not_begun_again_before_it_returned(pipe: Pipe) -> None:
    begun = []

    def counted(host: Host) -> str:
        begun.append(1)
        return pipe.read(host)

    observer, stuck = Observer(Host("/")), fact(Stuck, counted, deadline=0.05)
    assert isinstance(observer.look([stuck]).facts[Stuck], Unreadable)
    assert isinstance(observer.look([stuck, QUICK]).facts[Stuck], Unreadable)
    assert len(begun) == 1
    pipe.write()
    again = fact(Stuck, lambda _: "again")
    # The late answer of the first one is old. It is dropped, and the fact is observed again.
    assert until(lambda: observer.look([again]).facts[Stuck] == "again", "an answer to a later look")


def test_in_a_look_one_that_hung_while_we_were_busy_is_found_to_hang_once_we_are_not(pipe: Pipe) -> None:
    observer, stuck = Observer(Host("/")), fact(Stuck, pipe.read, deadline=0.001)
    observer.begin([stuck])
    assert pipe.begun.wait(LONG)
    then = processor.moment()
    observer.under_way[Stuck].asked = ProcessorMoment(then.at - 1e6, then.computed - 1e6, then.waited)
    busy = observer.look([stuck]).facts[Stuck]
    assert isinstance(busy, Unreadable)
    assert busy.kind is Why.BUSY
    observer.under_way[Stuck].asked = processor.moment()
    hung = observer.look([stuck]).facts[Stuck]
    assert isinstance(hung, Unreadable)
    assert hung.kind is Why.TIMEOUT


@pytest.mark.usefixtures("held_interpreter")
def test_in_a_look_one_that_computes_for_long_is_waited_for() -> None:
    def compute(_: Host) -> str:
        end = time.thread_time() + 1.5
        while time.thread_time() < end:
            pass
        return "in the end"

    seen = Observer(Host("/")).look([fact(Other, compute, deadline=1.0)]).facts[Other]
    # It has ten deadlines. A busy machine may use them up.
    assert seen == "in the end" or (isinstance(seen, Unreadable) and seen.kind is Why.BUSY)


def test_a_thread_that_never_returns_does_not_keep_the_process() -> None:
    program = (
        "import time\n"
        "from nodeprep.doors.node_host import Host\nfrom nodeprep.model import Fact\n"
        "from nodeprep.observer import Observer\n"
        "def hang(host): time.sleep(600)\n"
        "Observer(Host()).look([Fact(int, hang, deadline=0.1)])"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


def test_in_a_look_one_that_breaks_is_unreadable() -> None:
    def broken(_: Host) -> object:
        raise ValueError("no such luck")

    gone = Fact(Other, lambda _: "seen", deadline=LONG, doors=("nodeprep.doors.gone",))
    look = Observer(Host("/")).look([fact(Stuck, broken), gone, QUICK])
    stuck, other = look.facts[Stuck], look.facts[Other]
    assert isinstance(stuck, Unreadable)
    assert stuck.detail == "ValueError: no such luck"
    assert isinstance(other, Unreadable)
    assert other.detail == "ModuleNotFoundError: No module named 'nodeprep.doors.gone'"
    assert look.facts[Quick] == "quick"


def test_a_look_at_a_root_that_is_not_mounted_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    value = Observer(Host(str(tmp_path))).look([QUICK]).facts[Quick]
    assert isinstance(value, Unreadable)
    assert "not mounted" in value.detail


def test_a_look_where_no_thread_can_be_started_says_so() -> None:
    with no_thread():
        look = Observer(Host("/")).look([QUICK])
    assert look.facts == {Quick: Unreadable(Why.IO_ERROR, "Quick", detail=f"no thread can be started: {NO_THREAD}")}


def test_a_dead_tree_is_asked_for_its_files_alone(tmp_path: Path) -> None:
    running = Fact(Stuck, lambda _: "a live node", live=True)
    files = Fact(Other, lambda _: "files", deadline=LONG, doors=("nodeprep.doors.gone",))
    assert Observer(Host(str(tmp_path), live=False)).look([running, files]).facts == {Other: "files"}


def test_a_dead_tree_has_more_time(tmp_path: Path) -> None:
    def slow(_: Host) -> str:
        time.sleep(0.3)
        return "slow"

    look = Observer(Host(str(tmp_path), live=False)).look([fact(Other, slow, deadline=0.1)])
    assert look.facts == {Other: "slow"}
