"""Reads files of a node's root: never outside it, only plain files, and each with a limit of its size."""

from __future__ import annotations

import errno
import os
import stat

from nodeprep.doors.files import file_root
from nodeprep.doors.files.file_root import ATTRIBUTES, Root
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value

LIMIT = 1 << 20  # bytes; no kernel attribute comes near 1 MiB
PAGE, CHUNK = 4096, 1 << 16  # bytes; an attribute of sysfs fits a page (Documentation/filesystems/sysfs.rst)
GONE_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
DENIED = (errno.EACCES, errno.EPERM)
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Attributes that the kernel keeps of a device from its registration to its end: of struct pci_dev
# (drivers/pci/pci-sysfs.c), of an RDMA device (drivers/infiniband/core/sysfs.c) and of its device nodes
# (core/user_mad.c, core/uverbs_main.c).
OF_PCI_DEVICE = ("vendor", "device", "class", "modalias", "subsystem_vendor", "subsystem_device")
OF_RDMA_DEVICE = ("node_type", "dev", "ibdev", "port")
CONSTANTS = frozenset((*OF_PCI_DEVICE, *OF_RDMA_DEVICE))
NUMBER = Pattern(r"-?[0-9]{1,20}")
FILE, DIRECTORY = "a file", "a directory"


class DeviceNode(Value):
    """A device node as stat(2) shows it: kind is "c" or "b", mode holds the permission bits."""

    kind: str
    major: int
    minor: int
    mode: int


class FileEntry(Value):
    """An entry at a path: `what` it is, such as "a file" or "a FIFO", its size in bytes, its permission bits."""

    what: str
    size: int
    mode: int

    @property
    def is_file(self) -> bool:
        return self.what == FILE

    @property
    def is_directory(self) -> bool:
        return self.what == DIRECTORY

    @property
    def is_executable(self) -> bool:
        """Whether somebody may execute it. Then root may too, and root runs plugins."""
        return self.is_file and bool(self.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))


