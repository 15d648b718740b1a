"""A port of this machine's loopback on a node of the netns rig too: so it reaches a server that runs here."""

from __future__ import annotations

import ctypes
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
HOST = "127.0.0.1"


class Relay:
    """While it stands, whoever connects to the port in the network namespace of the process `pid` comes to ours."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(1) as there:  # a thread of its own, for it stays in that namespace
            self._listener = there.submit(self._listen).result()
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which close alone does not tell the thread that accepts
        self._listener.close()

    def _listen(self) -> socket.socket:
        namespace = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if LIBC.setns(namespace, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(namespace)
        return socket.create_server((HOST, self.port))

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                theirs = self._listener.accept()[0]
                try:
                    ours = socket.create_connection((HOST, self.port))
                except OSError:
                    theirs.close()
                    continue
                Thread(target=_carry, args=(theirs, ours), daemon=True).start()


def _carry(theirs: socket.socket, ours: socket.socket) -> None:
    with theirs, ours:
        back = Thread(target=_pump, args=(ours, theirs), daemon=True)
        back.start()
        _pump(theirs, ours)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # one of them is gone
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
