"""`nodeprep` in forks of a process that has imported all of it: an import takes ten times as long as most commands.

    done = fork_server.run(("nodeprep", "check"), environment, timeout=60)

The first command starts the process, and it ends with its owner. The variables of AT_START have no effect here: run a
program for them.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock

import nodeprep
from tests.rigs.lab_agent import become

CHECKOUT = Path(__file__).resolve().parents[2]
STATUS = struct.Struct("i")
AT_START = ("LC_", "LANG", "PYTHON")  # variables that an interpreter reads only when it starts
MOST = 1 << 20  # bytes of a request: arguments and environment
LIBC = ctypes.CDLL(None, use_errno=True)
_starting = Lock()


def run(
    argv: Sequence[str], environment: Mapping[str, str], *, timeout: float, node: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `nodeprep` with these arguments, only this environment, in this directory and without input.

    It runs in the mount and network namespaces of the process `node`, as with `nsenter`.

    Raises:
        subprocess.TimeoutExpired: it did not end within `timeout` seconds, and was killed.
    """
    with _starting:
        server, _ = started()
    words = {"argv": list(argv), "cwd": str(Path.cwd()), "env": dict(environment), "node": node}
    request = json.dumps(words).encode()
    out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with ours:
            with theirs:
                socket.send_fds(server, [request], [out, err, theirs.fileno()])
            pid = read_status(ours, 60.0, argv)
            try:
                code = read_status(ours, timeout, argv)
            except subprocess.TimeoutExpired:
                os.kill(pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(list(argv), code, content(out), content(err))
    finally:
        os.close(out)
        os.close(err)


@functools.cache
def started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The server and its socket. The server ends when the socket is closed, with its owner at the latest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for side in (ours, theirs):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
    with theirs:
        words = (sys.executable, "-m", "tests.rigs.fork_server", str(theirs.fileno()))
        plain = {name: value for name, value in os.environ.items() if not name.startswith(AT_START)}
        served = subprocess.Popen(words, cwd=CHECKOUT, env=plain, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    atexit.register(end, ours, served)
    return ours, served


def end(link: socket.socket, served: subprocess.Popen[bytes]) -> None:
    link.close()
    served.wait()


def read_status(link: socket.socket, timeout: float, argv: Sequence[str]) -> int:
    if not select.select([link], [], [], timeout)[0]:
        raise subprocess.TimeoutExpired(list(argv), timeout)
    status: int
    (status,) = STATUS.unpack(link.recv(STATUS.size))
    return status


def content(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, closefd=False) as stream:
        return stream.read()


def enter(process: int) -> None:
    """Puts this process into the mount and network namespaces of another."""
    for name in ("net", "mnt"):  # in the other order /proc may be another's
        with Path(f"/proc/{process}/ns/{name}").open() as namespace:
            if LIBC.setns(namespace.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"setns {name} of process {process}")


class Server:
    """Forks for each request. It first sends the process id, and last how the process ended."""

    def __init__(self, requests: socket.socket) -> None:
        self.requests = requests
        self.selector = selectors.DefaultSelector()
        self.selector.register(requests, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is not self.requests:
                    self.reap(key)
                elif not self.take():
                    return

    def take(self) -> bool:
        """False if no more requests can come."""
        data, descriptors, _, _ = socket.recv_fds(self.requests, MOST, 3)
        if not data:
            return False
        out, err, link = descriptors
        request = json.loads(data)
        pid = os.fork()
        if not pid:
            if request["node"] is not None:
                os.dup2(err, 2)  # the client reads the reason there
                enter(request["node"])
            become(request["argv"], request["cwd"], request["env"], (os.open(os.devnull, os.O_RDONLY), out, err))
        os.close(out)
        os.close(err)
        os.write(link, STATUS.pack(pid))
        self.selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, link))
        return True

    def reap(self, key: selectors.SelectorKey) -> None:
        self.selector.unregister(key.fileobj)
        os.close(key.fd)
        pid, link = key.data
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):  # the client did not wait for it
            os.write(link, STATUS.pack(code))
        os.close(link)


def main() -> None:
    for module in pkgutil.walk_packages(nodeprep.__path__, "nodeprep."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
