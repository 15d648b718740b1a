"""Where the agent's directories are: all of them named, or none; and a socket that no pod reaches."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from nodeprep.cli.daemon import directories
from nodeprep.cli.daemon.directories import AgentDirectories
from nodeprep.cli.usage import UsageError
from tests.rigs.absent import needs_root
from tests.rigs.agent import LONG, Agent, environment
from tests.rigs.ending import ending

DEFAULT = AgentDirectories("/var/lib/nodeprep", "/run/nodeprep", "/run/nodeprep-agent")
VARIABLES = {"state": "NODEPREP_STATE_DIR", "run": "NODEPREP_RUN_DIR", "socket": "NODEPREP_SOCKET_DIR"}
HALVES = [names for size in (1, 2) for names in combinations(VARIABLES, size)]
ROOT = needs_root("wants a directory of another user")


def variables(*names: str) -> dict[str, str]:
    return {VARIABLES[name]: f"/{name}" for name in names}


PLACES: list[tuple[str, Mapping[str, str], Mapping[str, str], AgentDirectories]] = [
    # root    options            variables               gives
    ("/", {}, {}, DEFAULT),
    ("/host", {}, {}, AgentDirectories("/host/var/lib/nodeprep", "/host/run/nodeprep", "/host/run/nodeprep-agent")),
    ("/host", {}, variables(*VARIABLES), AgentDirectories("/state", "/run", "/socket")),
    ("/host", {"run": "/mine"}, variables(*VARIABLES), AgentDirectories("/state", "/mine", "/socket")),
    ("/", {"state": "/a", "run": "/b", "socket": "/c"}, variables("run"), AgentDirectories("/a", "/b", "/c")),
    ("/", {"socket": "/c"}, variables("state", "run"), AgentDirectories("/state", "/run", "/c")),
    ("/", {}, dict.fromkeys(VARIABLES.values(), ""), DEFAULT),
]  # fmt: skip


@pytest.mark.parametrize(("root", "options", "given", "expected"), PLACES)
def test_an_option_counts_before_its_variable(
    root: str, options: Mapping[str, str], given: Mapping[str, str], expected: AgentDirectories
) -> None:
    assert directories.directories(root, **options, environment=given) == expected


@pytest.mark.parametrize("by", ["options", "variables"])
@pytest.mark.parametrize("names", HALVES)
def test_half_a_set_names_what_is_missing(names: tuple[str, ...], by: str) -> None:
    options = {name: f"/{name}" for name in names} if by == "options" else {}
    with pytest.raises(UsageError) as said:
        directories.directories("/", **options, environment={} if options else variables(*names))
    found, wanted = str(said.value).split(" without ")
    for name, variable in VARIABLES.items():
        assert (f"--{name}-dir /{name}" in found) == (by == "options" and name in names)
        assert (f"{variable}=/{name}" in found) == (by == "variables" and name in names)
        assert (f"{variable} (--{name}-dir)" in wanted) == (name not in names)


@pytest.mark.parametrize("command", ["agent", "check", "reset"])
def test_half_a_set_ends_every_command_that_asks_an_agent(command: str) -> None:
    """As it was set for versions that had two directories."""
    half = environment() | variables("state", "run")
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep", command],
        capture_output=True, text=True, check=False, timeout=LONG, env=half,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "found NODEPREP_STATE_DIR=/state, NODEPREP_RUN_DIR=/run without NODEPREP_SOCKET_DIR (--socket-dir); "
        "wanted all three directories or none\n"
    )


def test_a_pod_that_waits_for_a_gate_needs_no_other_directory() -> None:
    assert directories.run_directory("/mine", variables("run")) == "/mine"
    assert directories.run_directory(None, variables("run")) == "/run"
    assert directories.run_directory(None, variables("state", "socket")) == "/run/nodeprep"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def refused(agent: Agent) -> str:
    done = subprocess.run(agent.argv(), capture_output=True, text=True, check=False, timeout=LONG, env=environment())
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 1), done.stderr
    return lines[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, 0o755, 0o777, 0o500])
def test_nobody_else_enters_the_directory_of_the_socket(agent: Agent, before: int | None) -> None:
    """The kubelet makes a hostPath that is not there with mode 0755."""
    if before is not None:
        agent.socket.mkdir()
        agent.socket.chmod(before)
    with agent:
        agent.report()
        assert mode(agent.socket) == 0o700
        assert mode(agent.socket / "agent.sock") == 0o600
        assert {one.name for one in agent.socket.iterdir()} - {"alive"} == {"agent.sock", "lock"}
        assert not [one for one in agent.run.iterdir() if one.is_socket()]


@pytest.mark.parametrize("below", ["", "private", "private/agent"])
def test_a_socket_among_the_gate_files_is_refused(agent: Agent, below: str) -> None:
    """Also by way of a link: what counts is what pods mount."""
    agent.run.mkdir()
    link = agent.directory / "link"
    link.symlink_to(agent.run)
    for place in (agent.run, link):
        agent.socket = place / below
        said = refused(agent)
        assert f"{agent.socket}: is in {agent.run}, which waiting pods mount" in said
    assert not [one for one in agent.run.rglob("*") if one.is_socket()]


@pytest.mark.parametrize("name", ["run-agent", "runs"])
def test_a_name_that_begins_alike_is_another_directory(agent: Agent, name: str) -> None:
    agent.socket = agent.directory / name
    with agent:
        agent.report()


@pytest.mark.parametrize(("place", "says"), [("/dev/null/agent", "Not a directory"), ("/proc/agent", "No such file")])
def test_a_directory_that_cannot_be_made_is_named(agent: Agent, place: str, says: str) -> None:
    agent.socket = Path(place)
    assert f"{place}: {says}" in refused(agent)


@ROOT
def test_the_directory_of_another_user_is_refused(agent: Agent) -> None:
    """Its owner could put a socket of his own there."""
    agent.socket.mkdir(mode=0o700)
    os.chown(agent.socket, 1, 1)
    assert f"{agent.socket}: belongs to uid 1, wanted ours (0): see ls -ld {agent.socket}" in refused(agent)


def test_the_socket_of_a_former_version_is_removed(agent: Agent) -> None:
    """Former ones listened beside the gate files; one that was killed left its file there."""
    agent.run.mkdir()
    for name in ("agent.sock", "agent.sock.new"):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(agent.run / name))
    (agent.run / "other.sock").touch()
    with agent:
        agent.report()
        assert {one.name for one in agent.run.iterdir() if "sock" in one.name} == {"other.sock"}
        assert agent.lines("start-trouble") == []


def test_what_is_no_socket_and_no_lock_stays(agent: Agent) -> None:
    agent.run.mkdir()
    (agent.run / "agent.sock").write_text("a human's")
    (agent.run / "lock").mkdir()
    with agent:
        agent.report()
        assert (agent.run / "agent.sock").read_text() == "a human's"
        assert (agent.run / "lock").is_dir()


# The lock of a former version, as it or somebody else holds it, and a socket that somebody listens on, or did.
FORMER = """
import fcntl, os, socket, sys
lock, path, listens = sys.argv[1:]
held = os.open(lock, os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
if path:
    one = socket.socket(socket.AF_UNIX)
    one.bind(path)
    listens and one.listen(0)
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(agent: Agent, where: str = "", *, listens: bool = True) -> Iterator[subprocess.Popen[str]]:
    """Somebody with the lock of a former version, and with a socket in the `run` or `socket` directory."""
    for directory in (agent.run, agent.socket):
        directory.mkdir(exist_ok=True)
    lock = agent.run / "lock"
    lock.write_text("4711\n")
    path = str(getattr(agent, where) / "agent.sock") if where else ""
    words = (sys.executable, "-I", "-c", FORMER, str(lock), path, "yes" if listens else "")
    with ending(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("where", ["run", "socket"])
def test_an_agent_of_a_former_version_that_lives_is_met(agent: Agent, where: str) -> None:
    """Its lock beside the gate files counts where it could have none in the state directory: two must not run."""
    with holding(agent, where):
        told = f"{agent.run}/lock: another nodeprep agent (pid 4711) runs on this node; wanted one"
        assert told in refused(agent)
        assert (agent.run / "lock").exists(), "it is its own still"
        for _ in range(4):
            assert told in refused(agent), "also while its queue is full"
    (agent.run / "lock").touch()
    with agent:
        agent.report()
        assert not (agent.run / "lock").exists()


@pytest.mark.parametrize(("where", "listens"), [("", False), ("run", False), ("socket", False)])
def test_who_locks_and_does_not_answer_is_no_agent(agent: Agent, where: str, listens: bool) -> None:
    """A pod that mounts the gate files read-only: it may lock, and not listen. Nor does what a dead agent left."""
    with holding(agent, where, listens=listens), agent:
        agent.report()
        assert not (agent.run / "lock").exists()
        assert agent.lines("start-trouble") == agent.lines("lock-trouble") == []


def test_nothing_but_gate_files_lies_where_pods_look(agent: Agent) -> None:
    """Nor the memory, whatever becomes of the disk that it is kept on."""
    agent.state = Path("/dev/null/state")
    with agent:
        agent.report()
        agent.wait("store-trouble")
        assert (agent.socket / "memory.json").exists()
        assert not [one for one in agent.run.iterdir() if one.suffix not in (".device", ".ready")]
