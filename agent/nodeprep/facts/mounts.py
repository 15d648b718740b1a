"""Mounted file systems, and whether those that live on a network answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeprep.model import Fact, Shown, Unreadable, Why, guarded, not_recorded, shown

if TYPE_CHECKING:
    from nodeprep.doors.host import Host

# Types whose server can go away while the mount stays (CPFS and NAS of Alibaba Cloud are nfs, alinas or fuse types).
REMOTE = re.compile(
    r"nfs4?|alinas|cpfs|lustre|ceph|gpfs|beegfs(_nodev)?|glusterfs|cifs|smb3|wekafs|9p|virtiofs|fuse(\.\S+)?"
)
ANSWER = 2.0  # seconds; a healthy parallel file system answers statvfs in milliseconds
LIMIT = 16 << 20  # bytes; a node with hundreds of containers has megabytes of overlay mounts
ASKED = 256  # file systems at most; they are asked at the same time, by a thread each of a child
ESCAPE = re.compile(r"\\([0-7]{3})")


@shown
class Mount(Shown):
    """A mount point with its type and source.

    `device` is the file system's major:minor, the same for all its mounts, and `root` which directory of it is mounted.
    `answer` is "" if it answered or was not asked, else what went wrong.
    """

    point: str
    kind: str
    source: str
    device: str
    root: str
    remote: bool
    answer: str


@shown
class Mounts(Shown):
    """Every mount of the host's mount namespace, in the order in which they were made."""

    at: float
    mounts: tuple[Mount, ...]

    def at_point(self, point: str) -> Mount | None:
        """The topmost mount there."""
        return next((mount for mount in reversed(self.mounts) if mount.point == point), None)


def observe(host: Host) -> Mounts | Unreadable:
    path = "/proc/1/mountinfo"
    data = host.files.data(path, LIMIT)
    if not isinstance(data, bytes) and host.live and not host.files.root:
        path = "/proc/self/mountinfo"  # ours is the host's where no container is in between
        data = host.files.data(path, LIMIT)
    if not isinstance(data, bytes):
        return data or not_recorded(path)
    lines = data.decode(errors="backslashreplace").splitlines()
    found = [mount for line in lines if (mount := _mount(line)) is not None]
    return Mounts(host.now(), _asked(host, found) if host.live else tuple(found))


def _mount(line: str) -> Mount | None:
    """Decode a line of proc_pid_mountinfo(5)."""
    left, separator, right = line.partition(" - ")
    fields, rest = left.split(" "), right.split(" ")
    if not separator or len(fields) < 6 or len(rest) < 2:
        return None
    return Mount(
        point=_plain(fields[4]),
        kind=rest[0],
        source=_plain(rest[1]),
        device=fields[2],
        root=_plain(fields[3]),
        remote=bool(REMOTE.fullmatch(rest[0])),
        answer="",
    )


def _plain(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _asked(host: Host, found: list[Mount]) -> tuple[Mount, ...]:
    """The mounts with their answers: one for all that show the same directory of a file system, as 60 pods may."""
    points = {(mount.device, mount.root): mount.point for mount in found if mount.remote}
    asked = tuple(points.values())[-ASKED:]
    told = host.statvfs(asked, ANSWER) if asked else {}
    return tuple(_answered(mount, told.get(points.get((mount.device, mount.root), ""))) for mount in found)


def _answered(mount: Mount, failed: Unreadable | None) -> Mount:
    if failed is None:
        return mount
    unasked = failed.kind in (Why.DENIED, Why.MISSING, Why.MISSING_TOOL)  # says nothing of the file system
    answer = guarded(failed) if unasked else failed.detail
    return Mount(mount.point, mount.kind, mount.source, mount.device, mount.root, mount.remote, answer)


FACT = Fact(Mounts, observe, every=60.0, deadline=5.0)
