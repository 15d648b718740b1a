"""Kernel settings of the network, as they are and as the next boot will set them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nodeprep.model import CannotLook, Fact, Shown, Unreadable, guarded, not_recorded, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

SYS = "/proc/sys"
CONF = "net/ipv4/conf"
SINGLE_SETTINGS = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")
PER_LINK = ("forwarding", "rp_filter", "arp_ignore", "arp_announce")
# sysctl.d(5): a file in an earlier one hides those of the same name in later ones.
DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
# systemd-sysctl does not read this one (Debian and RHEL link /etc/sysctl.d/99-sysctl.conf to it); procps does, last.
SYSCTL_CONF = "/etc/sysctl.conf"
SYSTEMD = ("/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl")
# What checks ask for at the next boot. Lines on other keys stay on the node.
JUDGED_KEYS = (*(path.replace("/", ".") for path in SINGLE_SETTINGS), *(f"net.ipv4.conf.*.{one}" for one in PER_LINK))
NUMBER = Pattern(r"[+-]?[0-9]{1,20}")
GLOBS = frozenset("*?[")


@shown
class Persisted(Shown):
    """A line of a sysctl.d file that counts: `key` is dotted, as `sysctl` prints it, and may hold a glob.

    `value` is "no number" where it is none. It is "" for a line that only keeps globs off its key
    ("-net.ipv4.conf.eth0.rp_filter").
    """

    key: str
    value: str
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


@shown
class Sysctls(Shown):
    """`live` by dotted key, such as "net.ipv4.conf.eth0.rp_filter"; an interface's own dots are kept.

    `unread` are the settings that could not be read: `value` raises for them, and `live` lacks them.
    `persisted` are the lines of all sysctl.d directories that take effect on a judged key, in the order of
    systemd-sysctl.
    """

    at: float
    live: Mapping[str, int]
    persisted: tuple[Persisted, ...]
    unread: tuple[Unreadable, ...] = ()

    def value(self, key: str) -> int | None:
        """A setting by its dotted key, None where there is none. Raises CannotLook if it could not be read."""
        for blind in self.unread:
            if blind.path.removeprefix(f"{SYS}/").replace("/", ".") == key:
                raise CannotLook(blind)
        return self.live.get(key)

    def links(self) -> tuple[str, ...]:
        """Names of the interfaces that have settings; without the loopback, which neither filters nor forwards."""
        head, tail = "net.ipv4.conf.", ".forwarding"
        names = (key[len(head) : -len(tail)] for key in self.live if key.startswith(head) and key.endswith(tail))
        return tuple(sorted(set(names) - {"all", "default", "lo"}))

    def on(self, link: str, setting: str) -> int | None:
        """An interface's IPv4 setting ("all" and "default" too); None where it does not exist."""
        return self.value(f"net.ipv4.conf.{link}.{setting}")

    def filters(self, link: str) -> int:
        """What rp_filter does on this interface: the greater of its own and that of "all" (ip-sysctl.rst)."""
        return max(self.on("all", "rp_filter") or 0, self.on(link, "rp_filter") or 0)

    def at_boot(self, *keys: str) -> Persisted | None:
        """The line that sets these keys at the next boot; None if no line does.

        More than one key are names of the same setting, of which the one written last counts.
        """
        found = (self._at_boot(key) for key in keys)
        lines = [line for line in found if line is not None]
        return max(lines, key=self.persisted.index, default=None)

    def _at_boot(self, key: str) -> Persisted | None:
        """A line that names the key outweighs every glob, wherever they stand (systemd-sysctl, apply_all)."""
        named = [line for line in self.persisted if line.key == key]
        if named:
            return named[-1] if named[-1].value else None
        globs = [line for line in self.persisted if line.value and is_glob(line.key) and covers(line.key, key)]
        return globs[-1] if globs else None


def is_glob(key: str) -> bool:
    return not GLOBS.isdisjoint(key)


def covers(glob: str, key: str) -> bool:
    """Whether a glob matches a key: a "*" stays within one part of its path, as in glob(3)."""
    wanted, parts = _parts(glob), _parts(key)
    return len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted))


def _parts(key: str) -> list[str]:
    """The path of a dotted key; only an interface's name has dots of its own."""
    parts = key.split(".")
    return [*parts[:3], ".".join(parts[3:-1]), parts[-1]] if parts[2:3] == ["conf"] and len(parts) > 5 else parts


def observe(host: Host) -> Sysctls | Unreadable:
    names = host.files.names(f"{SYS}/{CONF}")
    if isinstance(names, Unreadable):
        return names
    if names is None:
        return not_recorded(f"{SYS}/{CONF}")
    live, unread = _live(host.files, names)
    return Sysctls(host.now(), live, guarded(_persisted(host.files)), unread)


def _live(files: Files, links: tuple[str, ...]) -> tuple[Mapping[str, int], tuple[Unreadable, ...]]:
    live: dict[str, int] = {}
    unread: list[Unreadable] = []
    for path in (*SINGLE_SETTINGS, *(f"{CONF}/{link}/{setting}" for link in links for setting in PER_LINK)):
        value = files.number(f"{SYS}/{path}")
        if isinstance(value, Unreadable):
            unread.append(value)
        elif value is not None:  # not recorded, or an interface that has just gone
            live[path.replace("/", ".")] = value
    return live, tuple(unread)


def _persisted(files: Files) -> tuple[Persisted, ...] | Unreadable:
    found: list[Persisted] = []
    paths = _paths(files)
    if isinstance(paths, Unreadable):
        return paths
    for path in paths:
        text = files.text(path)
        if isinstance(text, Unreadable):
            # A link to /dev/null hides the files of its name, and holds no lines itself.
            if files.place(path) == "/dev/null":
                continue
            return text
        found += lines_of(path, text or "")
    return tuple(found)


def _paths(files: Files) -> list[str] | Unreadable:
    by_name: dict[str, str] = {}
    for directory in DIRECTORIES:
        names = files.names(directory)
        if isinstance(names, Unreadable):
            return names
        for name in names or ():
            if name.endswith(".conf"):
                by_name.setdefault(name, f"{directory}/{name}")
    paths = [by_name[name] for name in sorted(by_name)]
    return paths if any(map(files.exists, SYSTEMD)) else [*paths, SYSCTL_CONF]


def lines_of(file: str, text: str) -> Iterator[Persisted]:
    """The settings of a file. Other lines are skipped, as sysctl does."""
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole.strip()
        if not line or line[0] in "#;":
            continue
        key, given, value = line.removeprefix("-").partition("=")
        # "-key" takes the key out of globs, "-key=value" sets it and does not mind if that fails.
        if (given and value.strip()) or (not given and line.startswith("-")):
            name, said = dotted(key.strip()), value.strip()
            if is_judged(name):
                yield Persisted(name, said if not said or NUMBER.fullmatch(said) else "no number", file, number)


def is_judged(key: str) -> bool:
    """Whether a line's key, which may be a glob, can be one of JUDGED_KEYS."""
    parts = _parts(key)
    return any(
        len(parts) == len(wanted)
        and all(fnmatchcase(b, a) or fnmatchcase(a, b) for a, b in zip(parts, wanted, strict=True))
        for wanted in map(_parts, JUDGED_KEYS)
    )


def dotted(key: str) -> str:
    """The key as `sysctl` prints it. If its first separator is a slash, its dots are those of an interface's name."""
    first = next((character for character in key if character in "./"), ".")
    if first == "/":
        return key.strip("/").replace("/", ".")
    return key.replace("/", ".")  # a "/" stands for a dot in an interface's name


FACT = Fact(Sysctls, observe)
