"""Where paths of a node's root lie on this machine: every link is followed inside the root."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase

from nodeprep.pattern import Pattern

ATTRIBUTES = "/sys/"
LINKS = 40  # Linux MAXSYMLINKS (include/linux/namei.h)
# What every /proc of this kernel shows alike: everything except the processes, which belong to a PID namespace.
# /proc/sys/net and /proc/net show the network namespace of the reader in every /proc (fs/proc/proc_net.c).
OF_ALL = Pattern(r"/proc/(?![0-9]|self/|thread-self/)")
DEPTH = 255  # components of a path; nothing in sysfs is as deep
# Links that appear, vanish or change while both ends stay: at a bind, an enslaving, a change of the number of VFs
# (Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net). All other links vanish with their device.
LOOSE = Pattern(r"/(driver|module|master|bonding_slave|physfn|(upper_|lower_|virtfn|slave_)[^/]*)(/|$)")
# Directories that the kernel makes with an RDMA device and removes with it (drivers/infiniband/core/sysfs.c).
PORT_DIRECTORIES = Pattern(r"/infiniband/[^/]+/ports(/[0-9]+(/(counters|hw_counters|gids|gid_attrs(/[^/]+)?))?)?$")


class Root:
    """A directory that is the "/" of a node. `path` is "" for this machine's own.

    A path that matches an `excluded` pattern does not exist. All methods raise OSError as the kernel would.

    The agent's pod has only two files of the host's /proc, the mount tables of its first process. The whole /proc would
    lead into every pod (docs/adr/0021). So in that pod the files of a `live` host that belong to no process are read in
    our own /proc.
    """

    def __init__(self, path: str = "/", excluded: tuple[str, ...] = (), *, live: bool = False) -> None:
        self.path = os.path.abspath(path).rstrip("/")
        self.has_tables_only = live and bool(self.path) and _has_tables_only(self.path)
        self._excluded = excluded
        self._real: dict[str, str] = {}  # where paths led in this look
        self._walked: set[str] = set()  # those of them that do not stand in `_before`
        self._before: dict[str, tuple[str, str]] = {}  # in earlier looks: where the parent led, and where the path led
        self._there: set[str] = set()  # real directories below real directories, seen in this look
        self._no_links: set[str] = set()  # real paths that exist and are no links, seen in this look

    def forget(self) -> None:
        """Follow every link again from now on."""
        self._real, self._walked, self._before, self._there = {}, set(), {}, set()
        self._no_links = set()

    def look_again(self) -> None:
        """Begin another look. A sysfs link that stays as long as its device leads where it led, if that still exists.

        Call `forget` instead after an event, and from time to time.
        """
        # A copy: a late thread may still write into the set that it began with.
        led, walked = self._real, self._walked.copy()
        self._real, self._walked, self._there = {}, set(), set()
        self._no_links = set()
        for path in walked:
            way = led.get(path.rpartition("/")[0])
            if way is not None and is_kept(path):
                self._before[path] = way, led[path]

    def know_directories(self, places: Iterable[str]) -> None:
        """A listing in this look showed directories, and no links, at these places on this machine."""
        self._no_links.update(places)

    def resolve(self, path: str) -> str:
        """Where `path` lies on this machine. Every link on the way is followed inside the root."""
        self._allow(path)
        if not self.path or self._is_of_all(path):
            return path
        return self._resolved(path.rstrip("/"))

    def beside(self, path: str) -> str:
        """Where `path` lies on this machine. Links on the way are followed; the path itself may be a link."""
        head, _, name = path.rpartition("/")
        if not self._excluded and path.startswith(ATTRIBUTES) and (known := self._real.get(head)) is not None:
            return f"{known}/{name}"  # nine of ten: an attribute beside others of its device
        self._allow(path)
        if self._is_of_all(path):
            return path
        return f"{self._resolved(head)}/{name}"

    def _is_of_all(self, path: str) -> bool:
        return self.has_tables_only and OF_ALL.match(path) is not None

    def is_excluded(self, path: str) -> bool:
        """Whether an excluded pattern matches it."""
        return bool(self._excluded) and any(fnmatchcase(path, pattern) for pattern in self._excluded)

    def _allow(self, path: str) -> None:
        """Raises OSError for a path that is excluded, or deeper than any path of a node."""
        if self.is_excluded(path):
            raise FileNotFoundError(errno.ENOENT, "excluded")
        if self.path and path.count("/") > DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def _resolved(self, path: str) -> str:
        led, walked = self._real, self._walked  # of this look, even if the next one begins meanwhile
        real = led.get(path)
        if real is not None:
            return real
        head, _, name = path.rpartition("/")
        way = self._resolved(head) if path else self.path
        before = self._before.get(path)
        if before is not None and before[0] == way and self.stands(before[1]):
            led[path] = real = before[1]
            return real
        led[path] = real = self._walk(way, name)
        walked.add(path)
        return real

    def stands(self, real: str) -> bool:
        """Whether this and everything above it, up to the root, are still directories and not links.

        `real` was one in an earlier look. What stays as long as its device is not asked again: that would be five
        questions more for each port every 10 s.
        """
        if real in self._there or real == self.path:
            return True
        try:
            stands = self.stands(real.rpartition("/")[0]) and (
                PORT_DIRECTORIES.search(real) is not None or stat.S_ISDIR(os.lstat(real).st_mode)
            )
        except OSError:
            return False
        if stands:
            self._there.add(real)
        return stands

    def _walk(self, real: str, path: str) -> str:
        """Walk on from a directory, component by component as path_resolution(7) does, with our root for its "/".

        The links of all devices lead through the same directories of /sys/devices: each is asked once in a look.
        """
        there, no_links = self._there, self._no_links  # of this look, as in `_resolved`
        ahead = path.split("/")[::-1]
        links = 0
        while ahead:
            name = ahead.pop()
            if (name in (".", "..") or not (name or ahead)) and real not in there:
                os.lstat(f"{real}/.")  # only a directory has these, or a slash at its end
                there.add(real)
            if name == "..":
                real = real if real == self.path else real.rpartition("/")[0]
            if name in ("", ".", ".."):
                continue
            place = f"{real}/{name}"
            target = None if place in no_links else _target(place, no_links)
            if target is None:
                real = place
                continue
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            real = self.path if target.startswith("/") else real
            ahead += target.split("/")[::-1]
        return real


def is_kept(path: str) -> bool:
    """Whether the target of a path may be remembered from look to look."""
    return path.startswith(ATTRIBUTES) and not LOOSE.search(path)


def _has_tables_only(root: str) -> bool:
    return os.path.exists(f"{root}/proc/1/mountinfo") and not os.path.exists(f"{root}/proc/1/stat")


def _target(path: str, no_links: set[str]) -> str | None:
    """The target of a link; None if there is no link at this path. What is there and no link joins `no_links`."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            no_links.add(path)
        return None
