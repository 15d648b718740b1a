"""One request and its answer on a connection, with h11."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any

import h11

from nodeprep.doors import clock
from nodeprep.doors.http import failure
from nodeprep.doors.http.failure import BodyTooLarge, HttpFailure
from nodeprep.doors.http.transport import Endpoint, Transport
from nodeprep.model import Why

if TYPE_CHECKING:
    from typing import Self

HEAD_BYTES = 16 << 10  # of the headers of an answer or a chunk: the default of h11; an API server sends 1 KB
HEADERS_COUNT = 100  # of one answer; http.client has the same limit
INTERIM_COUNT = 8  # 1xx answers before the final one; a server sends one or two
TOO_MUCH_HEAD = f"more than {HEAD_BYTES} bytes of headers"
TOO_MUCH_HEAD_HINT = 431  # h11 says it by the status that a server would answer (RFC 6585)
BEGIN = b"HTTP/"  # how every answer begins
WORDS = 200  # characters of the parser's message, which quotes the server
WITH_BODY = ("POST", "PUT", "PATCH")  # methods whose requests state a length, even 0 (RFC 9110, 8.6)


def request_of(method: str, target: str, headers: Mapping[str, str], body: bytes) -> h11.Request:
    """The head of a request.

    Raises HttpFailure for a character that HTTP does not allow. It never quotes the text, which may be a secret.
    """
    if body or method in WITH_BODY:
        headers = {**headers, "Content-Length": str(len(body))}
    try:
        return h11.Request(method=method, target=target, headers=list(headers.items()))
    except (h11.LocalProtocolError, UnicodeError):
        detail = "the path or a header of the request holds a character that HTTP does not allow"
        raise HttpFailure(Why.IO_ERROR, detail, connected=False) from None


class HttpConnection:
    """A connection with the state of both its ends. `unsent` is why a request could not be sent completely."""

    def __init__(self, link: Transport) -> None:
        self.link = link
        self.parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self.unsent: OSError | None = None

    def close(self) -> None:
        self.link.close()

    def is_stale(self) -> bool:
        """Whether the server has closed it, or sent something that nobody asked for."""
        try:
            return self.link.pending() is not None
        except OSError:
            return True

    def is_ready(self) -> bool:
        """Whether the exchange has ended and another one may follow. If so, the next one can begin."""
        done = self.parser.our_state is h11.DONE and self.parser.their_state is h11.DONE
        if not (done and self.unsent is None and self.parser.trailing_data == (b"", False)):
            return False
        self.parser.start_next_cycle()
        return True

    def send(self, request: h11.Request, body: bytes, until: float) -> None:
        """Send the whole request. Raises OSError, TimeoutError among them."""
        events = (request, h11.Data(data=body), h11.EndOfMessage()) if body else (request, h11.EndOfMessage())
        data = b"".join(self.parser.send(event) or b"" for event in events)
        try:
            self.link.send(data, until)
        except (BrokenPipeError, ConnectionResetError) as error:
            # A server may answer or send a TLS alert before it has read everything, and then close.
            self.unsent = error


class Response:
    """An answer whose body is still unread. Use it as a context manager.

    A wait for the server raises HttpFailure after `silence_seconds` without a byte, and at `until`, the deadline of the
    request. `release` gets the connection after the end of the body.
    """

    def __init__(
        self,
        connection: HttpConnection,
        until: float,
        silence_seconds: float = inf,
        release: Callable[[HttpConnection], None] = HttpConnection.close,
    ) -> None:
        self._connection = connection
        self._begun, self._until, self._silence = clock.now(), until, silence_seconds
        self._release: Callable[[HttpConnection], None] | None = release
        self.status = 0
        self._begin = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def heard(self) -> bool:
        """Whether a byte of the answer came."""
        return bool(self._begin)

    def close(self) -> None:
        """Close the connection, unless the answer has been read to its end."""
        if self._release is not None:
            self._release = None
            self._connection.close()

    def started(self, request: h11.Request, body: bytes) -> Self:
        """Send the request and read the head of the final answer. On HttpFailure the connection is closed."""
        try:
            self._connection.send(request, body, self._wait_end())
            self._read_head()
        except TimeoutError:
            self.close()
            raise self._late() from None
        except OSError as error:
            self.close()
            raise failure.refused(error) from error
        except HttpFailure:
            self.close()
            raise
        return self

    def _read_head(self) -> None:
        for _ in range(INTERIM_COUNT + 1):
            head = self._event()
            if isinstance(head, h11.Response):
                self.status, self._headers = head.status_code, list(head.headers)
                self._check_head()
                return
        raise HttpFailure(Why.MALFORMED, f"more than {INTERIM_COUNT} interim answers (HTTP 1xx)")

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self._headers if key == wanted), None)

    def read(self, limit: int) -> bytes:
        """The whole body. Raises BodyTooLarge if it has more than `limit` bytes, and HttpFailure."""
        if int(self.header("Content-Length") or 0) > limit:
            raise BodyTooLarge(limit)
        body = bytearray()
        for piece in self.pieces():
            body += piece
            if len(body) > limit:
                raise BodyTooLarge(limit)
        return bytes(body)

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, to its end. Raises HttpFailure."""
        while isinstance(event := self._event(), h11.Data):
            yield bytes(event.data)
        release, self._release = self._release, None
        if release is not None:
            release(self._connection)

    def _event(self) -> Any:
        """What the server says next. Raises HttpFailure."""
        ended = False
        try:
            while (event := self._connection.parser.next_event()) is h11.NEED_DATA:
                data = self._connection.link.receive(self._wait_end())
                self._begin = (self._begin + data)[: len(BEGIN)]
                # h11 would wait for a whole line, which another protocol may never send.
                if not BEGIN.startswith(self._begin):
                    raise HttpFailure(Why.MALFORMED, f"it begins with {data[:20]!r}, which is not HTTP")
                ended = not data
                self._connection.parser.receive_data(data)
        except h11.RemoteProtocolError as error:
            if ended and not self.heard and self._connection.unsent is not None:
                raise failure.refused(self._connection.unsent) from error
            raise HttpFailure(Why.MALFORMED, self._ended() if ended else _words(error)) from error
        except TimeoutError:
            raise self._late() from None
        except OSError as error:
            raise failure.refused(error) from error
        return event

    def _wait_end(self) -> float:
        return min(self._until, clock.now() + self._silence)

    def _late(self) -> HttpFailure:
        if clock.now() >= self._until:
            return HttpFailure(Why.TIMEOUT, f"no whole answer in {round(self._until - self._begun, 1):g} s")
        return HttpFailure(Why.TIMEOUT, f"silent for {self._silence:g} s or more")

    def _ended(self) -> str:
        if not self.heard:
            return "the connection ended without an answer"
        if not self.status:
            return "the connection ended in the middle of the answer's head"
        return "the connection ended in the middle of the answer's body"

    def _check_head(self) -> None:
        names = [name for name, _ in self._headers]
        # h11 checks the size only before it waits for more.
        if sum(len(name) + len(value) for name, value in self._headers) > HEAD_BYTES:
            raise HttpFailure(Why.MALFORMED, TOO_MUCH_HEAD)
        if len(names) > HEADERS_COUNT:
            raise HttpFailure(Why.MALFORMED, f"more than {HEADERS_COUNT} headers")
        if b"transfer-encoding" in names and b"content-length" in names:  # RFC 9112, 6.3: it may be an attack
            raise HttpFailure(Why.MALFORMED, "both Content-Length and Transfer-Encoding")


def tunnel(link: Transport, endpoint: Endpoint, until: float) -> None:
    """Let a proxy connect us to the endpoint. Raises HttpFailure. The caller closes the link."""
    where = f"{endpoint.bracketed}:{endpoint.port}"
    response = Response(HttpConnection(link), until).started(request_of("CONNECT", where, {"Host": where}, b""), b"")
    if not 200 <= response.status < 300:
        raise HttpFailure(Why.IO_ERROR, f"the proxy answers HTTP {response.status}")


def _words(error: h11.RemoteProtocolError) -> str:
    if error.error_status_hint == TOO_MUCH_HEAD_HINT:
        return TOO_MUCH_HEAD
    return str(error).replace("bytearray(b", "(b")[:WORDS]
