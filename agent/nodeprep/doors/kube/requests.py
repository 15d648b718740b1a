"""HTTP to one API server over one connection: no redirect, no proxy of the environment, and one deadline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from nodeprep.doors import clock
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import BodyTooLarge, HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Why
from nodeprep.newer_python import UTC
from nodeprep.pattern import Pattern
from nodeprep.values import Value, redacted

if TYPE_CHECKING:
    import ssl

CONNECT, READ = 1.0, 2.0  # seconds, for each step of one connection (its TLS included) and for one silence
BODY_LIMIT_BYTES = 8 << 20  # of one answer: twice a list of 250 pods (the most on one node) of 15 KiB each
LONGEST_LINE = 4 << 20  # bytes of one event of a watch: etcd accepts objects of 1.5 MiB
WORDS = 200  # characters of a library's message
MOST_WAIT = 300.0  # seconds; a server may not let us wait longer
PORTS = {"https": 443, "http": 80}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DATE = Pattern(r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT", re.ASCII)


class Peer(Value):
    """A server by its URL. `authority`, `certificate` and `key` are files.

    Without `authority` the system's authorities count. `pem` is a certificate with its key, instead of files. The
    server's certificate must name `server_name`, or else the host of `url`.
    """

    url: str
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    pem: str = ""

    def __repr__(self) -> str:
        return redacted(self, "pem")

    def endpoint(self) -> Endpoint:
        """Where requests go. Raises ValueError for an invalid URL.

        Raises OSError for a file that is missing or invalid (SSLError).
        """
        parts = _parts(self.url)
        proxy = None if not self.proxy else _proxy(self.proxy)
        return Endpoint(
            parts.hostname or "",
            parts.port or PORTS[parts.scheme],
            tls=self._context() if parts.scheme == "https" else None,
            server_name=self.server_name or "",
            proxy=proxy,
        )

    @property
    def path(self) -> str:
        """What paths begin with, "" or as that of a server behind another. Raises ValueError for an invalid URL."""
        return _parts(self.url).path.rstrip("/")

    def _context(self) -> ssl.SSLContext:
        from nodeprep.doors.http import tls as http_tls

        return http_tls.client_context(self.authority, self.certificate, self.key, self.pem, verify=self.verify)


class ApiResponse(Value):
    """`date` is the server's clock in seconds since 1970, None where it does not say.

    `body` is None where it has more than BODY_LIMIT_BYTES. `retry_after` is how many seconds we shall wait
    before the next request, 0.0 if it does not say.
    """

    status: int
    date: float | None
    body: bytes | None
    retry_after: float = 0.0


class Broken(Exception):
    """Why there is no answer. `lost` is whether the server itself cannot be reached: then it is not asked again."""

    def __init__(self, kind: Why, detail: str, errno: int | None, *, lost: bool) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errno, self.lost = kind, detail, errno, lost


class Wire:
    """Requests to one peer, all within `seconds`. Each step of a connection has `connect` seconds, a silence `read`.

    Raises OSError if the peer's files cannot be used, and ValueError for an invalid URL.
    """

    def __init__(self, peer: Peer, seconds: float, connect: float = CONNECT, read: float = READ) -> None:
        self._root = peer.path
        self._seconds, self._until = seconds, clock.now() + seconds
        self._answered = False
        self._client = HttpClient(peer.endpoint(), connect_seconds=connect, silence_seconds=read)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, headers: Mapping[str, str]) -> ApiResponse:
        """Raises Broken."""
        return self.request("GET", path, headers)

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> ApiResponse:
        """The complete answer. Raises Broken: a write may have been done or not."""
        try:
            with self._client.send(method, self._root + path, headers, body or b"", until=self._until) as response:
                try:
                    whole: bytes | None = response.read(BODY_LIMIT_BYTES)
                except BodyTooLarge:
                    whole = None
        except HttpFailure as failure:
            raise self._broken(failure) from failure
        self._answered = True
        date, wait = http_date(response.header("Date") or ""), _seconds(response.header("Retry-After"))
        return ApiResponse(response.status, date, whole, wait)

    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The lines of an answer as they come, to its end.

        Raises Broken, also for another status than 200 and at the deadline.
        """
        until = self._until
        try:
            with self._client.send(
                "GET", self._root + path, headers, until=until, silence_seconds=self._seconds
            ) as response:
                if response.status != 200:
                    raise Broken(Why.IO_ERROR, f"HTTP {response.status}", None, lost=False)
                self._answered = True
                rest = b""
                for piece in response.pieces():
                    *lines, rest = (rest + piece).split(b"\n")
                    if len(rest) > LONGEST_LINE:
                        raise Broken(Why.MALFORMED, f"a line of more than {LONGEST_LINE >> 20} MiB", None, lost=False)
                    yield from lines
        except HttpFailure as failure:
            raise self._broken(failure) from failure

    def _broken(self, failure: HttpFailure) -> Broken:
        """What to report. A server that never answered is `lost`. One that has answered may only be slow this time."""
        if clock.now() >= self._until:
            return Broken(Why.TIMEOUT, f"no answer in {self._seconds:g} s", None, lost=not self._answered)
        # A server that restarts may send something that is not HTTP. MALFORMED is only for complete answers.
        kind = Why.TIMEOUT if failure.kind is Why.TIMEOUT else Why.IO_ERROR
        lost = not (failure.connected and self._answered)
        return Broken(kind, failure.detail[:WORDS], failure.errno, lost=lost)


def _parts(url: str) -> SplitResult:
    """A URL of http or https. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or parts.port == 0:
        raise ValueError(f"{url[:WORDS]!r} is no URL of https or http")
    return parts


def _proxy(url: str) -> Endpoint:
    """A proxy. The system's authorities verify one of https. Raises ValueError for another scheme."""
    parts = _parts(url if "://" in url else f"http://{url}")
    if parts.scheme == "http":
        return Endpoint(parts.hostname or "", parts.port or PORTS[parts.scheme])
    from nodeprep.doors.http import tls as http_tls

    return Endpoint(parts.hostname or "", parts.port or PORTS[parts.scheme], tls=http_tls.client_context())


def _seconds(value: str | None) -> float:
    """`Retry-After` in seconds, at most MOST_WAIT; 0.0 for a date, which no API server sends."""
    told = value or ""
    return min(float(told), MOST_WAIT) if told.isascii() and told.isdigit() and len(told) <= 9 else 0.0


def http_date(value: str) -> float | None:
    """Seconds since 1970 of a date as servers must send it (IMF-fixdate, RFC 9110, 5.6.7); None for anything else."""
    found = DATE.fullmatch(value)
    if found is None or found[2] not in MONTHS:
        return None
    day, year, hour, minute, second = (int(found[group]) for group in (1, 3, 4, 5, 6))
    try:
        return datetime(year, MONTHS.index(found[2]) + 1, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except ValueError:
        return None
