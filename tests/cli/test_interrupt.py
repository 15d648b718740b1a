"""Ctrl-C at any moment: no traceback, and exit code 130. Moments are counted in calls, the same each time."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs import trees

DRAWS = 24
# Sends SIGINT to itself when so many calls were made and returned from since nodeprep listens for it; says how many
# there were if it came to the end. While an extension module is being loaded the first one may be lost: what Cython
# generates clears an exception of an import (PyYAML's yaml._yaml). Then it sends another one, as a user would.
CHILD = """
import os, signal, sys, threading
left, made = int(sys.argv.pop(1)), 0
def count(frame, event, argument):
    global made
    if made or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        made += 1
        if made == left:
            sys.setprofile(None)
            if loading(frame):
                again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                again.daemon = True
                again.start()
            os.kill(os.getpid(), signal.SIGINT)
def loading(frame):
    while frame is not None and type(frame.f_locals.get("self")).__name__ != "ExtensionFileLoader":
        frame = frame.f_back
    return frame is not None
sys.setprofile(count)
from nodeprep.__main__ import main
code = main()
if left == 0:
    sys.setprofile(None)
    print(f"made {made}", file=sys.stderr)
sys.exit(code)
"""
COMMANDS = [
    # command, and the exit code that it may end with instead where the signal comes after its last instruction
    ("check --root {tree} -o json", 0),
    ("--help", 0),
    ("list", 0),
    ("snapshot --root {tree} -o /dev/null", 0),
    ("explain port.nonsense", 2),
]


def run(command: str, tree: Path, moment: int) -> subprocess.CompletedProcess[str]:
    words = command.format(tree=tree).split()
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(moment), *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("command", "code"), COMMANDS, ids=[row[0].split()[0] for row in COMMANDS])
def test_ctrl_c_at_any_moment(tmp_path: Path, command: str, code: int) -> None:
    tree = trees.build("plain-vm", tmp_path / "node")
    whole = run(command, tree, 0)
    assert whole.returncode == code, whole.stderr
    made = int(whole.stderr.rpartition("made ")[2])
    draw = random.Random(13)
    moments = [1, 2, 3, made - 1, *(draw.randint(1, made) for _ in range(DRAWS))]
    for moment in moments:
        done = run(command, tree, moment)
        assert "Traceback" not in done.stderr, f"call {moment} of {made}: {done.stderr}"
        assert "Exception ignored" not in done.stderr, f"call {moment} of {made}: {done.stderr}"
        assert done.returncode in (130, *((code,) if moment > made * 0.98 else ())), f"call {moment} of {made}"


def test_who_is_started_with_sigint_ignored_keeps_it_so(tmp_path: Path) -> None:
    tree = trees.build("plain-vm", tmp_path / "node")
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{CHILD}"
    words = ["check", "--root", str(tree), "-o", "json"]
    done = subprocess.run([sys.executable, "-c", ignoring, "5000", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
