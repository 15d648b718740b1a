"""Forwards a port of this machine's loopback to a network namespace, or one of the namespace's to this machine."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self, TypeVar

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
HOST = "127.0.0.1"
T = TypeVar("T")


def entered(pid: int, call: Callable[[], T]) -> T:
    """The result of a call in the network namespace of a process. A thread of its own makes the call."""

    def there() -> T:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if LIBC.setns(namespace, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(namespace)
        return call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


class Relay:
    """While it stands, connections to the port in the network namespace of the process `pid` reach our port.

    With `inward` it leads the other way: connections to our port reach the one there.
    """

    def __init__(self, pid: int, port: int, *, inward: bool = False) -> None:
        self.pid = pid
        self.port = port
        self.inward = inward

    def __enter__(self) -> Self:
        self._listener = self._listen() if self.inward else entered(self.pid, self._listen)
        Thread(target=self._accept, daemon=True).start()
        return self

    def _listen(self) -> socket.socket:
        return socket.create_server((HOST, self.port))

    def _connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone does not wake the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                theirs = self._listener.accept()[0]
                try:
                    ours = entered(self.pid, self._connect) if self.inward else self._connect()
                except OSError:
                    theirs.close()
                    continue
                Thread(target=carry, args=(theirs, ours), daemon=True).start()


def carry(theirs: socket.socket, ours: socket.socket) -> None:
    """Forwards the data of either end until both have ended, then closes both.

    It forwards at once: otherwise a client that sends a head and a body waits for a delayed ACK, 40 ms each time.
    """
    with theirs, ours:
        for one in (theirs, ours):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
