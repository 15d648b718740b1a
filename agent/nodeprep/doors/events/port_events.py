"""Announces changes of the state of InfiniBand ports. The kernel does not (design 1), so the ports are polled.

To read the state of a port asks the firmware of the device. Stuck firmware blocks the reader for a minute (mlx5 gives a
command 60 s). The thread that waits for event sources must not be blocked, so a separate thread reads.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from threading import Event, Lock, Thread

from nodeprep.doors import clock
from nodeprep.doors.events.event_source import EventSource
from nodeprep.doors.files.reader import FLAGS, PAGE, FileEntry, Files
from nodeprep.link_layers import INFINIBAND
from nodeprep.model import Topic

CLASS = "/sys/class/infiniband"
STATES = ("state", "phys_state")
PORT_POLL_SECONDS = 1.0  # seconds between two polls (design 7)
LISTING = 60.0  # seconds between two lists of the ports while no other event source announces devices
STUCK = 5.0  # seconds after which a poll is stuck; a healthy port answers in less than a millisecond


class PortEvents(EventSource):
    """The states of all InfiniBand ports. On a node without ports this costs one list of the class a minute."""

    name = "infiniband-ports"
    topics = frozenset({Topic.RDMA})

    def __init__(
        self, root: str, every: float = PORT_POLL_SECONDS, listing: float = LISTING, stuck: float = STUCK
    ) -> None:
        self._root = root
        self._every = every
        self._listing = listing
        self._stuck = stuck
        self._poll: _Poll | None = None

    def open(self) -> int:
        self._poll = _Poll(Files(self._root), self._every, self._listing)
        return self._poll.descriptor

    def drain(self) -> frozenset[Topic]:
        return self.topics if self._poll and self._poll.take() else frozenset()

    def close(self) -> None:
        poll, self._poll = self._poll, None
        if poll:
            poll.close()

    def heard(self) -> None:
        if self._poll:
            self._poll.list_again()

    def trouble(self) -> str:
        return self._poll.trouble(self._stuck) if self._poll else ""


class _Poll:
    """One thread and its eventfd. The thread writes to it after a change."""

    def __init__(self, files: Files, every: float, listing: float) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._files = files
        self._every = every
        self._listing = listing
        self._stir = Event()
        self._lock = Lock()  # nobody writes to a closed descriptor: its number may be reused
        self._closed = False
        self._reading: tuple[str, float] | None = None
        self._broke: Exception | None = None
        try:
            # A daemon: a thread that hangs in the kernel must not prevent the end of the process.
            Thread(target=self._run, name=PortEvents.name, daemon=True).start()
        except RuntimeError as error:
            os.close(self.descriptor)
            raise OSError(errno.EAGAIN, f"no thread: {error}") from None

    def take(self) -> bool:
        """Whether something changed since the last call. If the thread has ended, its exception is raised."""
        try:
            os.eventfd_read(self.descriptor)
        except BlockingIOError:
            return False
        if self._broke:
            raise self._broke
        return True

    def list_again(self) -> None:
        self._stir.set()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._stir.set()
            os.close(self.descriptor)

    def trouble(self, stuck: float) -> str:
        reading = self._reading
        if reading is None or clock.now() - reading[1] < stuck:
            return ""
        return f"no answer from {reading[0]} for {clock.now() - reading[1]:.0f} s"

    def _run(self) -> None:
        files: dict[str, int] = {}
        try:
            self._watch(files)
        except Exception as error:  # noqa: BLE001 - the boundary of the thread: who drains is told
            self._broke = error
            self._ring()
        finally:
            _close(files)

    def _watch(self, files: dict[str, int]) -> None:
        """Poll until closed. `files` are the open files by path."""
        self._list(files)
        listed, seen = clock.now(), None
        while not self._closed:
            now = {path: self._state(path, descriptor) for path, descriptor in files.items()}
            if seen is not None and now != seen:
                self._ring()
            seen = now
            stirred = self._stir.wait(self._every if files else self._listing)
            if stirred or clock.now() - listed >= self._listing:
                self._stir.clear()
                self._list(files)
                listed = clock.now()

    def _list(self, files: dict[str, int]) -> None:
        """Open the files with the states of InfiniBand ports, and close all others.

        They stay open: to find and open them for every poll would take 16 times as long as to read them.
        """
        self._files.forget()
        _close(files)
        for device in self._names(CLASS):
            ports = f"{CLASS}/{device}/ports"
            for port in self._names(ports):
                self._reading = (f"{ports}/{port}", clock.now())
                if self._files.text(f"{ports}/{port}/link_layer") == INFINIBAND:
                    files |= self._opened(f"{ports}/{port}")
                self._reading = None

    def _opened(self, port: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in (f"{port}/{name}" for name in STATES):
            entry = self._files.entry(path)
            if isinstance(entry, FileEntry) and entry.is_file:
                with suppress(OSError):  # gone meanwhile
                    found[path] = os.open(self._files.root + self._files.place(path), FLAGS)
        return found

    def _names(self, path: str) -> tuple[str, ...]:
        self._reading = (path, clock.now())
        names = self._files.names(path)
        self._reading = None
        return names if isinstance(names, tuple) else ()

    def _state(self, path: str, descriptor: int) -> bytes | None:
        """The content of the file; None if it cannot be read (ENODEV after the device has gone)."""
        self._reading = (path, clock.now())
        try:
            return os.pread(descriptor, PAGE, 0)
        except OSError:
            return None
        finally:
            self._reading = None

    def _ring(self) -> None:
        with self._lock, suppress(BlockingIOError):
            if not self._closed:
                os.eventfd_write(self.descriptor, 1)


def _close(files: dict[str, int]) -> None:
    for descriptor in files.values():
        with suppress(OSError):  # it is closed nevertheless (close(2))
            os.close(descriptor)
    files.clear()
