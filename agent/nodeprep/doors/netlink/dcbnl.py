"""Asks the driver of a netdev for data centre bridging: PFC, ETS and the APP table. Reads only."""

from __future__ import annotations

import errno
import struct
from enum import IntEnum
from typing import Any

from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.nlsocket import Message, Nest, NetlinkSocket, Refused
from nodeprep.values import Value

# include/uapi/linux/dcbnl.h
NETLINK_ROUTE = 0
DCB_CMD_IEEE_GET, DCB_ATTR_IFNAME = 21, 1
REQUEST = struct.Struct("=BBH")  # struct dcbmsg: family, command, padding
DCBX_MODES = {0x01: "host", 0x02: "lld-managed", 0x04: "cee", 0x08: "ieee", 0x10: "static"}
SELECTORS = {1: "ethertype", 2: "stream", 3: "dgram", 4: "any", 5: "dscp", 255: "pcp"}
ALGORITHMS = {0: "strict", 1: "credit-based", 2: "ets", 255: "vendor"}
IEEE_ETS = struct.Struct("=B2x8s8x8s8s")  # willing, bandwidth (sending), algorithm, traffic class of each priority
IEEE_PFC = struct.Struct("=xB")  # enabled; macsec bypass, delay and counters follow
DCB_APP = struct.Struct("=BBH")  # selector, priority, protocol


class DcbCommand(IntEnum):
    """Message types of include/uapi/linux/rtnetlink.h."""

    RTM_GETDCB = 78


class Ets(Value):
    """Enhanced transmission selection: `traffic_class` is indexed by priority, the others by traffic class."""

    willing: bool
    traffic_class: tuple[int, ...]
    algorithm: tuple[str, ...]  # "strict", "credit-based", "ets", "vendor"
    bandwidth: tuple[int, ...]  # per cent, sending


class App(Value):
    """One row of the APP table: `protocol` of `selector` (a DSCP, an EtherType, a port) goes to `priority`."""

    selector: str
    protocol: int
    priority: int


class Dcb(Value):
    """Data centre bridging after IEEE 802.1Qaz. None stands for a part that the driver does not offer."""

    dcbx: tuple[str, ...] | None  # "host", "lld-managed", "cee", "ieee", "static"
    pfc: int | None  # bit n: frames of priority n are paused rather than dropped
    ets: Ets | None
    apps: tuple[App, ...]


class DcbMessage(Message):
    """struct dcbmsg."""

    fields = (("family", "B"), ("command", "B"), ("pad", "H"))
    nla_map = ((13, "ieee", "Ieee"), (14, "dcbx", "uint8"))

    class Ieee(Nest):
        """DCB_ATTR_IEEE."""

        nla_map = ((1, "ets", "cdata"), (2, "pfc", "cdata"), (3, "apps", "Apps"))

        class Apps(Nest):
            """DCB_ATTR_IEEE_APP_TABLE; a selector outside the standard (PCP) has an attribute of its own."""

            nla_map = ((1, "app", "cdata"), (2, "app", "cdata"))


def dcb(netdev: str) -> Dcb | None:
    """The DCB settings of a netdev; None if its driver or the kernel has no DCB.

    Raises:
        OSError: there is no such netdev, or no valid answer.
    """
    body = REQUEST.pack(0, DCB_CMD_IEEE_GET, 0) + nlsocket.attribute(DCB_ATTR_IFNAME, netdev.encode() + b"\0")
    try:
        with NetlinkSocket(NETLINK_ROUTE) as kernel:
            return settings(kernel.get(DcbCommand.RTM_GETDCB, DcbMessage, body))
    except Refused as error:
        if error.errno == errno.EOPNOTSUPP:
            return None
        raise


def settings(message: DcbMessage) -> Dcb:
    ieee, modes = message.nest("ieee"), message.number("dcbx")
    pfc, ets = ieee.octets("pfc"), ieee.octets("ets")
    rows = (value for value in ieee.nest("apps").all("app") if isinstance(value, bytes))
    return Dcb(
        dcbx=None if modes is None else tuple(word for bit, word in DCBX_MODES.items() if modes & bit),
        pfc=None if pfc is None else _unpacked(IEEE_PFC, pfc)[0],
        ets=None if ets is None else _ets(ets),
        apps=tuple(_app(row) for row in rows),
    )


def _ets(data: bytes) -> Ets:
    willing, bandwidth, algorithm, traffic_class = _unpacked(IEEE_ETS, data)
    words = tuple(ALGORITHMS.get(number, str(number)) for number in algorithm)
    return Ets(bool(willing), tuple(traffic_class), words, tuple(bandwidth))


def _app(data: bytes) -> App:
    selector, priority, protocol = _unpacked(DCB_APP, data)
    return App(SELECTORS.get(selector, str(selector)), protocol, priority)


def _unpacked(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """The fields of a structure, which a newer kernel may have made longer."""
    if len(data) < layout.size:
        raise nlsocket.malformed(f"{len(data)} bytes of DCB where {layout.size} were expected")
    return layout.unpack_from(data)
