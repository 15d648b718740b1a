"""Mounted file systems, and whether those that live on a network answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep import redaction
from nodeprep.model import Fact, Shown, Unreadable, Why, guarded, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

# Types whose server can go away while the mount stays (CPFS and NAS of Alibaba Cloud are nfs, alinas or fuse types).
REMOTE_TYPES = Pattern(
    r"nfs4?|alinas|cpfs|lustre|ceph|gpfs|beegfs(_nodev)?|glusterfs|cifs|smb3|wekafs|9p|virtiofs|fuse(\.\S+)?"
)
STATVFS_TIMEOUT_SECONDS = 2.0  # seconds; a healthy parallel file system answers statvfs in milliseconds
ASKED_MOUNTS_LIMIT = 256  # file systems at most; they are asked at the same time, by a thread each of a child


@shown
class Mount(Shown):
    """A mount point with its type and source. The source is without the user and password that it may name.

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
    rows = host.mounts()
    if isinstance(rows, Unreadable):
        return rows
    found = [
        Mount(
            row.point,
            row.kind,
            redaction.without_userinfo(row.source),
            row.device,
            row.root,
            bool(REMOTE_TYPES.fullmatch(row.kind)),
            "",
        )
        for row in rows
    ]
    return Mounts(host.now(), _asked(host, found) if host.live else tuple(found))


def _asked(host: Host, found: list[Mount]) -> tuple[Mount, ...]:
    """The mounts with their answers: one for all that show the same directory of a file system, as 60 pods may."""
    points = {(mount.device, mount.root): mount.point for mount in found if mount.remote}
    asked = tuple(points.values())[-ASKED_MOUNTS_LIMIT:]
    told = host.statvfs(asked, STATVFS_TIMEOUT_SECONDS) if asked else {}
    return tuple(_answered(mount, told.get(points.get((mount.device, mount.root), ""))) for mount in found)


def _answered(mount: Mount, failed: Unreadable | None) -> Mount:
    if failed is None:
        return mount
    unasked = failed.kind in (Why.DENIED, Why.MISSING, Why.MISSING_TOOL)  # says nothing of the file system
    answer = guarded(failed) if unasked else failed.detail
    return Mount(mount.point, mount.kind, mount.source, mount.device, mount.root, mount.remote, answer)


FACT = Fact(Mounts, observe, every=60.0, deadline=5.0)
