"""Runs `nodeprep` as a shell would: a fork that has imported it, or the program (tests/cli/test_program.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.rigs import fork_server, trees

NODEPREP = str(Path(sys.executable).with_name("nodeprep"))
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling"}


def nodeprep(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Its exit code, stdout and stderr; a crash is a failure of the test that ran it."""
    # PYTHONDONTWRITEBYTECODE: without its bytecode the program starts in twice the time.
    ours = ("NODEPREP", "NO_COLOR", "LC_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command, limit = (NODEPREP, *arguments), 240
    if any(name.startswith(fork_server.AT_START) for name in environment):
        env = clean | environment
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=limit)
    else:
        done = fork_server.run(command, clean | environment, timeout=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def timeless(document: str) -> str:
    """What `-o json` says of one look, but for the moment of it: two looks at one node have two."""
    time = re.compile(r'^  "time": "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",\n', re.MULTILINE)
    text, changed = time.subn("", document, count=1)
    assert changed == 1, document
    return text


def node(name: str, directory: Path) -> Path:
    """A described node's tree."""
    return trees.build(name, directory / name)


def set_down(root: Path, device: str) -> None:
    """Take a port's link away, as a pulled cable does."""
    for name, text in DOWN.items():
        (root / f"sys/class/infiniband/{device}/ports/1/{name}").write_text(text + "\n")
