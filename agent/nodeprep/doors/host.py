"""Host: the doors that a fact may use. Live, or a dead tree that has files and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from nodeprep.doors import clock
from nodeprep.doors.files import DENIED, Files
from nodeprep.model import Unreadable, Why

if TYPE_CHECKING:
    from nodeprep.doors.clock import ClockState
    from nodeprep.doors.kmsg import Record
    from nodeprep.doors.netlink import Dcb, RouteNetlink
    from nodeprep.doors.rdma_netlink import RdmaNetlink
    from nodeprep.doors.statvfs import Statvfs

T = TypeVar("T")
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Host:
    """One node. `live` opens netlink, the kernel log and the clock; a dead tree has `files` only.

    `refused` holds paths that said they never answer; `excluded` are patterns of paths that are not read at all.
    """

    def __init__(self, root: str = "/", *, live: bool = True, excluded: tuple[str, ...] = ()) -> None:
        self.root = root
        self.live = live
        self.files = Files(root, excluded)
        self.refused: set[str] = set()
        self._statvfs: Statvfs | None = None

    def now(self) -> float:
        return clock.now()

    def unmounted(self) -> Unreadable | None:
        """Why a live host's root is not the root of the machine we run on; None if it is.

        An empty /host would look like a node without devices: nothing may be concluded from it.
        """
        if not self.live or not self.files.root:
            return None
        theirs, ours = self.files.text(BOOT_ID), Files().text(BOOT_ID)
        if self.files.text("/proc/1/stat") and theirs == ours:
            return None
        return Unreadable(Why.MISSING, self.root, detail="the host's root is not mounted here")

    def route_netlink(self) -> RouteNetlink | Unreadable:
        def ask() -> RouteNetlink:
            from nodeprep.doors import netlink

            return netlink.read()

        return _asked("netlink route", ask)

    def rdma_netlink(self) -> RdmaNetlink | None | Unreadable:
        def ask() -> RdmaNetlink | None:
            from nodeprep.doors import rdma_netlink

            return rdma_netlink.read()

        return _asked("netlink rdma", ask)

    def dcb(self, netdev: str) -> Dcb | None | Unreadable:
        def ask() -> Dcb | None:
            from nodeprep.doors import netlink

            return netlink.dcb(netdev)

        return _asked(f"netlink dcb {netdev}", ask)

    def kernel_log(self) -> tuple[Record, ...] | Unreadable:
        def ask() -> tuple[Record, ...]:
            from nodeprep.doors import kmsg

            # A root mounted elsewhere shares our kernel, so its log is ours.
            return kmsg.read(f"{self.files.root}/dev/kmsg")

        return _asked("/dev/kmsg", ask)

    def clock_state(self) -> ClockState | Unreadable:
        return _asked("adjtimex", clock.state)

    def statvfs(self, points: Sequence[str], deadline: float) -> Mapping[str, Unreadable | None]:
        """Which mounted file systems answer within `deadline` seconds; None is an answer."""
        from nodeprep.doors.statvfs import Statvfs

        if self._statvfs is None:
            self._statvfs = Statvfs()
        told = self._statvfs.ask([self.files.root + point for point in points], deadline)
        return {path.removeprefix(self.files.root): answer for path, answer in told.items()}


def live_root(asked: str | None, environment: dict[str, str] | None = None) -> str:
    """Where the live host is mounted: as asked, else NODEPREP_HOST_ROOT, else /host if it holds /sys/class, else /."""
    given = asked or (os.environ if environment is None else environment).get("NODEPREP_HOST_ROOT")
    return given or ("/host" if os.path.isdir("/host/sys/class") else "/")


def _asked(path: str, question: Callable[[], T]) -> T | Unreadable:
    try:
        return question()
    except ImportError as error:
        return Unreadable(Why.MISSING_TOOL, path, detail=str(error))
    except OSError as error:
        kind = Why.DENIED if error.errno in DENIED else Why.IO_ERROR
        return Unreadable(kind, path, error.errno, error.strerror or str(error))
