"""The server side of gRPC over HTTP/2 for tests, with h2: each step of an answer by itself, also the wrong ones.

A conversation of tests/rigs/raw_server.py makes a `GrpcCaller` of its connection.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded

from tests.rigs.raw_server import Caller, Conversation, RawServer

STREAM = 1
HEAD = ((":status", "200"), ("content-type", "application/grpc"))
FRAME = 1 << 14

Answer = Callable[["GrpcCaller"], object]


def prefixed(message: bytes, *, flag: int = 0, size: int | None = None) -> bytes:
    """A message as gRPC sends it."""
    return struct.pack(">BI", flag, len(message) if size is None else size) + message


class GrpcCaller:
    """One connection of a client. `headers`, `message` and `stream` are of the call that `listen` heard last; `events`
    are all that the client sent.
    """

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.h2 = H2Connection(
            H2Configuration(client_side=False, header_encoding="utf-8", validate_outbound_headers=False)
        )
        self.events: list[Any] = []
        self.headers: dict[str, str] = {}
        self.message = b""
        self.stream = -1
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data:
            self.caller.says(data)

    def read(self) -> bool:
        """The next bytes of the client; False at its end."""
        data = self.caller.link.recv(1 << 16)
        if not data:
            return False
        self.events += self.h2.receive_data(data)
        self.flush()
        return True

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def listen(self) -> bool:
        """Wait for the whole next call; False if the client has left."""
        self.stream = STREAM if self.stream < 0 else self.stream + 2
        while not self._of_call(StreamEnded):
            if not self.read():
                return False
        self.headers = dict(self._of_call(RequestReceived)[0].headers)
        received = b"".join(event.data for event in self._of_call(DataReceived))
        self.message = received[5:]
        if received:
            self.h2.increment_flow_control_window(len(received))  # of the connection
            self.flush()
        return True

    def _of_call(self, kind: type) -> list[Any]:
        return [event for event in self.of(kind) if event.stream_id == self.stream]

    def head(self, *more: tuple[str, str], ended: bool = False) -> Self:
        return self.headed((*HEAD, *more), ended=ended)

    def headed(self, headers: tuple[tuple[str, str], ...], *, ended: bool = True) -> Self:
        """Any block of headers."""
        self.h2.send_headers(self.stream, headers, end_stream=ended)
        self.flush()
        return self

    def data(self, data: bytes, *, ended: bool = False, frame: int = FRAME) -> Self:
        """Bytes of messages in frames, each as soon as the client's windows allow."""
        while data:
            while (room := min(self.h2.local_flow_control_window(self.stream), frame)) <= 0:
                if not self.read():
                    return self
            part, data = data[:room], data[room:]
            self.h2.send_data(self.stream, part, end_stream=ended and not data)
            self.flush()
        return self

    def trailers(self, code: str = "0", *more: tuple[str, str]) -> Self:
        return self.headed((("grpc-status", code), *more))

    def goaway(self, last: int = STREAM, code: ErrorCodes = ErrorCodes.NO_ERROR) -> Self:
        """By its bytes: h2 would let nothing follow."""
        payload = struct.pack(">II", last, code)
        return self.says(len(payload).to_bytes(3) + b"\7\0" + bytes(4) + payload)

    def says(self, data: bytes) -> Self:
        """Any bytes."""
        self.caller.says(data)
        return self

    def hang_up(self) -> Self:
        self.caller.link.shutdown(socket.SHUT_RDWR)
        return self

    def reset(self, code: ErrorCodes) -> Self:
        self.h2.reset_stream(self.stream, code)
        self.flush()
        return self

    def linger(self) -> None:
        """Read until the client closes."""
        while self.read():
            pass


def talk(answer: Answer) -> Conversation:
    """Hear a call and answer it, and so on until the client closes."""

    def conversation(caller: Caller) -> None:
        here = GrpcCaller(caller)
        while here.listen():
            answer(here)

    return conversation


def fine(message: bytes) -> Answer:
    """The answer of a server that does as it should."""

    return lambda here: here.head().data(prefixed(message)).trailers()


def serving(path: Path, answers: Mapping[str, bytes]) -> RawServer:
    """A server that answers each method with its bytes, and others with UNIMPLEMENTED."""

    def answer(here: GrpcCaller) -> None:
        found = answers.get(here.headers[":path"])
        if found is None:
            here.head(("grpc-status", "12"), ("grpc-message", "unknown method"), ended=True)
        else:
            fine(found)(here)

    return RawServer(talk(answer), path=path)
