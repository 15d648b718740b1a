"""How COMMAND of `cluster.py run` reaches its nodes: two programs on its PATH, and the server that answers them.

    node-enter NODE [COMMAND...]   runs COMMAND, else a shell, as root on the node; its exit code is that of COMMAND
    node-reboot NODE               cuts its power, boots it again and returns when its Node is Ready

Both ask the rig through a socket: only its process can boot a node, and knows which process is a node's first now.
Bad arguments or an unknown node end with 2 and a line on stderr. This file is also their program.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Protocol, Self

ENTER, REBOOT = "node-enter", "node-reboot"
USAGE = {ENTER: "NODE [COMMAND...]", REBOOT: "NODE"}
SOCKET = "control.sock"  # in the rig's directory, which only its user may enter
SHELL = "bash"
FAILED = 2

Answer = dict[str, Any]  # "argv" to run, or "said" to print, or "error"


class Machine(Protocol):
    """A node as it is entered and booted."""

    boot_id: str

    def entering(self) -> tuple[str, ...]: ...
    def reboot(self) -> None: ...
    def wait_ready(self) -> None: ...


class Control:
    """Answers the two programs while the context lasts, and puts them into bin/ of the rig's `directory`.

    The kernel kills a node with the thread that booted it. So this thread stays until the process ends.

    Args:
        directory: the rig's.
        nodes: the nodes by name; a node that is added later is known too.
    """

    def __init__(self, directory: Path, nodes: Mapping[str, Machine]) -> None:
        self.directory = directory
        self.nodes = nodes
        self._one = Lock()  # a boot of a node is not interrupted
        self._over = False

    def __enter__(self) -> Self:
        for name in USAGE:
            program = self.directory / "bin" / name
            words = shlex.join((sys.executable, str(Path(__file__).resolve()), name, str(self.directory)))
            program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            program.chmod(0o755)
        path = self.directory / SOCKET
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        Thread(target=self._serve, args=[listener], name="control", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._one:
            self._over = True

    def _serve(self, listener: socket.socket) -> None:
        while True:
            link = listener.accept()[0]
            with link, self._one, suppress(OSError, ValueError):  # the client may be gone
                asked = json.loads(link.makefile().readline())
                answer = {"error": "the rig ends"} if self._over else self.answer(asked["program"], asked["node"])
                link.sendall(f"{json.dumps(answer)}\n".encode())

    def answer(self, program: str, name: str) -> Answer:
        """The answer to a program that was called for this node."""
        node = self.nodes.get(name)
        if node is None:
            there = ", ".join(sorted(self.nodes)) or "none: run it with --nodes 1 or more"
            return {"error": f"NODE: found {name!r}, wanted one of those that there are: {there}"}
        work: Callable[[str, Machine], Answer] = entered if program == ENTER else rebooted
        try:
            return work(name, node)
        except (AssertionError, OSError, RuntimeError, TimeoutError, subprocess.CalledProcessError) as error:
            return {"error": str(error)}


def entered(_: str, node: Machine) -> Answer:
    return {"argv": node.entering()}


def rebooted(name: str, node: Machine) -> Answer:
    before, begun = node.boot_id, time.monotonic()
    node.reboot()
    node.wait_ready()
    taken = time.monotonic() - begun
    return {"said": f"{name} is Ready after {taken:.0f} s; its boot was {before} and is {node.boot_id}"}


def ask(directory: str, program: str, node: str) -> Answer:
    """The answer of the rig. Raises OSError if it is gone."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"{directory}/{SOCKET}")
        link.sendall(f"{json.dumps({'program': program, 'node': node})}\n".encode())
        line = link.makefile().readline()
    return dict(json.loads(line)) if line else {"error": "the rig ended meanwhile"}


def main(argv: Sequence[str]) -> int:
    program, directory, *words = argv
    if not words or words[0].startswith("-") or (program == REBOOT and len(words) > 1):
        found = " ".join(words) or "nothing"
        print(f"{program}: found {found}, wanted: {program} {USAGE[program]}", file=sys.stderr)
        return FAILED
    name, *command = words
    command = command[1:] if command[:1] == ["--"] else command
    if program == REBOOT:
        print(f"{program}: {name} boots", file=sys.stderr, flush=True)
    try:
        answer = ask(directory, program, name)
    except OSError as error:
        answer = {"error": f"no rig answers at {directory} ({error.strerror})"}
    if "error" in answer:
        print(f"{program}: {answer['error']}", file=sys.stderr)
        return FAILED
    if "argv" in answer:
        os.execvp(answer["argv"][0], [*answer["argv"], *(command or (SHELL,))])
    print(answer["said"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
