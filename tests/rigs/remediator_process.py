"""A remediator as a process with its socket, and a host for it: a mount namespace of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodeprep
from nodeprep.doors import unix_socket
from tests.rigs.waiting import until

AGENT = Path(nodeprep.__file__).parents[1]
PLENTY = 240.0  # seconds
ID = "0123456789abcdef0123456789abcdef"
HELLO = {"hello": {"version": nodeprep.__version__}}


def run_request(attempt: str = ID, remedy: str = "link_up", check: bool = False, **args: str) -> dict[str, Any]:
    body = {"attempt": attempt, "remedy": remedy, "args": args, "check": check, "deadline": 100}
    return {"run": body}


class Remediator:
    """A running one, in a directory of its own. `*more` are further options, `before` the words before its Python.

    `program` is what runs it, by default this checkout; `seen` is where it sees its directory.
    """

    def __init__(
        self,
        directory: Path,
        *more: str,
        before: tuple[str, ...] = (),
        program: tuple[str, ...] = (sys.executable, "-m", "nodeprep"),
        seen: str = "",
    ) -> None:
        self.directory = directory
        self.socket = directory / "socket/remediator.sock"
        self.ledger = directory / "ledger/history.jsonl"
        options = {"socket": "--socket-dir", "ledger": "--ledger-dir", "lock": "--lock-dir"}
        places = [word for name, option in options.items() for word in (option, f"{seen or directory}/{name}")]
        self._process: subprocess.Popen[bytes] | None = None
        self._argv = [*before, *program, "remediator", *places, *more]

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        self.socket.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(AGENT)}
        with (
            (self.directory / "log").open("ab") as log,
            subprocess.Popen(self._argv, stderr=log, env=environment) as process,
        ):
            self._process = process
            try:
                until(lambda: self.socket.exists() or process.poll() is not None, "the socket")
                assert process.poll() is None, self.log()
                yield process
            finally:
                process.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def end(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)

    def connected(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        unix_socket.connect(made, self.socket)  # without a time of ours: a full queue is waited for
        made.settimeout(PLENTY)
        return made

    def ask(self, *requests: object) -> list[dict[str, Any]]:
        """The answers to requests on one connection."""
        with self.connected() as peer, peer.makefile("rwb") as lines:
            told = []
            for request in requests:
                lines.write(json.dumps(request).encode() + b"\n")
                lines.flush()
                told.append(json.loads(lines.readline()))
            return told

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()]

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "log").read_text().splitlines()]


def ended(remediator: Remediator, attempt: str = ID) -> dict[str, Any]:
    """The status of an attempt when it has ended."""
    told: dict[str, Any] = {}

    def is_done() -> bool:
        told.update(remediator.ask({"status": {"attempt": attempt}})[0])
        return bool(told["status"] == "done")

    until(is_done, "the end of the attempt")
    return told


# The host: a mount namespace with an /etc, a /run and a /var/lib that nobody else sees. Its first process waits.
HOST = """
mount --make-rprivate /
for place in /etc/tmpfiles.d /run /var/lib "$@"; do mkdir -p $place; mount -t tmpfs -o size=100m host $place; done
echo host > /run/host
echo ready
exec sleep 900
"""


@contextmanager
def host(*own: str) -> Iterator[subprocess.Popen[bytes]]:
    """`own` are more directories that nobody else sees."""
    with subprocess.Popen(("unshare", "--mount", "sh", "-ec", HOST, "sh", *own), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()
