"""Descendants are found, reaped and ended by a process of its own: whatever they did to get away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from nodeprep.doors import clock, descendants
from tests.rigs.absent import needs_root

AGENT = Path(descendants.__file__).parents[2]
PLENTY = 240.0

BEGIN = """
import json, os, signal, subprocess, sys, time
from nodeprep.doors import clock, descendants

def started(script):
    return subprocess.Popen((sys.executable, "-c", script))

def say(**told):
    print(json.dumps(told))

descendants.adopt()
"""
ORPHANS = """
import os, time
for _ in range(8):
    if not os.fork():
        if os.fork():
            os._exit(0)
        os.setsid()
        os._exit(3)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def told_by(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        (sys.executable, "-c", BEGIN + script, *arguments),
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PLENTY,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_orphans_come_home_and_none_stays_a_zombie() -> None:
    script = """
child = started(sys.argv[1])
ended = {}
while (some := descendants.reaped()) is not None:
    ended |= some
    time.sleep(0.01)
say(codes=sorted(ended.values()), own=ended[child.pid], left=descendants.found())
child.returncode = 0
"""
    assert told_by(script, ORPHANS) == {"codes": [0, *[3] * 8], "own": 0, "left": []}


def test_who_ends_when_asked_is_not_killed() -> None:
    script = """
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.write(writer, b"ready")
    signal.sigwait({signal.SIGTERM})
    os.write(writer, b"asked")
    os._exit(0)
os.read(reader, 5)
left = descendants.end(clock.now() + 200, clock.now() + 200)
say(left=left, word=os.read(reader, 5).decode())
"""
    assert told_by(script) == {"left": [], "word": "asked"}


def test_one_that_forks_in_a_loop_is_caught(tmp_path: Path) -> None:
    """In C, so that it is as fast as it can be. Each is the parent of the next, in a session of its own."""
    source, program = tmp_path / "runaway.c", tmp_path / "runaway"
    source.write_text("""
#include <signal.h>
#include <unistd.h>
int main(void) {
    signal(SIGTERM, SIG_IGN);
    for (;;) {
        if (fork() > 0) _exit(0);
        setsid();
    }
}
""")
    subprocess.run(("gcc", "-O2", "-o", str(program), str(source)), check=True)
    script = """
for _ in range(3):
    subprocess.Popen((sys.argv[1],))
time.sleep(0.2)
left = descendants.end(clock.now(), clock.now() + 120)
say(left=left, none=descendants.reaped())
"""
    assert told_by(script, str(program)) == {"left": [], "none": None}


@needs_root("it gives up its rights")
def test_one_that_cannot_be_ended_is_named_and_not_waited_for() -> None:
    script = """
pid = os.fork()
if not pid:
    os.execlp("sleep", "sleep", "300")
while open(f"/proc/{pid}/comm").read() != "sleep\\n":
    time.sleep(0.01)
os.setresuid(65534, 65534, 0)
left = descendants.end(clock.now() + 0.1, clock.now() + 0.3)
os.setresuid(0, 0, 0)
again = descendants.end(clock.now(), clock.now() + 120)
say(left=[left == (f"sleep ({pid})",)], again=again)
"""
    assert told_by(script) == {"left": [True], "again": []}


def test_a_child_ends_with_its_parent() -> None:
    script = """
reader, writer = os.pipe()
middle = os.fork()
if not middle:
    ours = os.getpid()
    child = os.fork()
    if not child:
        descendants.die_with(ours)
        os.write(writer, str(os.getpid()).encode())
        time.sleep(900)
    time.sleep(900)
child = int(os.read(reader, 20))
os.kill(middle, signal.SIGKILL)
ended = {}
while (some := descendants.reaped()) is not None:
    ended |= some
say(codes=[ended[middle], ended[child]])
"""
    assert told_by(script) == {"codes": [-9, -9]}


def test_marked_processes_are_killed_and_no_others() -> None:
    mark = uuid.uuid4().hex
    sleeps = ("sleep", "900")
    ours = [subprocess.Popen(sleeps, env={"MARK": mark}, start_new_session=True) for _ in range(2)]
    others = [subprocess.Popen(sleeps, env={name: value}) for name, value in (("MARK", f"{mark}2"), ("NO", mark))]
    try:
        assert descendants.kill_marked(f"MARK={mark}".encode(), clock.now() + PLENTY) == ()
        assert [one.wait(PLENTY) for one in ours] == [-9, -9]
        assert [one.poll() for one in others] == [None, None]
    finally:
        for one in others:
            one.kill()
            one.wait()
