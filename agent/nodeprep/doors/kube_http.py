"""HTTP to one API server over one connection: no retry, no redirect, no proxy of the environment, and one deadline.

urllib3's timeouts are for one silence each: a server that sends a byte a second would hold a request for ever. At the
deadline the connection is cut from outside, in whatever part of it a thread waits. Nor has a look-up of a name an end.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any

from nodeprep.doors import clock
from nodeprep.model import Why

if TYPE_CHECKING:
    from urllib3 import PoolManager
    from urllib3.connection import HTTPConnection

CONNECT, READ = 1.0, 2.0  # seconds, for one connection (its TLS included) and for one silence
LOOK_UP = 1.5  # seconds for the name server; the resolver itself would wait 5 and ask again (resolv.conf(5))
LARGEST = 8 << 20  # bytes of one answer: twice a list of 250 pods, the most that a node may run, of 15 KiB each
WORDS = 200  # characters of what a library says


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


@dataclass(frozen=True, slots=True)
class Answer:
    """`date` is the header of that name. `body` is one byte too long where it is cut off."""

    status: int
    date: str | None
    body: bytes


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


class Wire:
    """GETs from one peer. Raises OSError where the peer's files cannot be used, ValueError for a URL that is none."""

    def __init__(self, peer: Peer, seconds: float) -> None:
        self._url = peer.url
        context = peer.context()  # before anything is open that would have to be closed
        self._deadline = Deadline(seconds)
        self._answered = False
        self._pool = _pool(peer, context, self._deadline)

    def close(self) -> None:
        self._pool.clear()
        self._deadline.close()

    def get(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Raises Broken."""
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        left = self._deadline.left()
        if left <= 0:
            raise self._late()
        try:
            response = self._pool.request(
                "GET",
                self._url + path,
                headers=headers,
                timeout=Timeout(connect=min(CONNECT, left), read=min(READ, left)),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = response.read(LARGEST + 1, decode_content=False)
            if len(body) > LARGEST:
                response.close()
        except (HTTPError, OSError, ValueError) as error:
            raise self._broken(error) from error
        if self._deadline.left() <= 0:  # what was cut may look like an answer that ends
            raise self._late()
        if len(body) <= LARGEST and response.length_remaining:
            raise Broken(Why.IO_ERROR, "the connection ended in the middle of an answer", None, lost=False)
        self._answered = True
        return Answer(response.status, response.headers.get("Date"), body)

    def _late(self) -> Broken:
        return Broken(Why.TIMEOUT, f"no answer in {self._deadline.seconds:g} s", None, lost=not self._answered)

    def _broken(self, error: Exception) -> Broken:
        """A server that never answered is not asked a second time; one that did may only be slow with this answer."""
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError

        if self._deadline.left() <= 0:
            return self._late()
        if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
            return Broken(Why.TIMEOUT, f"no connection in {CONNECT:g} s", None, lost=True)
        if isinstance(error, ReadTimeoutError):
            silence = READ if self._answered else CONNECT
            return Broken(Why.TIMEOUT, f"silent for {silence:g} s or more", None, lost=not self._answered)
        cause = _innermost(error)
        number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
        lost = isinstance(error, NewConnectionError) or not self._answered
        return Broken(Why.IO_ERROR, _words(cause), number, lost=lost)


def _pool(peer: Peer, context: ssl.SSLContext | None, deadline: Deadline) -> PoolManager:
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


def _innermost(error: BaseException) -> BaseException:
    """What it began with: urllib3 puts one error into another, as an argument or as its cause."""
    inside = [one for one in (error.__cause__, *error.args, error.__context__) if isinstance(one, BaseException)]
    return _innermost(inside[0]) if inside else error


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"[:WORDS]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:WORDS]
    return (str(error) or type(error).__name__)[:WORDS]
