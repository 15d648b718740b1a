"""Keeps one text for an agent across restarts, crashes and full disks. A lock lets only one agent keep it.

A file is a header line (layout, serial, SHA-256 of serial and text) and the text. The checksum reveals a torn or
damaged file. The serial tells which of several files is the newest.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress

from nodeprep.doors import clock
from nodeprep.doors.files import atomic
from nodeprep.doors.files.reader import Files
from nodeprep.model import Unreadable
from nodeprep.pattern import Pattern
from nodeprep.values import Value

NAME, LOCK = "memory.json", "lock"
LIMIT = 8 << 20  # bytes of text; the agent state of a node with 16 NICs has about 100 KiB
HEADER = Pattern(rb"nodeprep memory 1 ([0-9]{1,18}) ([0-9a-f]{64})\n")
HEADER_SIZE = 128  # bytes; every header is shorter
# An unreadable file may be the newest. So the next serial is larger than any serial that it may have.
LEAP = 1 << 32
LOCK_TIMEOUT_SECONDS = 1.0  # seconds; a `check` takes the lock for a moment to see who holds it
PAUSE = 0.02


class LockHolder(Exception):
    """Another agent runs on this node. `pid` is its own word, None if it gave none."""

    def __init__(self, pid: int | None, path: str) -> None:
        who = f"another nodeprep agent (pid {pid})" if pid else "another nodeprep agent"
        super().__init__(f"{path}: {who} runs on this node; wanted one: stop it, or do not start this one")
        self.pid = pid
        self.path = path


class StoredText(Value):
    """A text that was saved."""

    text: str
    serial: int
    path: str


class DamagedFile(Value):
    """A file that exists and holds no valid text, and why."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class StoreContents(Value):
    """What was found. `kept` is newest first. A `damaged` file may have been newer."""

    kept: tuple[StoredText, ...] = ()
    damaged: tuple[DamagedFile, ...] = ()


class Store:
    """One text in `directory`. If that cannot be written, it is in `spare`, which is empty after the next boot.

    `former` is the spare of former versions. It is read and emptied, and never written.
    """

    def __init__(self, directory: str, spare: str, former: str = "") -> None:
        self.directory = directory
        self.spare = spare
        self.former = former
        self._locks: list[int] = []
        self._serial: int | None = None

    @property
    def serial(self) -> int:
        """The highest serial that a file has or may have. The next saved text gets the serial after it."""
        if self._serial is None:
            self.load()
        return self._serial or 0

    def save(self, text: str) -> str:
        """Save a text. Returns "" if the next start and the next boot find it, else what is wrong. Raises nothing."""
        content = text.encode(errors="surrogatepass")
        if len(content) > LIMIT:
            return f"{self.directory}/{NAME}: the memory has {len(content)} bytes, wanted at most {LIMIT}; not kept"
        self._serial = self.serial + 1
        data = _header(self._serial, content) + content
        trouble = _put(self.directory, data)
        if not trouble:
            _empty(self.directory, self.spare, self.former)
            return ""
        worse = _put(self.spare, data)
        if not worse:
            _empty(self.spare, self.former)
            return f"{trouble}; the memory is kept in {self.spare} until the next boot; see df and findmnt of both"
        return f"{trouble}; {worse}; the memory is lost when the agent ends; see df and findmnt of both"

    def load(self) -> StoreContents:
        """The contents of all places. Raises nothing."""
        places = dict.fromkeys(filter(None, (self.directory, self.spare, self.former)))
        found = [one for one in map(_get, places) if one is not None]
        kept = [one for one in found if isinstance(one, StoredText)]
        damaged = [one for one in found if isinstance(one, DamagedFile)]
        newest = max((one.serial for one in kept), default=0)
        self._serial = max(self._serial or 0, newest + LEAP if damaged else newest)
        return StoreContents(tuple(sorted(kept, key=lambda one: one.serial, reverse=True)), tuple(damaged))

    def hold(self) -> str:
        """Become the only agent of this node, until we end or `release`.

        Returns "", or why a second agent would not be noticed. Both places are locked: a directory may be writable at
        one start and not at another. Raises LockHolder if another agent runs.
        """
        troubles: list[str] = []
        for directory in (self.directory, self.spare):
            try:
                self._take(directory)
            except OSError as error:
                troubles.append(f"{directory}/{LOCK}: {error.strerror}")
            except LockHolder:
                self.release()
                raise
        if len(troubles) < 2:
            return ""
        return f"{'; '.join(troubles)}; wanted one that can be locked: a second agent would not be noticed"

    def release(self) -> None:
        """Let another agent run."""
        while self._locks:
            os.close(self._locks.pop())

    def _take(self, directory: str) -> None:
        descriptor = _open_lock(directory)
        try:
            ours = any(os.path.sameopenfile(descriptor, own) for own in self._locks)  # both places may be the same
            if not ours:
                _lock(descriptor, f"{directory}/{LOCK}")
                self._locks.append(os.dup(descriptor))
        finally:
            os.close(descriptor)


