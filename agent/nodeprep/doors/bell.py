"""Bells: what the kernel announces, as reasons to look again and never as data (design 3.2).

A bell that dies is opened again later, and its topics ring: what it would have said meanwhile is looked at. Nothing
here is needed for a right verdict, only for an early one: every fact has a period of its own.
"""

from __future__ import annotations

import errno
import math
import os
import select
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from nodeprep.doors import clock
from nodeprep.doors.bell_directories import Directories, Directory
from nodeprep.doors.bell_kernel import KernelLogLines, LinkNotices, RdmaNotices, Uevents
from nodeprep.doors.bell_ports import PortStates
from nodeprep.doors.bell_source import Absent, Source
from nodeprep.doors.files import Files
from nodeprep.model import Topic

# Under the host's root; others wait in the settings of the container runtime (facts/cni_runtime).
DIRECTORIES: Mapping[str, Topic] = {
    "/etc/cni/net.d": Topic.CONFIG,
    "/etc/eni": Topic.CONFIG,  # Terway's
    "/var/lib/kubelet/device-plugins": Topic.DEVICE,
}
FIRST, LONGEST = 1.0, 60.0  # seconds before a dead bell is opened again, the first time and at most
# Seconds without a bell that had nothing to say that anyone asked for: noise wakes us 50 times a second and no more.
NAP = 0.02
APPEARS = frozenset({Topic.RDMA, Topic.DEVICE})  # what a bell may come with that was not there before
NOTHING: frozenset[Topic] = frozenset()


@dataclass(frozen=True, slots=True)
class BellState:
    """`alive`: it would ring. `restarts`: how often it was opened again after it had died.

    `why` says why it does not ring, "" if it would; `absent`: this node has no such thing, nothing died.
    """

    alive: bool
    restarts: int = 0
    why: str = ""
    absent: bool = False


@dataclass(slots=True)
class _Hung:
    """A bell and how it fares. Times are CLOCK_BOOTTIME seconds.

    `descriptor` is None while it is closed; it is opened again at `again_at`, and `pause` after that if it fails.
    `died` tells a bell that broke from one that this node does not have. `resting_until`: not listened to before.
    """

    source: Source
    descriptor: int | None = None
    opened_at: float = 0.0
    again_at: float = 0.0
    pause: float = FIRST
    died: bool = False
    restarts: int = 0
    why: str = ""
    resting_until: float = 0.0

    def state(self) -> BellState:
        why = self.why if self.descriptor is None else self.source.trouble()
        absent = self.descriptor is None and not self.died
        return BellState(self.descriptor is not None and not why, self.restarts, why, absent)


