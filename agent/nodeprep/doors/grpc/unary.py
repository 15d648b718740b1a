"""Unary gRPC calls on a connection, one after the other: a request, and the one message that answers it.

The document "gRPC over HTTP2" of grpc/grpc, and RFC 9113.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

from nodeprep.doors import clock
from nodeprep.doors.grpc import status
from nodeprep.doors.grpc.status import GrpcFailure
from nodeprep.doors.http.transport import Transport
from nodeprep.model import Why

PREFIX = struct.Struct(">BI")  # of a message: whether it is compressed, and its bytes
FRAME_HEAD_BYTES, FRAME_BYTES = 9, 1 << 14  # RFC 9113, 4.1 and 4.2: the most that a peer may send unasked
SERVER_SECONDS = 1.0  # after our end, the one that the server is told: then grpc-go resets the stream, as for a fault
GOAWAY = 7  # the type of the frame
GOAWAY_WORDS = struct.Struct(">II")  # the last stream that is served, and an error
HEADERS_BYTES = 1 << 14  # of one block; gRPC's own limit is 8 KiB
ANNOUNCED = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.MAX_HEADER_LIST_SIZE: HEADERS_BYTES}
CONTENT_TYPE = "application/grpc"
NO_HTTP2 = b"HTTP/1"
CALLS = 256  # on one connection: h2 remembers each stream that ended, up to 65,536 of them in 10 MiB
Headers = Mapping[str, bytes]


class Session:
    """A connection to a gRPC server, with one call at a time. Who drops the session closes the connection."""

    def __init__(self, link: Transport) -> None:
        self._link = link
        self._exchange = Exchange()
        self._calls = 0
        self._whole = True  # whether the last call had its answer
        weakref.finalize(self, link.close)

    @property
    def may_go_on(self) -> bool:
        """Whether another call can use this connection."""
        return self._whole and self._exchange.is_open and self._calls < CALLS

    def is_alive(self) -> bool:
        """Whether the server has kept its end open since the last call, by what it sent meanwhile."""
        try:
            data = self._link.pending()
            self._exchange.take(data or b"")  # also what came behind the last answer
        except (GrpcFailure, OSError):
            return False
        return data != b"" and self._exchange.is_open

    @property
    def was_heard(self) -> bool:
        """Whether the server began to answer the last call."""
        return self._exchange.answers

    def call(self, method: str, request: bytes, *, until: float, limit: int) -> bytes:
        """Send a request and return the message that answers it.

        `method` is "/package.Service/Method". `until` is a moment of CLOCK_BOOTTIME, by which everything has been sent
        and read. The answer has at most `limit` bytes.

        Raises:
            GrpcFailure: there is no answer, or not the one that was asked for.
            OSError: the connection broke; TimeoutError at the deadline.
        """
        self._calls, self._whole = self._calls + 1, False
        exchange = self._exchange
        exchange.begin(method, request, until, limit)
        while not exchange.ended:
            exchange.send(self._link, until)
            data = self._link.receive(until)
            if not data:
                raise exchange.cut()
            exchange.take(data)
        message = exchange.message()
        self._whole = True
        return message


class Exchange:
    """Both ends of the streams of a connection, one after the other, without I/O but `send`.

    GOAWAY is read here: h2 would refuse the rest of an answer that a server still gives before it goes away.
    """

    def __init__(self) -> None:
        self._connection = H2Connection(
            H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)
        )
        self._connection.local_settings = Settings(client=True, initial_values=ANNOUNCED)
        self._connection.decoder.max_header_list_size = HEADERS_BYTES
        self._connection.initiate_connection()
        self._incoming = b""
        self._deaf = False
        self._going = ""
        self._await(0, 0)

    def _await(self, stream: int, limit: int) -> None:
        self.ended = False
        self._stream, self._limit = stream, limit
        self._unsent = b""
        self._body = bytearray()
        self._headers: Headers = {}
        self._trailers: Headers | None = None

    @property
    def answers(self) -> bool:
        """Whether an answer to this call has begun."""
        return bool(self._headers)

    @property
    def is_open(self) -> bool:
        """Whether another stream may follow this one."""
        return self.ended and not (self._unsent or self._deaf or self._going)

    def begin(self, method: str, request: bytes, until: float, limit: int) -> None:
        """The call on the next stream, with an answer of at most `limit` bytes."""
        milliseconds = max(1, int((until + SERVER_SECONDS - clock.now()) * 1e3))
        headers = (
            *((":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")),
            *(("te", "trailers"), ("content-type", CONTENT_TYPE), ("grpc-timeout", f"{min(milliseconds, 99999999)}m")),
            ("user-agent", "nodeprep"),
        )
        self._await(self._connection.get_next_available_stream_id(), limit)
        self._connection.send_headers(self._stream, headers)
        self._unsent = PREFIX.pack(0, len(request)) + request
        self._push()

    def _push(self) -> None:
        """Queue as much of the request as the server's windows allow."""
        connection = self._connection
        while self._unsent:
            room = min(connection.local_flow_control_window(self._stream), connection.max_outbound_frame_size)
            if room <= 0:
                return
            part, self._unsent = self._unsent[:room], self._unsent[room:]
            connection.send_data(self._stream, part, end_stream=not self._unsent)

    def send(self, link: Transport, until: float) -> None:
        """Send what is due. A server that has answered and closed is still read. Raises TimeoutError."""
        data = self._connection.data_to_send()
        if not data or self._deaf:
            return
        try:
            link.send(data, until)
        except TimeoutError:
            raise
        except OSError:
            self._deaf = True

    def take(self, data: bytes) -> None:
        """What the server sent next. Raises GrpcFailure."""
        try:
            for frame in self._frames(data):
                for event in self._connection.receive_data(frame):
                    self._handle(event)
                if self.ended:
                    return
            self._push()
        except H2Error as error:
            raise status.malformed(f"breaks HTTP/2: {type(error).__name__}: {str(error)[:120]}") from error

    def _frames(self, data: bytes) -> Iterator[bytes]:
        """The whole frames that have come, without GOAWAY."""
        self._incoming += data
        if NO_HTTP2.startswith(self._incoming[: len(NO_HTTP2)]) and self._incoming:
            if len(self._incoming) >= len(NO_HTTP2):
                raise status.malformed("answers HTTP/1, which is not gRPC")
            return
        at = 0
        try:
            while len(self._incoming) - at >= FRAME_HEAD_BYTES:
                size = int.from_bytes(self._incoming[at : at + 3])
                if size > FRAME_BYTES:
                    raise status.malformed(f"sends a frame of {size} bytes, where {FRAME_BYTES} is the most")
                end = at + FRAME_HEAD_BYTES + size
                if len(self._incoming) < end:
                    return
                frame = self._incoming[at:end]
                at = end
                if frame[3] == GOAWAY:
                    self._going_away(frame[FRAME_HEAD_BYTES:])
                else:
                    yield frame
        finally:  # what follows an answer is for the next call
            self._incoming = self._incoming[at:]

    def _going_away(self, payload: bytes) -> None:
        """A server that serves this stream may still answer. Raises GrpcFailure if it does not serve it."""
        if len(payload) < GOAWAY_WORDS.size:
            raise status.malformed("sends a GOAWAY that is cut")
        last, code = GOAWAY_WORDS.unpack_from(payload)
        self._going = f"GOAWAY {_error(code)}"
        if last & 0x7FFFFFFF < self._stream:
            raise GrpcFailure(Why.IO_ERROR, f"{self._going}: it did not serve the call")

    def _handle(self, event: Any) -> None:
        if getattr(event, "stream_id", self._stream) != self._stream:
            return  # of the connection, or of a call before
        match event:
            case ResponseReceived():
                self._headers = _mapping(event.headers)
                self._check_head(ended=event.stream_ended is not None)
            case DataReceived():
                self._connection.acknowledge_received_data(event.flow_controlled_length, self._stream)
                self._body += event.data
                self._check_size()
            case TrailersReceived():
                self._trailers = _mapping(event.headers)
            case StreamEnded():
                self.ended = True
            case StreamReset():
                raise GrpcFailure(Why.IO_ERROR, f"RST_STREAM {_error(event.error_code)}")

    def _check_head(self, *, ended: bool) -> None:
        code = self._headers.get(":status", b"").decode("latin-1")
        if code != "200":
            raise status.no_grpc(code)
        kind = self._headers.get("content-type", b"").decode("latin-1")
        if kind != CONTENT_TYPE and not kind.startswith((f"{CONTENT_TYPE}+", f"{CONTENT_TYPE};")):
            raise status.malformed(f"answers {kind[:40]!r}, which is not {CONTENT_TYPE}")
        if ended:  # "trailers only"
            self._trailers = self._headers

    def _check_size(self) -> None:
        """Refuse a message that is too large as soon as it says so."""
        stated = PREFIX.unpack_from(self._body)[1] if len(self._body) >= PREFIX.size else 0
        if max(stated, len(self._body) - PREFIX.size) > self._limit:
            raise status.malformed(f"answers more than {self._limit} bytes")

    def message(self) -> bytes:
        """The message, after the end of the stream. Raises GrpcFailure where there is none."""
        if self._trailers is None or "grpc-status" not in self._trailers:
            raise status.malformed("ended its answer without a grpc-status")
        code = self._trailers["grpc-status"].decode("latin-1")
        if code != "0":
            raise status.refused(code, self._trailers.get("grpc-message", b""))
        if len(self._body) < PREFIX.size:
            raise status.malformed(f"says OK with {len(self._body)} bytes, which are no message")
        compressed, stated = PREFIX.unpack_from(self._body)
        if compressed:
            raise status.malformed("compressed its answer, which nobody asked for")
        if stated != len(self._body) - PREFIX.size:
            raise status.malformed(f"sent {len(self._body) - PREFIX.size} bytes, and said {stated}")
        return bytes(self._body[PREFIX.size :])

    def cut(self) -> GrpcFailure:
        """Why the connection ended before the answer did."""
        if self._going:
            return GrpcFailure(Why.IO_ERROR, f"{self._going}, and closed before its answer was whole")
        whole = "in the middle of its answer" if self._headers else "without an answer"
        return GrpcFailure(Why.IO_ERROR, f"closed the connection {whole}")


def _mapping(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return {name.decode("latin-1"): value for name, value in headers}


def _error(code: int | ErrorCodes) -> str:
    """The name of an error of HTTP/2."""
    try:
        return ErrorCodes(code).name
    except ValueError:
        return f"{int(code):#x}"
