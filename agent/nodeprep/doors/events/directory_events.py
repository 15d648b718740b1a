"""Announces changes in directories (inotify(7)), also in directories that appear later or come back."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator

from nodeprep.doors.events.event_source import EventSource
from nodeprep.doors.files.reader import Files
from nodeprep.model import Topic
from nodeprep.values import Value

# include/uapi/linux/inotify.h
IN_ATTRIB, IN_CLOSE_WRITE = 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF = 0x400, 0x800
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_MASK_ADD = 0x01000000, 0x20000000
EVENT = struct.Struct("=iIII")  # watch, mask, cookie, length of the name that follows

# On the way to a directory only names count. In the directory, writes and chmod count too. A ConfigMap changes when a
# new link `..data` is renamed onto the old one (kubernetes pkg/volume/util/atomic_writer.go): that is IN_MOVED_TO.
WAY = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_MASK_ADD
INSIDE = WAY | IN_ATTRIB | IN_CLOSE_WRITE
DIRECTORY_GONE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED

BUFFER = 1 << 16  # bytes: about a thousand events
READS = 8  # of full buffers before the other event sources have their turn
NOT_WATCHABLE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)


class WatchedDirectory(Value):
    """A directory under the root of `files`, and the topic that its changes announce."""

    files: Files
    path: str
    topic: Topic


class DirectoryEvents(EventSource):
    """Watches the directories and every directory on the way to them, so it sees when one comes, goes or moves.

    Targets of links on the way are not watched: if a link leads to another link, a change of the second is not seen.
    """

    name = "configuration"

    def __init__(self, directories: Iterable[WatchedDirectory]) -> None:
        self._wanted = tuple(directories)
        self.topics = frozenset(wanted.topic for wanted in self._wanted)
        self._descriptor: int | None = None
        # By watch: the topics that its changes announce, and the names in it on the way to a directory.
        self._inside: dict[int, frozenset[Topic]] = {}
        self._ways: dict[int, frozenset[str]] = {}
        self._standing: dict[WatchedDirectory, int] = {}  # the watch of each directory that exists

    def open(self) -> int:
        self._libc = ctypes.CDLL(None, use_errno=True)
        descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise _failed("inotify_init1: see /proc/sys/fs/inotify/max_user_instances")
        self._descriptor = descriptor
        self._inside, self._ways, self._standing = {}, {}, {}
        try:
            self._look()
        except OSError:
            self.close()
            raise
        return int(descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def drain(self) -> frozenset[Topic]:
        if self._descriptor is None:
            return frozenset()
        rung: frozenset[Topic] = frozenset()
        moved = False
        for _ in range(READS):
            try:
                data = os.read(self._descriptor, BUFFER)
            except BlockingIOError:
                break
            for watch, mask, name in _events(data):
                if mask & IN_Q_OVERFLOW:
                    rung, moved = self.topics, True
                    continue
                known = watch in self._inside or watch in self._ways
                rung |= self._inside.get(watch, frozenset())
                moved |= (known and bool(mask & DIRECTORY_GONE)) or name in self._ways.get(watch, ())
            if len(data) < BUFFER // 2:
                break
        return rung | self._look() if moved else rung

    def _look(self) -> frozenset[Topic]:
        """Watch all directories that exist now. Returns the topics of those that came, went or were replaced."""
        inside, ways, standing = (
            dict[int, frozenset[Topic]](),
            dict[int, frozenset[str]](),
            dict[WatchedDirectory, int](),
        )
        for wanted in self._wanted:
            wanted.files.forget()
        for wanted in self._wanted:
            names = [name for name in wanted.path.split("/") if name]
            for depth in range(len(names)):
                # The parent first: a directory that is made between the two calls is an event in the parent.
                watch = self._watch(wanted.files, "/" + "/".join(names[:depth]), WAY)
                if watch is not None:
                    ways[watch] = ways.get(watch, frozenset()) | {names[depth]}
            watch = self._watch(wanted.files, wanted.path, INSIDE)
            if watch is not None:
                inside[watch] = inside.get(watch, frozenset()) | {wanted.topic}
                standing[wanted] = watch
        for watch in (self._inside.keys() | self._ways.keys()) - inside.keys() - ways.keys():
            self._libc.inotify_rm_watch(self._descriptor, watch)  # if that fails, it has gone already
        changed = {wanted.topic for wanted in self._wanted if standing.get(wanted) != self._standing.get(wanted)}
        self._inside, self._ways, self._standing = inside, ways, standing
        return frozenset(changed)

    def _watch(self, files: Files, path: str, mask: int) -> int | None:
        """The watch of a directory; None if it does not exist or we may not watch it."""
        real = files.root + files.place(path)
        watch = int(self._libc.inotify_add_watch(self._descriptor, os.fsencode(real), mask))
        if watch >= 0:
            return watch
        if ctypes.get_errno() in NOT_WATCHABLE:
            return None
        raise _failed(f"inotify_add_watch {path}: see /proc/sys/fs/inotify/max_user_watches")


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The watch, mask and name of each event. The name is "" for the directory itself."""
    offset = 0
    while offset + EVENT.size <= len(data):
        watch, mask, _, length = EVENT.unpack_from(data, offset)
        offset += EVENT.size + length
        yield watch, mask, os.fsdecode(data[offset - length : offset].rstrip(b"\0"))


def _failed(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")