class Bells:
    """All bells of a live node, and a way to wake who waits for them. One thread waits; only `wake` is for others."""

    def __init__(
        self,
        root: str = "/",
        configuration: Iterable[str] = ("/etc/nodeprep",),
        directories: Mapping[str, Topic] = DIRECTORIES,
        sources: Iterable[Source] | None = None,
    ) -> None:
        """Open every bell that there is.

        `configuration` are directories of our own file system, `directories` those under the host's `root`; they need
        not be there yet. `sources` takes the place of all bells.
        """
        if sources is None:
            sources = _all(root, configuration, directories)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung: frozenset[Topic] = NOTHING
        self._bells = [_Hung(source) for source in sources]
        now = clock.now()
        for bell in self._bells:
            self._open(bell, now)
        self._rung = NOTHING  # who has just begun looks at everything anyway

    def wait(self, timeout: float | None, deaf: frozenset[Topic] = frozenset()) -> frozenset[Topic]:
        """Wait until a bell rings, `wake` is called or `timeout` seconds passed; the topics that rang.

        Bells of `deaf` topics are not listened to now: what they would say waits, and rings when they are heard again.
        """
        now = clock.now()
        end = math.inf if timeout is None else now + timeout
        while True:
            for bell in self._bells:
                if bell.descriptor is None and bell.again_at <= now:
                    self._open(bell, now)
            woken = self._listen(now, now if self._rung - deaf else end, deaf)
            now = clock.now()
            if woken or self._rung - deaf or now >= end:
                break
        told, self._rung = self._rung - deaf, self._rung & deaf
        return told

    def wake(self) -> None:
        """Make `wait` return; may be called from any thread and from a signal handler."""
        with suppress(OSError, ValueError):  # woken as often as its counter holds; closed
            os.eventfd_write(self._wake, 1)

    def states(self) -> Mapping[str, BellState]:
        """By name of the bell."""
        return {bell.source.name: bell.state() for bell in self._bells}

    def close(self) -> None:
        for bell in self._bells:
            _shut(bell)
        self._bells = []
        descriptor, self._wake = self._wake, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _listen(self, now: float, end: float, deaf: frozenset[Topic]) -> bool:
        """Wait once, until `end` at the latest, and take what came; whether we were woken."""
        poll, by_descriptor = select.poll(), dict[int, _Hung]()
        for bell in self._bells:
            if bell.descriptor is None:
                end = min(end, bell.again_at)
            elif bell.source.topics <= deaf:
                continue
            elif bell.resting_until > now:
                end = min(end, bell.resting_until)
            else:
                poll.register(bell.descriptor, select.POLLIN)
                by_descriptor[bell.descriptor] = bell
        if self._wake >= 0:
            poll.register(self._wake, select.POLLIN)
        woken = False
        # Rounded up: a wait that is cut to 0 ms would spin until its end.
        for descriptor, event in poll.poll(None if end == math.inf else math.ceil(max(0.0, end - now) * 1000)):
            if descriptor == self._wake:
                self._calm(event)
                woken = True
            else:
                self._take(by_descriptor[descriptor], event, deaf)
        return woken

    def _calm(self, event: int) -> None:
        if event & select.POLLNVAL:  # somebody closed it; with it we would never sleep again
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _take(self, bell: _Hung, event: int, deaf: frozenset[Topic]) -> None:
        now = clock.now()
        try:
            said = _said(bell.source, event)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault in one bell stays there
            self._died(bell, error, now)
            return
        if not said - deaf:
            bell.resting_until = now + NAP
        self._rung |= said
        if said & APPEARS:
            self._appeared(bell, now)

    def _appeared(self, teller: _Hung, now: float) -> None:
        """A device or a module came, went or changed: there may be a bell now that was absent."""
        for bell in self._bells:
            if bell is teller:
                continue
            with suppress(Exception):  # it has a period of its own
                bell.source.heard()
            if bell.descriptor is None and not bell.died and bell.again_at < math.inf:
                bell.again_at = now

    def _open(self, bell: _Hung, now: float) -> None:
        try:
            bell.descriptor = bell.source.open()
        except Absent as absent:
            bell.why, bell.died = str(absent), False
            bell.again_at = math.inf if absent.final else now + LONGEST
            return
        except Exception as error:  # noqa: BLE001 - the boundary, as above
            self._died(bell, error, now)
            return
        bell.opened_at, bell.resting_until, bell.why = now, 0.0, ""
        bell.restarts += bell.died
        bell.died = False
        self._rung |= bell.source.topics

    def _died(self, bell: _Hung, error: Exception, now: float) -> None:
        """Close it and say so once; what it says from now on is missed until it is open again."""
        if bell.descriptor is not None:
            self._rung |= bell.source.topics
            if now - bell.opened_at >= LONGEST:
                bell.pause = FIRST
        _shut(bell)
        bell.why, bell.died = _words(error), True
        bell.again_at, bell.pause = now + bell.pause, min(bell.pause * 2, LONGEST)


def _said(source: Source, event: int) -> frozenset[Topic]:
    """What a bell that poll(2) reported announces. Raises OSError if it is dead."""
    said = source.drain()
    if not said and not event & select.POLLIN:  # it would be reported again and again
        raise OSError(errno.EIO, "in error, with nothing to read")
    return said


def _shut(bell: _Hung) -> None:
    bell.descriptor = None
    with suppress(Exception):  # it is dead already
        bell.source.close()


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error}"
    return f"{type(error).__name__}: {error}"


def _all(root: str, configuration: Iterable[str], directories: Mapping[str, Topic]) -> list[Source]:
    host = Files(root)
    watched = [Directory(host, path, topic) for path, topic in directories.items()]
    watched += [Directory(Files(), os.path.abspath(path), Topic.CONFIG) for path in configuration]
    return [LinkNotices(), RdmaNotices(), Uevents(), KernelLogLines(host), Directories(watched), PortStates(root)]
