"""The process between nodeprep and Ansible: it ends everything below it at the deadline, and when nodeprep is gone.

`playbook_run` starts it. It goes on as the first process of a PID namespace, so that the kernel ends the rest with it.
Its standard input is one line of JSON, the order, and then stays open as long as nodeprep lives. Its standard output
takes one line of JSON for each task, which Ansible's process writes, and at last one of its own, the end. Nothing below
it can hold up that end.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nodeprep.doors import clock, pid_namespace
from nodeprep.newer_python import StrEnum
from nodeprep.repair import host_tools

GRACE = 2.0  # seconds between SIGTERM and SIGKILL, within the deadline
KILLING = 5.0  # seconds for killed processes to end; one that sleeps in the kernel takes longer, and is reported
LOOK = 0.02  # seconds between two looks at the child
SAID_BYTES = 4096
NOT_STARTED = 3  # the exit code where no process could be started: nothing ran
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

ORDER, RESULT, SAID = "order.json", "result.json", "said"  # in the private directory; ansible.py knows them too
PROGRAM = Path(__file__).with_name("ansible.py")
# In a PID namespace systemctl refuses the socket that it prefers: its other end has no number there. So it takes D-Bus
# (ENVIRONMENT in systemd's documentation).
SURROUNDINGS = {"PATH": host_tools.PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent", "SYSTEMCTL_FORCE_BUS": "1"}
UMASK = 0o022  # files of a task that names no mode are those of every other administrator


class ChildEnd(StrEnum):
    """Why the supervisor stopped waiting."""

    ENDED = "ended"  # the child did, by itself
    LATE = "late"  # the deadline came
    ABANDONED = "abandoned"  # nodeprep is gone, or wants no more


def main() -> None:
    order = json.loads(_line(0))
    private = Path(order["private"])
    stopped = _signals()
    try:
        ended = pid_namespace.enter(SIGNALS)
        if ended is not None:  # we are outside
            shutil.rmtree(private, ignore_errors=True)  # it has done so, unless it was killed
            sys.exit(ended if ended == NOT_STARTED else bool(ended))
        child = _started(private)
    except OSError as reason:
        shutil.rmtree(private, ignore_errors=True)
        sys.stderr.write(f"no process could be started: {reason}\n")
        sys.exit(NOT_STARTED)
    try:
        told = _supervised(child, order, private, stopped)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    with suppress(BrokenPipeError), open(1, "wb") as out:
        out.write(json.dumps({"end": told}).encode() + b"\n")


def _line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            sys.exit(f"no order came, but {line!r}")
        line += part
    return line


def _supervised(child: int, order: Mapping[str, Any], private: Path, stopped: list[int]) -> Mapping[str, Any]:
    deadline = order["deadline"]
    try:
        why = _awaited(child, deadline - min(GRACE, order["seconds"] / 4), stopped)
    finally:
        now = clock.now()
        left = pid_namespace.end(min(now + GRACE, deadline), now + GRACE + KILLING)
    return {"why": why, "left": left, "result": _result(private), "said": _said(private)}


def _signals() -> list[int]:
    """Those that have come which ask us to end. Who stops a service sends them to each of its processes."""
    come: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, _: come.append(number))
    return come


def _started(private: Path) -> int:
    """Start Ansible's process, with an environment that nobody else had a hand in. Gives its number."""
    environment = {**SURROUNDINGS, "TMPDIR": f"{private}/temporary"}
    lines = os.dup(1)  # Ansible's process writes the lines of tasks to it, and keeps it from what it starts
    with (private / SAID).open("wb") as said:
        child = subprocess.Popen(
            (sys.executable, "-I", str(PROGRAM), str(private), str(lines)),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=private,
            env=environment,
            umask=UMASK,
            pass_fds=(lines,),
        )
    os.close(lines)
    return child.pid


def _awaited(child: int, until: float, stopped: list[int]) -> ChildEnd:
    while child not in (pid_namespace.reaped() or {}):
        if clock.now() >= until:
            return ChildEnd.LATE
        readable, _, _ = select.select((0,), (), (), LOOK)
        if readable or stopped:  # nobody writes a second line: it is the end of the pipe
            return ChildEnd.ABANDONED
    return ChildEnd.ENDED


def _result(private: Path) -> Any:
    """What Ansible's process wrote at its end, None if it did not come so far."""
    try:
        return json.loads((private / RESULT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _said(private: Path) -> str:
    try:
        return (private / SAID).read_bytes()[-SAID_BYTES:].decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
