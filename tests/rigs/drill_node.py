"""The node of `netns` for drills, in a PID namespace of its own too: a proof of idleness sees all its processes.

The proof asks the first PID namespace of the boot. A test has none. So the node's first process claims to be in it, as
in `idle_host`. No kubelet runs there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.rigs.netns import ENVIRONMENT, NODE_PROCESS, REPOSITORY, Node
from tests.rigs.netns_node import Shape
from tests.rigs.waiting import until

FIRST = "pid:[4026531836]"
HOLDER = f"""
import os, pathlib, shutil, signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
shutil.rmtree("/var/lib/kubelet", ignore_errors=True)
claim = pathlib.Path("/run/claim"); claim.mkdir(); (claim / "pid").symlink_to("{FIRST}")
process = subprocess.Popen(["sleep", "infinity"])
subprocess.run(["mount", "--bind", str(claim), "/proc/1/ns"], check=False)
print("ready" if os.readlink("/proc/1/ns/pid") == "{FIRST}" else "no claim", process.pid, flush=True)
sys.stdin.read()
"""


class DrillNode:
    """The rig for tests: a context manager in which commands run on the node."""

    def __init__(self, shape: Shape | None = None) -> None:
        self._shape = shape or Shape(enis=2, pods=0)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.node = self._stack.enter_context(Node(self._shape))
        enter = ("nsenter", "-t", str(self.node.pid), "-n", "-m")
        unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")
        self._held = subprocess.Popen(
            (*enter, *unshare, sys.executable, "-c", HOLDER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._stack.callback(self._end)
        assert self._held.stdout is not None
        word, _, number = self._held.stdout.readline().strip().partition(" ")
        assert word == "ready", word
        self._inside = number
        (first,) = children(self._held.pid)
        (self._process,) = children(first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _end(self) -> None:
        self._held.communicate()  # its PID namespace ends with it, and what runs there

    def argv(self, *argv: str) -> list[str]:
        words = [sys.executable, *argv[1:]] if argv[0] == "python" else list(argv)
        enter = ("nsenter", "-t", str(self._process), "-n", "-m", "-p", f"--wd={REPOSITORY}")
        return [*enter, "env", f"{NODE_PROCESS}={self._inside}", *words]

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command on the node; "python" is ours."""
        return subprocess.run(
            self.argv(*argv), capture_output=True, text=True, check=check, input="", env=environment()
        )

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a program on the node, with a pipe to its words."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.argv(*argv), stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment())

    def agent(self) -> tuple[str, ...]:
        """The command of an agent on the node, by the default directories and port."""
        return sys.executable, "-m", "nodeprep", "agent"

    def ip(self, *words: str) -> str:
        return self.run("ip", *words).stdout

    def table(self, eni: int) -> int:
        return self.node.table(eni)

    def drill(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("python", "-m", "nodeprep", "drill", *words, check=False)


def environment() -> dict[str, str]:
    return {**os.environ, **ENVIRONMENT, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin", "NO_COLOR": "1"}


def children(process: int) -> tuple[int, ...]:
    """The processes that this one started and that live, by our numbers. Waits until there is one."""
    path = Path(f"/proc/{process}/task/{process}/children")
    until(lambda: bool(path.read_text().split()), f"a child of {process}")
    return tuple(map(int, path.read_text().split()))
