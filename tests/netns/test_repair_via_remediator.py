"""`nodeprep repair --via-remediator` on a node in namespaces: planned by the command, run by a remediator beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import nodeprep
from tests.rigs import terminal
from tests.rigs.netns import ENVIRONMENT, NODE_PROCESS, REPOSITORY, Node
from tests.rigs.raw_server import Caller, RawServer
from tests.rigs.remediator_process import Remediator
from tests.rigs.scratch import in_memory
from tests.rigs.waiting import until

LOCKS = "/var/lib/nodeprep-repair"
VARIABLE = "NODEPREP_REMEDIATOR_DIR"
CROWD = 40  # silent connections
NOTHING_DONE = "nothing to do: no finding has a remedy of ours"


@pytest.fixture(scope="module")
def node(node_to_mend: Node) -> Node:
    return node_to_mend


@pytest.fixture
def directory() -> Iterator[Path]:
    """For a remediator: the path of its socket must be short."""
    with in_memory() as made:
        yield made


@contextmanager
def serving(node: Node, directory: Path, *options: str) -> Iterator[Remediator]:
    """A remediator on the node, whose lock is that of `nodeprep repair` there."""
    enter = ("nsenter", "-t", str(node.pid), "-n", "-m", f"--wd={REPOSITORY}")
    remediator = Remediator(directory, "--lock-dir", LOCKS, *options, before=enter)
    with remediator.serving():
        yield remediator


def repair(node: Node, directory: Path, *words: str, command: str = "repair") -> subprocess.CompletedProcess[str]:
    told = ("env", f"{VARIABLE}={directory}/socket", sys.executable, "-m", "nodeprep", command, *words)
    return node.run(*told, check=False, text="")


def via(node: Node, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return repair(node, directory, "eni.up", "--via-remediator", "--yes", *words)


def history(node: Node) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(
        node.run("python", "-m", "nodeprep", "repair", "history", "-o", "json").stdout
    )
    return told


@contextmanager
def down(node: Node, link: str = "eth1") -> Iterator[None]:
    node.ip("link", "set", link, "down")
    try:
        yield
    finally:
        node.ip("link", "set", link, "up")


def is_up(node: Node, link: str = "eth1") -> bool:
    return "UP" in json.loads(node.ip("-j", "link", "show", link))[0]["flags"]


@pytest.mark.timeout(600)
def test_it_is_planned_here_and_run_there(node: Node, directory: Path) -> None:
    """The page, the history and the exit code are those of a repair without a remediator."""
    with serving(node, directory) as remediator:
        with down(node):
            dry = via(node, directory, "--dry-run")
            assert (dry.returncode, is_up(node)) == (0, False), dry.stdout + dry.stderr
            assert "1 would change" in dry.stdout
            done = via(node, directory)
            assert (done.returncode, is_up(node)) == (0, True), done.stdout + done.stderr
        again = via(node, directory)
        assert (again.returncode, again.stdout.splitlines()[0]) == (0, NOTHING_DONE)
        with down(node):
            plain = repair(node, directory, "eni.up", "--yes")
    without_times = [[line.rpartition(", ")[0] or line for line in one.stdout.splitlines()] for one in (done, plain)]
    assert without_times[0] == without_times[1]
    there = [(one["id"], one["state"], one["remedy"]) for one in remediator.records()]
    here = history(node)[-2:]
    same = ("command", "remedy", "args", "checks", "state", "changed", "why", "still")
    assert [here[0][key] for key in same] == [here[1][key] for key in same]
    assert there[2:] == [(here[0]["id"], "began", "link_up"), (here[0]["id"], "done", "link_up")]
    assert [state for _, state, _ in there[:2]] == ["began", "checked"]


@pytest.mark.timeout(600)
def test_in_a_terminal_it_asks_here(node: Node, directory: Path) -> None:
    enter = ("nsenter", "-t", str(node.pid), "-n", "-m", f"--wd={REPOSITORY}")
    words = (*enter, sys.executable, "-m", "nodeprep", "repair", "eni.up", "--via-remediator")
    places = {VARIABLE: f"{directory}/socket", NODE_PROCESS: str(node.pid), "NO_COLOR": "1"}
    environment = {**os.environ, **ENVIRONMENT, **places}
    with serving(node, directory) as remediator, down(node):
        code, told = terminal.answered(words, environment, b"n\n")
        assert (code, is_up(node), remediator.records()) == (1, False, [])
        assert told.rstrip().endswith("Run this remedy? [y/N] n\nnothing was done: you did not agree")
        code, told = terminal.answered(words, environment, b"y\n")
        assert (code, is_up(node)) == (0, True), told
        assert told.rstrip().endswith("OK eni.up")


def test_without_a_remediator_one_line_says_so(node: Node, directory: Path) -> None:
    (directory / "socket").mkdir()
    with down(node):
        done = via(node, directory)
        assert (done.returncode, done.stdout, is_up(node)) == (2, "", False)
    assert done.stderr == (
        f"nodeprep repair --via-remediator: {directory}/socket/remediator.sock: No such file or directory; wanted the "
        "remediator of this node: is components/repair applied, and does its pod run here?\n"
    )
    done = repair(node, directory, "--via-remediator", "--yes", command="provision")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nodeprep provision --via-remediator: ")


def says(line: bytes) -> Any:
    def conversation(caller: Caller) -> None:
        caller.link.recv(1 << 16)
        caller.says(line)
        caller.link.recv(1 << 16)

    return conversation


OTHERS = [
    (
        b'{"hello": {"version": "9.9.9", "runs": false}}\n',
        f"found a remediator of version '9.9.9', wanted {nodeprep.__version__}: give both pods one version",
    ),
    (b"[]\n", "found b'[]', wanted an answer of a remediator"),
    (b"\x16\x03\n", "found b'\\x16\\x03', wanted an answer of a remediator"),
    (b'{"error": "no"}\n', "found None, wanted an answer of a remediator"),
]


@pytest.mark.parametrize(("line", "words"), OTHERS)
def test_another_version_and_what_is_no_remediator(node: Node, directory: Path, line: bytes, words: str) -> None:
    (directory / "socket").mkdir()
    with RawServer(says(line), path=directory / "socket/remediator.sock"), down(node):
        done = via(node, directory)
        assert (done.returncode, done.stdout, is_up(node)) == (2, "", False)
    where = f"{directory}/socket/remediator.sock"
    assert done.stderr == f"nodeprep repair --via-remediator: {where}: {words}\n"


REFUSALS = [
    # options of the remediator         its words
    (
        ("--runs-a-day", "0"),
        "link_up: found 0 runs of all remedies within 24 hours, wanted fewer than 0 (--runs-a-day)",
    ),
    (("--remedy", "mtu"), "link_up: the remediator's manifest does not list it (--remedy)"),
    (("--max-deadline", "60"), "link_up: found a deadline of 120 s, wanted at most 60 (--max-deadline)"),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("options", "words"), REFUSALS)
def test_what_its_own_limits_refuse(node: Node, directory: Path, options: tuple[str, ...], words: str) -> None:
    with serving(node, directory, *options) as remediator, down(node):
        done = via(node, directory)
        assert (done.returncode, is_up(node)) == (1, False), done.stdout + done.stderr
        assert f"refused link_up for eni.up: {words}" in " ".join(done.stdout.split())
    assert remediator.records() == []
    told = history(node)[-1]
    assert (told["state"], told["why"]) == ("refused", words)


@contextmanager
def held(node: Node) -> Iterator[None]:
    """Somebody repairs this node by hand."""
    script = (
        "import sys\nfrom nodeprep.repair.repair_lock import RepairLock\n"
        f"with RepairLock({LOCKS!r}, 'nodeprep drill'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with node.start("python", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()


@pytest.mark.timeout(600)
def test_what_is_refused_at_the_moment_of_acting(node: Node, directory: Path) -> None:
    """Somebody else repairs: the attempt has begun there, and does nothing."""
    with serving(node, directory) as remediator, down(node), held(node):
        done = via(node, directory)
        assert (done.returncode, is_up(node)) == (1, False), done.stdout + done.stderr
        assert "refused link_up for eni.up: nodeprep drill (pid " in " ".join(done.stdout.split())
    assert [one["state"] for one in remediator.records()] == ["began", "refused"]
    assert history(node)[-1]["state"] == "refused"


SLEEP = "86413"


def sleeps() -> bool:
    """Whether the `ip` that hangs runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"sleep\0{SLEEP}\0".encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


