"""The kernel's own events: netlink notices of links, addresses, routes and RDMA devices, uevents, the kernel log."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from typing import TYPE_CHECKING

from nodeprep.doors import clock
from nodeprep.doors.events.event_source import DRAIN_LIMIT_SECONDS, EventSource, EventSourceAbsent
from nodeprep.doors.files import kmsg
from nodeprep.doors.files.reader import Files
from nodeprep.model import Topic
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.netlink.nlsocket import NetlinkSocket

READS = 10_000  # of one event source before the others get a turn, unless DRAIN_LIMIT_SECONDS ends it earlier

# include/uapi/linux/rtnetlink.h, as bits of the mask that bind(2) takes
LINK, IPV4_ADDRESS, IPV4_ROUTE, IPV4_RULE, IPV6_ADDRESS = 1 << 0, 1 << 4, 1 << 6, 1 << 7, 1 << 8
RTM_NEWROUTE, RTM_DELROUTE = 24, 25
KIND = slice(4, 6)  # of struct nlmsghdr, which struct rtmsg follows
ROUTE_PROTOCOL = 21
# Routing daemons, which write routes that they learned from others (RTPROT_* of that header). On a router they add and
# remove hundreds of routes a second. A route to somebody else's pods does not need a look at once.
DAEMONS = frozenset({8, 10, 11, 12, 13, 14, 15, 17, 42, 186, 187, 188, 189, 192})
HEAD = 32  # bytes of a notice that are read; they hold the fields above

# include/uapi/rdma/rdma_netlink.h
NETLINK_RDMA = 20
RDMA_NOTIFY = 1 << 3  # RDMA_NL_GROUP_NOTIFY
MONITOR_MODE = 103  # RDMA_NLDEV_SYS_ATTR_MONITOR_MODE

NETLINK_KOBJECT_UEVENT = 15
UEVENT_KERNEL = 1 << 0  # group 2 is that of udev, which repeats everything
UEVENT = 8192  # bytes; the kernel's UEVENT_BUFFER_SIZE is 2048, plus the head
SUBSYSTEM = Pattern(rb"\0SUBSYSTEM=([^\0]*)")
# The uevents of a pod's start ("queues" of net, cgroups, slabs, block devices) are not among them.
SUBSYSTEMS = {
    b"infiniband": frozenset({Topic.RDMA}),
    b"infiniband_cm": frozenset({Topic.RDMA}),
    b"infiniband_mad": frozenset({Topic.RDMA}),
    b"infiniband_verbs": frozenset({Topic.RDMA}),
    b"net": frozenset({Topic.LINK}),
    b"auxiliary": frozenset({Topic.DEVICE}),
    b"drivers": frozenset({Topic.DEVICE}),
    b"misc": frozenset({Topic.DEVICE}),
    b"module": frozenset({Topic.DEVICE}),
    b"pci": frozenset({Topic.DEVICE}),
}
NVIDIA = b"nvidia"  # prefix of nvidia, nvidia-uvm, nvidia-caps and later ones

KMSG = "/dev/kmsg"
KMSG_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
# What facts/machine/kernel_log keeps: warnings and worse, lines that name a PCI address, lines of NVIDIA's drivers.
WARNING = 4
ADDRESS = Pattern(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
GPU_DRIVERS = Pattern(r"\bNVRM: |\bnvidia-nvswitch\d|\bnvidia[-_]peermem\b|\bnv_peer_mem\b")


class NetlinkEvents(EventSource):
    """A netlink multicast group. Only messages of the kernel count."""

    protocol: int
    groups: int
    size = HEAD

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def open(self) -> int:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        opened = socket.socket(socket.AF_NETLINK, kind, self.protocol)
        try:
            opened.bind((0, self.groups))
        except OSError:
            opened.close()
            raise
        self._socket = opened
        return opened.fileno()

    def close(self) -> None:
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    def drain(self) -> frozenset[Topic]:
        if self._socket is None:
            return frozenset()
        rung: frozenset[Topic] = frozenset()
        end = clock.now() + DRAIN_LIMIT_SECONDS
        for _ in range(READS):
            try:
                notice, sender = self._socket.recvfrom(self.size)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                rung = self.topics  # more notices came than the socket holds: nobody knows which
                continue
            if sender[0] == 0 and rung != self.topics:
                rung |= self.meaning(notice)
            if clock.now() > end:
                break
        return rung

    def meaning(self, notice: bytes) -> frozenset[Topic]:  # noqa: ARG002 - event sources that look at it have their own
        """The topics that one notice announces."""
        return self.topics


class LinkEvents(NetlinkEvents):
    """Links with their addresses, and rules and routes of IPv4: checks judge only the routes of IPv4."""

    name = "links"
    topics = frozenset({Topic.LINK})
    protocol = socket.NETLINK_ROUTE
    groups = LINK | IPV4_ADDRESS | IPV6_ADDRESS | IPV4_ROUTE | IPV4_RULE

    def meaning(self, notice: bytes) -> frozenset[Topic]:
        kind = int.from_bytes(notice[KIND], sys.byteorder)
        learned = kind in (RTM_NEWROUTE, RTM_DELROUTE) and notice[ROUTE_PROTOCOL] in DAEMONS
        return frozenset() if learned else self.topics


class RdmaEvents(NetlinkEvents):
    """RDMA devices that come, go, are renamed or get another netdev. The state of ports is not announced."""

    name = "rdma"
    topics = frozenset({Topic.RDMA})
    protocol = NETLINK_RDMA
    groups = RDMA_NOTIFY

    def open(self) -> int:
        # To open the socket would load ib_core (alias net-pf-16-proto-20). Its class directory says if it is loaded.
        if not os.path.isdir("/sys/class/infiniband"):
            raise EventSourceAbsent("no RDMA device and no ib_core in this kernel")
        from nodeprep.doors.netlink.nlsocket import NetlinkSocket

        with NetlinkSocket(NETLINK_RDMA) as kernel:
            if not announces(kernel):
                raise EventSourceAbsent(
                    "this kernel announces no changes of RDMA devices (Linux 6.12 and later do)", final=True
                )
        return super().open()


def announces(kernel: NetlinkSocket) -> bool:
    """Whether the kernel has the group. A kernel without it lets us join and never sends anything."""
    from nodeprep.doors.netlink.nldev import NldevCommand
    from nodeprep.doors.netlink.nlsocket import ATTRIBUTE, HEADER, NLA_TYPE_MASK

    for message in kernel.undecoded(NldevCommand.SYS_GET, b"", dump=False):
        offset = HEADER.size
        while offset + ATTRIBUTE.size <= len(message):
            length, kind = ATTRIBUTE.unpack_from(message, offset)
            if kind & NLA_TYPE_MASK == MONITOR_MODE:
                return True
            offset += max(length, ATTRIBUTE.size) + 3 & ~3
    return False


class DeviceEvents(NetlinkEvents):
    """Devices, drivers and modules that come, go or change."""

    name = "uevents"
    topics = frozenset({Topic.RDMA, Topic.LINK, Topic.DEVICE})
    protocol = NETLINK_KOBJECT_UEVENT
    groups = UEVENT_KERNEL
    size = UEVENT

    def meaning(self, notice: bytes) -> frozenset[Topic]:
        found = SUBSYSTEM.search(notice)
        subsystem = found[1] if found else b""
        if subsystem.startswith(NVIDIA):
            return frozenset({Topic.DEVICE})
        return SUBSYSTEMS.get(subsystem, frozenset())


class KernelLogEvents(EventSource):
    """Lines of the kernel log that may be about devices. Containers without privileges may not read it."""

    name = "kernel-log"
    topics = frozenset({Topic.KERNEL_LOG})

    def __init__(self, files: Files) -> None:
        self._files = files
        self._descriptor: int | None = None

    def open(self) -> int:
        self._files.forget()
        path = self._files.root + self._files.place(KMSG)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            raise EventSourceAbsent(f"{path} is not there") from None
        except PermissionError as error:
            raise EventSourceAbsent(f"{path}: {error.strerror}; the log is read by polling", final=True) from None
        try:
            is_log = _is_log(os.fstat(descriptor))
            if is_log:
                os.lseek(descriptor, 0, os.SEEK_END)
        except OSError:
            os.close(descriptor)
            raise
        if not is_log:
            os.close(descriptor)
            raise EventSourceAbsent(f"{path} is not the kernel log's device")
        self._descriptor = descriptor
        return descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def drain(self) -> frozenset[Topic]:
        if self._descriptor is None:
            return frozenset()
        end = clock.now() + DRAIN_LIMIT_SECONDS
        for _ in range(READS):
            try:
                data = os.read(self._descriptor, kmsg.RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten before we read it: nobody knows what it said
                return self._rang()
            if not data:
                raise OSError(errno.EIO, f"{KMSG} came to an end")
            record = kmsg.parse(data)
            if record is not None and may_speak(record):
                return self._rang()
            if clock.now() > end:
                break
        return frozenset()

    def _rang(self) -> frozenset[Topic]:
        """Skip the other lines: the look that follows sees them too."""
        if self._descriptor is not None:
            os.lseek(self._descriptor, 0, os.SEEK_END)
        return self.topics


def may_speak(record: kmsg.KmsgRecord) -> bool:
    """Whether a record may be about a device."""
    if record.level <= WARNING:
        return True
    return ADDRESS.search(record.text) is not None or GPU_DRIVERS.search(record.text) is not None


def _is_log(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == KMSG_DEVICE
