"""All event sources: what the kernel announces is a reason to look again and never data (design 3.2).

An event source that dies is opened again later. Its topics are announced then, because its events meanwhile are lost.
Verdicts are right without this module, but later: every fact also has a period.
"""

from __future__ import annotations

import errno
import math
import os
import select
from collections.abc import Iterable, Mapping
from contextlib import suppress

from nodeprep.doors import clock
from nodeprep.doors.events.directory_events import DirectoryEvents, WatchedDirectory
from nodeprep.doors.events.event_source import EventSource, EventSourceAbsent
from nodeprep.doors.events.kernel_events import DeviceEvents, KernelLogEvents, LinkEvents, RdmaEvents
from nodeprep.doors.events.port_events import PortEvents
from nodeprep.doors.files.reader import Files
from nodeprep.model import Topic
from nodeprep.values import Struct, Value

# Under the host's root. The settings of the container runtime may name others (facts/network/cni_runtime).
DIRECTORIES: Mapping[str, Topic] = {
    "/etc/cni/net.d": Topic.CONFIG,
    "/etc/eni": Topic.CONFIG,  # Terway's
    "/var/lib/kubelet/device-plugins": Topic.DEVICE,
}
REOPEN_FIRST_SECONDS, REOPEN_LIMIT_SECONDS = 1.0, 60.0  # before a dead event source is opened again
# Seconds without an event source after events that nobody asked for. So such noise wakes us 50 times a second at most.
NAP = 0.02
APPEARS = frozenset({Topic.RDMA, Topic.DEVICE})  # topics with which an event source may appear that was absent before
NO_TOPICS: frozenset[Topic] = frozenset()


class EventSourceState(Value):
    """`alive`: it can announce events. `restarts`: how often it was opened again after it had died.

    `why` is why it cannot, "" if it is alive. `absent`: this node has no such event source, so nothing died.
    """

    alive: bool
    restarts: int = 0
    why: str = ""
    absent: bool = False


class _OpenSource(Struct):
    """An event source and its state. Times are CLOCK_BOOTTIME seconds.

    `descriptor` is None while it is closed. It is opened again at `again_at`; if that fails, `pause` seconds later.
    `died` is False for an event source that this node does not have. It is not listened to before `resting_until`.
    """

    source: EventSource
    descriptor: int | None = None
    opened_at: float = 0.0
    again_at: float = 0.0
    pause: float = REOPEN_FIRST_SECONDS
    died: bool = False
    restarts: int = 0
    why: str = ""
    resting_until: float = 0.0

    def state(self) -> EventSourceState:
        why = self.why if self.descriptor is None else self.source.trouble()
        absent = self.descriptor is None and not self.died
        return EventSourceState(self.descriptor is not None and not why, self.restarts, why, absent)


