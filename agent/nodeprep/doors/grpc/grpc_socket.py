"""A unix socket with a gRPC server behind it, and what became of calls to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from nodeprep.doors import clock, processor
from nodeprep.doors.files.reader import DENIED, GONE_ERRNOS
from nodeprep.doors.grpc.status import GrpcFailure
from nodeprep.doors.http import connection as http_connection
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint, Transport
from nodeprep.model import Unreadable, Why
from nodeprep.values import replace

if TYPE_CHECKING:
    from nodeprep.doors.grpc.unary import Session

Made = tuple[int, int, int] | None  # device, inode and change time of a socket; None where it cannot be asked


class GrpcSocket:
    """The server at a unix socket. Any thread may call it.

    A connection is kept for the next call, as long as the socket at the path is the same: that halves what a call
    costs. Of calls at the same time each has a connection of its own. `path` is the node's name of the socket, for
    people. `place` says where it lies on this machine now.
    """

    def __init__(self, path: str, place: Callable[[], str]) -> None:
        self.path, self._place = path, place
        self._late: tuple[float, Unreadable] | None = None
        self._kept: tuple[Made, Session] | None = None

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
        """The answer on the kept connection, or on a new one where that has ended since its last call."""
        made = self._made()
        kept, self._kept = self._kept, None  # of this thread alone, while it calls
        if kept is not None and kept[0] == made and kept[1].is_alive():
            try:
                return self._keeping(kept, kept[1].call(method, request, until=until, limit=limit))
            except TimeoutError:
                raise
            except (GrpcFailure, OSError):
                if kept[1].was_heard:
                    raise
        kept = None
        link = self._connected(until)
        from nodeprep.doors.grpc.unary import Session  # h2: 12 ms, and only where somebody answers

        session = Session(link)
        return self._keeping((made, session), session.call(method, request, until=until, limit=limit))

    def _keeping(self, kept: tuple[Made, Session], answer: bytes) -> bytes:
        if kept[1].may_go_on:
            self._kept = kept
        return answer

    def _made(self) -> Made:
        """Which socket lies at the path now: a server that starts again makes another."""
        try:
            found = os.stat(self._place())
        except OSError:
            return None  # connecting tells why
        return found.st_dev, found.st_ino, found.st_ctime_ns

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
