"""Connections to a server over TCP, TLS or a unix socket, each made and used within a deadline.

A deadline is a moment of CLOCK_BOOTTIME, in seconds (`clock.now`). The timeout of a socket limits one silence: a server
that sends one byte a second would hold a reader without end. So each wait gets the time that is left to the deadline.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from nodeprep.doors import clock
from nodeprep.doors.http import failure as http_failure
from nodeprep.doors.http import transport
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint, Transport
from nodeprep.model import Why

T = TypeVar("T")

LOOK_UP_SECONDS = 1.5  # for the name server; the resolver itself would wait 5 s and ask again (resolv.conf(5))
RECEIVED_BYTES = 1 << 16  # of one recv(2)


class SocketLink:
    """A connected stream socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes, until: float) -> None:
        self._socket.settimeout(seconds_left(until))
        self._socket.sendall(data)  # the timeout is for all of it

    def receive(self, until: float) -> bytes:
        self._socket.settimeout(seconds_left(until))
        return self._socket.recv(RECEIVED_BYTES)

    def pending(self) -> bytes | None:
        self._socket.setblocking(False)
        try:
            return self._socket.recv(RECEIVED_BYTES)
        except BlockingIOError:
            return None

    def close(self) -> None:
        self._socket.close()


def seconds_left(until: float) -> float:
    """Seconds until the deadline, more than 0. Raises TimeoutError."""
    left = until - clock.now()
    if left <= 0:
        raise TimeoutError
    return left


def connect(endpoint: Endpoint, until: float, connect_seconds: float) -> Transport:
    """A connection to a server before `until`, through its proxy if it has one.

    The TCP connection to one address, the answer of a proxy and the TLS handshake have `connect_seconds` each.

    Raises:
        HttpFailure: there is no connection; `connected` is False.
    """
    if endpoint.socket_path:
        return _unix(endpoint.socket_path, until, connect_seconds)
    first = endpoint.proxy or endpoint
    link: Transport = _tcp(first, until, connect_seconds)
    if endpoint.proxy is not None:
        link = _secured(link, first, until, connect_seconds)
        if endpoint.tls is None:
            return link  # the request then names the whole URL to the proxy
        link = _tunnelled(link, endpoint, until, connect_seconds)
    return _secured(link, endpoint, until, connect_seconds)


def _tcp(endpoint: Endpoint, until: float, connect_seconds: float) -> SocketLink:
    """A connection to the first address of the host that accepts one."""
    trouble = HttpFailure(Why.IO_ERROR, f"{endpoint.host}: it has no address", connected=False)
    for family, kind, protocol, _, address in _addresses(endpoint, until):
        begun = clock.now()
        soon = min(until, begun + connect_seconds)
        try:
            return SocketLink(_connected(family, kind, protocol, address, soon))
        except TimeoutError:
            trouble = _late("connection", soon - begun)
        except OSError as error:
            trouble = http_failure.refused(error, connected=False)
        if clock.now() >= until:
            break
    raise trouble


def _connected(family: Any, kind: Any, protocol: int, address: Any, until: float) -> socket.socket:
    """Raises OSError, TimeoutError among them."""
    made = socket.socket(family, kind, protocol)
    try:
        made.settimeout(seconds_left(until))
        made.connect(address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        made.close()
        raise
    return made


def _unix(path: str, until: float, connect_seconds: float) -> SocketLink:
    begun = clock.now()
    soon = min(until, begun + connect_seconds)
    try:
        return SocketLink(_unix_connected(path, soon))
    except (TimeoutError, BlockingIOError):
        raise _late("connection", soon - begun) from None
    except OSError as error:
        raise http_failure.refused(error, connected=False) from error


def _unix_connected(path: str, until: float) -> socket.socket:
    """Connect, and wait while the server's queue is full: connect(2) waits only with SO_SNDTIMEO. Raises OSError."""
    made = socket.socket(socket.AF_UNIX)
    try:
        left = seconds_left(until)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(left), int(left % 1 * 1e6) + 1))
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def _secured(link: Transport, endpoint: Endpoint, until: float, connect_seconds: float) -> Transport:
    """The same connection with TLS, if the endpoint wants TLS. It is closed if the handshake fails."""
    context = endpoint.tls
    if context is None:
        return link
    from nodeprep.doors.http.tls import TlsLink

    name = endpoint.server_name or endpoint.host.rstrip(".")
    return _next(link, until, connect_seconds, "TLS handshake", lambda soon: TlsLink(link, context, name, soon))


def _tunnelled(link: Transport, endpoint: Endpoint, until: float, connect_seconds: float) -> Transport:
    from nodeprep.doors.http import exchange

    _next(link, until, connect_seconds, "answer of the proxy", lambda soon: exchange.tunnel(link, endpoint, soon))
    return link


def _next(link: Transport, until: float, connect_seconds: float, what: str, step: Callable[[float], T]) -> T:
    """One more step to a connection. The connection is closed if the step fails."""
    begun = clock.now()
    soon = min(until, begun + connect_seconds)
    try:
        return step(soon)
    except TimeoutError:
        link.close()
        raise _late(what, soon - begun) from None
    except OSError as error:
        link.close()
        raise http_failure.refused(error, connected=False) from error
    except HttpFailure as failure:
        link.close()
        if failure.kind is Why.TIMEOUT:
            raise _late(what, soon - begun) from None
        raise HttpFailure(failure.kind, failure.detail, failure.errno, connected=False) from failure


def _late(what: str, seconds: float) -> HttpFailure:
    given = max(0.0, seconds)  # less than 0: we had no processor until after the deadline
    return HttpFailure(Why.TIMEOUT, f"no {what} in {round(given, 1):g} s", connected=False)


# As getaddrinfo gives it: family, type, protocol, canonical name, address.
Address = tuple[Any, Any, int, str, Any]


def _addresses(endpoint: Endpoint, until: float) -> list[Address]:
    """The addresses of a host. A look-up has no deadline, so a separate thread makes it and may be left behind."""
    host, port = endpoint.host, endpoint.port
    try:
        with suppress(UnicodeError, OSError):
            return _resolved(host, port, socket.AI_NUMERICHOST)
        if not endpoint.resolve:
            return _resolved(host, port, socket.AI_NUMERICHOST)
        return _looked_up(host, port, min(until, clock.now() + LOOK_UP_SECONDS))
    except UnicodeError:
        raise HttpFailure(Why.IO_ERROR, f"{host[:80]!r} is no name of a host", connected=False) from None
    except OSError as error:
        raise http_failure.refused(error, connected=False) from error


def _looked_up(host: str, port: int, until: float) -> list[Address]:
    from queue import Empty, SimpleQueue
    from threading import Thread

    answers: SimpleQueue[list[Address] | OSError | UnicodeError] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_resolved(host, port))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        found = answers.get(timeout=max(0.0, until - clock.now()))
    except Empty:
        detail = f"{host}: no answer from the name server"
        raise HttpFailure(Why.TIMEOUT, detail, connected=False) from None
    if isinstance(found, Exception):
        raise found
    return found


def _resolved(host: str, port: int, flags: int = 0) -> list[Address]:
    name = transport.address_name(host) if flags & socket.AI_NUMERICHOST else host
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags | socket.AI_NUMERICSERV)
