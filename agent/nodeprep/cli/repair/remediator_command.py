"""`nodeprep remediator`: the privileged part. It runs what the agent of this node asks for, within its limits."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

from nodeprep.cli.usage import UsageError
from nodeprep.config import remedy_files
from nodeprep.decide import remediator_protocol
from nodeprep.decide.remediator_limits import RemediatorLimits
from nodeprep.doors import clock
from nodeprep.doors.node_host import Host
from nodeprep.repair.attempt_ledger import AttemptLedger, LedgerLost
from nodeprep.repair.remediator import HostWay, Remediator
from nodeprep.repair.remediator_socket import RequestServer
from nodeprep.values import Value

TREE = "host"  # in the directory of the ledger
PRIVATE = 0o700  # of both directories
NAMESPACES = {"mount": "mnt", "net": "net", "ipc": "ipc", "uts": "uts"}  # options of nsenter(1), names in /proc/PID/ns
MINUTE_SECONDS, MINUTE_LINES = 60.0, 120  # of the log: whoever floods the socket does not fill the node's disk
# As many as the limits of a day allow: no flood hides what ran, or what keeps all others waiting.
KEPT_EVENTS = ("run-began", "run-ended", "attempt-hangs")


class RemediatorOptions(Value):
    """The options, as they were typed. `host_process` is "" on the host itself."""

    socket_dir: str
    ledger_dir: str
    lock_dir: str
    host_process: str = ""
    limits: RemediatorLimits = RemediatorLimits()


class PacedLog:
    """Lines of JSON on stderr, so many a minute. The first line of the next minute says how many were left out.

    The beginning and the end of an attempt are always written.
    """

    def __init__(self) -> None:
        self._began, self._written, self._left_out = clock.now(), 0, 0

    def write(self, told: Mapping[str, object]) -> None:
        if clock.now() >= self._began + MINUTE_SECONDS:
            left_out, self._began, self._written, self._left_out = self._left_out, clock.now(), 0, 0
            if left_out:
                self.write({"event": "lines-left-out", "count": left_out})
        if told["event"] not in KEPT_EVENTS:
            if self._written >= MINUTE_LINES:
                self._left_out += 1
                return
            self._written += 1
        sys.stderr.write(json.dumps({"at": round(clock.wall(), 3), **told}) + "\n")
        sys.stderr.flush()


def run(asked: RemediatorOptions) -> int:
    """Serve until SIGTERM. Raises UsageError."""
    if os.geteuid() != 0:
        raise UsageError(f"nodeprep remediator: found user {os.geteuid()}, wanted root")
    _hold_names(asked.limits)
    way = _way(asked)
    log = PacedLog().write
    try:
        ledger = AttemptLedger(asked.ledger_dir)
        remediator = Remediator(ledger, asked.limits, remedy_files.headers(), way, log)
        remediator.settle()
        Path(asked.socket_dir).mkdir(PRIVATE, parents=True, exist_ok=True)
        if way.process:  # they are volumes of ours then, which the kubelet has made for all to read
            for directory in (asked.socket_dir, asked.ledger_dir):
                Path(directory).chmod(PRIVATE)
        server = RequestServer(Path(asked.socket_dir) / remediator_protocol.SOCKET, remediator.answer)
    except LedgerLost as lost:
        raise UsageError(f"nodeprep remediator: {lost}") from lost
    except OSError as error:
        raise UsageError(f"nodeprep remediator: {error.filename or asked.socket_dir}: {error.strerror}") from error
    asked_to_end = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_end.set())
    Thread(target=_ended, args=(asked_to_end, remediator, server), name="end", daemon=True).start()
    log({"event": "serving", "socket": f"{asked.socket_dir}/{remediator_protocol.SOCKET}", "host": way.process or "/"})
    server.serve()
    return 0


def _ended(asked_to_end: Event, remediator: Remediator, server: RequestServer) -> None:
    """In a thread: end what runs when somebody asks us to. Meanwhile it is still told how that stands."""
    asked_to_end.wait()
    try:
        remediator.end()
    finally:
        server.stop()


def _hold_names(limits: RemediatorLimits) -> None:
    """A name that no remedy has is a mistake of who wrote the manifest. Raises UsageError."""
    known = remedy_files.headers()
    for option, names in (("--remedy", limits.remedies or frozenset()), ("--allow-s3", limits.third_class)):
        for name in sorted(names - set(known)):
            raise UsageError(f"{option}: found {name!r}, wanted one of {', '.join(sorted(known))}")


def _way(asked: RemediatorOptions) -> HostWay:
    """Raises UsageError where the process of the host is not there."""
    process = asked.host_process.rstrip("/")
    if not process:
        return HostWay(locks=asked.lock_dir, boot_id=Host().boot_id())
    for name in ("root", *(f"ns/{kind}" for kind in NAMESPACES.values())):
        if not os.path.exists(f"{process}/{name}"):  # noqa: PTH110 - as typed
            raise UsageError(
                f"--host-process {process}: {name} cannot be followed; wanted the host's first process "
                "in its /proc, and the right to enter it (privileged)"
            )
    words = ("nsenter", *(f"--{option}={process}/ns/{kind}" for option, kind in NAMESPACES.items()), "--")
    return HostWay(process, f"{asked.ledger_dir}/{TREE}", words, asked.lock_dir, Host().boot_id())