class Files:
    """The files under one root.

    `text`, `names`, `number`, `node`, `entry` and `modified` return None if there is no such file, and an Unreadable if
    it cannot be read. Links are followed inside the root, absolute ones too. A path that matches an `excluded` pattern
    does not exist. Some paths of a `live` host lie outside the root (doors/files/file_root.py). `shows_processes` is
    whether the root has the host's processes.
    """

    def __init__(self, root: str = "/", excluded: tuple[str, ...] = (), *, live: bool = False) -> None:
        self._root = Root(root, excluded, live=live)
        self.root = self._root.path  # "" is this machine's own
        self.shows_processes = not self._root.has_tables_only
        self._plain: set[str] = set()  # attributes that were plain files
        self._constants: dict[str, bytes] = {}  # by where they lie on this machine

    def forget(self) -> None:
        """Forget where links led. They may lead elsewhere at the next look."""
        self._root.forget()
        self._plain, self._constants = set(), {}

    def look_again(self) -> None:
        """Begin another look.

        What stays as long as its device is not read again: links whose targets exist, and constant attributes.
        """
        self._root.look_again()

    def is_excluded(self, path: str) -> bool:
        """Whether it is not read because an excluded pattern matches it."""
        return self._root.is_excluded(path)

    def text(self, path: str, limit: int = LIMIT) -> str | None | Unreadable:
        """The text of the file without blanks, tabs and line ends at its end; the kernel writes no others there."""
        data = self.data(path, limit)
        if not isinstance(data, bytes):
            return data
        try:
            text = data.decode().rstrip(" \t\n")
        except UnicodeDecodeError:
            return Unreadable(Why.MALFORMED, path, detail="not UTF-8")
        return Unreadable(Why.MALFORMED, path, detail="holds NUL bytes") if "\0" in text else text

    def need(self, path: str) -> str | Unreadable:
        """The text of a file that every device of this kind has. Without the file it is Unreadable(missing)."""
        text = self.text(path)
        return Unreadable(Why.MISSING, path) if text is None else text

    def number(self, path: str) -> int | None | Unreadable:
        """A decimal that fits the kernel's 64 bits."""
        text = self.text(path)
        if not isinstance(text, str):
            return text
        if NUMBER.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 64:
            return int(text)
        return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no number")

    def data(self, path: str, limit: int = LIMIT, head: bool = False) -> bytes | None | Unreadable:
        """The bytes of the file. With `head`, only the first `limit` of them are asked of the device."""
        if path in self._plain and limit >= PAGE:
            data = self._again(path)
            if data is not None:
                return data
        try:
            descriptor = self._opened(path)
            if isinstance(descriptor, Unreadable):
                return descriptor
        except (OSError, ValueError) as error:
            return _failed(path, error)
        try:
            data = _read(descriptor, limit if head else limit + 1, at_once=path.startswith(ATTRIBUTES))
        except OSError as error:
            return _failed(path, error)
        finally:
            os.close(descriptor)
        return data if len(data) <= limit else Unreadable(Why.MALFORMED, path, detail=f"longer than {limit} bytes")

    def _again(self, path: str) -> bytes | Unreadable | None:
        """The bytes of an attribute that was a plain file at its last read; None if it is not one any more."""
        constants = self._constants  # of this look, even if another one forgets them meanwhile
        try:
            real = self._root.beside(path)
            if real in constants:
                return constants[real]
            descriptor = os.open(real, FLAGS | os.O_NOFOLLOW)
        except OSError:
            self._plain.discard(path)
            return None
        try:
            data = os.read(descriptor, PAGE)
        except OSError as error:
            return _failed(path, error)
        finally:
            os.close(descriptor)
        if path.rpartition("/")[2] in CONSTANTS:
            constants[real] = data
        return data if len(data) < PAGE else None

    def _opened(self, path: str) -> int | Unreadable:
        """A descriptor of the file at `path`; raises OSError."""
        real, mode = self._found(path)
        if not stat.S_ISREG(mode):
            # To open a FIFO or a device can block or cause an action, and an attribute is neither.
            return Unreadable(Why.IO_ERROR, path, errno.EISDIR, _what(mode))
        descriptor = os.open(real, FLAGS | (os.O_NOFOLLOW if self.root else 0))
        if self.root and file_root.is_kept(path):
            self._plain.add(path)
        return descriptor

    def _found(self, path: str) -> tuple[str, int]:
        """Where `path` lies on this machine, and its status. Only links are followed, and few files are links."""
        if not self.root:
            return path, os.stat(self._root.resolve(path)).st_mode
        real = self._root.beside(path)
        mode = os.lstat(real).st_mode
        if path.rpartition("/")[2] in ("", ".", "..") or stat.S_ISLNK(mode):
            real = self._root.resolve(path)
            # A resolved path that is a link now was changed meanwhile and may lead anywhere.
            mode = os.lstat(real).st_mode
        return real, mode

    def names(self, path: str) -> tuple[str, ...] | None | Unreadable:
        """The names in a directory, sorted."""
        try:
            return tuple(sorted(os.listdir(self._root.resolve(path))))
        except (OSError, ValueError) as error:
            if isinstance(error, NotADirectoryError) and self.exists(path):
                return Unreadable(Why.IO_ERROR, path, errno.ENOTDIR, "a file, not a directory")
            return _failed(path, error)

    def link(self, path: str) -> str | None:
        """The target of a link as it is written, even if nothing exists there; None if `path` is not a link."""
        head, _, name = path.rpartition("/")
        try:
            return os.readlink(f"{self._root.resolve(head)}/{name}")
        except (OSError, ValueError):
            return None

    def place(self, path: str) -> str:
        """The path with every link followed, as seen from inside the root; `path` itself if that is unknown."""
        try:
            real = self._root.resolve(path) if self.root else os.path.realpath(path)
        except (OSError, ValueError):
            return path
        return real.removeprefix(self.root) or "/"

    def exists(self, path: str) -> bool:
        try:
            os.stat(self._root.resolve(path))
        except (OSError, ValueError):
            return False
        return True

    def node(self, path: str) -> DeviceNode | None | Unreadable:
        """The device node at `path`; anything else there is Unreadable."""
        try:
            found = os.stat(self._root.resolve(path))
        except (OSError, ValueError) as error:
            return _failed(path, error)
        if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
            return Unreadable(Why.MALFORMED, path, detail=f"{_what(found.st_mode)}, not a device node")
        kind = "c" if stat.S_ISCHR(found.st_mode) else "b"
        return DeviceNode(kind, os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))

    def entry(self, path: str) -> FileEntry | None | Unreadable:
        """The entry at `path`, with links followed. It is not opened."""
        try:
            found = os.stat(self._root.resolve(path))
        except (OSError, ValueError) as error:
            return _failed(path, error)
        return FileEntry(_what(found.st_mode), found.st_size, stat.S_IMODE(found.st_mode))

    def modified(self, path: str) -> float | None | Unreadable:
        """When the entry at `path` was last written, in seconds since 1970: of a socket, when it was made."""
        try:
            return os.stat(self._root.resolve(path)).st_mtime
        except (OSError, ValueError) as error:
            return _failed(path, error)


def _read(descriptor: int, most: int, *, at_once: bool = False) -> bytes:
    """At most so many bytes. `at_once`: a read shorter than a page is the whole file, as with attributes of sysfs."""
    parts = [os.read(descriptor, min(most, PAGE))]
    if at_once and len(parts[0]) < PAGE:
        return parts[0]
    left = most - len(parts[0])
    while left and parts[-1]:
        parts.append(os.read(descriptor, min(left, CHUNK)))
        left -= len(parts[-1])
    return b"".join(parts)


def _failed(path: str, error: OSError | ValueError) -> Unreadable | None:
    if isinstance(error, ValueError):  # a NUL in a name
        return Unreadable(Why.MALFORMED, path, detail=str(error))
    if error.errno in GONE_ERRNOS:
        return None
    kind = Why.DENIED if error.errno in DENIED else Why.IO_ERROR
    return Unreadable(kind, path, error.errno, os.strerror(error.errno or 0))


def _what(mode: int) -> str:
    for is_one, word in (
        (stat.S_ISDIR, DIRECTORY),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    ):
        if is_one(mode):
            return word
    return FILE
