"""Host: the doors that a fact may use. A live node has all of them, a dead tree has only files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from nodeprep.doors import clock
from nodeprep.doors.files import mount_table
from nodeprep.doors.files.host_root import BOOT_ID, HostRoot
from nodeprep.doors.files.mount_table import HOSTS, LIMIT, OWN, MountRow
from nodeprep.doors.files.reader import DENIED, Files
from nodeprep.model import NO_ACCESS, Unreadable, Why, excluded, not_recorded

if TYPE_CHECKING:
    from nodeprep.door_values import Chain, NetworkNamespace
    from nodeprep.doors.clock import ClockState
    from nodeprep.doors.files.kmsg import KernelLogReader, KmsgRecord
    from nodeprep.doors.files.reports import NodeReport
    from nodeprep.doors.files.statvfs import Statvfs
    from nodeprep.doors.grpc.grpc_socket import GrpcSocket
    from nodeprep.doors.http.imds import Metadata, MetadataAnswer
    from nodeprep.doors.kube.reader import ApiAccess, ApiReader
    from nodeprep.doors.netlink.interfaces import Dcb, NeighbourInfo, RouteNetlink
    from nodeprep.doors.netlink.nldev import NldevTables
    from nodeprep.doors.netlink.routing import RouteLookup, RoutingTables
    from nodeprep.doors.nvml.child import NvmlChild
    from nodeprep.doors.own_process import OwnMemlock

T = TypeVar("T")
PHYSICAL_KINDS: frozenset[str | None] = frozenset({None})
METADATA = "http://100.100.100.200"  # the same in every VPC


class Host:
    """One node. `live` opens netlink, the kernel log and the clock; a dead tree has `files` only.

    `refused` holds paths of counters that the device does not have. `excluded` are patterns of paths that are never
    read. `physical_kinds` are the kinds of links (IFLA_INFO_KIND) that count as NICs: links without a kind, and in a
    rig with software NICs also their kind. `metadata` is the URL of the instance metadata service. `kubernetes` is the
    access to the API server, if one was given.
    """

    def __init__(
        self,
        root: str = "/",
        *,
        live: bool = True,
        excluded: tuple[str, ...] = (),
        physical_kinds: frozenset[str | None] = PHYSICAL_KINDS,
        metadata: str = METADATA,
        kubernetes: ApiAccess | None = None,
    ) -> None:
        self.root = root
        self.live = live
        self.physical_kinds = physical_kinds
        self.files = Files(root, excluded, live=live)
        self._root = HostRoot(self.files)
        self.refused: set[str] = set()
        self._kubernetes = kubernetes
        self._statvfs: Statvfs | None = None
        self._log: KernelLogReader | None = None
        self._metadata_url = metadata
        self._metadata: Metadata | None = None
        self._grpc: dict[str, GrpcSocket] = {}
        self._nvml: NvmlChild | None = None

    def now(self) -> float:
        return clock.now()

    def unmounted(self) -> Unreadable | None:
        """Why a live host's root is not the root of the machine we run on; None if it is.

        An empty /host would look like a node without devices. So nothing may be concluded from it.
        """
        if not self.live or not self.files.root:
            return None
        why = self._root.lacks()
        return Unreadable(Why.MISSING, self.root, detail=f"the host's root is not mounted here: {why}") if why else None

    def boot_id(self) -> str:
        """The id of this boot, "" where it cannot be read."""
        found = self.files.text(BOOT_ID)
        return found if isinstance(found, str) else ""

    def report(self, path: str, *, period: float, limit: int) -> NodeReport | None | Unreadable:
        """What another pod of ours wrote at `path`, each `period` seconds; None where it never wrote."""
        from nodeprep.doors.files import reports

        max_age = reports.MISSED_PERIODS * period
        return reports.read(self.files, path, reports.ReportTerms(self.boot_id(), self.now(), max_age, limit))

    def writable_mounts(self, own: Sequence[str]) -> tuple[str, ...]:
        """The mount points below a live host's root in which we may write, without our `own`.

        Where the host's root is our own "/", there are none to name: root may write everything.
        """
        data = Files().data(OWN, LIMIT)
        if not self.live or not self.files.root or not isinstance(data, bytes):
            return ()
        root, ours = os.path.realpath(self.files.root), {os.path.realpath(one) for one in own}
        points = {
            row.point: row.is_writable for row in mount_table.rows(data) if f"{row.point}/".startswith(f"{root}/")
        }
        return tuple(sorted(point for point, is_writable in points.items() if is_writable and point not in ours))

    def mounts(self) -> tuple[MountRow, ...] | Unreadable:
        """Every mount of the host's mount namespace."""
        path = HOSTS
        data = self.files.data(path, LIMIT)
        if not isinstance(data, bytes) and self.live and not self.files.root:
            path = OWN  # outside a container our mount table is the host's
            data = self.files.data(path, LIMIT)
        return tuple(mount_table.rows(data)) if isinstance(data, bytes) else data or not_recorded(path)

    def route_netlink(self) -> RouteNetlink | Unreadable:
        def ask() -> RouteNetlink:
            from nodeprep.doors.netlink import interfaces

            return interfaces.read()

        return _asked("netlink route", ask)

    def neighbours(self) -> tuple[NeighbourInfo, ...] | Unreadable:
        def ask() -> tuple[NeighbourInfo, ...]:
            from nodeprep.doors.netlink import interfaces

            return interfaces.read_neighbours()

        return _asked("netlink route", ask)

    def route_tables(self) -> RoutingTables | Unreadable:
        def ask() -> RoutingTables:
            from nodeprep.doors.netlink import routing

            return routing.read()

        return _asked("netlink route", ask)

    def ways(self, packets: Sequence[tuple[str, str, int]]) -> tuple[RouteLookup, ...] | Unreadable:
        """What the kernel would do with packets (source, destination, index of the interface they come in by)."""

        def ask() -> tuple[RouteLookup, ...]:
            from nodeprep.doors.netlink import routing

            return routing.ask([routing.Packet(*packet) for packet in packets])

        return _asked("netlink route get", ask)

    def own_ways(self, destinations: Sequence[str]) -> tuple[RouteLookup, ...] | Unreadable:
        """By which way this node itself sends to each of these addresses, IPv4 or IPv6."""

        def ask() -> tuple[RouteLookup, ...]:
            from nodeprep.doors.netlink import routing

            return routing.ask_own(destinations)

        return _asked("netlink route get", ask)

    def network_namespaces(self) -> tuple[NetworkNamespace, ...] | Unreadable:
        """The interfaces of every network namespace of the node, the own one first. Only root may ask."""

        def ask() -> tuple[NetworkNamespace, ...]:
            from nodeprep.doors.netlink import network_namespaces

            return network_namespaces.read(self.files.root)

        return _asked("network namespaces", ask)

    def own_namespace(self) -> NetworkNamespace | Unreadable:
        """The interfaces of the own network namespace, with what each of them rides on."""

        def ask() -> NetworkNamespace:
            from nodeprep.doors.netlink import network_namespaces

            return network_namespaces.read_own()

        return _asked("netlink route", ask)

    def forward_chains(self, *, modern: bool, legacy: bool) -> tuple[Chain, ...] | Unreadable:
        """The netfilter chains of forwarded packets: of nf_tables, and of legacy iptables if its table is used."""

        def ask() -> tuple[Chain, ...]:
            from nodeprep.doors.netlink import nftables

            return (*(nftables.chains() if modern else ()), *((nftables.legacy(),) if legacy else ()))

        return _asked("netfilter", ask)

    def rdma_netlink(self) -> NldevTables | None | Unreadable:
        def ask() -> NldevTables | None:
            from nodeprep.doors.netlink import nldev

            return nldev.read()

        return _asked("netlink rdma", ask)

    def dcb(self, netdev: str) -> Dcb | None | Unreadable:
        def ask() -> Dcb | None:
            from nodeprep.doors.netlink import dcbnl

            return dcbnl.dcb(netdev)

        return _asked(f"netlink dcb {netdev}", ask)

    def kernel_log(self, wanted: Callable[[KmsgRecord], bool]) -> tuple[KmsgRecord, ...] | Unreadable:
        """The wanted records of the kernel log. `wanted` of the first call holds for all later calls."""

        def ask() -> tuple[KmsgRecord, ...]:
            from nodeprep.doors.files import kmsg

            if self._log is None:
                # A root mounted elsewhere shares our kernel, so its log is ours.
                self._log = kmsg.KernelLogReader(f"{self.files.root}/dev/kmsg", wanted)
            return self._log.read()

        return _asked("/dev/kmsg", ask)

    def kubernetes(self) -> ApiReader | Unreadable:
        """The API server, for one observation; Unreadable (`not_asked`) where no access to it was given."""
        if self._kubernetes is None:
            return Unreadable(Why.MISSING, "Kubernetes", detail=NO_ACCESS)
        from nodeprep.doors.kube import reader

        return reader.ApiReader(self._kubernetes)

    def imds(self) -> MetadataAnswer | Unreadable:
        """What the instance metadata says. Ask on an ECS instance only."""
        if self._metadata is None:
            from nodeprep.doors.http.imds import Metadata

            self._metadata = Metadata(self._metadata_url)
        return self._metadata.read()

    def grpc(
        self, socket: str, method: str, request: bytes, *, deadline: float, limit: int, rest: float
    ) -> bytes | Unreadable:
        """The answer of the gRPC server at a unix socket of the node to one call (`GrpcSocket.call`)."""
        from nodeprep.doors.grpc.grpc_socket import GrpcSocket

        if self.files.is_excluded(socket):
            return excluded(socket)
        known = self._grpc.get(socket)
        if known is None:
            known = self._grpc[socket] = GrpcSocket(socket, lambda: f"{self.files.root}{self.files.place(socket)}")
        return known.call(method, request, deadline=deadline, limit=limit, rest=rest)

    def page(self, port: int, path: str, *, deadline: float, limit: int) -> tuple[int, bytes] | None | Unreadable:
        """Status and body of a page that a server on the loopback gives; None where nobody listens."""
        from nodeprep.doors.http import loopback

        return loopback.page(port, path, deadline=deadline, limit=limit)

    def wall(self) -> float:
        """Seconds since 1970, as times of files are counted."""
        return clock.wall()

    def clock_state(self) -> ClockState | Unreadable:
        return _asked("adjtimex", clock.state)

    def own_memlock(self) -> OwnMemlock | Unreadable:
        """How much memory our own process may lock."""

        def ask() -> OwnMemlock:
            from nodeprep.doors import own_process

            hosts = self.mounts()
            return own_process.memlock(() if isinstance(hosts, Unreadable) else hosts)

        return _asked("/proc/self/limits", ask)

    def statvfs(self, points: Sequence[str], deadline: float) -> Mapping[str, Unreadable | None]:
        """Which mounted file systems answer within `deadline` seconds; None is an answer."""
        from nodeprep.doors.files.statvfs import Statvfs

        if self._statvfs is None:
            self._statvfs = Statvfs()
        told = self._statvfs.ask([self.files.root + point for point in points], deadline)
        return {path.removeprefix(self.files.root): answer for path, answer in told.items()}

    def nvml(self, *, deadline: float, rest: float) -> dict[str, Any] | Unreadable:
        """What NVIDIA's library tells, by a child process (`NvmlChild.ask`)."""
        from nodeprep.doors.nvml.child import NvmlChild

        if self._nvml is None:
            self._nvml = NvmlChild()
        known = self._nvml
        return _asked("libnvidia-ml.so.1", lambda: known.ask(deadline, rest))

    def connects(self, address: tuple[str, int] | str, deadline: float) -> int | None | Unreadable:
        """Whether somebody listens: None if a connection was accepted, else the errno.

        `address` is the path of a Unix socket on the node, or an IP address and port of its network namespace.
        """
        from nodeprep.doors import socket_probe

        path = address if isinstance(address, str) else ""
        to = f"{self.files.root}{self.files.place(path)}" if path else address
        code = socket_probe.connect(to, deadline)
        denied = Unreadable(Why.DENIED, path or f"{address[0]}:{address[1]}", code, os.strerror(code or 0))
        return denied if code in DENIED else code


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
