"""The table of a mount namespace, as /proc/PID/mountinfo shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodeprep.pattern import Pattern
from nodeprep.values import Value

HOSTS = "/proc/1/mountinfo"
OWN = "/proc/self/mountinfo"
LIMIT = 16 << 20  # bytes; a node with hundreds of containers has megabytes of overlay mounts
ESCAPE = Pattern(r"\\([0-7]{3})")


class MountRow(Value):
    """A mount: its point, and the directory (`root`) of a file system (`device` is its major:minor) that it shows.

    `options` are those of the mount and those of its file system, such as "ro".
    """

    point: str
    kind: str
    source: str
    device: str
    root: str
    options: tuple[str, ...]

    @property
    def is_writable(self) -> bool:
        return "ro" not in self.options


def rows(data: bytes) -> Iterator[MountRow]:
    """The lines of proc_pid_mountinfo(5), in the order in which mounts were made. Other lines are left out."""
    for line in data.decode(errors="backslashreplace").splitlines():
        left, separator, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if separator and len(fields) >= 6 and len(rest) >= 2:
            options = (*fields[5].split(","), *rest[-1].split(","))
            yield MountRow(_plain(fields[4]), rest[0], _plain(rest[1]), fields[2], _plain(fields[3]), options)


def topmost(table: Iterable[MountRow], point: str) -> MountRow | None:
    """The mount that is visible at a point."""
    return next((row for row in reversed(tuple(table)) if row.point == point), None)


def shown(table: Iterable[MountRow], path: str) -> tuple[str, str] | None:
    """What is visible at a path: the device of its file system and the path in it; None if nothing is mounted."""
    above = [row for row in table if f"{path}/".startswith(f"{row.point.rstrip('/')}/")]
    row = max(reversed(above), key=lambda one: len(one.point), default=None)
    if row is None:
        return None
    return row.device, f"{row.root.rstrip('/')}{path.removeprefix(row.point.rstrip('/'))}" or "/"


def _plain(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
