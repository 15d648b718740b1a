"""The real servers, asked over real sockets: by probes, by people, and by clients that mean no good."""

from __future__ import annotations

import json
import resource
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from nodeprep.publish import web
from nodeprep.publish.web import (
    BACKLOG,
    CLIENTS_LIMIT,
    REQUEST_TIMEOUT_SECONDS,
    CannotServe,
    LocalPages,
    NetworkPages,
    PageServer,
)

pytestmark = pytest.mark.slow

LIMIT = 30.0  # seconds for what takes milliseconds on a machine that does nothing else
LONG = b"x" * 3_000_000


@dataclass
class Agent:
    """What the pages say; a test changes it."""

    healthy: tuple[bool, str] = (True, "the loop turned 0.2 s ago")
    ready: tuple[bool, str] = (True, "round 7 is done")
    text: bytes = b"nodeprep_rounds_total 7\n"
    resets: list[str] = field(default_factory=list)
    drill: str = ""

    def metrics(self) -> tuple[str, bytes]:
        return "text/plain; version=0.0.4", self.text

    def health(self) -> tuple[bool, str]:
        return self.healthy

    def readiness(self) -> tuple[bool, str]:
        return self.ready

    def report(self) -> str:
        return json.dumps({"node": "gpu-17"})

    def reset(self) -> None:
        self.resets.append("reset")

    @property
    def pages(self) -> NetworkPages:
        return NetworkPages(self.metrics, self.health, self.readiness)

    @property
    def local(self) -> LocalPages:
        return LocalPages(self.report, self.reset, drill=lambda: self.drill)


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def server(agent: Agent) -> Iterator[PageServer]:
    with web.serve("127.0.0.1", 0, agent.pages) as running:
        yield running


@pytest.fixture
def path(agent: Agent, tmp_path: Path) -> Iterator[Path]:
    with web.serve_local(tmp_path / "agent.sock", agent.local):
        yield tmp_path / "agent.sock"


def connected(server: PageServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), LIMIT)


