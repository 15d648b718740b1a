"""The TCP and UDP sockets of the node's network namespace, as /proc/net shows them. Only the idle proof asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from nodeprep.model import Unreadable, Why
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.node_host import Host

TABLES = "/proc/self/net"
PROTOCOLS = {"tcp": True, "tcp6": False, "udp": True, "udp6": False}  # whether the kernel always has it
TABLE_BYTES = 64 << 20  # 150 bytes a socket
LOCAL, REMOTE, STATE, INODE = 1, 2, 3, 9  # fields of a row (net/ipv4/tcp_ipv4.c, get_tcp4_sock)
# include/net/tcp_states.h; UDP has ESTABLISHED where it is connected, else CLOSE.
STATES = {
    1: "established",
    2: "syn-sent",
    3: "syn-recv",
    4: "fin-wait-1",
    5: "fin-wait-2",
    6: "time-wait",
    7: "close",
    8: "close-wait",
    9: "last-ack",
    10: "listen",
    11: "closing",
    12: "new-syn-recv",
}


class IpSocket(Value):
    """A socket. `protocol` is "tcp" or "udp"; addresses are in their short form, IPv4 also on an IPv6 socket.

    `inode` names it among the open files of processes; 0 for one that no process has any more.
    """

    protocol: str
    local: str
    local_port: int
    remote: str
    remote_port: int
    state: str
    inode: int

    @property
    def is_established(self) -> bool:
        return self.state == "established"

    def __str__(self) -> str:
        to = f" to {self.remote}:{self.remote_port}" if self.remote_port else ""
        return f"{self.protocol} {self.local}:{self.local_port}{to} ({self.state})"


def observe(host: Host) -> tuple[IpSocket, ...] | Unreadable:
    """All sockets. Unreadable if one of the tables is: a table of IPv6 alone may be missing."""
    found: list[IpSocket] = []
    for name, is_needed in PROTOCOLS.items():
        path = f"{TABLES}/{name}"
        text = host.files.text(path, TABLE_BYTES)
        if isinstance(text, Unreadable):
            return text
        if text is None and is_needed:
            return Unreadable(Why.MISSING, path)
        try:
            found += rows(name.removesuffix("6"), text or "")
        except (ValueError, IndexError) as error:
            return Unreadable(Why.MALFORMED, path, detail=str(error)[:80])
    return tuple(found)


def rows(protocol: str, text: str) -> Iterator[IpSocket]:
    """The sockets of a table. Raises ValueError or IndexError for a row of another shape."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        local, local_port = _end(fields[LOCAL])
        remote, remote_port = _end(fields[REMOTE])
        state = STATES.get(int(fields[STATE], 16), fields[STATE])
        yield IpSocket(protocol, local, local_port, remote, remote_port, state, int(fields[INODE]))


def _end(text: str) -> tuple[str, int]:
    """An address and port. The kernel writes each four bytes of an address as one number of its own byte order."""
    address, _, port = text.partition(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    data = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return short(IPv4Address(data) if len(data) == 4 else IPv6Address(data)), int(port, 16)


def short(address: IPv4Address | IPv6Address | str) -> str:
    """An address in the form in which the same addresses are equal."""
    found = ip_address(address) if isinstance(address, str) else address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
