"""A check of a node with Terway starts no program: what it needs it asks of the kernel and of servers itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rigs.absent import cannot_start
from tests.rigs.netns import Node
from tests.rigs.netns_check import steadily
from tests.rigs.netns_node import Unavailable

# A thread shares our memory (CLONE_VM) and our place (CLONE_THREAD); what does not is another process.
PROCESS = re.compile(r"\b(?:execve|execveat|fork|vfork)\(|\bclone3?\((?!.*CLONE_THREAD)")


def test_nothing_is_started(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    # By --seccomp-bpf it stops at nothing else: at each system call, the check would take several times as long.
    quiet = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", str(trace), "-e", "trace=process")
    words = (*quiet, "python", "-m", "nodeprep")
    try:
        with Node() as node:
            python = node.run("python", "-c", "import sys; print(sys.executable)").stdout.strip()
            argv = [python if word == "python" else word for word in words]
            done = steadily(lambda: node.run(*argv, "check", "--settle", "0", check=False))
    except Unavailable as reason:
        cannot_start(reason)
    if "strace" in done.stderr and not trace.exists():
        pytest.fail(done.stderr)
    assert done.stdout.startswith("READY")
    started = [line for line in trace.read_text().splitlines() if PROCESS.search(line)]
    assert [line for line in started if "execve(" not in line] == []
    assert len(started) == 1, "the check itself, by strace"
