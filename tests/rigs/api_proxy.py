"""A proxy before a real API server. It treats chosen requests as networks and busy servers do, and counts all requests.

It ends TLS with the server's own certificate and opens it again. It knows no client certificate, so clients show a
token. A request without a rule is passed on as it came. Watches do not work: an answer is read whole.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import socketserver
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from math import inf
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from tests.rigs.cluster import Cluster

HOST = "127.0.0.1"
PATIENCE = 60.0  # seconds for the real server; a test may freeze it for as long
BY_CONNECTION = ("host", "connection", "content-length", "transfer-encoding")  # headers that are not passed on


@dataclass(slots=True)
class Request:
    """One request, and its time.monotonic().

    `status` is that of the answer, 0 without an answer. `held`: the client waits for an answer that never comes.
    """

    at: float
    method: str
    path: str
    status: int = 0
    held: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it goes to the client."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Exchange(BaseHTTPRequestHandler):
    """One connection. A rule's deed gets it for each request that the rule matches."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy
    request: socket.socket
    asked: Request
    sent: bytes
    _upstream: http.client.HTTPSConnection | None = None

    def do_any(self) -> None:
        self.asked = Request(time.monotonic(), self.command, self.path)
        self.sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        deed = self.server.deed(self.asked)
        self.server.requests.append(self.asked)
        deed(self)

    do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = do_any  # noqa: N815 - the library's names

    def passed_on(self) -> Reply:
        """The answer of the real server. Raises OSError, HTTPException."""
        if self._upstream is None:
            self._upstream = self.server.upstream()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in BY_CONNECTION}
        self._upstream.request(self.command, self.path, self.sent or None, headers)
        answer = self._upstream.getresponse()
        told = {name: value for name, value in answer.getheaders() if name.lower() not in BY_CONNECTION}
        return Reply(answer.status, told, answer.read())

    def answer(self, reply: Reply) -> None:
        self.head(reply)
        self.wfile.write(reply.body)

    def head(self, reply: Reply) -> None:
        self.asked.status = reply.status
        self.send_response_only(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()

    def cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.request.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the name is the library's
        """Quiet: tests look at `requests`."""


Deed = Callable[[Exchange], None]


@dataclass(slots=True, eq=False)
class Rule:
    """A deed for requests of a method ("" for any) whose path matches `path`, a regular expression.

    It holds for `times` requests.
    """

    deed: Deed
    method: str = ""
    path: str = ""
    times: float = inf

    def is_about(self, asked: Request) -> bool:
        return self.times > 0 and self.method in ("", asked.method) and re.search(self.path, asked.path) is not None


class Proxy(socketserver.ThreadingTCPServer):
    """Stands before `cluster`. Use it as a context manager. `requests` are those it got, oldest first."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, cluster: Cluster) -> None:
        super().__init__((HOST, 0), Exchange)
        self.port: int = self.server_address[1]
        self.url = f"https://{HOST}:{self.port}"
        self.requests: list[Request] = []
        self.over = Event()
        self._cluster_port = cluster.port
        self._rules: list[Rule] = []
        self._lock = Lock()
        self._inner = ssl.create_default_context(cafile=cluster.authority)
        self._outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._outer.load_cert_chain(cluster.directory / "apiserver.crt", cluster.directory / "apiserver.key")

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()

    def rule(self, deed: Deed, method: str = "", path: str = "", times: float = inf) -> None:
        """Add a rule. The newest rule is tried first."""
        with self._lock:
            self._rules.insert(0, Rule(deed, method, path, times))

    def lift(self) -> None:
        """Remove all rules. Requests that hang stay hanging."""
        with self._lock:
            self._rules.clear()

    def asked(self, method: str = "", path: str = "", since: float = -inf) -> list[Request]:
        """Its requests since a time.monotonic(), by method and by a regular expression of the path."""
        ours = Rule(passes, method, path)
        return [one for one in list(self.requests) if one.at >= since and ours.is_about(one)]

    def deed(self, asked: Request) -> Deed:
        with self._lock:
            rule = next((one for one in self._rules if one.is_about(asked)), None)
            if rule is None:
                return passes
            rule.times -= 1
        return rule.deed

    def upstream(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(HOST, self._cluster_port, timeout=PATIENCE, context=self._inner)

    def get_request(self) -> tuple[socket.socket, Any]:
        """The connection's own thread does the handshake: a silent client must not delay the others."""
        link, where = super().get_request()
        return self._outer.wrap_socket(link, server_side=True, do_handshake_on_connect=False), where

    def handle_error(self, request: object, client_address: object) -> None:
        """The client or the server went away. Tests do both."""


def passes(exchange: Exchange) -> None:
    try:
        reply = exchange.passed_on()
    except (OSError, http.client.HTTPException):  # the server is gone, and the client must see that
        exchange.cut()
        return
    exchange.answer(reply)


def refuses(code: int, words: str = "", **headers: str) -> Deed:
    """Nothing is passed on. The answer has the API server's words. Retry_After="5" is such a header."""
    body = {"kind": "Status", "status": "Failure", "message": words or f"the proxy says {code}", "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.answer(Reply(code, named, json.dumps(body).encode()))


def holds(*, done: bool) -> Deed:
    """No answer ever comes; with `done` the server still carries it out. The request is `held` from then on."""

    def deed(exchange: Exchange) -> None:
        if done:
            exchange.passed_on()
        exchange.asked.held = True
        exchange.server.over.wait()
        exchange.cut()

    return deed


def cuts(exchange: Exchange) -> None:
    """Nothing is passed on; the connection ends."""
    exchange.cut()


def loses(exchange: Exchange) -> None:
    """It is carried out; the connection ends before the answer."""
    exchange.passed_on()
    exchange.cut()


def drips(pause: float) -> Deed:
    """It is carried out; the answer comes at a byte each `pause` seconds."""

    def deed(exchange: Exchange) -> None:
        reply = exchange.passed_on()
        exchange.head(reply)
        for byte in reply.body:
            exchange.wfile.write(bytes([byte]))
            if exchange.server.over.wait(pause):
                return

    return deed


def delays(seconds: float) -> Deed:
    """It is passed on later."""

    def deed(exchange: Exchange) -> None:
        exchange.server.over.wait(seconds)
        passes(exchange)

    return deed
