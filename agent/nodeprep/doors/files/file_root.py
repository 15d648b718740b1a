"""Where paths of a node's root lie on this machine: every link is followed inside the root."""

from __future__ import annotations

import errno
import os
import stat
from fnmatch import fnmatchcase

from nodeprep.pattern import Pattern

ATTRIBUTES = "/sys/"
LINKS = 40  # Linux MAXSYMLINKS (include/linux/namei.h)
# What every /proc of this kernel shows alike: all but the processes, which are those of a PID namespace. What is below
# /proc/sys/net and /proc/net is the reader's network namespace's, whichever /proc it is read in (fs/proc/proc_net.c).
OF_ALL = Pattern(r"/proc/(?![0-9]|self/|thread-self/)")
DEPTH = 255  # components of a path that is asked for; deeper than anything in sysfs
# Links that come, go and turn while both of their ends stay: at a bind, an enslaving, a change of the number of VFs
# (Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net). All others go with the device whose they are.
LOOSE = Pattern(r"/(driver|module|master|bonding_slave|physfn|(upper_|lower_|virtfn|slave_)[^/]*)(/|$)")


class Root:
    """A directory that is another system's "/". `path` is "" for this machine's own.

    A path that an `excluded` pattern matches is not there. All methods raise OSError as the kernel would.

    The agent's pod has two files of the host's /proc and no more, the mount tables of its first process: the whole of
    it leads into every pod (docs/adr/0021). There, of a `live` host, what is no process's is read in our own /proc.
    """

    def __init__(self, path: str = "/", excluded: tuple[str, ...] = (), *, live: bool = False) -> None:
        self.path = os.path.abspath(path).rstrip("/")
        self.has_tables_only = live and bool(self.path) and _has_tables_only(self.path)
        self._excluded = excluded
        self._real: dict[str, str] = {}  # where paths led in this look
        self._before: dict[str, tuple[str, str]] = {}  # and in looks before it: where the way to them led, and they
        self._there: set[str] = set()  # real directories below real directories, seen in this look

    def forget(self) -> None:
        """Follow every link anew from now on."""
        self._real, self._before, self._there = {}, {}, set()

    def look_again(self) -> None:
        """Another look begins: the links of sysfs that go with their devices lead where they led, if that is there.

        `forget` where something was heard of, and from time to time.
        """
        # A copy: a thread that is late may still write into what it began with.
        led = self._real.copy()
        self._real, self._there = {}, set()
        for path, real in led.items():
            way = led.get(path.rpartition("/")[0])
            if way is not None and self._before.get(path) != (way, real) and is_kept(path):
                self._before[path] = way, real

    def resolve(self, path: str) -> str:
        """Where `path` lies on this machine, every link on the way followed inside the root."""
        self._allow(path)
        if not self.path or self._is_of_all(path):
            return path
        return self._resolved(path.rstrip("/"))

    def beside(self, path: str) -> str:
        """Where `path` lies on this machine, links on the way to it followed; it may be one itself."""
        head, _, name = path.rpartition("/")
        if not self._excluded and path.startswith(ATTRIBUTES) and (known := self._real.get(head)) is not None:
            return f"{known}/{name}"  # nine of ten: an attribute beside others of its device
        self._allow(path)
        if self._is_of_all(path):
            return path
        return f"{self._resolved(head)}/{name}"

    def _is_of_all(self, path: str) -> bool:
        return self.has_tables_only and OF_ALL.match(path) is not None

    def _allow(self, path: str) -> None:
        """Raises OSError for what is not to be read, and for what no path of a node is as deep as."""
        if self._excluded and any(fnmatchcase(path, pattern) for pattern in self._excluded):
            raise FileNotFoundError(errno.ENOENT, "excluded")
        if self.path and path.count("/") > DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def _resolved(self, path: str) -> str:
        led = self._real  # of this look, also if the next begins while we are at it
        real = led.get(path)
        if real is not None:
            return real
        head, _, name = path.rpartition("/")
        way = self._resolved(head) if path else self.path
        before = self._before.get(path)
        if before is not None and before[0] == way and self._stands(before[1]):
            real = before[1]
        else:
            real = self._walk(way, name)
        led[path] = real
        return real

    def _stands(self, real: str) -> bool:
        """Whether this is a directory, and so is all above it, up to the root; no links."""
        if real in self._there or real == self.path:
            return True
        try:
            stands = self._stands(real.rpartition("/")[0]) and stat.S_ISDIR(os.lstat(real).st_mode)
        except OSError:
            return False
        if stands:
            self._there.add(real)
        return stands

    def _walk(self, real: str, path: str) -> str:
        """Walk on from a directory, component by component as path_resolution(7) does, with our root for its "/"."""
        ahead = path.split("/")[::-1]
        links = 0
        while ahead:
            name = ahead.pop()
            if name in (".", "..") or not (name or ahead):
                os.lstat(f"{real}/.")  # only a directory has these, and a slash behind it
            if name == "..":
                real = real if real == self.path else real.rpartition("/")[0]
            if name in ("", ".", ".."):
                continue
            target = _target(f"{real}/{name}")
            if target is None:
                real = f"{real}/{name}"
                continue
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            real = self.path if target.startswith("/") else real
            ahead += target.split("/")[::-1]
        return real


def is_kept(path: str) -> bool:
    """Whether where a path leads may be remembered from look to look."""
    return path.startswith(ATTRIBUTES) and not LOOSE.search(path)


def _has_tables_only(root: str) -> bool:
    return os.path.exists(f"{root}/proc/1/mountinfo") and not os.path.exists(f"{root}/proc/1/stat")


def _target(path: str) -> str | None:
    """Where a link points; None for anything else, there or not."""
    try:
        return os.readlink(path)
    except OSError:
        return None
