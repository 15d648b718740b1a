"""Plays the kernel's end of a netlink socket, byte by byte as the uapi headers lay messages out."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from nodeprep.doors.netlink.nlsocket import NetlinkSocket

MULTI, DUMP_INTR, DUMP = 0x02, 0x10, 0x300
Answer = Callable[[int, bytes], Sequence[bytes] | int]


def u8(kind: int, number: int) -> bytes:
    return nla(kind, struct.pack("=B", number))


def u32(kind: int, number: int) -> bytes:
    return nla(kind, struct.pack("=I", number))


def u64(kind: int, number: int) -> bytes:
    return nla(kind, struct.pack("=Q", number))


def text(kind: int, words: str) -> bytes:
    return nla(kind, words.encode() + b"\0")


def nest(kind: int, *inside: bytes) -> bytes:
    return nla(kind | 0x8000, b"".join(inside))


def nla(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def nlmsg(kind: int, body: bytes, sequence: int = 1, flags: int = 0) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def verdict(kind: int, code: int, sequence: int) -> bytes:
    return nlmsg(kind, struct.pack("=i", -code) + b"\0" * 16, sequence)


class Kernel:
    """Answers by `answer(type, body)`: the bodies of messages, or an errno. `asked` is what it was asked."""

    def __init__(self, end: socket.socket, answer: Answer, interrupted: int) -> None:
        self.asked: list[tuple[int, bytes]] = []
        self._end = end
        self._answer = answer
        self._interrupted = interrupted  # dumps that it marks as inconsistent before one that is whole

    def serve(self) -> None:
        with suppress(ConnectionError):  # who asked had enough
            while request := self._end.recv(1 << 16):
                length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", request)
                assert length == len(request)
                body = request[16:]
                self.asked.append((kind, body))
                for datagram in self._reply(kind, flags, sequence, self._answer(kind, body)):
                    self._end.send(datagram)

    def _reply(self, kind: int, flags: int, sequence: int, answer: Sequence[bytes] | int) -> Iterator[bytes]:
        dumped = flags & DUMP == DUMP
        # A stale answer and a stranger's: neither is part of this one.
        yield nlmsg(kind, b"\xff" * 32, sequence - 1)
        if isinstance(answer, int):
            # nldev's dumps report their errno at the end, as every dump does that fails after it has begun.
            yield verdict(3 if dumped else 2, answer, sequence)
            return
        marks = MULTI if dumped else 0
        if dumped and self._interrupted:
            self._interrupted -= 1
            marks |= DUMP_INTR
        for body in answer:
            yield nlmsg(kind, body, sequence, marks)
        yield verdict(3 if dumped else 2, 0, sequence)


@contextmanager
def kernel(answer: Answer, *, interrupted: int = 0) -> Iterator[tuple[NetlinkSocket, Kernel]]:
    """A NetlinkSocket whose other end is ours."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, NetlinkSocket(socket.NETLINK_ROUTE) as asking:
        asking._socket.close()
        asking._socket = theirs
        theirs.settimeout(5)
        played = Kernel(ours, answer, interrupted)
        thread = threading.Thread(target=played.serve, daemon=True)
        thread.start()
        try:
            yield asking, played
        finally:
            theirs.close()
            thread.join(5)
    assert not thread.is_alive()


def foreign(value: object) -> list[type]:
    """The types in a value that JSON does not have: subclasses too, for pyroute2 has its own dict and int."""
    if type(value) is dict:
        return [one for pair in value.items() for part in pair for one in foreign(part)]
    if type(value) in (list, tuple):
        return [one for part in value for one in foreign(part)]  # type: ignore[attr-defined]
    return [] if type(value) in (str, int, float, bool, type(None)) else [type(value)]
