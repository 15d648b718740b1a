"""The wait for events: which source is listened to, which died, which is opened again. Pipes are the sources here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nodeprep.doors import clock
from nodeprep.doors.events.event_source import EventSource, EventSourceAbsent
from nodeprep.doors.events.listener import (
    DIRECTORIES,
    REOPEN_FIRST_SECONDS,
    REOPEN_LIMIT_SECONDS,
    EventSources,
    EventSourceState,
)
from nodeprep.model import Topic
from tests.rigs.absent import cannot_start
from tests.rigs.waiting import until

LINK, RDMA, DEVICE, CONFIG = Topic.LINK, Topic.RDMA, Topic.DEVICE, Topic.CONFIG
NOTHING: frozenset[Topic] = frozenset()
LONG = 60.0  # seconds that no test reaches: what ends such a wait is a ring


class Pipe(EventSource):
    """Announces each topic whose number is written into it, whatever else it could announce."""

    def __init__(self, *topics: Topic, name: str = "pipe") -> None:
        self.name = name
        self.topics = frozenset(topics)
        self.refusals: list[Exception] = []
        self.opens = 0
        self.drains = 0
        self.told = 0
        self.ends: tuple[int, int] | None = None

    def open(self) -> int:
        self.opens += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        return self.ends[0]

    def drain(self) -> frozenset[Topic]:
        self.drains += 1
        if self.ends is None:
            return NOTHING
        try:
            return frozenset(list(Topic)[number] for number in os.read(self.ends[0], 100) if number < len(Topic))
        except BlockingIOError:
            return NOTHING

    def close(self) -> None:
        ends, self.ends = self.ends, None
        for end in ends or ():
            with suppress(OSError):
                os.close(end)

    def heard(self) -> None:
        self.told += 1

    def ring(self, *topics: Topic) -> None:
        assert self.ends
        os.write(self.ends[1], bytes(list(Topic).index(topic) for topic in topics) or b"\xff")


class Dead(Pipe):
    """Rings, and breaks when it is read."""

    fault: Exception = OSError(5, "broke")

    def drain(self) -> frozenset[Topic]:
        raise self.fault


class Noisy(Pipe):
    """Always has something to read, and says the same of it."""

    says = NOTHING

    def drain(self) -> frozenset[Topic]:
        self.drains += 1
        return self.says


@contextmanager
def hung(*sources: EventSource) -> Iterator[EventSources]:
    event_sources = EventSources(sources=sources)
    try:
        yield event_sources
    finally:
        event_sources.close()


def took(
    event_sources: EventSources, timeout: float | None, deaf: frozenset[Topic] = NOTHING, since: float | None = None
) -> tuple[frozenset[Topic], float]:
    """What rang, and the seconds of the wait, or since before somebody began to ring."""
    began = time.monotonic() if since is None else since
    rang = event_sources.wait(timeout, deaf)
    return rang, time.monotonic() - began


def test_nothing_rings_at_first_and_a_wait_ends_with_its_time() -> None:
    with hung(Pipe(LINK), Pipe(RDMA)) as event_sources:
        rang, seconds = took(event_sources, 0.3)
    assert rang == NOTHING
    assert 0.3 <= seconds < LONG


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_wait_without_time_sees_what_is_there(timeout: float) -> None:
    with hung(pipe := Pipe(LINK)) as event_sources:
        assert event_sources.wait(timeout) == NOTHING
        pipe.ring(LINK)
        assert event_sources.wait(timeout) == {LINK}
        assert event_sources.wait(timeout) == NOTHING, "a ring is told once"


@pytest.mark.parametrize("timeout", [LONG, None])
def test_a_ring_ends_the_wait(timeout: float | None) -> None:
    with hung(pipe := Pipe(LINK)) as event_sources:
        began = time.monotonic()
        threading.Timer(0.2, pipe.ring, (LINK,)).start()
        rang, seconds = took(event_sources, timeout, since=began)
    assert rang == {LINK}
    assert 0.1 < seconds < LONG


def test_rings_of_several_event_sources_come_together() -> None:
    with hung(first := Pipe(LINK), second := Pipe(RDMA)) as event_sources:
        first.ring(LINK)
        second.ring(RDMA)
        assert event_sources.wait(LONG) == {LINK, RDMA}


def test_a_topic_is_heard_if_all_its_sources_work() -> None:
    both, link, refused = Pipe(LINK, RDMA, name="both"), Pipe(LINK, name="link"), Pipe(RDMA, name="refused")
    refused.refusals = [OSError("no"), EventSourceAbsent("none here")]
    with hung(both, link, refused) as sources:
        assert sources.heard_topics() == {LINK}, "one of the two sources of RDMA cannot be opened"
        sources.wait(REOPEN_FIRST_SECONDS + 0.5)
        assert sources.states()["refused"].absent
        assert sources.heard_topics() == {LINK, RDMA}, "this node does not have it"
        assert link.ends is not None
        os.close(link.ends[1])
        link.close()
        sources.wait(0.1)
        assert LINK not in sources.heard_topics()


def test_who_is_deaf_hears_it_later() -> None:
    with hung(pipe := Pipe(LINK), other := Pipe(CONFIG)) as event_sources:
        pipe.ring(LINK)
        rang, seconds = took(event_sources, 0.3, frozenset({LINK}))
        assert rang == NOTHING
        assert seconds >= 0.3
        assert pipe.drains == 0, "a storm costs nothing meanwhile"
        other.ring(CONFIG)
        assert event_sources.wait(LONG, frozenset({LINK})) == {CONFIG}
        assert event_sources.wait(LONG) == {LINK}


def test_of_an_event_source_with_several_topics_the_others_are_heard_at_once() -> None:
    with hung(pipe := Pipe(LINK, DEVICE)) as event_sources:
        pipe.ring(LINK)
        assert event_sources.wait(0.1, frozenset({LINK})) == NOTHING
        pipe.ring(DEVICE)
        rang, seconds = took(event_sources, LONG, frozenset({LINK}))
        assert rang == {DEVICE}
        assert seconds < LONG
        assert event_sources.wait(LONG) == {LINK}, "what it said meanwhile waits"


@pytest.mark.parametrize("says", [NOTHING, frozenset({LINK})])
def test_what_nobody_wants_to_hear_does_not_keep_us_awake(says: frozenset[Topic]) -> None:
    with hung(pipe := Noisy(LINK, DEVICE)) as event_sources:
        pipe.says = says
        pipe.ring(LINK)

        def drains() -> int:
            before, drained = time.process_time(), pipe.drains
            assert event_sources.wait(1.0, frozenset({LINK})) == NOTHING
            assert time.process_time() - before < 0.3
            assert pipe.drains - drained <= 60
            return pipe.drains - drained

        # A machine that stands still for this second lets it be listened to once. This does not happen each time.
        assert any(drains() >= 2 for _ in range(5))


def test_an_event_source_whose_descriptor_was_closed_rings_and_is_opened_again() -> None:
    with hung(pipe := Pipe(LINK)) as event_sources:
        assert pipe.ends
        began = time.monotonic()
        os.close(pipe.ends[0])
        assert event_sources.wait(LONG) == {LINK}, "what it would have said is looked at"
        assert event_sources.states() == {"pipe": EventSourceState(alive=False, restarts=0, why="Bad file descriptor")}
        rang, seconds = took(event_sources, LONG, since=began)
        assert rang == {LINK}, "and what it missed until it was open again"
        assert 0.5 < seconds < LONG
        assert event_sources.states() == {"pipe": EventSourceState(alive=True, restarts=1)}
        assert event_sources.wait(0.1) == NOTHING
        pipe.ring(LINK)
        assert event_sources.wait(LONG) == {LINK}


FAULTS = [
    # what an event source breaks with                     what is said of it
    (OSError(5, "broke"), "broke"),
    (ValueError("no such word"), "ValueError: no such word"),
    (RuntimeError("can't start new thread"), "RuntimeError: can't start new thread"),
    (MemoryError(), "MemoryError: "),
]


@pytest.mark.parametrize(("fault", "why"), FAULTS)
def test_an_event_source_that_breaks_says_why_and_leaves_the_others_alone(fault: Exception, why: str) -> None:
    with hung(dead := Dead(LINK, name="dead"), pipe := Pipe(RDMA)) as event_sources:
        dead.fault = fault
        dead.ring(LINK)
        assert event_sources.wait(LONG) == {LINK}
        pipe.ring(RDMA)
        assert event_sources.wait(LONG) == {RDMA}
        assert event_sources.states()["dead"] == EventSourceState(alive=False, restarts=0, why=why)
        assert dead.ends is None
        assert event_sources.wait(LONG) == {LINK}, "it is opened again"
        assert event_sources.states()["dead"] == EventSourceState(alive=True, restarts=1)


def test_a_descriptor_in_error_with_nothing_to_read_is_dead() -> None:
    with hung(pipe := Noisy(LINK)) as event_sources:
        assert pipe.ends
        os.close(pipe.ends[1])  # POLLHUP, again and again
        assert event_sources.wait(LONG) == {LINK}
        assert event_sources.states()["pipe"].why == "in error, with nothing to read"
        before = time.process_time()
        event_sources.wait(0.5)
        assert time.process_time() - before < 0.2


@pytest.mark.parametrize(("fault", "why"), FAULTS)
def test_an_event_source_that_cannot_be_opened_is_tried_again_and_rings_when_it_can(fault: Exception, why: str) -> None:
    pipe = Pipe(LINK)
    pipe.refusals = [fault]
    began = clock.now()
    with hung(pipe) as event_sources:
        (event_source,) = event_sources._event_sources
        assert event_sources.states() == {"pipe": EventSourceState(alive=False, restarts=0, why=why)}
        again_at = event_source.again_at
        assert again_at >= began + REOPEN_FIRST_SECONDS
        event_source.again_at += 3600  # so that the machine may take its time with this short wait
        assert event_sources.wait(0.2) == NOTHING
        assert pipe.opens == 1
        event_source.again_at = again_at
        assert event_sources.wait(LONG) == {LINK}
        assert event_sources.states() == {"pipe": EventSourceState(alive=True, restarts=1)}


def test_it_is_tried_less_and_less_often_and_anew_after_a_good_while() -> None:
    with hung(Pipe(LINK)) as event_sources:
        (event_source,) = event_sources._event_sources
        now = float(round(clock.now()))  # so that a minute later is a minute, and not a billionth of a second less
        pauses = []
        for _ in range(9):
            event_sources._died(event_source, OSError(5, "broke"), now)
            pauses.append(round(event_source.again_at - now))
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        event_sources._open(event_source, now)
        event_sources._died(event_source, OSError(5, "broke"), now + REOPEN_LIMIT_SECONDS / 2)
        assert round(event_source.again_at - now - REOPEN_LIMIT_SECONDS / 2) == 60, (
            "open for less than a minute is no recovery"
        )
        event_sources._open(event_source, now)
        event_sources._died(event_source, OSError(5, "broke"), now + REOPEN_LIMIT_SECONDS)
        assert round(event_source.again_at - now - REOPEN_LIMIT_SECONDS) == 1


def test_an_event_source_that_this_node_does_not_have_is_not_asked_for_again() -> None:
    pipe, other = Pipe(RDMA, name="none"), Pipe(DEVICE)
    pipe.refusals = [EventSourceAbsent("no such thing", final=True)]
    with hung(pipe, other) as event_sources:
        assert event_sources.states()["none"] == EventSourceState(
            alive=False, restarts=0, why="no such thing", absent=True
        )
        other.ring(DEVICE)
        assert event_sources.wait(LONG) == {DEVICE}
        assert event_sources.wait(1.5) == NOTHING
    assert pipe.opens == 1


def test_an_event_source_that_comes_with_a_device_is_found_then() -> None:
    pipe, other = Pipe(RDMA, name="late"), Pipe(DEVICE, LINK)
    pipe.refusals = [EventSourceAbsent("not yet")]
    with hung(pipe, other) as event_sources:
        other.ring(LINK)
        assert event_sources.wait(LONG) == {LINK}
        assert event_sources.wait(1.5) == NOTHING
        assert (pipe.opens, pipe.told) == (1, 0), "a link is no device"
        other.ring(DEVICE)
        assert event_sources.wait(LONG) == {DEVICE}
        assert event_sources.wait(LONG) == {RDMA}
        assert event_sources.states()["late"] == EventSourceState(alive=True), "it had not died"
    assert (pipe.opens, pipe.told, other.told) == (2, 1, 0)


class Sour(Pipe):
    """Breaks when it is told of a device, and when it is closed."""

    def heard(self) -> None:
        raise RuntimeError("no")

    def close(self) -> None:
        super().close()
        raise RuntimeError("no")


def test_one_that_breaks_when_it_is_told_or_closed_keeps_nobody_from_hearing() -> None:
    with hung(sour := Sour(LINK), other := Pipe(DEVICE, name="other")) as event_sources:
        other.ring(DEVICE)
        assert event_sources.wait(LONG) == {DEVICE}
        sour.ring(LINK)
        assert event_sources.wait(LONG) == {LINK}


def test_waking_ends_a_wait_once() -> None:
    with hung(Pipe(LINK)) as event_sources:
        event_sources.wake()
        event_sources.wake()
        assert took(event_sources, LONG)[1] < LONG
        rang, seconds = took(event_sources, 0.3)
        assert (rang, seconds >= 0.3) == (NOTHING, True)
        began = time.monotonic()
        threading.Timer(0.2, event_sources.wake).start()
        assert 0.1 < took(event_sources, None, since=began)[1] < LONG


def test_waking_never_blocks() -> None:
    with hung() as event_sources:
        os.eventfd_write(event_sources._wake, 2**64 - 2)
        event_sources.wake()
        assert took(event_sources, LONG)[1] < LONG
    event_sources.wake()  # closed: nobody to wake


@contextmanager
def alarm(seconds: float, call: object) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_: call() if callable(call) else None)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_wakes() -> None:
    began = time.monotonic()
    with hung(Pipe(LINK)) as event_sources, alarm(0.2, event_sources.wake):
        assert 0.1 < took(event_sources, LONG, since=began)[1] < LONG


def test_another_signal_does_not_end_the_wait() -> None:
    with hung(Pipe(LINK)) as event_sources, alarm(0.1, None):
        assert took(event_sources, 0.5)[1] >= 0.5


def test_without_its_own_descriptor_it_sleeps_all_the_same() -> None:
    with hung(Pipe(LINK)) as event_sources:
        os.close(event_sources._wake)
        event_sources.wait(LONG)
        assert took(event_sources, 0.3)[1] >= 0.3
        event_sources.wake()
        assert took(event_sources, LONG)[1] < LONG


def test_closing_leaves_nothing_open() -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    event_sources = EventSources()
    event_sources.close()
    event_sources.close()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    until(lambda: "infiniband-ports" not in [thread.name for thread in threading.enumerate()], "its thread has ended")


def test_the_event_sources_of_this_machine() -> None:
    with_all = EventSources()
    states = with_all.states()
    with_all.close()
    assert set(states) == {"links", "rdma", "uevents", "kernel-log", "configuration", "infiniband-ports"}
    assert all(state.alive == (state.why == "") for state in states.values()), states
    assert states["links"].alive
    assert states["uevents"].alive


def test_the_directories_of_the_host_and_of_our_own(tmp_path: Path) -> None:
    host, own = tmp_path / "host", tmp_path / "own/nodeprep"
    for path in (host / "etc/eni", host / "var/lib/kubelet/device-plugins", own, tmp_path / "host/srv/net.d"):
        path.mkdir(parents=True)
    event_sources = EventSources(str(host), [str(own)], {**DIRECTORIES, "/srv/net.d": CONFIG})
    try:
        assert event_sources.states()["kernel-log"].why == f"{host}/dev/kmsg is not there"
        for path, topic in (
            (host / "etc/eni/eni_conf", CONFIG),
            (host / "var/lib/kubelet/device-plugins/a.sock", DEVICE),
            (host / "srv/net.d/10-a.conflist", CONFIG),
            (own / "config.yaml", CONFIG),
        ):
            everything = frozenset(Topic) - {topic}  # this machine may have news of its own
            assert event_sources.wait(0.2, everything) == NOTHING
            path.touch()
            assert event_sources.wait(LONG, everything) == {topic}
            while event_sources.wait(0.1, everything):
                pass
    finally:
        event_sources.close()


NOBODY = """
import json, os, time
from nodeprep.doors.events.listener import EventSources
event_sources = EventSources()
began = time.monotonic()
rang = event_sources.wait(0.3)
why = {name: state.why for name, state in event_sources.states().items()}
print(json.dumps([sorted(rang), time.monotonic() - began, why]))
"""


def test_without_any_right_it_waits_and_says_what_it_may_not() -> None:
    """As in an unprivileged container: user and network namespaces of its own, and no capability."""
    words = ["unshare", "--user", "--net", "setpriv", "--bounding-set=-all", "--no-new-privs", sys.executable, "-c"]
    done = subprocess.run([*words, NOBODY], capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        cannot_start(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    rang, seconds, why = json.loads(done.stdout)
    assert rang == []
    assert 0.3 <= seconds < LONG
    assert why["links"] == ""
    assert why["kernel-log"].startswith("/dev/kmsg: Operation not permitted")