class EventSources:
    """All event sources of a live node. One thread waits for them; other threads may only call `wake`."""

    def __init__(
        self,
        root: str = "/",
        configuration: Iterable[str] = ("/etc/nodeprep",),
        directories: Mapping[str, Topic] = DIRECTORIES,
        sources: Iterable[EventSource] | None = None,
    ) -> None:
        """Open every event source that exists.

        `configuration` are directories of our own file system, `directories` those under the host's `root`. They need
        not exist yet. `sources` replaces all event sources.
        """
        if sources is None:
            sources = _all(root, configuration, directories)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung: frozenset[Topic] = NO_TOPICS
        self._event_sources = [_OpenSource(source) for source in sources]
        now = clock.now()
        for event_source in self._event_sources:
            self._open(event_source, now)
        self._rung = NO_TOPICS  # at its start the agent looks at everything anyway

    def wait(self, timeout: float | None, deaf: frozenset[Topic] = frozenset()) -> frozenset[Topic]:
        """Wait until an event comes, `wake` is called or `timeout` seconds have passed. Returns the announced topics.

        Event sources of `deaf` topics are not listened to now. Their events wait until they are listened to again.
        """
        now = clock.now()
        end = math.inf if timeout is None else now + timeout
        while True:
            for event_source in self._event_sources:
                if event_source.descriptor is None and event_source.again_at <= now:
                    self._open(event_source, now)
            woken = self._listen(now, now if self._rung - deaf else end, deaf)
            now = clock.now()
            if woken or self._rung - deaf or now >= end:
                break
        told, self._rung = self._rung - deaf, self._rung & deaf
        return told

    def wake(self) -> None:
        """Make `wait` return. Any thread and a signal handler may call this."""
        with suppress(OSError, ValueError):  # its counter is full, or it is closed
            os.eventfd_write(self._wake, 1)

    def states(self) -> Mapping[str, EventSourceState]:
        """The states by name of the event source."""
        return {event_source.source.name: event_source.state() for event_source in self._event_sources}

    def heard_topics(self) -> frozenset[Topic]:
        """The topics of which every event source that this node has can announce events."""
        states = [(one.source.topics, one.state()) for one in self._event_sources]
        told = {topic for topics, state in states for topic in topics if state.alive}
        return frozenset(told.difference(*(topics for topics, state in states if not (state.alive or state.absent))))

    def close(self) -> None:
        for event_source in self._event_sources:
            _shut(event_source)
        self._event_sources = []
        descriptor, self._wake = self._wake, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _listen(self, now: float, end: float, deaf: frozenset[Topic]) -> bool:
        """Wait once, until `end` at the latest, and take the events that came. Returns whether `wake` was called."""
        poll, by_descriptor = select.poll(), dict[int, _OpenSource]()
        for event_source in self._event_sources:
            if event_source.descriptor is None:
                end = min(end, event_source.again_at)
            elif event_source.source.topics <= deaf:
                continue
            elif event_source.resting_until > now:
                end = min(end, event_source.resting_until)
            else:
                poll.register(event_source.descriptor, select.POLLIN)
                by_descriptor[event_source.descriptor] = event_source
        if self._wake >= 0:
            poll.register(self._wake, select.POLLIN)
        woken = False
        # Rounded up: a wait of 0 ms would spin until the end.
        for descriptor, event in poll.poll(None if end == math.inf else math.ceil(max(0.0, end - now) * 1000)):
            if descriptor == self._wake:
                self._calm(event)
                woken = True
            else:
                self._take(by_descriptor[descriptor], event, deaf)
        return woken

    def _calm(self, event: int) -> None:
        if event & select.POLLNVAL:  # somebody closed it: with it poll(2) would return at once
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _take(self, event_source: _OpenSource, event: int, deaf: frozenset[Topic]) -> None:
        now = clock.now()
        try:
            said = _said(event_source.source, event)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault in one event source stays there
            self._died(event_source, error, now)
            return
        if not said - deaf:
            event_source.resting_until = now + NAP
        self._rung |= said
        if said & APPEARS:
            self._appeared(event_source, now)

    def _appeared(self, teller: _OpenSource, now: float) -> None:
        """A device or a module came, went or changed. So an event source that was absent may exist now."""
        for event_source in self._event_sources:
            if event_source is teller:
                continue
            with suppress(Exception):  # it has a period of its own
                event_source.source.heard()
            if event_source.descriptor is None and not event_source.died and event_source.again_at < math.inf:
                event_source.again_at = now

    def _open(self, event_source: _OpenSource, now: float) -> None:
        try:
            event_source.descriptor = event_source.source.open()
        except EventSourceAbsent as absent:
            event_source.why, event_source.died = str(absent), False
            event_source.again_at = math.inf if absent.final else now + REOPEN_LIMIT_SECONDS
            return
        except Exception as error:  # noqa: BLE001 - the boundary, as above
            self._died(event_source, error, now)
            return
        event_source.opened_at, event_source.resting_until, event_source.why = now, 0.0, ""
        event_source.restarts += event_source.died
        event_source.died = False
        self._rung |= event_source.source.topics

    def _died(self, event_source: _OpenSource, error: Exception, now: float) -> None:
        """Close it and report that once. Its events are missed until it is open again."""
        if event_source.descriptor is not None:
            self._rung |= event_source.source.topics
            if now - event_source.opened_at >= REOPEN_LIMIT_SECONDS:
                event_source.pause = REOPEN_FIRST_SECONDS
        _shut(event_source)
        event_source.why, event_source.died = _words(error), True
        event_source.again_at = now + event_source.pause
        event_source.pause = min(event_source.pause * 2, REOPEN_LIMIT_SECONDS)


def _said(source: EventSource, event: int) -> frozenset[Topic]:
    """The topics of an event source that poll(2) reported. Raises OSError if it is dead."""
    said = source.drain()
    if not said and not event & select.POLLIN:  # poll(2) would report it again and again
        raise OSError(errno.EIO, "in error, with nothing to read")
    return said


def _shut(event_source: _OpenSource) -> None:
    event_source.descriptor = None
    with suppress(Exception):  # it is dead already
        event_source.source.close()


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error}"
    return f"{type(error).__name__}: {error}"


def _all(root: str, configuration: Iterable[str], directories: Mapping[str, Topic]) -> list[EventSource]:
    host = Files(root)
    watched = [WatchedDirectory(host, path, topic) for path, topic in directories.items()]
    watched += [WatchedDirectory(Files(), os.path.abspath(path), Topic.CONFIG) for path in configuration]
    return [
        LinkEvents(),
        RdmaEvents(),
        DeviceEvents(),
        KernelLogEvents(host),
        DirectoryEvents(watched),
        PortEvents(root),
    ]
