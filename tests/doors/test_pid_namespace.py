"""All of a PID namespace is reaped and ended by its first process, and by the kernel with it, whatever it did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors import pid_namespace
from tests.rigs.absent import needs_root
from tests.rigs.waiting import SECONDS, until

AGENT = Path(pid_namespace.__file__).parents[2]

pytestmark = needs_root("a PID namespace needs CAP_SYS_ADMIN")

BEGIN = """
import json, os, signal, subprocess, sys, time
from nodeprep.doors import clock, pid_namespace

def started(script):
    return subprocess.Popen((sys.executable, "-c", script))

def say(**told):
    print(json.dumps(told), flush=True)

signal.signal(signal.SIGUSR1, lambda *_: say(heard="SIGUSR1"))
ended = pid_namespace.enter((signal.SIGUSR1,))
if ended is not None:
    sys.exit(100 + ended)
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
# In C, so that it is as fast as it can be. Each is the parent of the next, in a session of its own. The last ends by
# itself in the end, for where the code under test is broken nobody else could catch it.
RUNAWAY = """
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    time_t end = time(0) + 600;
    signal(SIGTERM, SIG_IGN);
    while (time(0) < end) {
        if (fork() > 0) _exit(0);
        setsid();
    }
}
"""


def argv(script: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", BEGIN + script, *arguments)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(AGENT)}


def told_by(script: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        argv(script, *arguments), env=environment(), capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 100, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def marked(mark: str) -> list[str]:
    """The processes with `mark` in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] * (mark.encode() in path.read_bytes())
        except OSError:
            continue
    return found


@pytest.fixture
def runaway(tmp_path: Path) -> str:
    """The path of the program. It is also the mark of its processes."""
    source, program = tmp_path / "runaway.c", tmp_path / "runaway"
    source.write_text(RUNAWAY)
    subprocess.run(("gcc", "-O2", "-o", str(program), str(source)), check=True)
    return str(program)


def test_the_child_is_the_first_and_sees_the_hosts_processes() -> None:
    script = "say(ours=os.getpid(), first=os.path.exists('/proc/1'), host=os.readlink('/proc/self') != '1')"
    assert told_by(script) == {"ours": 1, "first": True, "host": True}


def test_orphans_come_home_and_none_stays_a_zombie() -> None:
    script = """
child = started(sys.argv[1])
ended = {}
while (some := pid_namespace.reaped()) is not None:
    ended |= some
    time.sleep(0.01)
say(codes=sorted(ended.values()), own=ended[child.pid])
child.returncode = 0
"""
    assert told_by(script, ORPHANS) == {"codes": [0, *[3] * 8], "own": 0}


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
left = pid_namespace.end(clock.now() + 200, clock.now() + 200)
say(left=left, word=os.read(reader, 5).decode())
"""
    assert told_by(script) == {"left": [], "word": "asked"}


def test_those_that_fork_in_a_loop_end_at_once(runaway: str) -> None:
    script = """
for _ in range(3):
    subprocess.Popen((sys.argv[1],))
time.sleep(0.2)
left = pid_namespace.end(clock.now(), clock.now() + 120)
say(left=left, none=pid_namespace.reaped())
"""
    assert told_by(script, runaway) == {"left": [], "none": None}
    assert marked(runaway) == []


def test_one_that_cannot_be_ended_is_named_and_not_waited_for() -> None:
    script = """
pid = os.fork()
if not pid:
    os.execlp("sleep", "sleep", "300")
child = open("/proc/thread-self/children").read().strip()
while open(f"/proc/{child}/comm").read() != "sleep\\n":
    time.sleep(0.01)
os.setresuid(65534, 65534, 0)
(left,) = pid_namespace.end(clock.now() + 0.1, clock.now() + 0.3)
os.setresuid(0, 0, 0)
again = pid_namespace.end(clock.now(), clock.now() + 120)
say(named=left == f"sleep ({child})", as_the_host_does=child != str(pid), again=again)
"""
    assert told_by(script) == {"named": True, "as_the_host_does": True, "again": []}


# A signal that comes before it waits for one wakes it, too.
WAKES = "woken, wakes = os.pipe()\nos.set_blocking(wakes, False)\nsignal.set_wakeup_fd(wakes)"


# The child runs at once, and its parent half a second later.
LATE = "os.register_at_fork(after_in_parent=lambda: time.sleep(0.5))\n"


@pytest.mark.parametrize("first", ["", LATE], ids=["soon", "before the one outside goes on"])
def test_a_signal_is_passed_on_and_the_exit_code_comes_back(first: str) -> None:
    script = f"{WAKES}\nsay(ready=True)\nos.read(woken, 1)\nsys.exit(7)"
    begun = BEGIN.replace("signal.signal", f"{first}signal.signal")
    with subprocess.Popen((sys.executable, "-c", begun + script), env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        process.send_signal(signal.SIGUSR1)
        assert json.loads(process.stdout.readline()) == {"heard": "SIGUSR1"}
        assert process.wait(SECONDS) == 107


@pytest.mark.parametrize("killed", ["the one outside", "the first inside"])
def test_whoever_of_the_two_is_killed_all_end(runaway: str, killed: str) -> None:
    script = "subprocess.Popen((sys.argv[1],))\nsay(first=os.readlink('/proc/self'))\nsignal.pause()"
    with subprocess.Popen(argv(script, runaway), env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = int(json.loads(process.stdout.readline())["first"])
        os.kill(process.pid if killed == "the one outside" else first, signal.SIGKILL)
        assert process.wait(SECONDS) == (-9 if killed == "the one outside" else 100 - 9)
        until(lambda: not marked(runaway), "the end of all that it started")


def test_without_the_right_to_it_nothing_goes_on() -> None:
    script = BEGIN.replace("ended =", "os.setresuid(65534, 65534, 65534)\nended =") + "say(wrong=True)"
    done = subprocess.run(
        (sys.executable, "-c", script), env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "PermissionError: [Errno 1] unshare: Operation not permitted" in done.stderr
