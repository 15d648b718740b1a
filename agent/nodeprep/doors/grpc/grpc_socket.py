"""A unix socket with a gRPC server behind it, and what became of calls to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from nodeprep.doors import clock, processor
from nodeprep.doors.files.reader import DENIED, GONE_ERRNOS
from nodeprep.doors.grpc.status import GrpcFailure
from nodeprep.doors.http import connection as http_connection
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint, Transport
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace


class GrpcSocket:
    """The server at a unix socket. Any thread may call it, and each call has a connection of its own.

    `path` is the node's name of the socket, for people. `place` says where it lies on this machine now.
    """

    def __init__(self, path: str, place: Callable[[], str]) -> None:
        self.path, self._place = path, place
        self._late: tuple[float, Unreadable] | None = None

    def call(
        self, method: str, request: bytes, *, deadline: float, limit: int, rest: float = 0.0
    ) -> bytes | Unreadable:
        """The message that answers a request, or why there is none. Nothing is raised.

        `deadline` is for connecting and the whole exchange, in seconds. `limit` is the most bytes of the answer. After
        a call that had no answer in time, the server is not asked again for `rest` seconds since that call began: a
        server that hangs costs one deadline in that time. The calls between have the answer of the first.

        Its kind is MISSING where there is no such socket (errno ENOENT) and where the server does not know the method
        (no errno), DENIED, TIMEOUT, BUSY if we had no processor ourselves, MALFORMED for what is not gRPC, else
        IO_ERROR (a socket that nobody listens on: ECONNREFUSED).
        """
        began = clock.now()
        late = self._late
        if late is not None and began < late[0]:
            return late[1]
        moment = processor.moment()
        try:
            return self._asked(method, request, began + deadline, limit)
        except TimeoutError:
            failed = Unreadable(Why.TIMEOUT, self.path, detail=f"{method}: no answer in {deadline:g} s")
        except GrpcFailure as failure:
            return Unreadable(failure.kind, self.path, failure.errno, f"{method}: {failure.detail}")
        except HttpFailure as failure:
            failed = _refused(self.path, failure.kind, failure.errno, failure.detail)
        except OSError as error:
            failed = _refused(self.path, Why.IO_ERROR, error.errno, error.strerror or str(error))
        if failed.kind is not Why.TIMEOUT:
            return failed
        failed = replace(failed, kind=processor.silence(moment, deadline))
        if failed.kind is Why.TIMEOUT:
            self._late = began + rest, failed
        return failed

    def _asked(self, method: str, request: bytes, until: float, limit: int) -> bytes:
        link = self._connected(until)
        try:
            from nodeprep.doors.grpc import unary  # h2: 12 ms, and only where somebody answers

            return unary.call(link, method, request, until=until, limit=limit)
        finally:
            link.close()

    def _connected(self, until: float) -> Transport:
        """Connect through the directory: an address has 107 bytes (unix(7)), and a mounted root makes it long."""
        head, _, name = self._place().rpartition("/")
        directory = os.open(head or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            endpoint = Endpoint("localhost", 0, socket_path=f"/proc/self/fd/{directory}/{name}")
            return http_connection.connect(endpoint, until, until - clock.now())
        finally:
            os.close(directory)


def _refused(path: str, kind: Why, code: int | None, detail: str) -> Unreadable:
    if code in DENIED:
        return Unreadable(Why.DENIED, path, code, detail)
    if code in GONE_ERRNOS:
        return Unreadable(Why.MISSING, path, errno.ENOENT, "no such socket")
    return Unreadable(kind, path, code, detail)
