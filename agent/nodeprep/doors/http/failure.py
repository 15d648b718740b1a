"""Why a request has no answer, or no whole one."""

from __future__ import annotations

from nodeprep.model import Why


class HttpFailure(Exception):
    """What went wrong, in one line.

    `kind` is TIMEOUT, IO_ERROR, or MALFORMED: what came is not the answer of an HTTP server. `errno` is the kernel's or
    the resolver's, if one of them refused. `connected` is whether the server was reached, its TLS handshake included.
    """

    def __init__(self, kind: Why, detail: str, errno: int | None = None, *, connected: bool = True) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errno, self.connected = kind, detail, errno, connected


class BodyTooLarge(HttpFailure):
    """The body is larger than the caller takes; the rest of it was not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(Why.MALFORMED, f"the body is larger than {limit} bytes")


def refused(error: OSError, *, connected: bool = True) -> HttpFailure:
    """The failure that an error of the kernel, of the resolver or of TLS makes."""
    return HttpFailure(Why.IO_ERROR, error.strerror or str(error), error.errno, connected=connected)
