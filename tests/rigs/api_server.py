"""An HTTP server on loopback that answers as a real API server never does: garbage, redirects, a byte a second.

For real answers, tests use a real API server (tests/rigs/cluster.py).
"""

from __future__ import annotations

import json
import socketserver
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One connection. An answer writes any bytes to `wfile`; `over` is set when the server stops."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.server.headers.append(dict(self.headers.items()))
        answer = self.server.answers.get(urlsplit(self.path).path, refused(404))
        with suppress(OSError):  # the client went away, as it should
            answer(self)

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the name is the library's
        """Quiet: tests look at `requests`."""


class Server(socketserver.ThreadingTCPServer):
    """Answers GETs by path. Use it as a context manager; `requests` and `headers` are those that it got."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


def told(thing: Any) -> Answer:
    """An object, or anything else that JSON can hold."""
    return sent(json.dumps(thing).encode())


def refused(code: int, message: str = "") -> Answer:
    """A failure as the API server words it."""
    body = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return sent(json.dumps(body).encode(), code)


def sent(body: bytes, code: int = 200, **headers: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(code)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def raw(data: bytes) -> Answer:
    """These bytes and the end of the connection, HTTP or not."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def endless(chunk: bytes, pause: float, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Answer:
    """`head`, then `chunk` again and again with `pause` seconds between, until the client goes away."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(head)
        while not handler.server.over.wait(pause):
            handler.wfile.write(chunk)

    return answer


def silent(handler: Handler) -> None:
    """Nothing, as long as the server runs."""
    handler.server.over.wait()
