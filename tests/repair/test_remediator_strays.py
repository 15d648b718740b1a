"""Plays that misbehave in a remediator: nothing of them is left, by its cgroup and by the file systems.

The playbook is one of ours with other tasks, in a copy of the agent. The remediator is a pod of its own, with its own
/tmp and /dev/shm, and the host is another mount namespace with its own.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rigs import remediator_process
from tests.rigs.absent import cannot_start, needs_root
from tests.rigs.remediator_process import AGENT, HELLO, PLENTY, Remediator
from tests.rigs.waiting import until

pytestmark = [needs_root("cgroups and mounts"), pytest.mark.timeout(900)]
PLAYBOOK = "terway_dirs"  # it takes no argument, and disturbs nothing
HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup/freezer"))
MEMORY = ("/tmp", "/dev/shm")
POD = """
group=$1; shift
echo 0 > "$group/cgroup.procs"
mount --make-rprivate /
for place in /tmp /dev/shm; do mount -t tmpfs -o size=100m pod $place; echo pod > $place/here; done
exec "$@"
"""
FILL = "for place in /dev/shm /tmp; do cat /dev/zero > $place/filled; done"


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup that has a remediator and whatever it starts."""
    for hierarchy in HIERARCHIES:
        made = hierarchy / f"nodeprep-{uuid.uuid4().hex}"
        if (hierarchy / "cgroup.procs").exists():
            try:
                made.mkdir()
            except OSError:
                continue
            yield made
            until(partial(is_empty, made), "the end of all in the cgroup")
            made.rmdir()
            return
    cannot_start("no cgroup can be made here")


def members(group: Path) -> set[int]:
    return {int(line) for line in (group / "cgroup.procs").read_text().split()}


def is_empty(group: Path) -> bool:
    return not members(group)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not in /tmp, which the remediator has of its own."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-", dir="/var/tmp") as made:
        yield Path(made)


def playing(directory: Path, group: Path, process: str, *tasks: dict[str, Any]) -> Remediator:
    """A remediator whose playbook has these tasks. `process` is the host's first one, "" for one on the host itself."""
    copy = directory / "copy"
    shutil.copytree(AGENT, copy / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(AGENT.parent / "playbooks", copy / "playbooks")
    path = copy / f"playbooks/{PLAYBOOK}.yml"
    (play,) = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump([{**play, "tasks": list(tasks)}]))
    before = ("unshare", "--mount", "sh", "-ec", POD, "sh", str(group))
    program = ("env", f"PYTHONPATH={copy}/agent", sys.executable, "-m", "nodeprep")
    way = ("--host-process", process) if process else ()
    return Remediator(directory, *way, before=before, program=program)


def shell(script: str, *, on_host: bool = False, **more: Any) -> dict[str, Any]:
    words = "on_host + " if on_host else ""
    argv = f"{{{{ {words}['sh', '-c', {script!r}] }}}}"
    return {"name": "Run it", "ansible.builtin.command": {"argv": argv}, **more}


def there(process: str) -> dict[str, list[str]]:
    """What a process has in its directories in memory."""
    return {place: sorted(one.name for one in Path(f"{process}/root{place}").iterdir()) for place in MEMORY}


STRAY = "setsid nohup sleep 86417 >/dev/null 2>&1 &"
DEAF = "trap '' TERM INT HUP; while :; do sleep 1; done"
LATE = "it was not done after 20 s, and was ended"
PLAYS = [
    # tasks                                                    deadline  how it may end, and some of its words
    ([shell(STRAY), shell(STRAY, on_host=True)], 100, ({"done"}, "")),
    ([shell(STRAY, on_host=True), shell(f"({DEAF}) & exit 1")], 100, ({"failed"}, "Run it: ")),
    ([shell(STRAY), shell(DEAF, on_host=True)], 20, ({"timed-out"}, LATE)),
    # Ansible may have no room for what it would say.
    ([shell(FILL)], 100, ({"failed", "broken"}, "No space left on device")),
]


@pytest.mark.parametrize(("tasks", "deadline", "end"), PLAYS, ids=["nohup", "failed", "deaf", "full"])
def test_nothing_is_left(
    directory: Path, group: Path, tasks: list[dict[str, Any]], deadline: int, end: tuple[set[str], str]
) -> None:
    with remediator_process.host(*MEMORY) as first:
        host = f"/proc/{first.pid}"
        remediator = playing(directory, group, host, *tasks)
        with remediator.serving() as process:
            own = f"/proc/{process.pid}"
            before = there(host), there(own)
            assert before[1] == {place: ["here"] for place in MEMORY}
            for number in range(2):  # the first one is not in the way of the second
                request = remediator_process.run_request(f"{number:032x}", PLAYBOOK)
                request["run"]["deadline"] = deadline
                assert remediator.ask(HELLO, request)[1] == {"status": "running"}
                told = remediator_process.ended(remediator, f"{number:032x}")
                assert told["end"] in end[0], told
                assert end[1] in told["why"]
                assert members(group) == {process.pid}
                assert (there(host), there(own)) == before
        assert members(group) == set()


FREEZE = "echo 0 > {0}/cgroup.procs; echo FROZEN > {0}/freezer.state; sleep 1"
FIRST, SECOND, THIRD = ("0" * 32, "1" * 32, "2" * 32)


def hanging(remediator: Remediator) -> list[dict[str, Any]]:
    """What the remediator's log says of attempts that hang."""
    return [line for line in remediator.log() if line["event"] == "attempt-hangs"]