@contextmanager
def hanging(node: Node, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A repair in the middle of its play: `ip` of this node hangs."""
    ip = node.run("sh", "-c", "readlink -f $(command -v ip)").stdout.strip()
    node.run("sh", "-c", f"printf '#!/bin/sh\\nexec sleep {SLEEP}\\n' > /run/ip; chmod +x /run/ip")
    words = ("env", f"{VARIABLE}={directory}/socket", sys.executable, "-m", "nodeprep", "repair", "eni.up")
    with down(node):
        node.run("mount", "--bind", "/run/ip", ip)
        try:
            process = node.start(*words, "--via-remediator", "--yes")
            until(sleeps, "the play is under way", 120.0)
            yield process
        finally:
            node.run("umount", ip)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_who_is_interrupted_cancels_it_there_and_nothing_is_left(
    node: Node, directory: Path, number: signal.Signals
) -> None:
    with serving(node, directory) as remediator:
        with hanging(node, directory) as process:
            os.kill(process.pid, number)
            told, _ = process.communicate(timeout=300)
            assert process.returncode == 130, told
            assert not sleeps(), "it had ended before the command did"
        assert [one["state"] for one in remediator.records()] == ["began", "interrupted"]
    assert history(node)[-1]["state"] == "interrupted"


@pytest.mark.timeout(600)
def test_a_remediator_that_goes_away_meanwhile(node: Node, directory: Path) -> None:
    with serving(node, directory) as remediator:
        with hanging(node, directory) as process:
            attempt = remediator.records()[0]["id"]
            remediator.end()
            told, _ = process.communicate(timeout=300)
            until(lambda: not sleeps(), "what it started ends with it", 120.0)
        assert process.returncode == 1, told
        assert f"broken {directory}/socket/remediator.sock: " in " ".join(told.split())
        assert f"its ledger knows of attempt {attempt}" in " ".join(told.split())
    assert history(node)[-1]["state"] == "broken"


@pytest.mark.timeout(600)
def test_a_remediator_that_comes_again_tells_how_it_ended(node: Node, directory: Path) -> None:
    with serving(node, directory) as remediator, hanging(node, directory) as process:
        remediator.end()
        with remediator.serving():
            told, _ = process.communicate(timeout=300)
        assert process.returncode == 1, told
        assert "the remediator ended while it ran" in " ".join(told.split())
        assert [one["state"] for one in remediator.records()] == ["began", "interrupted"]


@pytest.mark.timeout(600)
def test_who_is_cut_off_asks_again(node: Node, directory: Path) -> None:
    """Silent connections, again and again, as a stolen agent can have them: the end of a run is told all the same."""
    words = ("env", f"{VARIABLE}={directory}/socket", sys.executable, "-m", "nodeprep", "repair", "eni.up")
    over, cut_off = threading.Event(), list[socket.socket]()
    with serving(node, directory) as remediator, down(node):

        def crowd() -> None:
            while not over.is_set():
                peers = [remediator.connected() for _ in range(CROWD)]
                over.wait(0.02)
                cut_off.extend(peer for peer in peers if is_cut_off(peer))
                for peer in peers:
                    peer.close()

        crowding = threading.Thread(target=crowd)
        process = node.start(*words, "--via-remediator", "--yes")
        try:
            until(remediator.ledger.exists, "it has begun")
            crowding.start()
            told, _ = process.communicate(timeout=300)
        finally:
            over.set()
            crowding.join()
    assert process.returncode == 0, told
    assert cut_off
    assert [one["state"] for one in remediator.records()] == ["began", "done"]


def is_cut_off(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
