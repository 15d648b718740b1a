"""Asks RDMA netlink (NETLINK_RDMA, client NLDEV) for devices, ports, counters and who holds a device. Reads only.

No question here loads a module or goes to hardware more than sysfs does. GET_CHARDEV is not used, because it loads
modules. RES_QP_GET is not used, because the driver then queries every queue pair in hardware (nldev.c,
fill_res_qp_entry_query), which has crashed kernels (qedr_query_qp, mlx5_ib_gsi_query_qp). Protection domains are asked
instead: each holder of a queue pair or memory region has one.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from enum import IntEnum

from nodeprep.door_values import RdmaHolder
from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.nlsocket import Message, Nest, NetlinkSocket, Refused
from nodeprep.values import Value

# include/uapi/rdma/rdma_netlink.h
NETLINK_RDMA = 20
NLDEV = 5 << 10
DEV_INDEX, PORT_INDEX = 1, 3
NETNS_MODES = {0: "exclusive", 1: "shared"}

DENIED = (errno.EPERM, errno.EACCES)
UNKNOWN = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV)  # an older kernel, or a device that has gone (EINVAL too)


class NldevCommand(IntEnum):
    """enum rdma_nldev_command, as message types."""

    GET = NLDEV | 1
    PORT_GET = NLDEV | 5
    SYS_GET = NLDEV | 6
    RES_GET = NLDEV | 9
    RES_CM_ID_GET = NLDEV | 11
    RES_PD_GET = NLDEV | 14
    STAT_GET = NLDEV | 17
    RES_CTX_GET = NLDEV | 22


HOLDER_KINDS = {NldevCommand.RES_CTX_GET: "ctx", NldevCommand.RES_PD_GET: "pd", NldevCommand.RES_CM_ID_GET: "cm_id"}


class NldevPort(Value):
    """A port of an RDMA device. None means that the kernel did not say.

    `errno` is set if the driver could not be asked for the port. Then the other fields are None.
    """

    number: int
    state: int | None  # enum ib_port_state: 1 down, 2 init, 3 armed, 4 active
    physical: int | None  # enum ib_port_phys_state: 2 polling, 3 disabled, 5 link up
    netdev: str | None  # only one in this network namespace
    netdev_index: int | None
    lid: int | None  # InfiniBand only, like sm_lid
    sm_lid: int | None
    counters: tuple[tuple[str, int], ...] | None  # hardware counters; None where the driver offers none
    errno: int | None = None


class NldevDevice(Value):
    """An RDMA device. `index` is its name until it goes. A device that comes back has another index."""

    index: int
    name: str
    protocol: str | None  # "roce", "ib", "iw", "opa", "usnic"; EFA has none
    node_guid: str | None  # "5054:00ff:fe12:3456"
    sys_image_guid: str | None
    fw: str | None
    node_type: int | None  # enum rdma_node_type: 1 channel adapter, 4 RNIC, 7 unspecified
    ports: tuple[NldevPort, ...]


class Resources(Value):
    """How many objects of each kind (pd, cq, qp, cm_id, mr, ctx, srq) a device has. Only a process has a ctx."""

    device: str
    counts: tuple[tuple[str, int], ...]


class NldevTables(Value):
    """The answers of RDMA netlink. `denied` names the questions that this user may not ask."""

    devices: tuple[NldevDevice, ...]
    resources: tuple[Resources, ...]
    holders: tuple[RdmaHolder, ...]
    netns_mode: str | None  # "shared", "exclusive"; None before Linux 5.2
    denied: tuple[str, ...]


class Nldev(Message):
    """An NLDEV message. It has no header of its own, and all questions share one set of attributes."""

    nla_map = (
        (1, "index", "uint32"),
        (2, "name", "asciiz"),
        (3, "port", "uint32"),  # in the answer to GET: how many
        (5, "fw", "asciiz"),
        (6, "node_guid", "uint64"),
        (7, "sys_image_guid", "uint64"),
        (9, "lid", "uint32"),
        (10, "sm_lid", "uint32"),
        (12, "state", "uint8"),
        (13, "physical", "uint8"),
        (14, "node_type", "uint8"),
        (15, "summary", "Table"),
        (30, "held", "Table"),  # cm_id
        (46, "held", "Table"),  # pd
        (50, "netdev_index", "uint32"),
        (51, "netdev", "asciiz"),
        (66, "netns_mode", "uint8"),
        (67, "protocol", "asciiz"),
        (80, "counters", "Table"),
        (86, "held", "Table"),  # ctx
    )

    class Table(Nest):
        """Entries. Each kind of table has its own number for them."""

        nla_map = tuple((kind, "entry", "Entry") for kind in (16, 31, 47, 81, 87))

        class Entry(Nest):
            """A resource's count (17, 18), a counter (82, 83), or a holder (28, 29)."""

            nla_map = (
                (17, "name", "asciiz"),
                (18, "value", "uint64"),
                (28, "pid", "uint32"),
                (29, "kernel_user", "asciiz"),
                (82, "name", "asciiz"),
                (83, "value", "uint64"),
            )


