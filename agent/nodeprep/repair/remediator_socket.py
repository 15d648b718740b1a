"""The remediator's unix socket: lines in, lines out, for few callers at once and whatever they send.

One thread, and no caller can hold it: reads and writes never wait, a line and the answers that nobody reads have a
limit, and one connection too many ends the one that has been silent longest.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nodeprep.decide.remediator_protocol import LINE_BYTES
from nodeprep.doors import clock, unix_socket
from nodeprep.repair.remediator import Caller
from nodeprep.values import Struct, field

BACKLOG = 16
CONNECTIONS = 8  # the agent needs one; a person who uses the socket by hand another
UNREAD_BYTES = LINE_BYTES  # of answers
POLL_SECONDS = 1.0
Answer = Callable[[Caller, bytes], Mapping[str, Any]]
TOO_LONG = {"error": f"found a line of more than {LINE_BYTES} bytes"}


class _Connection(Struct):
    """One caller, with what has come of its next line and what it has not read yet."""

    peer: socket.socket
    heard: float
    caller: Caller = field(default_factory=Caller)
    came: bytearray = field(default_factory=bytearray)
    unread: bytearray = field(default_factory=bytearray)
    is_ending: bool = False
    is_gone: bool = False


class RequestServer:
    """Serves until `stop`. The socket's file gets its name when the server listens. Raises OSError at once."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path, self._answer = path, answer
        self._is_stopped = False
        self._selector = selectors.DefaultSelector()
        self._listener = unix_socket.listening(path, BACKLOG)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def stop(self) -> None:
        """Serve no more. From a signal handler."""
        self._is_stopped = True

    def serve(self) -> None:
        """Answer until `stop`, and take the socket away."""
        while not self._is_stopped:
            for key, events in self._selector.select(POLL_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                elif not key.data.is_gone:  # one before it may have ended this connection
                    self._serve(key.data, events)
        for connection in self._connections():
            self._drop(connection)
        self._path.unlink(missing_ok=True)
        self._listener.close()
        self._selector.close()

    def _connections(self) -> list[_Connection]:
        return [key.data for key in self._selector.get_map().values() if key.data is not None]

    def _accept(self) -> None:
        with suppress(OSError):  # it is gone again, or we have no descriptor left
            peer, _ = self._listener.accept()
            peer.setblocking(False)
            known = self._connections()
            if len(known) >= CONNECTIONS:
                self._drop(min(known, key=lambda one: one.heard))
            self._selector.register(peer, selectors.EVENT_READ, _Connection(peer, clock.now()))

    def _serve(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(connection)
            self._write(connection)
        except OSError:
            self._drop(connection)

    def _read(self, connection: _Connection) -> None:
        """Take what has come, and answer its whole lines. One read at a time: others get their turn."""
        part = connection.peer.recv(LINE_BYTES)
        connection.heard = clock.now()
        connection.came += part
        connection.is_ending = connection.is_ending or not part
        while not connection.is_ending and b"\n" in connection.came:
            line, _, rest = bytes(connection.came).partition(b"\n")
            connection.came = bytearray(rest)
            self._say(connection, self._answer(connection.caller, line))
        if len(connection.came) > LINE_BYTES:
            self._say(connection, TOO_LONG)
            connection.is_ending = True

    def _say(self, connection: _Connection, told: Mapping[str, Any]) -> None:
        connection.unread += json.dumps(told).encode() + b"\n"
        if len(connection.unread) > UNREAD_BYTES:  # it does not read
            connection.unread.clear()
            connection.is_ending = True

    def _write(self, connection: _Connection) -> None:
        if connection.unread:
            with suppress(BlockingIOError):
                del connection.unread[: connection.peer.send(connection.unread)]
        if connection.is_ending and not connection.unread:
            self._drop(connection)
            return
        wanted = selectors.EVENT_READ * (not connection.is_ending) | selectors.EVENT_WRITE * bool(connection.unread)
        self._selector.modify(connection.peer, wanted, connection)

    def _drop(self, connection: _Connection) -> None:
        connection.is_gone = True
        self._selector.unregister(connection.peer)
        connection.peer.close()
