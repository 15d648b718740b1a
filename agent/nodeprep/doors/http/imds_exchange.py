"""One HTTP/1.1 exchange over a plain socket that ends in time and in size, whatever answers: no proxy, no redirects.

The libraries' timeouts are per read: a service that sends one byte a second holds them for as long as it likes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from nodeprep.doors import clock

BODY = 1 << 20  # bytes; `all` of an instance with 16 ENIs has 20 KB
LINE = 8 << 10  # bytes of one header; what web servers of the usual kinds allow
HEADERS = 100
CHUNK = 1 << 16
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?")
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*")
LENGTH = re.compile(rb"[0-9]{1,18}")
SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class NotHttpError(Exception):
    """What came is not the answer of an HTTP server, or more of it than anybody needs."""


@dataclass(frozen=True, slots=True)
class Server:
    """An address and not a name: looking a name up has no deadline."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked; nothing in it may hold a line end."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """`body` is read where `status` is 200 only."""

    status: int
    body: bytes


def connect(server: Server, end: float) -> socket.socket:
    """Connect before `end` (CLOCK_BOOTTIME seconds). Raises OSError, TimeoutError among them."""
    ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
        server.address, server.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    )
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(_left(end))
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def exchange(connection: socket.socket, server: Server, request: Request, end: float) -> MetadataResponse:
    """Ask and hear the whole answer before `end`. Raises OSError (TimeoutError among them) and NotHttpError."""
    host = f"[{server.address}]" if ":" in server.address else server.address
    headers = {"Host": f"{host}:{server.port}", "Connection": "close", **request.headers}
    headers |= {"Content-Length": "0"} if request.method == "PUT" else {}
    lines = (f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()))
    connection.settimeout(_left(end))
    connection.sendall("\r\n".join((*lines, "", "")).encode("ascii"))
    return _answer(_Stream(connection, end))


class _Stream:
    """What comes in, read no longer than until `end`."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self.connection = connection
        self.end = end
        self.buffer = bytearray()

    def more(self) -> bool:
        """Wait for more; False at the end of the stream."""
        self.connection.settimeout(_left(self.end))
        data = self.connection.recv(CHUNK)
        self.buffer += data
        return bool(data)

    def take(self, count: int) -> bytes:
        while len(self.buffer) < count:
            if not self.more():
                raise NotHttpError(f"it ends after {len(self.buffer)} of {count} bytes")
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def line(self) -> bytes:
        """One line without its end."""
        while (at := self.buffer.find(b"\n")) < 0:
            if len(self.buffer) > LINE:
                raise NotHttpError(f"a line of the head is longer than {LINE} bytes")
            if not self.more():
                raise NotHttpError("it ends within its head")
        if at > LINE:
            raise NotHttpError(f"a line of the head is longer than {LINE} bytes")
        return self.take(at + 1).removesuffix(b"\n").removesuffix(b"\r")

    def rest(self) -> bytes:
        while len(self.buffer) <= BODY and self.more():
            pass
        return _limited(bytes(self.buffer))


def _answer(stream: _Stream) -> MetadataResponse:
    status = STATUS.fullmatch(stream.line())
    if status is None:
        raise NotHttpError("it does not begin as one")
    headers = _headers(stream)
    code = int(status[1])
    return MetadataResponse(code, _body(stream, headers) if code == 200 else b"")


def _headers(stream: _Stream) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for _ in range(HEADERS + 1):
        line = stream.line()
        if not line:
            return headers
        header = HEADER.fullmatch(line)
        if header is None:
            raise NotHttpError("one of its headers is none")
        name = header[1].lower()
        if headers.get(name, header[2]) != header[2] and name in (b"content-length", b"transfer-encoding"):
            raise NotHttpError(f"it states two different values of {name.decode()}")
        headers[name] = header[2]
    raise NotHttpError(f"it has more than {HEADERS} headers")


def _body(stream: _Stream, headers: dict[bytes, bytes]) -> bytes:
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None:
            raise NotHttpError("its length cannot be told from its headers")
        return _chunks(stream)
    if length is None:
        return stream.rest()
    if not LENGTH.fullmatch(length):
        raise NotHttpError("its length is no number")
    _within(int(length))
    return stream.take(int(length))


def _chunks(stream: _Stream) -> bytes:
    body = bytearray()
    while True:
        size = SIZE.fullmatch(stream.line())
        if size is None:
            raise NotHttpError("the length of a chunk is no number")
        count = int(size[1], 16)
        _within(len(body) + count)
        if not count:
            return bytes(body)  # the connection is not used again: what follows the last chunk need not be read
        body += stream.take(count)
        if stream.take(2) != b"\r\n":
            raise NotHttpError("a chunk is longer than it says")


def _limited(body: bytes) -> bytes:
    _within(len(body))
    return body


def _within(count: int) -> None:
    if count > BODY:
        raise NotHttpError(f"it is longer than {BODY} bytes")


def _left(end: float) -> float:
    left = end - clock.now()
    if left <= 0:
        raise TimeoutError
    return left