def read() -> NldevTables | None:
    """All answers, asked over one socket; None if this kernel has no RDMA netlink.

    Raises:
        OSError: there is RDMA netlink, but no valid answer.
    """
    # To open the socket loads ib_core (alias net-pf-16-proto-20). Its class directory says whether it is loaded.
    if os.path.isdir("/sys/class") and not os.path.isdir("/sys/class/infiniband"):
        return None
    try:
        kernel = NetlinkSocket(NETLINK_RDMA)
    except OSError as error:
        if error.errno == errno.EPROTONOSUPPORT:
            return None
        raise
    with kernel:
        return NldevReader(kernel).read()


class NldevReader:
    """The questions of one look, and which of them were denied."""

    def __init__(self, kernel: NetlinkSocket) -> None:
        self._kernel = kernel
        self._denied: dict[str, None] = {}

    def read(self) -> NldevTables:
        devices = tuple(device for said in self._dump(NldevCommand.GET) if (device := self._device(said)))
        return NldevTables(
            devices=devices,
            resources=tuple(_resources(said) for said in self._dump(NldevCommand.RES_GET)),
            holders=tuple(dict.fromkeys(holder for device in devices for holder in self._holders(device))),
            netns_mode=self._netns_mode(),
            denied=tuple(self._denied),
        )

    def _device(self, said: Nldev) -> NldevDevice | None:
        """The device with its ports; None if it has gone meanwhile."""
        index, count = said.number("index") or 0, said.number("port") or 0
        # One by one: a dump of ports ends without an error at the first port that the driver cannot query.
        ports = tuple(port for number in range(1, count + 1) if (port := self._port(index, number)))
        return _device(said, index, ports) if ports or not count else None

    def _port(self, index: int, number: int) -> NldevPort | None:
        body = _u32(DEV_INDEX, index) + _u32(PORT_INDEX, number)
        try:
            return _port(self._kernel.get(NldevCommand.PORT_GET, Nldev, body), number, self._counters(body))
        except Refused as refusal:
            if refusal.errno in UNKNOWN and self._gone(index):
                return None
            self._note(NldevCommand.PORT_GET, refusal)
            return NldevPort(number, None, None, None, None, None, None, None, refusal.errno)

    def _gone(self, index: int) -> bool:
        """Whether the device has gone. The EINVAL before may also be the driver's own."""
        try:
            self._kernel.get(NldevCommand.GET, Nldev, _u32(DEV_INDEX, index))
        except Refused as refusal:
            return refusal.errno in UNKNOWN
        return False

    def _counters(self, body: bytes) -> tuple[tuple[str, int], ...] | None:
        try:
            said = self._kernel.get(NldevCommand.STAT_GET, Nldev, body)
        except Refused as refusal:  # EINVAL: no counters; EMSGSIZE: more than a page; others are the driver's
            self._note(NldevCommand.STAT_GET, refusal)
            return None
        return _named(said.nest("counters"))

    def _holders(self, device: NldevDevice) -> Iterator[RdmaHolder]:
        for question, kind in HOLDER_KINDS.items():
            for said in self._dump(question, _u32(DEV_INDEX, device.index)):
                for entry in said.nest("held").nests("entry"):
                    yield RdmaHolder(device.name, kind, entry.number("pid"), entry.text("kernel_user"))

    def _netns_mode(self) -> str | None:
        try:
            mode = self._kernel.get(NldevCommand.SYS_GET, Nldev).number("netns_mode")
        except Refused as refusal:
            self._note(NldevCommand.SYS_GET, refusal)
            return None
        return None if mode is None else NETNS_MODES.get(mode, str(mode))

    def _dump(self, question: NldevCommand, body: bytes = b"") -> list[Nldev]:
        """The table; empty if it is denied (noted), unknown to an older kernel, or of a device that has gone."""
        try:
            return list(self._kernel.dump(question, Nldev, body))
        except Refused as refusal:
            if refusal.errno not in DENIED + UNKNOWN:
                raise
            self._note(question, refusal)
            return []

    def _note(self, question: NldevCommand, refusal: Refused) -> None:
        if refusal.errno in DENIED:
            self._denied[question.name] = None


def _device(said: Nldev, index: int, ports: tuple[NldevPort, ...]) -> NldevDevice:
    return NldevDevice(
        index=index,
        name=said.text("name") or "",
        protocol=said.text("protocol"),
        node_guid=_guid(said.number("node_guid")),
        sys_image_guid=_guid(said.number("sys_image_guid")),
        fw=said.text("fw"),
        node_type=said.number("node_type"),
        ports=ports,
    )


def _port(said: Nldev, number: int, counters: tuple[tuple[str, int], ...] | None) -> NldevPort:
    return NldevPort(
        number=number,
        state=said.number("state"),
        physical=said.number("physical"),
        netdev=said.text("netdev"),
        netdev_index=said.number("netdev_index"),
        lid=said.number("lid"),
        sm_lid=said.number("sm_lid"),
        counters=counters,
    )


def _resources(said: Nldev) -> Resources:
    return Resources(said.text("name") or "", _named(said.nest("summary")))


def _named(table: Nest) -> tuple[tuple[str, int], ...]:
    return tuple((entry.text("name") or "", entry.number("value") or 0) for entry in table.nests("entry"))


def _guid(number: int | None) -> str | None:
    """A GUID as sysfs writes it. The kernel sends it in host byte order."""
    if number is None:
        return None
    digits = f"{number:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def _u32(kind: int, number: int) -> bytes:
    return nlsocket.attribute(kind, struct.pack("=I", number))
