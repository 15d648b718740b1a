"""Sockets that somebody listens on and that nobody does: real ones, also below a root mounted elsewhere."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeprep.doors import socket_probe
from nodeprep.doors.node_host import Host
from nodeprep.model import Unreadable, Why
from tests.rigs.absent import cannot_start

DEADLINE = 5.0


@contextmanager
def listening(path: Path, queue: int = 8) -> Iterator[socket.socket]:
    """A Unix socket with a listener; its name may be longer than an address holds."""
    here = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
        server.listen(queue)
        yield server


def test_a_listener_is_connected_to_and_gets_nothing(tmp_path: Path) -> None:
    with listening(tmp_path / "eni.socket") as server:
        assert socket_probe.connect(str(tmp_path / "eni.socket"), DEADLINE) is None
        server.settimeout(DEADLINE)
        taken, _ = server.accept()
        assert taken.recv(1) == b""
        taken.close()


def test_the_file_of_a_dead_listener(tmp_path: Path) -> None:
    with listening(tmp_path / "eni.socket"):
        pass
    assert socket_probe.connect(str(tmp_path / "eni.socket"), DEADLINE) == errno.ECONNREFUSED


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    with listening(tmp_path / "eni.socket"):
        before = len(tuple(Path("/proc/self/fd").iterdir()))
        for name in ("eni.socket", "none.socket", "none/eni.socket") * 3:
            socket_probe.connect(str(tmp_path / name), DEADLINE)
        assert len(tuple(Path("/proc/self/fd").iterdir())) == before


def test_nothing_there(tmp_path: Path) -> None:
    assert socket_probe.connect(str(tmp_path / "eni.socket"), DEADLINE) == errno.ENOENT
    assert socket_probe.connect(str(tmp_path / "eni" / "eni.socket"), DEADLINE) == errno.ENOENT
    (tmp_path / "file").write_text("")
    assert socket_probe.connect(str(tmp_path / "file" / "eni.socket"), DEADLINE) == errno.ENOTDIR


@pytest.mark.timeout(120)
def test_what_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for name in ("file", "fifo", "directory"):
        assert socket_probe.connect(str(tmp_path / name), DEADLINE) == errno.ECONNREFUSED
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(str(tmp_path / "datagrams"))
        assert socket_probe.connect(str(tmp_path / "datagrams"), DEADLINE) == errno.EPROTOTYPE


@pytest.mark.timeout(120)
def test_a_daemon_that_takes_no_more_connections(tmp_path: Path) -> None:
    waiting = []
    with listening(tmp_path / "eni.socket", queue=1):
        for _ in range(8):
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            if one.connect_ex(str(tmp_path / "eni.socket")):
                break
        assert socket_probe.connect(str(tmp_path / "eni.socket"), 1.0) in (errno.EAGAIN, errno.ETIMEDOUT)
        for one in waiting:
            one.close()


def test_a_path_longer_than_an_address(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    with listening(deep / "eni.socket"):
        assert socket_probe.connect(str(deep / "eni.socket"), DEADLINE) is None


def test_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: tuple[str, int] = server.getsockname()
        assert socket_probe.connect(address, DEADLINE) is None
    assert socket_probe.connect(address, DEADLINE) == errno.ECONNREFUSED


@pytest.mark.timeout(120)
def test_a_listener_over_tcp_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address: tuple[str, int] = server.getsockname()
        waiting = []
        for _ in range(8):  # a full queue drops what comes
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            waiting.append(one)
        time.sleep(0.2)
        started = time.monotonic()
        assert socket_probe.connect(address, 0.5) == errno.ETIMEDOUT
        assert time.monotonic() - started < 10
        for one in waiting:
            one.close()


def test_host_connects_below_its_root_and_follows_links_inside_it(tmp_path: Path) -> None:
    (tmp_path / "run/eni").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    host = Host(str(tmp_path))
    assert host.connects("/var/run/eni/eni.socket", DEADLINE) == errno.ENOENT
    with listening(tmp_path / "run/eni/eni.socket"):
        assert host.connects("/var/run/eni/eni.socket", DEADLINE) is None
    assert host.connects("/var/run/eni/eni.socket", DEADLINE) == errno.ECONNREFUSED


def test_host_says_what_it_may_not_try(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        cannot_start("another user's directory is needed")
    (tmp_path / "eni").mkdir(mode=0o700)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        answer = Host("/").connects(str(tmp_path / "eni/eni.socket"), DEADLINE)
        denied = isinstance(answer, Unreadable) and answer.kind is Why.DENIED
        os.write(writing, b"denied" if denied else repr(answer).encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000)
    os.close(reading)
    os.waitpid(child, 0)
    assert said == b"denied"
