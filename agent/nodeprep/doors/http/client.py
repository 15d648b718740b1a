"""The HTTP client for one server: it keeps a connection, and each request has one absolute deadline.

No redirect is followed, no proxy of the environment is asked, no body is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from threading import Lock
from typing import TYPE_CHECKING

from nodeprep.doors.http import connection as http_connection
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Why

if TYPE_CHECKING:
    from nodeprep.doors.http.exchange import HttpConnection, Response

IDLE_CONNECTIONS = 1  # connections that are kept: one thread asks one thing at a time
REPEATABLE = ("GET", "HEAD")  # methods that change nothing


class HttpClient:
    """Requests to one endpoint. Any thread may ask. With `keep_alive`, one connection may carry several requests.

    A server has `connect_seconds` for each step of a connection (see `connect`), and may be silent for
    `silence_seconds`. The deadline of a request ends both.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_seconds: float = inf,
        silence_seconds: float = inf,
        keep_alive: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._connect_seconds, self._silence_seconds = connect_seconds, silence_seconds
        self._keep_alive = keep_alive
        self._idle: list[HttpConnection] = []
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        """Close the idle connections. A connection in use is closed when its answer has been read."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        until: float,
        silence_seconds: float | None = None,
    ) -> Response:
        """Send a request and read the head of its answer. The caller reads the body, also before `until`.

        `until` is a moment of CLOCK_BOOTTIME. A server may close an idle connection just when it is used again. If no
        byte of an answer came then, a request that changes nothing is sent once more, on a new connection.

        Raises:
            HttpFailure: there is no answer. If `connected`, the server may have done what was asked or not.
        """
        from nodeprep.doors.http import exchange
        from nodeprep.doors.http.exchange import HttpConnection, Response

        endpoint = self._endpoint
        asked = {"Host": endpoint.authority, **({} if self._keep_alive else {"Connection": "close"}), **headers}
        whole_url = endpoint.proxy is not None and endpoint.tls is None
        target = f"http://{endpoint.authority}{path}" if whole_url else path
        request = exchange.request_of(method, target, asked, body)
        silence = self._silence_seconds if silence_seconds is None else silence_seconds
        kept = self._kept()
        if kept is not None:
            response = Response(kept, until, silence, self._release)
            try:
                return response.started(request, body)
            except HttpFailure as failure:
                if method not in REPEATABLE or response.heard or failure.kind is Why.TIMEOUT:
                    raise
        connection = HttpConnection(http_connection.connect(endpoint, until, self._connect_seconds))
        return Response(connection, until, silence, self._release).started(request, body)

    def _kept(self) -> HttpConnection | None:
        """An idle connection on which the server still listens."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()

    def _release(self, connection: HttpConnection) -> None:
        """Keep a connection whose answer has been read, or close it."""
        with self._lock:
            if connection.is_ready() and not self._closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()