def hangs(remediator: Remediator) -> list[str]:
    """The names of the processes that hang."""
    return [process.partition(" (")[0] for line in hanging(remediator) for process in line["processes"]]


def asked(remediator: Remediator, attempt: str, deadline: int = 240) -> dict[str, Any]:
    request = remediator_process.run_request(attempt, PLAYBOOK)
    request["run"]["deadline"] = deadline
    return dict(remediator.ask(HELLO, request)[1])


def status(remediator: Remediator, attempt: str) -> str:
    return str(remediator.ask({"status": {"attempt": attempt}})[0]["status"])


def hangs_or_is_done(remediator: Remediator, attempt: str) -> bool:
    return bool(hangs(remediator)) or status(remediator, attempt) == "done"


def frozen(remediator: Remediator, freezer: Path) -> str:
    """The attempt whose play is frozen. On a busy machine a short deadline ends it before it has come so far."""
    for attempt, deadline in ((FIRST, 10), (SECOND, 120)):  # who hangs is named when it is over
        assert asked(remediator, attempt, deadline) == {"status": "running"}
        until(partial(hangs_or_is_done, remediator, attempt), "its end, or who hangs")
        if hangs(remediator):
            assert (freezer / "cgroup.procs").read_text()
            return attempt
    raise AssertionError("nothing hangs")


def test_what_sleeps_in_the_kernel_runs_until_it_is_gone(directory: Path, group: Path, freezer: Path) -> None:
    """Neither is its attempt over, nor does another begin beside it."""
    with remediator_process.host(*MEMORY) as first:
        remediator = playing(directory, group, f"/proc/{first.pid}", shell(FREEZE.format(freezer)))
        with remediator.serving() as process:
            attempt = frozen(remediator, freezer)
            assert hangs(remediator) == ["sh"]
            assert status(remediator, attempt) == "running"
            assert asked(remediator, THIRD)["refused"]["reason"] == "busy"
            assert remediator.ask({"cancel": {"attempt": attempt}})[0] == {"status": "running"}  # it has been killed
            (freezer / "freezer.state").write_text("THAWED")
            told = remediator_process.ended(remediator, attempt)
            assert (told["end"], members(group)) == ("timed-out", {process.pid})
            assert "still there" not in told["why"]
            assert asked(remediator, "3" * 32) == {"status": "running"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_sleeps_in_the_kernel_of_a_host_outlives_the_remediator(
    directory: Path, group: Path, freezer: Path, number: int
) -> None:
    """The lock of the node is held until it is gone, and a new remediator says that it runs."""
    remediator = playing(directory, group, "", shell(FREEZE.format(freezer)))
    with remediator.serving() as process:
        attempt = frozen(remediator, freezer)
        process.send_signal(number)
        process.wait(PLENTY)
    with remediator.serving():
        assert remediator.ask({"status": {"attempt": attempt}})[0] == {"status": "running", "hangs": True, "tasks": []}
        assert attempt in hanging(remediator)[-1]["why"], "who holds the lock, by its words"
        assert asked(remediator, THIRD) == {"status": "running"}
        assert remediator_process.ended(remediator, THIRD)["refused"] == "busy"
        (freezer / "freezer.state").write_text("THAWED")
        assert remediator_process.ended(remediator, attempt)["end"] == "interrupted"
        assert asked(remediator, "3" * 32) == {"status": "running"}


def test_a_cancelled_attempt_awaits_what_sleeps_in_the_kernel(directory: Path, group: Path, freezer: Path) -> None:
    """It names it at once, not at its deadline, and is over when that is gone."""
    with remediator_process.host(*MEMORY) as first:
        remediator = playing(directory, group, f"/proc/{first.pid}", shell(FREEZE.format(freezer)))
        with remediator.serving():
            assert asked(remediator, FIRST, deadline=600) == {"status": "running"}
            until(lambda: (freezer / "freezer.state").read_text() == "FROZEN\n", "it sleeps")
            for _ in range(2):  # the second one changes nothing
                assert remediator.ask({"cancel": {"attempt": FIRST}})[0] == {"status": "running"}
                until(lambda: hangs(remediator), "who hangs")
            assert hangs(remediator) == ["sh"]
            assert remediator.ask({"status": {"attempt": FIRST}})[0] == {
                "status": "running",
                "hangs": True,
                "tasks": [],
            }
            assert asked(remediator, SECOND)["refused"]["reason"] == "busy"
            (freezer / "freezer.state").write_text("THAWED")
            assert remediator_process.ended(remediator, FIRST)["end"] == "interrupted"
            assert asked(remediator, THIRD) == {"status": "running"}


def test_a_remediator_that_is_asked_to_end_says_what_hangs_first(directory: Path, group: Path, freezer: Path) -> None:
    """In a container nobody comes after it: an agent that has not heard of it takes its silence for the end."""
    with remediator_process.host(*MEMORY) as first:
        remediator = playing(directory, group, f"/proc/{first.pid}", shell(FREEZE.format(freezer)))
        with remediator.serving() as process:
            assert asked(remediator, FIRST, deadline=600) == {"status": "running"}
            until(lambda: (freezer / "freezer.state").read_text() == "FROZEN\n", "it sleeps")
            process.terminate()
            until(lambda: remediator.ask({"status": {"attempt": FIRST}})[0].get("hangs"), "it says that it hangs")
            assert asked(remediator, SECOND)["refused"]["why"] == "the remediator ends"
            assert process.wait(PLENTY) == 0
