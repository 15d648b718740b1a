"""HTTP to one API server over one connection: no retry, no redirect, no proxy of the environment, and one deadline."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeprep.doors.kube import connection as kube_connection
from nodeprep.doors.kube.connection import Broken, Deadline, Peer
from nodeprep.model import Why

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

__all__ = ["ApiResponse", "Broken", "Peer", "Wire"]

CONNECT, READ = 1.0, 2.0  # seconds, for one connection (its TLS included) and for one silence
BODY_LIMIT_BYTES = (
    8 << 20
)  # bytes of one answer: twice a list of 250 pods, the most that a node may run, of 15 KiB each
LONGEST_LINE = 4 << 20  # bytes of one event of a watch: etcd takes objects of 1.5 MiB
WORDS = 200  # characters of what a library says
MOST_WAIT = 300.0  # seconds that a server may have us wait, whatever it says


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """`date` is the header of that name. `body` is one byte too long where it is cut off.

    `retry_after` are the seconds that the server wants to be left alone for, 0.0 where it does not say.
    """

    status: int
    date: str | None
    body: bytes
    retry_after: float = 0.0


class Wire:
    """Requests to one peer, all within `seconds`; `connect` of them for a connection, `read` for one silence.

    Raises OSError where the peer's files cannot be used, ValueError for a URL that is none.
    """

    def __init__(self, peer: Peer, seconds: float, connect: float = CONNECT, read: float = READ) -> None:
        self._url = peer.url
        self._connect, self._read = connect, read
        context = peer.context()  # before anything is open that would have to be closed
        self._deadline = Deadline(seconds)
        self._answered = False
        self._pool = kube_connection.pool(peer, context, self._deadline)

    def close(self) -> None:
        self._pool.clear()
        self._deadline.close()

    def get(self, path: str, headers: Mapping[str, str]) -> ApiResponse:
        """Raises Broken."""
        return self.request("GET", path, headers)

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> ApiResponse:
        """The answer, whole. Raises Broken: what was asked to be written may have been written or not."""
        from urllib3.exceptions import HTTPError

        try:
            response = self._sent(method, path, headers, body)
            told = response.read(BODY_LIMIT_BYTES + 1, decode_content=False)
            if len(told) > BODY_LIMIT_BYTES:
                response.close()
        except (HTTPError, OSError, ValueError) as error:
            raise self._broken(error) from error
        if self._deadline.left() <= 0:  # what was cut may look like an answer that ends
            raise self._late()
        if len(told) <= BODY_LIMIT_BYTES and response.length_remaining:
            raise Broken(Why.IO_ERROR, "the connection ended in the middle of an answer", None, lost=False)
        self._answered = True
        said = response.headers
        return ApiResponse(response.status, said.get("Date"), told, _seconds(said.get("Retry-After")))

    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The lines of an answer as they come, to its end or the deadline's; of another status than 200, none.

        Raises Broken.
        """
        from urllib3.exceptions import HTTPError

        try:
            response = self._sent("GET", path, headers, None, silence=self._deadline.left())
            if response.status != 200:
                response.close()
                raise Broken(Why.IO_ERROR, f"HTTP {response.status}", None, lost=False)
            self._answered = True
            rest = b""
            while chunk := response.read1(decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise Broken(Why.MALFORMED, f"a line of more than {LONGEST_LINE >> 20} MiB", None, lost=False)
                yield from lines
        except (HTTPError, OSError, ValueError) as error:
            raise self._broken(error) from error

    def _sent(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, silence: float | None = None
    ) -> BaseHTTPResponse:
        from urllib3 import Timeout

        left = self._deadline.left()
        if left <= 0:
            raise self._late()
        return self._pool.request(
            method,
            self._url + path,
            headers=headers,
            body=body,
            timeout=Timeout(connect=min(self._connect, left), read=min(silence or self._read, left)),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _late(self) -> Broken:
        return Broken(Why.TIMEOUT, f"no answer in {self._deadline.seconds:g} s", None, lost=not self._answered)

    def _broken(self, error: Exception) -> Broken:
        """A server that never answered is not asked a second time; one that did may only be slow with this answer."""
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError

        if self._deadline.left() <= 0:
            return self._late()
        if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
            return Broken(Why.TIMEOUT, f"no connection in {self._connect:g} s", None, lost=True)
        if isinstance(error, ReadTimeoutError):
            silence = self._read if self._answered else self._connect
            return Broken(Why.TIMEOUT, f"silent for {silence:g} s or more", None, lost=not self._answered)
        cause = _innermost(error)
        number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
        lost = isinstance(error, NewConnectionError) or not self._answered
        return Broken(Why.IO_ERROR, _words(cause), number, lost=lost)


def _seconds(value: str | None) -> float:
    """`Retry-After` in seconds, bounded; 0.0 for a date, which no API server sends."""
    told = value or ""
    return min(float(told), MOST_WAIT) if told.isascii() and told.isdigit() and len(told) <= 9 else 0.0


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
