"""Connections to one API server: its certificates, a proxy, a look-up of its name that ends, and a deadline that cuts.

urllib3's timeouts are for one silence each: a server that sends a byte a second would hold a request for ever. At the
deadline the connection is cut from outside, in whatever part of it a thread waits. Nor has a look-up of a name an end.
"""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any

from nodeprep.doors import clock
from nodeprep.model import Why

if TYPE_CHECKING:
    from urllib3 import PoolManager
    from urllib3.connection import HTTPConnection

LOOK_UP = 1.5  # seconds for the name server; the resolver itself would wait 5 and ask again (resolv.conf(5))


@dataclass(frozen=True, slots=True)
class Peer:
    """A server by its URL. `authority`, `certificate` and `key` are files; without an authority, the system's count.

    `pem` is a certificate with its key in place of files. `server_name` is whom the server's certificate must name, if
    not the host of `url`.
    """

    url: str
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    pem: str = field(default="", repr=False)

    def context(self) -> ssl.SSLContext | None:
        """None where there is no TLS. Raises OSError: a file that is not there or not what it should be (SSLError)."""
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.authority)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.pem:
            _load(context, self.pem)
        elif self.certificate:
            context.load_cert_chain(self.certificate, self.key, password="")  # else OpenSSL asks a terminal
        return context


class Broken(Exception):
    """No answer: why, and whether the server itself is out of reach (`lost`), so that nothing more need be asked."""

    def __init__(self, kind: Why, detail: str, errno: int | None, *, lost: bool) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errno, self.lost = kind, detail, errno, lost


class Deadline:
    """Cuts the connections of one observation `seconds` after it began."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = clock.now() + seconds
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._timer = Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left(self) -> float:
        return self._end - clock.now()

    def watched(self, one: socket.socket) -> socket.socket:
        """The same socket, to be cut in time. TLS takes its descriptor over, so we hold one of our own."""
        with self._lock:
            self._sockets.append(socket.socket(fileno=os.dup(one.fileno())))
        return one

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            while self._sockets:
                self._sockets.pop().close()

    def _cut(self) -> None:
        with self._lock:
            for one in self._sockets:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:  # it is gone already
                    continue


def pool(peer: Peer, context: ssl.SSLContext | None, deadline: Deadline) -> PoolManager:
    """One connection at a time, each of which the deadline can cut."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, disable_warnings
    from urllib3.connection import HTTPConnection, HTTPSConnection
    from urllib3.exceptions import InsecureRequestWarning

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return deadline.watched(_connected(self, deadline))

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return deadline.watched(_connected(self, deadline))

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    options: dict[str, Any] = {"maxsize": 1, "ssl_context": context}
    if peer.server_name:
        options["server_hostname"] = peer.server_name
    if not peer.verify:
        options["cert_reqs"] = "CERT_NONE"
        disable_warnings(InsecureRequestWarning)  # whoever wrote insecure-skip-tls-verify knows
    pool = ProxyManager(peer.proxy, **options) if peer.proxy else PoolManager(**options)
    pool.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return pool


def _load(context: ssl.SSLContext, pem: str) -> None:
    """OpenSSL wants a file; this one is in memory only."""
    file = os.memfd_create("credential")
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    finally:
        os.close(file)


def _connected(asking: HTTPConnection, deadline: Deadline) -> socket.socket:
    """As urllib3 connects, but for the look-up. Raises its errors, and Broken where no name server answers."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
    from urllib3.util.connection import create_connection

    trouble = OSError("it has no address")
    try:
        for address in _addresses(asking.host.strip("[]"), min(LOOK_UP, deadline.left())):
            try:
                return create_connection((address, asking.port), asking.timeout, socket_options=asking.socket_options)
            except OSError as error:
                trouble = error
            if deadline.left() <= 0:
                break
    except OSError as error:
        trouble = error
    if isinstance(trouble, TimeoutError):
        raise ConnectTimeoutError(asking, str(trouble)) from trouble
    raise NewConnectionError(asking, str(trouble)) from trouble


def _addresses(host: str, seconds: float) -> list[str]:
    """The addresses of a host. Raises OSError, ValueError for what is no name, and Broken after `seconds`."""
    try:
        return _looked_up(host, socket.AI_NUMERICHOST)
    except OSError:  # a name
        told: SimpleQueue[list[str] | OSError | ValueError] = SimpleQueue()

    def ask() -> None:
        try:
            told.put(_looked_up(host))
        except (OSError, ValueError) as error:
            told.put(error)

    Thread(target=ask, daemon=True).start()
    try:
        found = told.get(timeout=max(0.0, seconds))
    except Empty:
        raise Broken(Why.TIMEOUT, f"{host}: no answer from the name server", None, lost=True) from None
    if isinstance(found, Exception):
        raise found
    return found


def _looked_up(host: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return [str(address[0]) for *_, address in found]
