"""`nodeprep nodes --watch` and `--wait` against a real kube-apiserver."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import pytest

from tests.cli.program import NODEPREP
from tests.cluster.fleet import NODES, POOL, SLACK, cells, few_nodes, node, nodes, say
from tests.rigs.cluster import Cluster
from tests.rigs.ending import ending


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Cluster]:
    with few_nodes(cluster):
        yield cluster


class Watching:
    """`nodeprep nodes --watch` as it runs: what it said so far, line by line."""

    def __init__(self, file: Path, meant: tuple[str, ...]) -> None:
        # A shell has what it runs in the background ignore Ctrl-C.
        command = ("env", "--default-signal=INT", NODEPREP, "nodes", *meant, "--watch")
        environment = {**os.environ, "KUBECONFIG": str(file)}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: SimpleQueue[str] = SimpleQueue()
        streams = (self.process.stdout, self.process.stderr)
        self.readers = [Thread(target=self._read, args=(stream,)) for stream in streams]
        for reader in self.readers:
            reader.start()

    def _read(self, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines.put(line)

    def until(self, *words: str) -> str:
        """The first line that holds all of them."""
        said: list[str] = []
        while True:
            try:
                line = self.lines.get(timeout=SLACK)
            except Empty:
                raise AssertionError(f"never said {words}, but: {''.join(said)}") from None
            said.append(line)
            if all(word in line for word in words):
                return line

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SLACK)


@contextmanager
def watching(file: Path, *meant: str) -> Iterator[Watching]:
    one = Watching(file, meant or ("-l", f"pool={POOL}"))
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        for reader in one.readers:
            reader.join()


def test_a_watch_says_what_changes_until_ctrl_c(fleet: Cluster) -> None:
    with watching(fleet.kubeconfig()) as watched:
        watched.until("fleet-4")
        say(fleet, "fleet-1", "False", "PortDown")
        watched.until("fleet-1", "PortDown")
        node(fleet, "fleet-5")
        watched.until("fleet-5", "Ready")
        assert fleet.call("DELETE", f"{NODES}/fleet-5")[0] == 200
        watched.until("fleet-5", "Gone")
        assert watched.end() == 130


class Passage:
    """A port of loopback that leads to the API server, and that can be cut."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.held: list[socket.socket] = []
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.server.accept()
                far = socket.create_connection(("127.0.0.1", self.to))
                self.held += [near, far]
                for pair in ((near, far), (far, near)):
                    Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)

    def cut(self) -> None:
        for one in self.held:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.held.clear()

    def close(self) -> None:
        self.server.close()
        self.cut()


def test_a_watch_outlives_its_connection(fleet: Cluster) -> None:
    passage = Passage(fleet.port)
    try:
        file = fleet.kubeconfig(cluster={"server": f"https://127.0.0.1:{passage.port}"})
        with watching(file) as watched:
            watched.until("fleet-4")
            say(fleet, "fleet-1", "False", "PortDown")
            watched.until("fleet-1", "PortDown")
            passage.cut()
            say(fleet, "fleet-1", "True", "Ready")
            watched.until("lost the watch, listing again")
            watched.until("fleet-1", "Ready")
            say(fleet, "fleet-1", "False", "AndAgain")
            watched.until("fleet-1", "AndAgain")
    finally:
        passage.close()


def test_a_watch_outlives_a_node_that_it_was_to_show(fleet: Cluster) -> None:
    node(fleet, "fleet-5")
    passage = Passage(fleet.port)
    try:
        file = fleet.kubeconfig(cluster={"server": f"https://127.0.0.1:{passage.port}"})
        with watching(file, "fleet-1", "fleet-5") as watched:
            watched.until("fleet-5", "Ready")
            assert fleet.call("DELETE", f"{NODES}/fleet-5")[0] == 200
            watched.until("fleet-5", "Gone")
            passage.cut()
            watched.until("lost the watch, listing again")
            say(fleet, "fleet-1", "False", "AndAgain")
            watched.until("fleet-1", "AndAgain")
            assert watched.end() == 130
    finally:
        passage.close()


def once_it_waits(fleet: Cluster, act: Callable[[], object], *words: str) -> subprocess.CompletedProcess[str]:
    """`nodeprep nodes`, and what is done as soon as stderr has a line: the first look is over then."""
    environment = {**os.environ, "KUBECONFIG": str(fleet.kubeconfig())}
    command = (NODEPREP, "nodes", *words)
    with ending(
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stderr.readline()
        act()
        said += process.stderr.read()
        shown = process.stdout.read()
    return subprocess.CompletedProcess(command, process.returncode, shown, said)


@pytest.mark.parametrize(
    ("names", "waits"),
    [
        (("fleet-1", "fleet-5"), "waiting: 1 of 2 not ready: fleet-5 Gone\n"),
        (("fleet-5",), "waiting: 1 of 1 not ready: fleet-5 Gone\nno Node fleet-5 any more\n"),
    ],
)
def test_a_wait_for_a_node_that_goes_says_so(fleet: Cluster, names: tuple[str, ...], waits: str) -> None:
    node(fleet, "fleet-5")
    say(fleet, "fleet-5", "False", "Bootstrap")
    done = once_it_waits(fleet, lambda: fleet.call("DELETE", f"{NODES}/fleet-5"), *names, "--wait", "12s")
    assert done.returncode == 1
    assert done.stderr.endswith(waits)
    assert [row[0] for row in cells(done.stdout)] == [name for name in names if name != "fleet-5"]


def test_it_waits_until_all_are_ready(fleet: Cluster) -> None:
    node(fleet, "fleet-6")
    say(fleet, "fleet-6", "False", "Bootstrap")
    done = once_it_waits(fleet, lambda: say(fleet, "fleet-6", "True", "Ready"), "fleet-1", "fleet-6", "--wait", "30s")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "waiting: 1 of 2 not ready: fleet-6 Bootstrap\n"
    assert cells(done.stdout)[1] == ["fleet-6", "Ready", "rdma-roce", "-", "8/8"]


WAITS = [
    (("fleet-1",), 0),
    (("fleet-1", "fleet-2"), 1),
    (("fleet-1", "fleet-3"), 3),
    (("fleet-2", "fleet-3"), 1),
    (("fleet-4",), 3),
    (("-l", "no=such"), 1),
]


@pytest.mark.parametrize(("words", "code"), WAITS)
def test_what_it_exits_with_when_time_is_up(fleet: Cluster, words: tuple[str, ...], code: int) -> None:
    assert nodes(fleet, *words, "--wait", "0").returncode == code


def test_a_node_that_a_dead_agent_left_does_not_have_leases_read_without_end(fleet: Cluster) -> None:
    """Its kubelet writes for ever: each time that they were read in vain, they are read half as often."""
    with watching(fleet.kubeconfig()) as watched:
        watched.until("fleet-4")
        before = leases_read(fleet)
        for number in range(24):
            patch = {"metadata": {"annotations": {"example.com/beat": str(number)}}}
            assert fleet.call("PATCH", f"{NODES}/fleet-3", patch)[0] == 200
            time.sleep(0.5)
        read = leases_read(fleet) - before
        assert read <= 3, "after 2, 6 and 14 seconds, not every 2"
        assert read >= 1
        assert watched.end() == 130


def leases_read(cluster: Cluster) -> int:
    return sum(one.startswith("list ") and "/leases" in one for one in cluster.requests("admin"))
