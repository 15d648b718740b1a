"""Where a connection leads and what it can do. All modules that make or use connections import this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nodeprep.values import Value

if TYPE_CHECKING:
    import ssl


class Endpoint(Value):
    """Where a server listens: at `host` and `port`, or at the unix socket `socket_path`. Then `host` is only a name.

    With `tls` the connection uses TLS, and the certificate must name `server_name`, or else `host`. If `resolve` is
    False, `host` must be an address: no name server is asked. With `proxy` the connection goes to the proxy.
    """

    host: str
    port: int
    socket_path: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    resolve: bool = True
    proxy: Endpoint | None = None

    @property
    def bracketed(self) -> str:
        """The host as URLs have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """Host and port as `Host:` and URLs have them; the default port is left out."""
        default = self.port == (443 if self.tls else 80) or bool(self.socket_path)
        return self.bracketed if default else f"{self.bracketed}:{self.port}"


class Transport(Protocol):
    """A connection: bytes out and in, until a deadline. Each method raises OSError, also as TimeoutError."""

    def send(self, data: bytes, until: float) -> None:
        """Send all of it."""

    def receive(self, until: float) -> bytes:
        """What comes next; b"" at the end of the connection."""

    def pending(self) -> bytes | None:
        """What has arrived, without a wait: b"" at the end of the connection, None for nothing."""

    def close(self) -> None:
        """Close it; twice is fine."""


def address_name(host: str) -> str | bytes:
    """A host as getaddrinfo takes it where it has to be an address. For a str it loads IDNA's tables, 0.6 MiB."""
    return host.encode() if host.isascii() and host.isprintable() else host
