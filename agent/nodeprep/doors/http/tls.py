"""TLS over any connection. OpenSSL works in memory only, so the connection below keeps the deadlines."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress

from nodeprep.doors.http.transport import Transport

DECRYPTED_BYTES = 1 << 16  # of one read; a record of TLS has at most 16 KiB


def client_context(
    authority: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    pem: str = "",
    *,
    verify: bool = True,
) -> ssl.SSLContext:
    """Whom we trust and who we are. `authority`, `certificate` and `key` are files.

    Without `authority` the system's authorities count. `pem` is a certificate with its key, instead of files. Raises
    OSError if a file is missing or invalid (SSLError).
    """
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pem:
        _load(context, pem)
    elif certificate:
        context.load_cert_chain(certificate, key, password="")  # without one, OpenSSL asks at the terminal
    return context


def _load(context: ssl.SSLContext, pem: str) -> None:
    """Load a certificate with its key. OpenSSL wants a file; this one is in memory only."""
    file = os.memfd_create("credential")
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    finally:
        os.close(file)


class TlsLink:
    """TLS over `below`. Raises OSError if the handshake fails, and TimeoutError if it has not ended at `until`."""

    def __init__(self, below: Transport, context: ssl.SSLContext, server_name: str, until: float) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        except ValueError as error:  # a name that no certificate can hold
            raise OSError(None, str(error)) from error
        self._shake_hands(until)

    def send(self, data: bytes, until: float) -> None:
        # OpenSSL never has to wait: the memory that it writes into has no limit.
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise _explained(error) from error
        self._flush(until)

    def receive(self, until: float) -> bytes:
        while True:
            try:
                return self._tls.read(DECRYPTED_BYTES)
            except ssl.SSLWantReadError:
                self._flush(until)
                self._feed(self._below.receive(until))
            except ssl.SSLEOFError:  # no close_notify; HTTP knows whether the answer is complete
                return b""
            except ssl.SSLError as error:
                raise _explained(error) from error

    def pending(self) -> bytes | None:
        while True:
            try:
                return self._tls.read(DECRYPTED_BYTES)
            except ssl.SSLWantReadError:
                data = self._below.pending()
                if data is None:
                    return None  # for example only session tickets came, which are not for us
                self._feed(data)
            except ssl.SSLEOFError:
                return b""
            except ssl.SSLError as error:
                raise _explained(error) from error

    def close(self) -> None:
        self._below.close()

    def _shake_hands(self, until: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush(until)
                self._feed(self._below.receive(until))
            except ssl.SSLError as error:
                with suppress(OSError):
                    self._flush(until)  # the alert, for the server's log
                raise _explained(error) from error
        self._flush(until)

    def _flush(self, until: float) -> None:
        if self._outgoing.pending:
            self._below.send(self._outgoing.read(), until)

    def _feed(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


def _explained(error: ssl.SSLError) -> OSError:
    """The same error without its number: numbers of OpenSSL are not those of the kernel."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return OSError(None, f"its certificate is not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLEOFError):
        return OSError(None, "the connection ended in the middle of the TLS handshake")
    return OSError(None, error.strerror or str(error))
