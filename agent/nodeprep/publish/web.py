"""Pages for Prometheus, the kubelet and people on the node: over TCP, and over a unix socket for local use only.

One thread serves each listener and sleeps while nobody asks. A slow or hostile client holds one of a few places for
some seconds, and loses it to the next client. The agent's loop does not take part.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from threading import Thread
from typing import TYPE_CHECKING

from nodeprep.doors import clock, unix_socket
from nodeprep.doors.http import transport
from nodeprep.publish import page_http
from nodeprep.publish.page_http import END, HEAD_LIMIT_BYTES, JSON, PageAnswer, Routes
from nodeprep.values import Struct, Value

if TYPE_CHECKING:
    from typing import Self

PORT = 9842  # design 6
PORT_LIMIT = 65535
CLIENTS_LIMIT = 8  # clients at once: Prometheus in pairs, two probes, a person
REQUEST_TIMEOUT_SECONDS = 5.0  # seconds for a whole request and its answer
# Seconds for which a client keeps its place if all are taken. A scraper sends its request one round trip after it
# connected. So a flood is accepted at 400 connections a second, and a probe in it waits for a third of a second.
SELECT_MARGIN_SECONDS = 0.02
BACKLOG = 128
RECEIVE_BYTES = 65536
EXCESS_LIMIT_BYTES = 65536  # bytes that a client may send after its request


class CannotServe(Exception):
    """Nothing can listen there. The text is one line that names the address or path, and why."""


class NetworkPages(Value):
    """What the agent tells the network: metrics (content type, text), and whether it is well and ready, and why."""

    metrics: Callable[[], tuple[str, bytes]]
    health: Callable[[], tuple[bool, str]]
    readiness: Callable[[], tuple[bool, str]]

    def routes(self) -> Routes:
        return {
            "/metrics": {"GET": lambda: PageAnswer(HTTPStatus.OK, *self.metrics())},
            "/healthz": {"GET": lambda: _probe(*self.health())},
            "/readyz": {"GET": lambda: _probe(*self.readiness())},
        }


class LocalPages(Value):
    """What the agent tells and accepts only on its own node: its report as JSON, a human's reset, that a drill runs.

    `drill` reads which one does, and returns its words.
    """

    report: Callable[[], str]
    reset: Callable[[], None]
    forget: Callable[[], None] = lambda: None
    drill: Callable[[], str] = lambda: ""

    def routes(self) -> Routes:
        return {
            "/report": {"GET": self._report},
            "/reset": {"POST": self._reset},
            "/reset-inventory": {"POST": self._forget},
            "/drill": {"POST": self._drill},
        }

    def _report(self) -> PageAnswer:
        return PageAnswer(HTTPStatus.OK, JSON, self.report().encode("utf-8", "backslashreplace"))

    def _reset(self) -> PageAnswer:
        self.reset()
        return page_http.text_answer(
            HTTPStatus.ACCEPTED, "the agent starts over: nothing is proven and nothing is held against anyone"
        )

    def _forget(self) -> PageAnswer:
        self.forget()
        return page_http.text_answer(
            HTTPStatus.ACCEPTED, "the agent starts over, and takes what the node has now for what belongs here"
        )

    def _drill(self) -> PageAnswer:
        return page_http.text_answer(HTTPStatus.ACCEPTED, f"the agent knows of: {self.drill() or 'no drill'}")


def _probe(is_well: bool, why: str) -> PageAnswer:
    return page_http.text_answer(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, why)


class PageClient(Struct, eq=False):
    """One connection since `since`: the request so far, and what of the answer is still to be sent."""

    connection: socket.socket
    since: float
    head: bytes = b""
    unsent: memoryview | None = None
    excess: int = 0


class PageServer:
    """Serves one listener until it is closed. `path` is its file, if it has one."""

    def __init__(self, listener: socket.socket, routes: Routes, path: Path | None = None) -> None:
        self.listener = listener
        self.routes = routes
        self.path = path
        self.clients: list[PageClient] = []
        self._selector = DefaultSelector()
        self._closing = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._paused_until = 0.0
        self.listener.setblocking(False)
        self._inode = path.stat().st_ino if path else 0
        self._selector.register(self._closing, EVENT_READ)
        self._thread = Thread(target=self._serve, name="nodeprep-web", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The TCP port that it listens on."""
        port: int = self.listener.getsockname()[1]
        return port

    def close(self) -> None:
        """End the thread and every connection. A file that another process put in its place stays."""
        if not self._thread.is_alive():
            return
        with suppress(OSError):
            if self.path and self.path.stat().st_ino == self._inode:
                self.path.unlink()
        os.eventfd_write(self._closing, 1)
        self._thread.join()
        os.close(self._closing)

    def _serve(self) -> None:
        with self.listener, self._selector:
            while True:
                self._listen(clock.now())
                ready = self._selector.select(self._wait_seconds(clock.now()))
                for key, _ in ready:
                    if key.fileobj == self._closing:
                        for client in self.clients:
                            client.connection.close()
                        return
                    if isinstance(key.data, PageClient):
                        self._continue(key.data)
                    else:
                        self._accept()
                for client in [one for one in self.clients if clock.now() - one.since >= REQUEST_TIMEOUT_SECONDS]:
                    self._drop(client)

    def _listen(self, now: float) -> None:
        """Wait for new clients while there is a free place, or one that may be taken from its holder."""
        wanted = now >= self._paused_until and (
            len(self.clients) < CLIENTS_LIMIT or now - self.clients[0].since >= SELECT_MARGIN_SECONDS
        )
        listened = self.listener.fileno() in self._selector.get_map()
        if wanted and not listened:
            self._selector.register(self.listener, EVENT_READ)
        elif listened and not wanted:
            self._selector.unregister(self.listener)

    def _wait_seconds(self, now: float) -> float | None:
        """Seconds until something is to be done without input. None if there is nothing."""
        ends = [self.clients[0].since + REQUEST_TIMEOUT_SECONDS] if self.clients else []
        if self.listener.fileno() not in self._selector.get_map():
            ends.append(
                max(
                    self._paused_until,
                    self.clients[0].since + SELECT_MARGIN_SECONDS if len(self.clients) >= CLIENTS_LIMIT else 0.0,
                )
            )
        return max(min(ends) - now, 0.001) if ends else None

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no files or memory left, or the client is gone: an immediate retry would spin
            self._paused_until = clock.now() + SELECT_MARGIN_SECONDS
            return
        if len(self.clients) >= CLIENTS_LIMIT:
            self._drop(self.clients[0])
        connection.setblocking(False)
        client = PageClient(connection, clock.now())
        self.clients.append(client)
        self._selector.register(connection, EVENT_READ, client)

    def _continue(self, client: PageClient) -> None:
        if client not in self.clients:
            return  # dropped for another client a moment ago
        try:
            if client.unsent is not None:
                self._send(client, client.unsent)
            else:
                self._receive(client)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _receive(self, client: PageClient) -> None:
        """Read the request. After the answer, read on until the client closes, or data on the way would be lost."""
        piece = client.connection.recv(RECEIVE_BYTES)
        if not piece:
            self._drop(client)
        elif client.excess:
            client.excess += len(piece)
            if client.excess > EXCESS_LIMIT_BYTES:
                self._drop(client)
        else:
            client.head += piece[: HEAD_LIMIT_BYTES - len(client.head)]
            if END in client.head or len(client.head) >= HEAD_LIMIT_BYTES:
                client.unsent = memoryview(page_http.response(client.head, self.routes))
                self._selector.modify(client.connection, EVENT_WRITE, client)

    def _send(self, client: PageClient, unsent: memoryview) -> None:
        client.unsent = unsent[client.connection.send(unsent) :]
        if not client.unsent:
            client.unsent, client.excess = None, 1
            client.connection.shutdown(socket.SHUT_WR)
            self._selector.modify(client.connection, EVENT_READ, client)

    def _drop(self, client: PageClient) -> None:
        self.clients.remove(client)
        self._selector.unregister(client.connection)
        client.connection.close()


