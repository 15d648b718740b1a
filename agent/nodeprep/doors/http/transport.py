"""Where a connection leads, and what can be done with it. It stands below what makes connections and what uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from nodeprep.values import Value

if TYPE_CHECKING:
    import ssl


class Endpoint(Value):
    """Where a server listens: `host` and `port`, or the unix socket at `socket_path`, where `host` is only a name.

    `tls` makes the connection one of TLS, whose certificate must name `server_name`, or else `host`. Where `resolve` is
    False, `host` must be an address: no name server is asked. `proxy` is connected to instead of the server.
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
    """A connection: bytes out and in, until a deadline. Each method raises OSError, TimeoutError among them."""

    def send(self, data: bytes, until: float) -> None:
        """Send all of it."""

    def receive(self, until: float) -> bytes:
        """What comes next; b"" at the end of the connection."""

    def pending(self) -> bytes | None:
        """What has come already, without waiting: b"" at the end of the connection, None for nothing."""

    def close(self) -> None:
        """Close it; twice is fine."""
