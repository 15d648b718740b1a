"""Reads files of a node's root: never outside it, only plain files, and each with a limit of its size."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from nodeprep.door_values import EMPTY_GID
from nodeprep.doors.files import file_root
from nodeprep.doors.files.file_root import ATTRIBUTES, Root
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value

T = TypeVar("T")
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
# Directories whose names the kernel makes when it registers an RDMA device, and takes away with it
# (ib_setup_port_attrs, setup_port and alloc_hw_stats_port in drivers/infiniband/core/sysfs.c).
CONSTANT_DIRECTORIES = frozenset(("ports", "counters", "hw_counters", "gids"))
NUMBER = Pattern(r"-?[0-9]{1,20}")
NUMBERS = range(-(1 << 63), 1 << 64)  # what fits the kernel's 64 bits
FILE, DIRECTORY = "a file", "a directory"
OTHER, ABSENT = "neither", "absent"  # what a listing shows of a name, beside FILE and DIRECTORY
DOTS = {"": OTHER, ".": OTHER, "..": OTHER}  # no listing has them, and they are there


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

    A directory of /sys that was listed in this look answers for what is not in it: most files that a fact asks for are
    of one kind of device only. `kept` is for facts: what they make of these files that stays without an event.
    """

    def __init__(self, root: str = "/", excluded: tuple[str, ...] = (), *, live: bool = False) -> None:
        self._root = Root(root, excluded, live=live)
        self.root = self._root.path  # "" is this machine's own
        self.shows_processes = not self._root.has_tables_only
        self._kept: dict[object, Any] = {}
        self._excludes = bool(excluded)
        self._plain: set[str] = set()  # attributes that were plain files
        self._constants: dict[str, bytes] = {}  # by where they lie on this machine
        self._constant_names: dict[str, dict[str, str]] = {}  # as `_constants`, of directories
        self._empty: set[str] = set()  # empty entries of GID tables. Who asks for one lists its table first.
        # Directories of /sys listed in this look: where each lies on this machine, and what each of its names is.
        self._listed: dict[str, tuple[str, dict[str, str]]] = {}

    def forget(self) -> None:
        """Forget where links led. They may lead elsewhere at the next look."""
        self._root.forget()
        self._plain, self._constants, self._constant_names, self._listed = set(), {}, {}, {}
        self._empty, self._kept = set(), {}

    def look_again(self) -> None:
        """Begin another look.

        What stays without an event is not read again: links whose targets exist, constant attributes, empty entries of
        GID tables, and the names in constant directories.
        """
        self._root.look_again()
        self._listed = {}

    def kept(
        self, key: object, state: object, make: Callable[[], T], is_whole: Callable[[T], bool] = lambda _: True
    ) -> T:
        """What `make` gives of `key` in this `state`, made once until `forget`. Only the last state of a key is kept.

        It is made again if it was not whole: a file was unreadable.
        """
        kept = self._kept  # of this look, as in `_again`
        known = kept.get(key)
        if known is not None and known[0] == state:
            return cast(T, known[1])
        made = make()
        if is_whole(made):
            kept[key] = state, made
        return made

    def is_excluded(self, path: str) -> bool:
        """Whether it is not read because an excluded pattern matches it."""
        return self._root.is_excluded(path)

    def text(self, path: str, limit: int = LIMIT) -> str | None | Unreadable:
        """The text of the file without blanks, tabs and line ends at its end; the kernel writes no others there."""
        empty = self._empty  # of this look, as in `_again`
        if path in empty:
            return EMPTY_GID
        data = self.data(path, limit)
        if not isinstance(data, bytes):
            return data
        try:
            text = data.decode().rstrip(" \t\n")
        except UnicodeDecodeError:
            return Unreadable(Why.MALFORMED, path, detail="not UTF-8")
        if text == EMPTY_GID and path.startswith(ATTRIBUTES):
            empty.add(path)
        return Unreadable(Why.MALFORMED, path, detail="holds NUL bytes") if "\0" in text else text

    def need(self, path: str) -> str | Unreadable:
        """The text of a file that every device of this kind has. Without the file it is Unreadable(missing)."""
        text = self.text(path)
        return Unreadable(Why.MISSING, path) if text is None else text

    def number(self, path: str, among: range = NUMBERS) -> int | None | Unreadable:
        """A decimal. It is malformed if it is not `among` those that the kernel writes there."""
        text = self.text(path)
        if not isinstance(text, str):
            return text
        if NUMBER.fullmatch(text) and int(text) in among:
            return int(text)
        return Unreadable(Why.MALFORMED, path, detail=f"{text[:40]!r} is no number")

    def data(self, path: str, limit: int = LIMIT, head: bool = False) -> bytes | None | Unreadable:
        """The bytes of the file. With `head`, only the first `limit` of them are asked of the device."""
        known = self._known(path)
        if known is None:
            return None
        if known and (head or limit >= PAGE):
            data = self._again(path, known, min(limit, PAGE) if head else PAGE)
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

    def plain(self, path: str, limit: int) -> bytes | None | Unreadable:
        """The bytes of a file that others may put there: neither a link nor anything else than a plain file is opened.

        It is opened without a wait, and what was opened is asked, so that nobody can swap it between.
        """
        head, _, name = path.rpartition("/")
        try:
            descriptor = os.open(f"{self._root.resolve(head)}/{name}", FLAGS | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.ELOOP:
                return Unreadable(Why.MALFORMED, path, errno.ELOOP, "a link, wanted a plain file")
            return _failed(path, error)
        try:
            found = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(found):
                return Unreadable(Why.MALFORMED, path, detail=f"{_what(found)}, wanted a plain file")
            data = _read(descriptor, limit + 1)
        except OSError as error:
            return _failed(path, error)
        finally:
            os.close(descriptor)
        return data if len(data) <= limit else Unreadable(Why.MALFORMED, path, detail=f"longer than {limit} bytes")

    def _known(self, path: str) -> str | None:
        """Where an attribute lies that was a plain file when it was seen last; "" if that is not known.

        None if its directory was listed in this look, and does not have it.
        """
        directory, _, name = path.rpartition("/")
        listed = self._listed.get(directory)
        if listed is not None and listed[1].get(name) == FILE and not self._excludes:
            return f"{listed[0]}/{name}"
        if self._listed_as(path) == ABSENT:
            return None
        if path not in self._plain:
            return ""
        try:
            return self._root.beside(path)
        except OSError:
            return ""

    def _again(self, path: str, real: str, most: int) -> bytes | Unreadable | None:
        """The bytes of an attribute that was a plain file when it was seen last, `most` of them at most.

        None if it is not one any more, or may be longer than a page.
        """
        constants = self._constants  # of this look, even if another one forgets them meanwhile
        if real in constants:
            return constants[real]
        try:
            descriptor = os.open(real, FLAGS | os.O_NOFOLLOW)
        except OSError:
            self._plain.discard(path)
            return None
        try:
            data = os.read(descriptor, most)
        except OSError as error:
            return _failed(path, error)
        finally:
            os.close(descriptor)
        if len(data) == PAGE:
            return None
        if self.root and path.rpartition("/")[2] in CONSTANTS:
            constants[real] = data
        return data

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
        if self._listed_as(path) == ABSENT:
            return None
        listed = self._listed  # of this look, even if the next one begins meanwhile
        try:
            real = self._root.resolve(path)
            if not path.startswith(ATTRIBUTES):
                return tuple(sorted(os.listdir(real)))
            found = self._shown_in(real)
            listed[path] = real, DOTS | found
            self._root.know_directories(f"{real}/{name}" for name, what in found.items() if what == DIRECTORY)
            return tuple(sorted(found))
        except (OSError, ValueError) as error:
            if isinstance(error, NotADirectoryError) and self.exists(path):
                return Unreadable(Why.IO_ERROR, path, errno.ENOTDIR, "a file, not a directory")
            return _failed(path, error)

    def _shown_in(self, real: str) -> dict[str, str]:
        """What a directory of /sys shows. One whose names stay with its device is asked only whether it is there."""
        constants = self._constant_names  # of this look, as in `_again`
        if real in constants and self._root.stands(real):
            return constants[real]
        found = _scanned(real)
        if self.root and real.rpartition("/")[2] in CONSTANT_DIRECTORIES:
            constants[real] = found
        return found

    def _listed_as(self, path: str) -> str:
        """What a listing in this look shows at `path`; "" if none does. Below what is absent everything is."""
        if not path.startswith(ATTRIBUTES):
            return ""
        above, _, name = path.rpartition("/")
        listed = self._listed.get(above)
        if listed is not None:
            return listed[1].get(name, ABSENT)
        return ABSENT if self._listed_as(above) == ABSENT else ""

    def link(self, path: str) -> str | None:
        """The target of a link as it is written, even if nothing exists there; None if `path` is not a link."""
        if self._listed_as(path) in (ABSENT, FILE):
            return None
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
        if self._listed_as(path) == ABSENT:
            return False
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

    def opened_node(self, path: str) -> DeviceNode | None | Unreadable:
        """The character device that a descriptor (/proc/PID/fd/N) is open on; None if it is open on anything else.

        The kernel leads from a descriptor to what is open, wherever that lies and whatever it is called by now.
        """
        head, _, name = path.rpartition("/")
        try:
            found = os.stat(f"{self._root.resolve(head)}/{name}")
        except (OSError, ValueError) as error:
            return None if isinstance(error, ProcessLookupError) else _failed(path, error)
        if not stat.S_ISCHR(found.st_mode):
            return None
        return DeviceNode("c", os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))

    def entry(self, path: str) -> FileEntry | None | Unreadable:
        """The entry at `path`, with links followed. It is not opened."""
        if self._listed_as(path) == ABSENT:
            return None
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


def _scanned(directory: str) -> dict[str, str]:
    """The names in a directory, and what each is. No entry is asked, if the file system lists their types."""
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            name = sys.intern(entry.name)  # all devices of a kind have the same names
            found[name] = OTHER
            try:
                if entry.is_file(follow_symlinks=False):
                    found[name] = FILE
                elif entry.is_dir(follow_symlinks=False):
                    found[name] = DIRECTORY
            except OSError:  # nobody may ask for this one
                continue
    return found


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
