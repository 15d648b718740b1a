"""Opens messages about rules and routes without pyroute2's objects, which cost 60 microseconds for each of hundreds."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.nlsocket import ATTRIBUTE, HEADER, NLA_TYPE_MASK

# struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags (include/uapi/linux/rtnetlink.h);
# struct fib_rule_hdr has its action in the place of the type (include/uapi/linux/fib_rules.h).
RTMSG = struct.Struct("=8BI")
U32 = struct.Struct("=I")


class Raw(NamedTuple):
    """A message about a rule or a route: the eight bytes of its header, its flags, its attributes by number."""

    header: bytes
    flags: int
    attributes: dict[int, bytes]

    @property
    def family(self) -> int:
        return self.header[0]

    def number(self, kind: int) -> int | None:
        data = self.attributes.get(kind)
        if data is None:
            return None
        if len(data) != U32.size:
            raise nlsocket.malformed(f"attribute {kind} is {data!r}, not a number")
        number: int = U32.unpack(data)[0]
        return number

    def text(self, kind: int) -> str:
        return nlsocket.string(self.attributes.get(kind, b""))

    def prefix(self, kind: int, length: int, every: str) -> str:
        data = self.attributes.get(kind)
        return every if data is None and not length else f"{address(self.family, data or b'')}/{length}"


def opened(data: bytes) -> Raw:
    if len(data) < HEADER.size + RTMSG.size:
        raise nlsocket.malformed(f"{len(data)} bytes, too short for a rule or a route")
    body = data[HEADER.size :]
    return Raw(body[:8], U32.unpack_from(body, 8)[0], dict(attributes(body[RTMSG.size :])))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        if len(data) - offset < ATTRIBUTE.size:
            raise nlsocket.malformed(f"{len(data) - offset} bytes behind the last attribute")
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if not ATTRIBUTE.size <= length <= len(data) - offset:
            raise nlsocket.malformed(f"an attribute says that it has {length} bytes, there are {len(data) - offset}")
        yield kind & NLA_TYPE_MASK, data[offset + ATTRIBUTE.size : offset + length]
        offset += length + 3 & ~3


def address(family: int, data: bytes) -> str:
    try:
        return socket.inet_ntop(family, data)
    except ValueError as error:
        raise nlsocket.malformed(f"{data!r} is no address of family {family}") from error
