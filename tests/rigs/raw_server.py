"""A server on loopback or a unix socket that sends a test's bytes; each connection is one conversation."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

PATIENCE = 60.0  # seconds for the next bytes of a client, however slow the machine
Conversation = Callable[["Caller"], object]


class Caller:
    """One connection. `over` is set when the server stops."""

    def __init__(self, link: socket.socket, heard: list[bytes], over: Event) -> None:
        self.link, self.heard, self.over = link, heard, over
        link.settimeout(PATIENCE)

    def request(self) -> bytes:
        """The head of the next request; b"" if the client has closed. It is added to `heard`."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.link.recv(1)
            if not piece:
                return b""
            head += piece
        self.heard.append(head)
        return head

    def says(self, data: bytes) -> None:
        self.link.sendall(data)

    def drips(self, data: bytes, pause: float) -> None:
        """Sends a byte, then waits `pause` seconds, as long as the client listens."""
        for byte in data:
            self.says(bytes((byte,)))
            if self.over.wait(pause):
                return


class RawServer:
    """The first connection gets the first conversation, and so on. All later connections get the last one.

    `heard` are the heads of the requests that conversations read, `connections` is the number of connections. With
    `tls`, each connection begins with a handshake.
    """

    def __init__(
        self, *conversations: Conversation, tls: ssl.SSLContext | None = None, path: Path | None = None
    ) -> None:
        self.heard: list[bytes] = []
        self.connections = 0
        self._conversations, self._tls = conversations, tls
        self._over = Event()
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port: int = self._listener.getsockname()[1]
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            here = os.open(path.parent, os.O_PATH)  # an address has 107 bytes at most
            self._listener.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
            self._listener.listen()

    def __enter__(self) -> Self:
        Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                conversation = self._conversations[min(self.connections, len(self._conversations) - 1)]
                self.connections += 1
                Thread(target=self._talk, args=(link, conversation), daemon=True).start()

    def _talk(self, link: socket.socket, conversation: Conversation) -> None:
        with suppress(OSError), link:  # the client has left
            spoken = link if self._tls is None else self._tls.wrap_socket(link, server_side=True)
            with spoken:
                conversation(Caller(spoken, self.heard, self._over))


def always(answer: bytes) -> Conversation:
    """The same answer to every request of a connection."""

    def conversation(caller: Caller) -> None:
        while caller.request():
            caller.says(answer)

    return conversation


def once(answer: bytes) -> Conversation:
    """One request, its answer, and the end of the connection."""

    def conversation(caller: Caller) -> None:
        caller.request()
        caller.says(answer)

    return conversation


def certificate(directory: Path, name: str, names: str, signer: str = "") -> Path:
    """A certificate for `names` (openssl's subjectAltName) with its key, NAME.crt and NAME.key; signed by itself, or
    by `signer`, an earlier one.
    """
    by = ["-CA", f"{signer}.crt", "-CAkey", f"{signer}.key", "-addext", "basicConstraints=CA:FALSE"] if signer else []
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-noenc",
        "-days",
        "2",
    ]
    command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", *by]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)
    return directory / f"{name}.crt"