def read(link: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    text = b""
    while piece := link.recv(65536):
        text += piece
    return text


def exchange(server: PageServer, request: bytes) -> bytes:
    with connected(server) as link:
        link.sendall(request)
        return read(link)


def local(path: Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(LIMIT)
        link.connect(str(path))
        link.sendall(request)
        return read(link)


def get(server: PageServer, page: str, method: str = "GET") -> tuple[int, str]:
    """As the kubelet asks: with a client of the standard library, which checks lengths."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    connection.request(method, page)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


NO_PAGE = "there are /healthz, /metrics, /readyz\n"
STUCK: dict[str, Any] = {"healthy": (False, "95 s")}
EARLY: dict[str, Any] = {"ready": (False, "first round")}
PAGES: list[tuple[dict[str, Any], str, tuple[int, str]]] = [
    # the agent    page       says
    ({}, "/healthz", (200, "the loop turned 0.2 s ago\n")),
    (STUCK, "/healthz", (503, "95 s\n")),
    (STUCK, "/readyz", (200, "round 7 is done\n")),
    (EARLY, "/readyz", (503, "first round\n")),
    (EARLY, "/healthz", (200, "the loop turned 0.2 s ago\n")),
    ({}, "/metrics", (200, "nodeprep_rounds_total 7\n")),
    ({}, "/metrics?name=x", (200, "nodeprep_rounds_total 7\n")),
    ({}, "/", (404, NO_PAGE)),
    ({}, "/report", (404, NO_PAGE)),
    ({}, "/metrics/", (404, NO_PAGE)),
]


@pytest.mark.parametrize(("different", "page", "says"), PAGES)
def test_a_page(different: dict[str, Any], page: str, says: tuple[int, str]) -> None:
    with web.serve("127.0.0.1", 0, Agent(**different).pages) as server:
        assert get(server, page) == says


def test_head_is_get_without_the_body(server: PageServer) -> None:
    asked = {method: exchange(server, f"{method} /metrics HTTP/1.1\r\n\r\n".encode()) for method in ("GET", "HEAD")}
    head, _, body = asked["GET"].partition(b"\r\n\r\n")
    assert asked["HEAD"] == head + b"\r\n\r\n"
    assert b"Content-Type: text/plain; version=0.0.4\r\nContent-Length: 24\r\n" in head
    assert body == b"nodeprep_rounds_total 7\n"
    assert get(server, "/none", "HEAD") == (404, "")


REFUSED = [
    # request                                               status line of the answer
    (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
    (b"DELETE /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed"),
    (b"POST /reset HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found"),
    (b"GET /report HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found"),
    (b"GET /metrics\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"GET /metrics HTTP/2.0\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"GET metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"GET  /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"\x16\x03\x01\x02\x00\x01\xff\0\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 400 Bad Request"),
    (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"HTTP/1.1 431 Request Header Fields Too Large"),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 2000, b"HTTP/1.1 431 Request Header Fields Too Large"),
]


@pytest.mark.parametrize(("request_", "line"), REFUSED)
def test_what_is_refused(server: PageServer, request_: bytes, line: bytes) -> None:
    said = exchange(server, request_)
    assert said.partition(b"\r\n")[0] == line
    assert (b"\r\nAllow: GET, HEAD\r\n" in said) == (b" 405 " in line)


def test_a_request_may_come_in_pieces(server: PageServer) -> None:
    with connected(server) as link:
        for piece in (b"GET /heal", b"thz HTTP/1.1\r", b"\nHost: a\r\n\r", b"\n"):
            link.sendall(piece)
            time.sleep(0.05)
        assert read(link).startswith(b"HTTP/1.1 200 OK")


def test_a_long_page_is_sent_whole_to_who_reads_slowly(agent: Agent, server: PageServer) -> None:
    agent.text = LONG
    with connected(server) as link:
        link.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        time.sleep(0.3)
        assert read(link).partition(b"\r\n\r\n")[2] == LONG


def test_the_answer_arrives_though_the_client_goes_on_sending(server: PageServer) -> None:
    with connected(server) as link:
        link.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 30000\r\n\r\n")
        link.sendall(b"x" * 30_000)
        assert b" 405 " in read(link)


def broken() -> tuple[bool, str]:
    raise ZeroDivisionError("in a page")


def test_a_page_that_breaks_ends_nothing(agent: Agent) -> None:
    with web.serve("127.0.0.1", 0, NetworkPages(agent.metrics, broken, agent.readiness)) as server:
        assert get(server, "/healthz") == (500, "/healthz broke: ZeroDivisionError: in a page; please report it\n")
        assert get(server, "/readyz")[0] == 200


def half_requests(server: PageServer, stack: ExitStack) -> list[socket.socket]:
    """One in each place, and read: a place that is taken while its half is still unread is reset, not closed.

    A machine that stands still lets the first end before the last is read. Then all is begun anew.
    """
    for _ in range(10):
        halves = [stack.enter_context(connected(server)) for _ in range(CLIENTS_LIMIT)]
        with suppress(OSError):
            for link in halves:
                link.sendall(b"GET /metr")
        ends = time.monotonic() + REQUEST_TIMEOUT_SECONDS
        while time.monotonic() < ends:
            if len([client for client in server.clients if client.head]) == CLIENTS_LIMIT:
                return halves
            time.sleep(0.02)
        for link in halves:
            link.close()
        eventually(lambda: not server.clients)
    raise AssertionError("they were never all there")


def test_half_requests_hold_their_places_for_seconds_only_and_nobody_up(server: PageServer) -> None:
    with ExitStack() as stack:
        halves = half_requests(server, stack)
        assert get(server, "/healthz")[0] == 200, "the one that waits gets the place of the oldest"
        started = time.monotonic()
        assert [read(link) for link in halves] == [b""] * CLIENTS_LIMIT
        assert time.monotonic() - started < REQUEST_TIMEOUT_SECONDS + LIMIT


def push(server: PageServer, head: bytes, piece: bytes, pause: float) -> float:
    """Send a head, and then until nobody takes it any more; the seconds since before the server's clock began."""
    started = time.monotonic()
    with connected(server) as link, suppress(OSError):
        link.sendall(head)
        while time.monotonic() - started < REQUEST_TIMEOUT_SECONDS + LIMIT:
            link.sendall(piece)
            time.sleep(pause)
    return time.monotonic() - started


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\n"])
def test_who_never_ends_its_headers_is_cut_off(server: PageServer, head: bytes) -> None:
    assert REQUEST_TIMEOUT_SECONDS - 1 <= push(server, head, b"a", 0.1) < REQUEST_TIMEOUT_SECONDS + LIMIT
    assert get(server, "/healthz")[0] == 200


def test_whoever_came_first_loses_its_place_to_the_next(server: PageServer) -> None:
    """Else who comes is cut off by whoever comes behind it, and those who say nothing stay."""
    for _ in range(10):
        with ExitStack() as stack:
            began = time.monotonic()
            half_requests(server, stack)
            first, *others = tuple(server.clients) or ("nobody is left",)
            assert get(server, "/healthz")[0] == 200
            stayed = [client in server.clients for client in (first, *others)]
        if time.monotonic() - began < REQUEST_TIMEOUT_SECONDS - 1:  # else their time may have ended, not their place
            assert stayed == [False] + [True] * (CLIENTS_LIMIT - 1)
            return
    raise AssertionError("this machine never took less than a client's time")


def test_who_sends_without_end_after_its_request_is_cut_off_at_once(server: PageServer) -> None:
    def seconds() -> float:
        return push(server, b"GET /healthz HTTP/1.1\r\n\r\n", b"x" * 10_000, 0.0)

    # A machine that stands still takes its time. This does not happen each time.
    assert any(seconds() < REQUEST_TIMEOUT_SECONDS - 1 for _ in range(5))


def test_who_never_reads_is_cut_off(agent: Agent, server: PageServer) -> None:
    agent.text = LONG * 20
    started = time.monotonic()
    with connected(server) as link:
        link.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        eventually(lambda: len(server.clients) == 1)
        eventually(lambda: not server.clients)
        assert time.monotonic() - started >= REQUEST_TIMEOUT_SECONDS - 1


def eventually(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def probed(server: PageServer) -> int:
    """The status of /healthz as the kubelet asks, which forgives two failures in a row (failureThreshold 3).

    In a flood, a client whose machine lets it wait before it sends its request may have lost its place.
    """
    for _ in range(2):
        with suppress(ConnectionError):
            return get(server, "/healthz")[0]
    return get(server, "/healthz")[0]


def test_a_flood_takes_no_threads_and_no_more_places_and_probes_get_through(server: PageServer) -> None:
    threads, before = threading.active_count(), files()
    for _ in range(5):
        with ExitStack() as stack:
            for _ in range(400):
                link = stack.enter_context(socket.socket())
                link.setblocking(False)
                link.connect_ex(("127.0.0.1", server.port))
            assert probed(server) == 200
            assert threading.active_count() == threads
            assert len(server.clients) <= CLIENTS_LIMIT
            assert files() <= before + 400 + CLIENTS_LIMIT + 1
    eventually(lambda: not server.clients)
    assert get(server, "/healthz")[0] == 200


def thread(server: PageServer, field: str) -> str:
    """What the kernel says of the server's thread."""
    text = Path(f"/proc/self/task/{server._thread.native_id}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"{field}:"))
    return line.split()[1]


def switches(server: PageServer) -> int:
    """How often the server's thread went to sleep of its own will."""
    return int(thread(server, "voluntary_ctxt_switches"))


def test_the_thread_sleeps_while_nobody_asks(server: PageServer) -> None:
    assert get(server, "/healthz")[0] == 200
    eventually(lambda: not server.clients)
    time.sleep(0.3)
    eventually(lambda: thread(server, "State") == "S")
    before = switches(server)
    time.sleep(2)
    assert switches(server) - before <= 1


def test_out_of_files_it_waits_without_spinning_and_then_goes_on(server: PageServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as link:
        link.settimeout(LIMIT)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # 0 to 2 are taken
        try:
            link.connect(("127.0.0.1", server.port))
            link.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            computed = time.process_time()
            time.sleep(1)
            computed = time.process_time() - computed
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert 1 < switches(server) < 200
        assert computed < 0.2, "who tries again at once never sleeps, and so is not switched"
        assert read(link).startswith(b"HTTP/1.1 200 OK")


def test_close_ends_the_thread_and_every_connection(agent: Agent) -> None:
    threads, before = threading.active_count(), files()
    server = web.serve("127.0.0.1", 0, agent.pages)
    port = server.port
    with connected(server) as link:
        link.sendall(b"GET")
        eventually(lambda: len(server.clients) == 1)
        server.close()
        server.close()
        with suppress(ConnectionResetError):
            assert link.recv(1) == b""
    assert (threading.active_count(), files()) == (threads, before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), LIMIT)


def test_a_new_start_gets_the_port_at_once(agent: Agent) -> None:
    with web.serve("127.0.0.1", 0, agent.pages) as server:
        port = server.port
        assert get(server, "/healthz")[0] == 200
    with web.serve("127.0.0.1", port, agent.pages) as server:
        assert get(server, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("address", "reached"), [("::1", "::1"), ("::", "::1"), ("::", "127.0.0.1"), ("0.0.0.0", "127.0.0.1")]
)
def test_either_family(agent: Agent, address: str, reached: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        if ":" in address + reached:
            pytest.skip(f"this machine has no IPv6: {error}")
    with web.serve(address, 0, agent.pages) as server:
        connection = HTTPConnection(reached, server.port, timeout=LIMIT)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_port_in_use_is_one_line(agent: Agent, server: PageServer) -> None:
    with pytest.raises(CannotServe) as said:
        web.serve("127.0.0.1", server.port, agent.pages)
    assert str(said.value) == (
        f"cannot listen on 127.0.0.1:{server.port}: Address already in use; "
        f"see ss -ltnp 'sport = :{server.port}' and ip address"
    )


NOWHERE = [
    ("192.0.2.1", 0, "cannot listen on 192.0.2.1:0: Cannot assign requested address; see ss"),
    ("2001:db8::1", 0, "cannot listen on [2001:db8::1]:0: "),
    ("localhost", 0, "cannot listen on 'localhost': an IPv4 or IPv6 address is wanted"),
    ("", 0, "cannot listen on '': an IPv4 or IPv6 address is wanted"),
    ("a" * 300, 0, "cannot listen on 'aaa"),
    ("127.0.0.1", -1, "cannot listen on 127.0.0.1:-1: a port from 0 to 65535 is wanted"),
    ("127.0.0.1", 75378, "cannot listen on 127.0.0.1:75378: a port from 0 to 65535 is wanted"),
]


@pytest.mark.parametrize(("address", "port", "says"), NOWHERE)
def test_an_address_that_cannot_be_had(agent: Agent, address: str, port: int, says: str) -> None:
    with pytest.raises(CannotServe) as said:
        web.serve(address, port, agent.pages)
    assert str(said.value).startswith(says)
    assert "\n" not in str(said.value)


def test_the_report_is_json_on_a_socket_of_ours_only(path: Path) -> None:
    head, _, body = local(path, b"GET /report HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    assert json.loads(body) == {"node": "gpu-17"}
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["agent.sock"]


RESETS = [
    # request                                                       answer   resets
    (b"POST /reset HTTP/1.1\r\n\r\n", b" 202 ", 1),
    (b"POST /reset HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b" 202 ", 1),
    (b"POST /reset HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b" 400 ", 0),
    (b"POST /reset HTTP/1.1\r\ncontent-length:2\r\n\r\n{}", b" 400 ", 0),
    (b"GET /reset HTTP/1.1\r\n\r\n", b" 405 ", 0),
    (b"HEAD /reset HTTP/1.1\r\n\r\n", b" 405 ", 0),
    (b"POST /report HTTP/1.1\r\n\r\n", b" 405 ", 0),
    (b"GET /metrics HTTP/1.1\r\n\r\n", b" 404 ", 0),
]


@pytest.mark.parametrize(("request_", "says", "resets"), RESETS)
def test_a_reset(agent: Agent, path: Path, request_: bytes, says: bytes, resets: int) -> None:
    said = local(path, request_)
    assert says in said.partition(b"\r\n")[0]
    assert (b"Allow: POST\r\n" in said) == (b" /reset" in request_ and says == b" 405 ")
    assert len(agent.resets) == resets


def test_the_file_of_a_killed_agent_is_replaced(agent: Agent, tmp_path: Path) -> None:
    for name in ("agent.sock", "agent.sock.new"):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(tmp_path / name))
    with web.serve_local(tmp_path / "agent.sock", agent.local):
        assert b" 200 " in local(tmp_path / "agent.sock", b"GET /report HTTP/1.1\r\n\r\n")
    assert list(tmp_path.iterdir()) == []


def test_whoever_looks_finds_someone_who_listens_from_the_first_agent_on(agent: Agent, tmp_path: Path) -> None:
    path, ended, seen = tmp_path / "agent.sock", threading.Event(), set()

    def watch() -> None:
        while not ended.is_set():
            try:
                with socket.socket(socket.AF_UNIX) as link:
                    link.connect(str(path))
                    seen.add("served")
            except OSError as error:
                if seen or not isinstance(error, FileNotFoundError):
                    seen.add(str(error))

    thread = threading.Thread(target=watch)
    thread.start()
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(web.serve_local(path, agent.local))
            time.sleep(0.002)
        ended.set()
        thread.join(LIMIT)
    assert seen == {"served"}


def test_the_file_that_another_agent_put_there_stays(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    first = web.serve_local(path, agent.local)
    with web.serve_local(path, agent.local):
        first.close()
        assert b" 200 " in local(path, b"GET /report HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("name", ["none/agent.sock", "x" * 120])
def test_a_socket_that_cannot_be_made_is_one_line(agent: Agent, tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotServe) as said:
        web.serve_local(tmp_path / name, agent.local)
    assert str(said.value).startswith(f"cannot listen on {tmp_path / name}: ")
    assert "\n" not in str(said.value)


def test_the_places_are_few(server: PageServer) -> None:
    assert (CLIENTS_LIMIT, REQUEST_TIMEOUT_SECONDS) == (8, 5.0)
    assert BACKLOG < 1000
    with ExitStack() as stack:
        for _ in range(CLIENTS_LIMIT + 3):
            stack.enter_context(connected(server))
        eventually(lambda: len(server.clients) == CLIENTS_LIMIT)


def test_who_begins_a_drill_is_told_which_one_the_agent_knows_of(path: Path, agent: Agent) -> None:
    assert local(path, b"POST /drill HTTP/1.1\r\n\r\n").endswith(b"the agent knows of: no drill\n")
    agent.drill = "drill link-down of eth1"
    answer = local(path, b"POST /drill HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert answer.endswith(b"the agent knows of: drill link-down of eth1\n")
    assert local(path, b"GET /drill HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405 ")
