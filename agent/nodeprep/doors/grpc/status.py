"""How a gRPC call ended: the status that the server gave, or why there is none."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from nodeprep import redaction
from nodeprep.model import Why

MESSAGE_CHARACTERS = 200  # of grpc-message that are kept: it quotes the server
# The status codes of grpc/grpc, as in google/rpc/code.proto.
NAMES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
KINDS = {
    "DEADLINE_EXCEEDED": Why.TIMEOUT,
    "NOT_FOUND": Why.MISSING,
    "PERMISSION_DENIED": Why.DENIED,
    "UNIMPLEMENTED": Why.MISSING,
    "UNAUTHENTICATED": Why.DENIED,
}  # every other status is an IO_ERROR
# The HTTP to gRPC status mapping of grpc/grpc: what an answer means that is not gRPC's.
OF_HTTP = {
    "400": "INTERNAL",
    "401": "UNAUTHENTICATED",
    "403": "PERMISSION_DENIED",
    "404": "UNIMPLEMENTED",
    **dict.fromkeys(("429", "502", "503", "504"), "UNAVAILABLE"),
}


class GrpcFailure(Exception):
    """Why a call has no answer, in one line. `kind` is never BUSY; `errno` is the kernel's, if it refused."""

    def __init__(self, kind: Why, detail: str, errno: int | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errno = kind, detail, errno


def refused(code: str, message: bytes) -> GrpcFailure:
    """The failure for the grpc-status and the grpc-message of a call that did not succeed."""
    if not (code.isascii() and code.isdecimal() and len(code) <= 3):
        return GrpcFailure(Why.MALFORMED, f"grpc-status {_printable(code)!r} is no number")
    number = int(code)
    name = NAMES[number] if number < len(NAMES) else "of no known name"
    said = _printable(redaction.masked(unquote_to_bytes(message).decode(errors="replace")))
    return GrpcFailure(KINDS.get(name, Why.IO_ERROR), f"grpc-status {number} {name}" + (f": {said}" if said else ""))


def no_grpc(code: str) -> GrpcFailure:
    """The failure for an answer with another HTTP status than 200."""
    name = OF_HTTP.get(code, "UNKNOWN")
    return GrpcFailure(KINDS.get(name, Why.IO_ERROR), f"HTTP status {_printable(code)}, which gRPC takes for {name}")


def malformed(what: str) -> GrpcFailure:
    """The failure for a server that breaks the protocol."""
    return GrpcFailure(Why.MALFORMED, what)


def _printable(text: str) -> str:
    """The beginning of a text of the server, without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:MESSAGE_CHARACTERS])
