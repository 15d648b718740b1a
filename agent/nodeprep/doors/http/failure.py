"""Why a request has no answer or no complete one."""

from __future__ import annotations

from nodeprep.model import Why


class HttpFailure(Exception):
    """What went wrong, in one line.

    `kind` is TIMEOUT, IO_ERROR or MALFORMED. MALFORMED means that the answer is not HTTP. `errno` is that of the kernel
    or the resolver, if one of them refused. `connected` is whether the server was reached, TLS handshake included.
    """

    def __init__(self, kind: Why, detail: str, errno: int | None = None, *, connected: bool = True) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errno, self.connected = kind, detail, errno, connected


class BodyTooLarge(HttpFailure):
    """The body is larger than the caller accepts. The rest of it was not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(Why.MALFORMED, f"the body is larger than {limit} bytes")


def refused(error: OSError, *, connected: bool = True) -> HttpFailure:
    """The failure for an error of the kernel, the resolver or TLS."""
    return HttpFailure(Why.IO_ERROR, error.strerror or str(error), error.errno, connected=connected)
