"""The HTTP client against real servers that drip, flood, hang up between requests, or do not listen at all."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from threading import Event, Thread

import pytest

from nodeprep.doors import clock
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import BodyTooLarge, HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Why
from tests.rigs.raw_server import Caller, RawServer, always, once

AMPLE = 60.0  # seconds for a request, where its deadline is not what is looked at
SLACK = 30.0  # seconds that a busy machine may take longer; whoever is late here, is so for ever
LIMIT = 1 << 20  # bytes of a body here
OK = b"HTTP/1.1 200 OK\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\nab"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def client(server: RawServer, connect: float = AMPLE, silence: float = inf, *, keep: bool = True) -> HttpClient:
    endpoint = Endpoint("127.0.0.1", server.port)
    return opened(HttpClient(endpoint, connect_seconds=connect, silence_seconds=silence, keep_alive=keep))


CLIENTS: list[HttpClient] = []


def opened(of: HttpClient) -> HttpClient:
    """The same, closed after the test."""
    CLIENTS.append(of)
    return of


@pytest.fixture(autouse=True)
def all_closed() -> Iterator[None]:
    yield
    while CLIENTS:
        CLIENTS.pop().close()


def asked(of: HttpClient, method: str = "GET", body: bytes = b"", seconds: float = AMPLE) -> tuple[int, bytes]:
    with of.send(method, "/x", {}, body, until=clock.now() + seconds) as response:
        return response.status, response.read(LIMIT)


def failure(act: Callable[[], object]) -> HttpFailure:
    with pytest.raises(HttpFailure) as failed:
        act()
    return failed.value


DRIPPED = [
    pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X-More: 1\r\n" * 90, id="head"),
    pytest.param(OK + b"Content-Length: 60\r\n\r\n" + b"a" * 60, id="body"),
    pytest.param(CHUNKED + b"1\r\na\r\n" * 60, id="chunks"),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 8, id="interim answers"),
]


@pytest.mark.parametrize("data", DRIPPED)
def test_a_byte_a_second_does_not_outlast_the_deadline(data: bytes) -> None:
    """Every byte ends a silence; only an absolute deadline ends the request."""

    def drip(caller: Caller) -> None:
        caller.request()
        head, _, rest = data.partition(b"\r\n\r\n")  # what comes before is not what is looked at
        caller.says(head[:40] if not rest else head + b"\r\n\r\n")
        caller.drips(rest or head[40:], 1.0)

    def call() -> tuple[HttpFailure, float]:
        with RawServer(drip) as server:
            began = time.monotonic()
            late = failure(lambda: asked(client(server, silence=1.8), seconds=2.5))
            return late, time.monotonic() - began

    late, took = call()
    for _ in range(4):
        if "silent" not in late.detail:  # else the machine was, and no byte came in time
            break
        late, took = call()
    assert (late.kind, late.detail, late.connected) == (Why.TIMEOUT, "no whole answer in 2.5 s", True)
    assert 2.4 < took < 2.5 + SLACK


def test_a_silence_ends_a_request_before_its_deadline() -> None:
    with RawServer(lambda caller: (caller.request(), caller.over.wait())) as server:
        late = failure(lambda: asked(client(server, silence=0.5)))
    assert (late.kind, late.detail) == (Why.TIMEOUT, "silent for 0.5 s or more")


def test_a_server_that_does_not_read_ends_a_request_that_is_sent() -> None:
    with RawServer(lambda caller: caller.over.wait()) as server:
        late = failure(lambda: asked(client(server), "POST", b"a" * (64 << 20), seconds=1.0))
    assert late.kind is Why.TIMEOUT


def test_chunks_of_every_size_are_one_body() -> None:
    sizes = [1, 15, 16, 4096, 65536, 100_000]
    body = b"".join(bytes((65 + number,)) * size for number, size in enumerate(sizes))

    def speak(caller: Caller) -> None:
        caller.request()
        caller.says(CHUNKED)
        at = 0
        for size in sizes:
            caller.says(b"%x;name=value\r\n" % size + body[at : at + size] + b"\r\n")
            at += size
        caller.says(b"0\r\nX-Trailer: 1\r\n\r\n")
        always(TWO)(caller)

    with RawServer(speak) as server:
        ours = client(server)
        assert asked(ours) == (200, body)
        assert asked(ours) == (200, b"ab")
        assert server.connections == 1


FRAMED: list[Callable[[int], bytes]] = [
    lambda count: OK + b"Content-Length: %d\r\n\r\n" % count + b"a" * count,
    lambda count: CHUNKED + b"%x\r\n" % count + b"a" * count + b"\r\n0\r\n\r\n",
    lambda count: OK + b"\r\n" + b"a" * count,
]


@pytest.mark.parametrize("framed", FRAMED, ids=["length", "chunked", "until the end"])
def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(framed: Callable[[int], bytes]) -> None:
    with RawServer(once(framed(LIMIT)), once(framed(LIMIT + 1))) as server:
        ours = client(server)
        assert asked(ours) == (200, b"a" * LIMIT)
        assert isinstance(failure(lambda: asked(ours)), BodyTooLarge)


def test_a_body_without_end_ends_at_the_limit() -> None:
    def flood(caller: Caller) -> None:
        caller.request()
        caller.says(CHUNKED)
        while True:
            caller.says(b"1000\r\n" + b" " * 4096 + b"\r\n")

    with RawServer(flood) as server:
        assert isinstance(failure(lambda: asked(client(server))), BodyTooLarge)


def test_interim_answers_are_passed_over() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    with RawServer(always(early + TWO)) as server:
        ours = client(server)
        assert [asked(ours), asked(ours, "POST", b"x")] == [(200, b"ab")] * 2
        assert server.connections == 1


def test_a_connection_carries_one_request_after_another() -> None:
    with RawServer(always(TWO)) as server:
        ours = client(server)
        assert [asked(ours) for _ in range(3)] == [(200, b"ab")] * 3
        assert server.connections == 1
        ours.close()
        assert asked(ours) == (200, b"ab"), "a closed client keeps nothing, and still asks"
        assert asked(ours) == (200, b"ab")
        assert server.connections == 3


CLOSING = [
    pytest.param(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nab", id="the server says so"),
    pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", id="HTTP/1.0"),
    pytest.param(TWO + b"more", id="more than was asked for"),
]


@pytest.mark.parametrize("answer", CLOSING)
def test_a_connection_that_may_not_be_used_again_is_not(answer: bytes) -> None:
    with RawServer(always(answer)) as server:
        ours = client(server)
        assert [asked(ours), asked(ours)] == [(200, b"ab")] * 2
        assert server.connections == 2


def test_an_answer_that_was_not_read_to_its_end_closes_its_connection() -> None:
    with RawServer(always(TWO)) as server:
        ours = client(server)
        with ours.send("GET", "/x", {}, until=clock.now() + AMPLE) as response:
            assert response.status == 200
        assert asked(ours) == (200, b"ab")
        assert server.connections == 2


def test_without_keep_alive_each_request_has_a_connection_and_says_so() -> None:
    with RawServer(always(TWO)) as server:
        ours = client(server, keep=False)
        assert [asked(ours), asked(ours)] == [(200, b"ab")] * 2
        assert server.connections == 2
        line = f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode()
        assert server.heard == [line, line]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_server_that_closed_between_two_requests_is_asked_anew(method: str) -> None:
    """The end of the connection has come before the second request: nothing was sent on it, so any may be sent."""
    closed = Event()

    def leave(caller: Caller) -> None:
        caller.request()
        caller.says(TWO)
        caller.link.shutdown(socket.SHUT_RDWR)
        closed.set()

    with RawServer(leave, always(TWO)) as server:
        ours = client(server)
        assert asked(ours) == (200, b"ab")
        assert closed.wait(AMPLE)
        time.sleep(0.1)
        assert asked(ours, method) == (200, b"ab")
        assert len(server.heard) == 2


def hang_up_on_second(caller: Caller) -> None:
    caller.request()
    caller.says(TWO)
    caller.request()  # as a server whose idle time ended while this was on its way


def test_a_get_that_crosses_with_the_servers_goodbye_is_sent_once_more() -> None:
    with RawServer(hang_up_on_second, always(TWO)) as server:
        ours = client(server)
        assert [asked(ours), asked(ours)] == [(200, b"ab")] * 2
        assert (len(server.heard), server.connections) == (3, 2)


def test_a_get_is_sent_twice_and_no_more() -> None:
    with RawServer(hang_up_on_second, lambda caller: caller.request()) as server:
        ours = client(server)
        assert asked(ours) == (200, b"ab")
        assert failure(lambda: asked(ours)).detail == "the connection ended without an answer"
        assert (len(server.heard), server.connections) == (3, 2)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_changes_something_is_never_sent_twice(method: str) -> None:
    with RawServer(hang_up_on_second, always(TWO)) as server:
        ours = client(server)
        assert asked(ours) == (200, b"ab")
        lost = failure(lambda: asked(ours, method))
        assert (lost.detail, lost.connected) == ("the connection ended without an answer", True)
        assert (len(server.heard), server.connections) == (2, 1)


def test_nothing_is_sent_twice_on_a_new_connection_nor_after_half_an_answer() -> None:
    def half(caller: Caller) -> None:
        caller.request()
        caller.says(TWO)
        caller.request()
        caller.says(b"HTTP/1.1 2")

    with RawServer(lambda caller: caller.request()) as server:
        failure(lambda: asked(client(server)))
        assert len(server.heard) == 1
    with RawServer(half, always(TWO)) as server:
        ours = client(server)
        assert asked(ours) == (200, b"ab")
        assert "middle of the answer's head" in failure(lambda: asked(ours)).detail
        assert len(server.heard) == 2


def test_an_answer_that_comes_before_the_request_is_read_is_heard() -> None:
    """As 413 and 401 come: the server has closed for more before all is sent."""
    refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"

    def refuse(caller: Caller) -> None:
        caller.request()
        caller.says(refusal)  # and the connection is reset, for most of the request has not been read

    with RawServer(refuse) as server:
        assert asked(client(server), "POST", b"a" * (8 << 20)) == (413, b"no")


def test_a_reset_has_its_errno() -> None:
    def reset(caller: Caller) -> None:
        caller.request()
        caller.link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with RawServer(reset) as server:
        lost = failure(lambda: asked(client(server)))
    assert (lost.kind, lost.errno, lost.detail) == (Why.IO_ERROR, errno.ECONNRESET, "Connection reset by peer")


def test_threads_may_ask_at_once() -> None:
    with RawServer(always(TWO)) as server:
        ours = client(server)
        answers: list[tuple[int, bytes]] = []
        threads = [Thread(target=lambda: answers.extend(asked(ours) for _ in range(20))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [(200, b"ab")] * 80
        ours.close()


def over_unix(path: Path, seconds: float, connect: float = inf) -> tuple[int, bytes]:
    ours = HttpClient(Endpoint("agent", 0, socket_path=str(path)), connect_seconds=connect, keep_alive=False)
    return asked(ours, seconds=seconds)


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with RawServer(once(TWO), path=path) as server:
        assert over_unix(path, AMPLE) == (200, b"ab")
        assert server.heard == [b"GET /x HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"]
    gone = failure(lambda: over_unix(tmp_path / "b.sock", AMPLE))
    assert (gone.errno, gone.detail, gone.connected) == (errno.ENOENT, "No such file or directory", False)


def test_a_unix_socket_that_nobody_reads(tmp_path: Path) -> None:
    """It is connected to and written to, for the kernel keeps both for who will read; and nobody does."""
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen(8)
        late = failure(lambda: over_unix(path, 1.0))
    assert (late.kind, late.detail, late.connected) == (Why.TIMEOUT, "no whole answer in 1 s", True)


def test_a_unix_socket_whose_queue_is_full_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        late = failure(lambda: over_unix(path, AMPLE, connect=0.5))
        assert (late.kind, late.detail, late.connected) == (Why.TIMEOUT, "no connection in 0.5 s", False)

        def answer() -> None:
            time.sleep(0.5)
            busy.accept()[0].close()
            taken, _ = busy.accept()
            with taken:
                taken.recv(4096)
                taken.sendall(TWO)

        Thread(target=answer, daemon=True).start()
        assert over_unix(path, AMPLE) == (200, b"ab")


def test_the_second_address_is_tried_where_the_first_does_not_listen() -> None:
    """localhost is ::1 and 127.0.0.1, and the server listens on one of them."""
    with RawServer(always(TWO)) as server:
        ours = opened(HttpClient(Endpoint("localhost", server.port), connect_seconds=AMPLE))
        assert asked(ours) == (200, b"ab")


def test_an_endpoint_of_an_address_never_looks_a_name_up() -> None:
    nowhere = HttpClient(Endpoint("localhost", 9, resolve=False), connect_seconds=AMPLE)
    assert failure(lambda: asked(nowhere)).errno == socket.EAI_NONAME


@pytest.mark.parametrize("name", ["a..b", "a" * 64 + ".example", "\udcff"])
def test_what_is_no_name(name: str) -> None:
    nowhere = HttpClient(Endpoint(name, 9), connect_seconds=AMPLE)
    found = failure(lambda: asked(nowhere))
    assert (found.kind, found.connected) == (Why.IO_ERROR, False)
    assert found.detail.isprintable()


LOADED = """\
import socket, sys, threading
from nodeprep.doors import clock
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.transport import Endpoint
from nodeprep.doors.kube.requests import Peer, Wire
print(*("h11" in sys.modules, "ssl" in sys.modules))
wire = Wire(Peer("http://127.0.0.1:" + sys.argv[1]), 60.0)
print(wire.get("/x", {}).body)
print(*(name for name in ("h11", "ssl", "http.client", "email", "urllib3") if name in sys.modules))
"""


def test_what_a_request_without_tls_imports() -> None:
    with RawServer(always(TWO)) as server:
        command = (sys.executable, "-c", LOADED, str(server.port))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["False False", "b'ab'", "h11"]), done.stderr


ADDRESS_ONLY = """
import sys
from nodeprep.doors.node_host import Host
from nodeprep.publish import web
try:
    web.serve("127.0.0.1", -1, None)
except web.CannotServe as error:
    assert str(error).startswith("cannot listen on 127.0.0.1:-1: a port"), error
assert Host("/").page(1, "/", deadline=1.0, limit=9) is None, "nobody listens there"
print([name for name in sys.modules if name in ("encodings.idna", "stringprep", "unicodedata")])
"""


def test_an_address_needs_no_tables_of_international_names() -> None:
    """They are 0.6 MiB of each agent on a node with a kubelet."""
    done = subprocess.run([sys.executable, "-c", ADDRESS_ONLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
