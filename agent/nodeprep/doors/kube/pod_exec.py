"""Runs a command in a container of a pod, with bytes on its stdin, as `kubectl exec` does: a WebSocket to the server.

The messages of `v5.channel.k8s.io` begin with a byte that says which stream they are of
(k8s.io/apimachinery/pkg/util/remotecommand). Only this version can close stdin. Servers have it since Kubernetes 1.30.
wsproto speaks the protocol without I/O, on connections of our own with one deadline (docs/adr/0026).
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import wsproto
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    Request,
)
from wsproto.utilities import ProtocolError

from nodeprep import redaction
from nodeprep.doors import clock
from nodeprep.doors.http import connection
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint, Transport
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import WORDS
from nodeprep.model import CannotLook, Unreadable, Why
from nodeprep.values import Value

PROTOCOL: Final = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
OUTPUT_LIMIT_BYTES = 16 << 20  # of both streams: a report of a large node has 1 MB
CHUNK_BYTES = 32 << 10  # of stdin in one message, as kubectl sends it


class ExecTarget(Value):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.pod}"


class ExecResult(Value):
    """What a command wrote, and its exit code."""

    code: int
    stdout: bytes
    stderr: bytes


def run(
    access: ApiAccess, target: ExecTarget, command: tuple[str, ...], stdin: bytes, seconds: float
) -> ExecResult | Unreadable:
    """The result of a command that ends within `seconds`, or why there is none."""
    until = clock.now() + seconds
    who = access.identity(seconds)
    if isinstance(who, Unreadable):
        return who
    peer, headers = who
    try:
        endpoint = peer.endpoint()
        link = connection.connect(endpoint, until, access.connect)
    except HttpFailure as failure:
        return Unreadable(failure.kind, redaction.masked(peer.url), failure.errno, failure.detail[:WORDS])
    except (OSError, ValueError) as error:
        return Unreadable(Why.IO_ERROR, redaction.masked(peer.url), getattr(error, "errno", None), str(error)[:WORDS])
    try:
        return _Session(link, until, target).run(endpoint, peer.path + _path(target, command), headers, stdin)
    except CannotLook as cannot:
        return cannot.blind
    except TimeoutError:
        return Unreadable(Why.TIMEOUT, str(target), errno.ETIMEDOUT, f"the command did not end in {seconds:g} s")
    except (OSError, ProtocolError) as error:
        return Unreadable(Why.IO_ERROR, str(target), getattr(error, "errno", None), str(error)[:WORDS])
    finally:
        link.close()


def _path(target: ExecTarget, command: tuple[str, ...]) -> str:
    place = f"/api/v1/namespaces/{quote(target.namespace, safe='')}/pods/{quote(target.pod, safe='')}/exec"
    streams = [(one, "true") for one in ("stdin", "stdout", "stderr")]
    return f"{place}?{urlencode([('container', target.container), *streams, *(('command', one) for one in command)])}"


class _Session:
    """One command over one connection."""

    def __init__(self, link: Transport, until: float, target: ExecTarget) -> None:
        self.link, self.until, self.target = link, until, target
        self.socket = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self.outputs = {STDOUT: bytearray(), STDERR: bytearray(), ERROR: bytearray()}
        self.message = bytearray()
        self.is_over = False

    def run(self, endpoint: Endpoint, path: str, headers: Mapping[str, str], stdin: bytes) -> ExecResult:
        """Raises CannotLook, OSError, TimeoutError and ProtocolError."""
        asked = [(name.lower().encode(), value.encode()) for name, value in headers.items() if name != "Accept"]
        self._send(Request(host=endpoint.authority, target=path, subprotocols=[PROTOCOL], extra_headers=asked))
        self._receive_until_accepted()
        for start in range(0, len(stdin), CHUNK_BYTES):
            self._send(Message(bytes([STDIN]) + stdin[start : start + CHUNK_BYTES]))
        self._send(Message(bytes([CLOSE, STDIN])))
        while not self.is_over:
            self._receive()
        return self._result()

    def _send(self, event: Event) -> None:
        self.link.send(self.socket.send(event), self.until)

    def _receive_until_accepted(self) -> None:
        while self.socket.state is ConnectionState.CONNECTING:
            self._receive()

    def _receive(self) -> None:
        data = self.link.receive(self.until)
        self.socket.receive_data(data or None)
        for event in self.socket.events():
            self._hear(event)
        if not data:
            self.is_over = True

    def _hear(self, event: Event) -> None:
        match event:
            case AcceptConnection() if event.subprotocol != PROTOCOL:
                detail = f"the server does not speak {PROTOCOL}; wanted Kubernetes 1.30 or later"
                raise CannotLook(Unreadable(Why.IO_ERROR, str(self.target), None, detail))
            case RejectConnection():
                raise CannotLook(self._rejected(event.status_code))
            case BytesMessage():
                self.message += event.data
                if event.message_finished:
                    self._take(bytes(self.message))
                    self.message.clear()
            case Ping():
                self._send(event.response())
            case CloseConnection():
                self.is_over = True

    def _take(self, message: bytes) -> None:
        stream = self.outputs.get(message[0]) if message else None
        if stream is None:
            return
        stream += message[1:]
        if sum(map(len, self.outputs.values())) > OUTPUT_LIMIT_BYTES:
            detail = f"the command wrote more than {OUTPUT_LIMIT_BYTES >> 20} MiB"
            raise CannotLook(Unreadable(Why.MALFORMED, str(self.target), None, detail))

    def _rejected(self, status: int) -> Unreadable:
        if status == 403:
            # A server that does not know the protocol refuses the handshake with 403 too (wsstream, x/net/websocket).
            # A WebSocket is a GET: newer servers want both rights (AuthorizePodWebsocketUpgradeCreatePermission).
            may = " and ".join(f"kubectl auth can-i {verb} pods/exec" for verb in ("get", "create"))
            where = f"-n {self.target.namespace}"
            detail = f"HTTP 403: may not; see {may} {where}, and whether the server is Kubernetes 1.30 or later"
            return Unreadable(Why.DENIED, str(self.target), errno.EACCES, detail)
        words = {401: "HTTP 401: it does not know who we are", 404: "HTTP 404: it is gone"}
        return Unreadable(Why.IO_ERROR, str(self.target), None, words.get(status, f"HTTP {status}"))

    def _result(self) -> ExecResult:
        """Raises CannotLook where the command did not run, or nobody said how it ended."""
        try:
            told: Any = json.loads(bytes(self.outputs[ERROR]))
        except ValueError:
            told = None
        code = _exit_code(told) if isinstance(told, dict) else None
        if code is None:
            said = told.get("message") if isinstance(told, dict) else "the connection ended before the command did"
            raise CannotLook(Unreadable(Why.IO_ERROR, str(self.target), None, redaction.masked(str(said))[:WORDS]))
        return ExecResult(code, bytes(self.outputs[STDOUT]), bytes(self.outputs[STDERR]))


def _exit_code(status: Mapping[str, Any]) -> int | None:
    """The exit code that a Status tells (k8s.io/client-go/tools/remotecommand); None if the command did not run."""
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode" and str(cause.get("message")).isdigit():
            return int(cause["message"])
    return None