def serve(address: str, port: int, pages: NetworkPages) -> PageServer:
    """Serve the pages on an IPv4 or IPv6 address; "::" takes both. Raises CannotServe."""
    try:
        name = transport.address_name(address)
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        raise CannotServe(f"cannot listen on {address!r}: an IPv4 or IPv6 address is wanted, as in 0.0.0.0") from None
    family, _, _, _, (host, _, *scope) = found[0]
    both = family == socket.AF_INET6 and address == "::" and socket.has_dualstack_ipv6()
    shown = f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"
    if not 0 <= port <= PORT_LIMIT:
        raise CannotServe(f"cannot listen on {shown}: a port from 0 to {PORT_LIMIT} is wanted")
    try:
        listener = socket.create_server((host, port, *scope), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        # create_server adds its own words to strerror
        why = f"{os.strerror(error.errno or 0)}; see ss -ltnp 'sport = :{port}' and ip address"
        raise CannotServe(f"cannot listen on {shown}: {why}") from None
    return PageServer(listener, pages.routes())


def serve_local(path: Path, local: LocalPages) -> PageServer:
    """Serve the report on a unix socket for root. Raises CannotServe."""
    try:
        listener = unix_socket.listening(path, BACKLOG)
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotServe(f"cannot listen on {path}: {why}; see ls -la {path.parent}") from None
    return PageServer(listener, local.routes(), path)
