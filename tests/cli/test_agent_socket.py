"""Asking the agent of this node: real servers on a unix socket that say too much, too little, or nothing."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeprep.cli.daemon import agent_socket
from nodeprep.cli.daemon.agent_socket import REPORT_LIMIT_BYTES, REQUEST_TIMEOUT_SECONDS
from tests.rigs.raw_server import Caller, Conversation, RawServer, once

SLACK = 30.0  # seconds that a busy machine may take longer; whoever is late here, is so for ever
OK = b"HTTP/1.1 200 OK\r\n"


def answered(tmp_path: Path, conversation: Conversation) -> OSError:
    path = tmp_path / "agent.sock"
    with RawServer(conversation, path=path), pytest.raises(OSError) as failed:  # noqa: PT011 - its words are looked at
        agent_socket.ask(str(path), "GET", "/report")
    return failed.value


def test_one_answer_on_one_connection(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with RawServer(once(b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\n\xe2\x9c\x93"), path=path) as server:
        said = agent_socket.ask(str(path), "POST", "/reset")
        assert (said.status, said.text) == (202, "✓")
        assert server.heard[0].startswith(b"POST /reset HTTP/1.1\r\n")
        assert b"\r\nContent-Length: 0\r\n" in server.heard[0]


def test_nobody_there(tmp_path: Path) -> None:
    for path, number in ((tmp_path / "none.sock", errno.ENOENT), (tmp_path / "left.sock", errno.ECONNREFUSED)):
        if number == errno.ECONNREFUSED:
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(path))
        with pytest.raises(OSError) as failed:  # noqa: PT011 - its number is looked at
            agent_socket.ask(str(path), "GET", "/report")
        assert failed.value.errno == number


def test_a_socket_that_nobody_reads_does_not_hold_a_command(tmp_path: Path) -> None:
    """An agent that is stopped: the kernel takes connection and request for it."""
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(path))
        stopped.listen(8)
        began = time.monotonic()
        with pytest.raises(OSError, match="no whole answer in "):
            agent_socket.ask(str(path), "GET", "/report")
        assert time.monotonic() - began < REQUEST_TIMEOUT_SECONDS + SLACK


def test_an_agent_that_drips_does_not_hold_a_command_either(tmp_path: Path) -> None:
    def drip(caller: Caller) -> None:
        caller.request()
        caller.drips(OK + b"X: " + b"a" * 60, 1.0)

    began = time.monotonic()
    late = answered(tmp_path, drip)
    assert time.monotonic() - began < REQUEST_TIMEOUT_SECONDS + SLACK
    assert "no whole answer in " in str(late)  # 5 s, less what this machine took to begin


WRONG = [
    (once(b"SSH-2.0-OpenSSH_9.6\r\n"), "it begins with b'SSH-2.0-OpenSSH_9.6\\r', which is not HTTP"),
    (once(OK + b"Content-Length: 3\r\n\r\nab"), "the connection ended in the middle of the answer's body"),
    (once(OK + b"\r\n" + b" " * (REPORT_LIMIT_BYTES + 1)), f"the body is larger than {REPORT_LIMIT_BYTES} bytes"),
]


@pytest.mark.parametrize(("conversation", "says"), WRONG)
def test_what_is_no_answer_of_an_agent(tmp_path: Path, conversation: Conversation, says: str) -> None:
    assert answered(tmp_path, conversation).strerror == says


LOADED = """\
import sys
from nodeprep.cli.daemon.agent_socket import ask
loaded = lambda: [name for name in ("h11", "ssl", "http.client", "email") if name in sys.modules]
print(loaded())
print(ask(sys.argv[1], "GET", "/report").status)
print(loaded())
"""


def test_what_asking_imports(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with RawServer(once(OK + b"Content-Length: 0\r\n\r\n"), path=path):
        command = (sys.executable, "-c", LOADED, str(path))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["[]", "200", "['h11']"]), done.stderr