def holder(*directories: str) -> int | None:
    """The pid, in its own words, of the agent that holds one of these directories; 0 if it gave none; None if no agent.

    A shared lock is taken for a moment. Only a lock tells a running agent from the file of one that has ended.
    """
    for directory in directories:
        try:
            descriptor = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid(descriptor) or 0
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return None


def _header(serial: int, content: bytes) -> bytes:
    return b"nodeprep memory 1 %d %s\n" % (serial, _digest(serial, content))


def _digest(serial: int, content: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(b"%d\n" % serial + content).hexdigest().encode()


def _put(directory: str, data: bytes) -> str:
    try:
        atomic.put(directory, NAME, data, 0o600)
    except OSError as error:
        return f"{directory}: {error.strerror}"
    return ""


def _empty(newest: str, *places: str) -> None:
    """Remove older texts from these places. If this fails, the serial still tells which text is the newest."""
    for place in filter(None, places):
        with suppress(OSError):
            if not os.path.samefile(newest, place):
                os.unlink(f"{place}/{NAME}")


def _get(directory: str) -> StoredText | DamagedFile | None:
    path, files = f"{directory}/{NAME}", Files(directory)
    target = files.link(f"/{NAME}")
    if target is not None:
        return DamagedFile(path, f"a link to {target[:60]!r}")
    data = files.data(f"/{NAME}", LIMIT + HEADER_SIZE)
    if data is None:
        return None
    if isinstance(data, Unreadable):
        return DamagedFile(path, data.detail)
    header = HEADER.match(data)
    if header is None:
        return DamagedFile(path, f"{len(data)} bytes that do not begin as a memory does")
    serial, content = int(header[1]), data[header.end() :]
    if header[2] != _digest(serial, content):
        return DamagedFile(path, "torn or rotten: its checksum is of another content")
    return StoredText(content.decode(errors="surrogatepass"), serial, path)


def _open_lock(directory: str) -> int:
    """The lock file. It is made if needed; where nothing can be written, an existing one serves. Raises OSError."""
    path, flags = f"{directory}/{LOCK}", os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        os.makedirs(directory, 0o755, exist_ok=True)
        descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        descriptor = os.open(path, flags | os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file")
    return descriptor


def _lock(descriptor: int, path: str) -> None:
    """Raises LockHolder if another agent has the lock, and OSError if the file system has no locks."""
    until = clock.now() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if clock.now() >= until:
                raise LockHolder(_pid(descriptor), path) from None
            clock.sleep(PAUSE)
    with suppress(OSError):  # on a full disk the lock still counts
        said = b"%d\n" % os.getpid()
        os.pwrite(descriptor, said, 0)
        os.ftruncate(descriptor, len(said))


def _pid(descriptor: int) -> int | None:
    with suppress(OSError):
        line = os.pread(descriptor, 32, 0).partition(b"\n")[0]
        return int(line) if line.isdigit() and len(line) <= 10 else None
    return None
