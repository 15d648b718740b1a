"""The gRPC door against a real HTTP/2 server over a unix socket, one that behaves and many that do not."""

from __future__ import annotations

import errno
import gc
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from h2.errors import ErrorCodes
from h2.events import PingAckReceived, WindowUpdated
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.doors import clock
from nodeprep.doors.grpc.grpc_socket import GrpcSocket
from nodeprep.doors.grpc.status import GrpcFailure
from nodeprep.doors.grpc.unary import CALLS, Exchange
from nodeprep.doors.node_host import Host
from nodeprep.model import Unreadable, Why
from tests.rigs.absent import needs_root
from tests.rigs.grpc_server import HEAD, STREAM, Answer, GrpcCaller, fine, prefixed, serving, talk
from tests.rigs.raw_server import Caller, Conversation, RawServer
from tests.rigs.waiting import until

METHOD = "/v1.PodResourcesLister/List"
LIMIT = 16 << 20
LONG = 30.0  # seconds: for answers whose time is not tested


def asked(
    path: Path, *conversations: Conversation, request: bytes = b"", deadline: float = LONG, limit: int = LIMIT
) -> bytes | Unreadable:
    with RawServer(*conversations, path=path / "a.sock"):
        return GrpcSocket("/a.sock", lambda: str(path / "a.sock")).call(METHOD, request, deadline=deadline, limit=limit)


@pytest.mark.parametrize("message", [b"", b"x", bytes(range(256)) * 40], ids=len)
def test_a_call_is_answered(tmp_path: Path, message: bytes) -> None:
    heard: list[GrpcCaller] = []

    def answer(here: GrpcCaller) -> None:
        heard.append(here)
        fine(message)(here)

    assert asked(tmp_path, talk(answer), request=b"question") == message
    (here,) = heard
    assert here.message == b"question"
    assert here.headers[":path"] == METHOD
    assert here.headers["content-type"] == "application/grpc"
    assert here.headers["te"] == "trailers"
    assert LONG * 1e3 < int(here.headers["grpc-timeout"].removesuffix("m")) <= LONG * 1e3 + 1000
    assert here.h2.remote_settings[SettingCodes.ENABLE_PUSH] == 0


def test_a_mebibyte_opens_the_window_again_and_again(tmp_path: Path) -> None:
    heard: list[GrpcCaller] = []
    message = os.urandom(1 << 20)

    def answer(here: GrpcCaller) -> None:
        heard.append(here)
        fine(message)(here)

    assert asked(tmp_path, talk(answer)) == message
    assert sum(event.delta for event in heard[0].of(WindowUpdated) if event.stream_id == STREAM) > 900 << 10


def test_frames_of_one_byte_are_one_message(tmp_path: Path) -> None:
    answer = talk(lambda here: here.head().data(prefixed(b"x" * 500), frame=1).trailers())
    assert asked(tmp_path, answer) == b"x" * 500


def test_a_request_waits_for_the_servers_window(tmp_path: Path) -> None:
    """A server that takes 100 bytes at a time gets all of them."""
    heard: list[bytes] = []

    def conversation(caller: Caller) -> None:
        here = GrpcCaller(caller)
        here.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
        here.flush()
        while len(b"".join(event.data for event in here.events if hasattr(event, "data"))) < 200_005 and here.read():
            for event in here.events[len(heard) :]:
                if hasattr(event, "flow_controlled_length"):
                    here.h2.acknowledge_received_data(event.flow_controlled_length, STREAM)
            heard.extend(b"" for _ in range(len(here.events) - len(heard)))
            here.flush()
        here.listen()
        heard.append(here.message)
        fine(b"thanks")(here)
        here.linger()

    assert asked(tmp_path, conversation, request=b"q" * 200_000) == b"thanks"
    assert heard[-1] == b"q" * 200_000


def test_a_ping_is_answered(tmp_path: Path) -> None:
    heard: list[GrpcCaller] = []

    def answer(here: GrpcCaller) -> None:
        heard.append(here)
        here.h2.ping(b"are you?")
        here.flush()
        while not here.of(PingAckReceived):
            assert here.read()
        fine(b"yes")(here)

    assert asked(tmp_path, talk(answer)) == b"yes"
    assert heard[0].of(PingAckReceived)[0].ping_data == b"are you?"


GOING: list[tuple[str, Answer]] = [
    ("before its head", lambda here: fine(b"still")(here.goaway())),
    ("for a later stream", lambda here: fine(b"still")(here.goaway(2**31 - 1))),
    ("twice", lambda here: fine(b"still")(here.goaway(2**31 - 1).goaway(1))),
    ("in its answer", lambda here: here.head().goaway().data(prefixed(b"still")).trailers()),
]


@pytest.mark.parametrize("answer", [one for _, one in GOING], ids=[name for name, _ in GOING])
def test_a_server_that_goes_away_may_finish(tmp_path: Path, answer: Answer) -> None:
    assert asked(tmp_path, talk(answer)) == b"still"


FAILED: list[tuple[str, Answer, Why, str]] = [
    # what                   how                                                               kind           says
    (
        "trailers only",
        lambda here: here.head(("grpc-status", "14"), ("grpc-message", "not%20yet: 100%25"), ended=True),
        Why.IO_ERROR,
        "grpc-status 14 UNAVAILABLE: not yet: 100%",
    ),
    (
        "trailers only, of an unknown method",
        lambda here: here.head(("grpc-status", "12"), ended=True),
        Why.MISSING,
        "grpc-status 12 UNIMPLEMENTED",
    ),
    (
        "an error after its head",
        lambda here: here.head().trailers("7", ("grpc-message", "nicht f%C3%BCr dich")),
        Why.DENIED,
        "grpc-status 7 PERMISSION_DENIED: nicht für dich",
    ),
    (
        "an error after a message",
        lambda here: here.head().data(prefixed(b"half")).trailers("13"),
        Why.IO_ERROR,
        "grpc-status 13 INTERNAL",
    ),
    (
        "a deadline of its own",
        lambda here: here.head(("grpc-status", "4"), ended=True),
        Why.TIMEOUT,
        "grpc-status 4 DEADLINE_EXCEEDED",
    ),
    (
        "no identity",
        lambda here: here.head(("grpc-status", "16"), ended=True),
        Why.DENIED,
        "grpc-status 16 UNAUTHENTICATED",
    ),
    (
        "a rate limit",
        lambda here: here.head(("grpc-status", "8"), ("grpc-message", "rejected by rate limit"), ended=True),
        Why.IO_ERROR,
        "grpc-status 8 RESOURCE_EXHAUSTED: rejected by rate limit",
    ),
    (
        "a status of tomorrow",
        lambda here: here.head(("grpc-status", "99"), ended=True),
        Why.IO_ERROR,
        "grpc-status 99 of no known name",
    ),
    (
        "a status that is none",
        lambda here: here.head(("grpc-status", "-1"), ended=True),
        Why.MALFORMED,
        "grpc-status '-1' is no number",
    ),
    (
        "a message for a terminal",
        lambda here: here.head(("grpc-status", "2"), ("grpc-message", "%1B[2J%FF%G1" + "x" * 500), ended=True),
        Why.IO_ERROR,
        "grpc-status 2 UNKNOWN: ?[2J\ufffd%G1" + "x" * 192,
    ),
    (
        "a message with a secret",
        lambda here: here.head(("grpc-status", "2"), ("grpc-message", "pull: password=S3CRET is wrong"), ended=True),
        Why.IO_ERROR,
        "grpc-status 2 UNKNOWN: pull: password=*** is wrong",
    ),
    (
        "a message with a secret that is escaped",
        lambda here: here.head(("grpc-status", "2"), ("grpc-message", "pull: pass%77ord%3DS3CRET"), ended=True),
        Why.IO_ERROR,
        "grpc-status 2 UNKNOWN: pull: password=***",
    ),
    (
        "a proxy",
        lambda here: here.headed(((":status", "503"),)),
        Why.IO_ERROR,
        "HTTP status 503, which gRPC takes for UNAVAILABLE",
    ),
    (
        "a web server",
        lambda here: here.headed(((":status", "404"),)),
        Why.MISSING,
        "HTTP status 404, which gRPC takes for UNIMPLEMENTED",
    ),
    (
        "a page",
        lambda here: here.headed(((":status", "200"), ("content-type", "text/html")), ended=False),
        Why.MALFORMED,
        "answers 'text/html', which is not application/grpc",
    ),
    (
        "no status",
        lambda here: here.head().data(prefixed(b"x"), ended=True),
        Why.MALFORMED,
        "without a grpc-",
    ),
    (
        "OK without a message",
        lambda here: here.head().trailers(),
        Why.MALFORMED,
        "says OK with 0 bytes, which are no message",
    ),
    (
        "OK with half a prefix",
        lambda here: here.head().data(b"\0\0\0").trailers(),
        Why.MALFORMED,
        "says OK with 3 bytes, which are no message",
    ),
    (
        "a compressed message",
        lambda here: here.head(("grpc-encoding", "gzip")).data(prefixed(b"x", flag=1)).trailers(),
        Why.MALFORMED,
        "compressed its answer, which nobody asked for",
    ),
    (
        "a message that is cut",
        lambda here: here.head().data(prefixed(b"xyz", size=9)).trailers(),
        Why.MALFORMED,
        "sent 3 bytes, and said 9",
    ),
    (
        "two messages",
        lambda here: here.head().data(prefixed(b"a") + prefixed(b"b")).trailers(),
        Why.MALFORMED,
        "sent 7 bytes, and said 1",
    ),
    (
        "a message that says it is too large",
        lambda here: here.head().data(prefixed(b"", size=LIMIT + 1)),
        Why.MALFORMED,
        "answers more than 16777216 bytes",
    ),
    ("RST_STREAM", lambda here: here.reset(ErrorCodes.ENHANCE_YOUR_CALM), Why.IO_ERROR, "RST_STREAM ENHANCE_YOUR_CALM"),
    (
        "RST_STREAM in its answer",
        lambda here: here.head().data(prefixed(b"x")).reset(ErrorCodes.INTERNAL_ERROR),
        Why.IO_ERROR,
        "RST_STREAM INTERNAL_ERROR",
    ),
    ("GOAWAY", lambda here: here.goaway(0), Why.IO_ERROR, "GOAWAY NO_ERROR: it did not serve the call"),
    (
        "GOAWAY in its answer, and gone",
        lambda here: here.head().goaway(1, ErrorCodes.INTERNAL_ERROR).hang_up(),
        Why.IO_ERROR,
        "GOAWAY INTERNAL_ERROR, and closed before its answer was whole",
    ),
    (
        "GOAWAY that is cut",
        lambda here: here.says(b"\0\0\1\7\0\0\0\0\0x"),
        Why.MALFORMED,
        "sends a GOAWAY that is cut",
    ),
    ("gone", lambda here: here.hang_up(), Why.IO_ERROR, "closed the connection without an answer"),
    (
        "gone in its answer",
        lambda here: here.head().hang_up(),
        Why.IO_ERROR,
        "closed the connection in the middle of its answer",
    ),
    ("a push", lambda here: here.says(b"\0\0\4\5\4\0\0\0\1\0\0\0\2"), Why.MALFORMED, "breaks HTTP/2"),
    ("a frame of nobody", lambda here: here.says(b"\0\0\1\0\0\0\0\0\7x"), Why.MALFORMED, "breaks HTTP/2"),
    (
        "a huge frame",
        lambda here: here.says(b"\0\x40\1\0\0\0\0\0\1"),
        Why.MALFORMED,
        "sends a frame of 16385",
    ),
]


@pytest.mark.parametrize(("what", "answer", "kind", "says"), FAILED, ids=[row[0] for row in FAILED])
def test_an_answer_that_is_none(tmp_path: Path, what: str, answer: Answer, kind: Why, says: str) -> None:
    found = asked(tmp_path, talk(answer))
    assert isinstance(found, Unreadable), what
    assert (found.kind, found.path) == (kind, "/a.sock")
    assert says in found.detail
    assert found.detail.startswith(f"{METHOD}: ")


def shouting(data: bytes) -> Conversation:
    def conversation(caller: Caller) -> None:
        caller.says(data)
        caller.over.wait(LONG)

    return conversation


RAW: list[tuple[str, bytes, str]] = [
    ("HTTP/1", b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers HTTP/1, which is not gRPC"),
    ("a banner", b"220 mail.example ESMTP\r\n", "sends a frame of 3289648 bytes"),
    ("zeros", bytes(4096), "breaks HTTP/2"),
]


@pytest.mark.parametrize(("what", "data", "says"), RAW, ids=[row[0] for row in RAW])
def test_another_protocol(tmp_path: Path, what: str, data: bytes, says: str) -> None:
    found = asked(tmp_path, shouting(data))
    assert isinstance(found, Unreadable), what
    assert found.kind is Why.MALFORMED
    assert says in found.detail


def test_the_caller_limits_the_answer(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert asked(tmp_path, talk(fine(b"x" * 1000)), limit=1000) == b"x" * 1000
    found = asked(tmp_path / "b", talk(fine(b"x" * 1001)), limit=1000)
    assert isinstance(found, Unreadable)
    assert "answers more than 1000 bytes" in found.detail


def test_an_endless_answer_ends_at_the_limit(tmp_path: Path) -> None:
    """It says that it has 10 bytes, and sends without end."""
    answer = talk(lambda here: here.head().data(prefixed(b"x" * (4 << 20), size=10)))
    found = asked(tmp_path, answer, limit=1 << 20)
    assert isinstance(found, Unreadable)
    assert "answers more than 1048576 bytes" in found.detail


def silent(caller: Caller) -> None:
    caller.over.wait(LONG)


def dribbling(here: GrpcCaller) -> None:
    """A byte each 0.9 s: no silence is as long as the deadline."""
    here.h2.send_headers(STREAM, HEAD)
    here.h2.send_data(STREAM, prefixed(b"x" * 1000))
    here.caller.drips(here.h2.data_to_send(), 0.9)


def pinging(here: GrpcCaller) -> None:
    """PINGs without end, and never a read."""
    ping = b"\0\0\x08\6\0\0\0\0\0" + b"12345678"
    while not here.caller.over.is_set():
        here.caller.says(ping * 1000)


def emptying(here: GrpcCaller) -> None:
    """Empty frames of data without end."""
    here.head()
    while not here.caller.over.is_set():
        here.caller.says(b"\0\0\0\0\0\0\0\0\1" * 1000)


SLOW: list[tuple[str, Conversation]] = [
    ("says nothing", silent),
    ("speaks and does not answer", talk(lambda here: here.caller.over.wait(LONG))),
    ("dribbles", talk(dribbling)),
    ("stops in the middle", talk(lambda here: here.head().data(prefixed(b"x", size=9)))),
    ("pings for ever", talk(pinging)),
    ("sends nothing for ever", talk(emptying)),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("conversation", [one for _, one in SLOW], ids=[name for name, _ in SLOW])
def test_one_deadline_ends_it_all(tmp_path: Path, conversation: Conversation) -> None:
    began = time.monotonic()
    found = asked(tmp_path, conversation, deadline=1.0)
    took = time.monotonic() - began
    assert isinstance(found, Unreadable)
    if found.kind is not Why.BUSY:  # we had no processor ourselves
        assert found.kind is Why.TIMEOUT
        assert found.detail == f"{METHOD}: no answer in 1 s"
    assert 0.9 < took < 10, "an answer that never ends would take as long as the test"


@pytest.mark.timeout(120)
def test_a_server_whose_queue_is_full(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "a.sock"))
        server.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            if one.connect_ex(str(tmp_path / "a.sock")):
                break
        began = time.monotonic()
        found = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock")).call(METHOD, b"", deadline=0.5, limit=LIMIT)
        assert time.monotonic() - began > 0.4
        for one in waiting:
            one.close()
    assert isinstance(found, Unreadable)
    assert found.kind in (Why.TIMEOUT, Why.BUSY)  # busy: this machine had no processor for us meanwhile
    assert re.fullmatch(r"no connection in 0(\.[1-5])? s", found.detail)  # what our own delay left of the 0.5 s


def test_a_server_that_hangs_costs_one_deadline_in_its_rest(tmp_path: Path) -> None:
    with RawServer(silent, path=tmp_path / "a.sock"):
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        first = here.call(METHOD, b"", deadline=0.2, limit=LIMIT, rest=LONG)
        while isinstance(first, Unreadable) and first.kind is Why.BUSY:  # no processor for us: it has not hung
            first = here.call(METHOD, b"", deadline=0.2, limit=LIMIT, rest=LONG)
        began = time.monotonic()
        assert here.call("/another.Method/Even", b"", deadline=LONG, limit=LIMIT) == first
        assert time.monotonic() - began < LONG


def test_a_server_that_hung_is_asked_again_after_its_rest(tmp_path: Path) -> None:
    says: list[Conversation] = [silent]

    def conversation(caller: Caller) -> None:
        says[0](caller)

    with RawServer(conversation, path=tmp_path / "a.sock"):
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        assert isinstance(here.call(METHOD, b"", deadline=0.2, limit=LIMIT, rest=0.5), Unreadable)
        says[0] = talk(fine(b"back"))
        time.sleep(0.5)
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"back"


def test_a_server_that_fails_at_once_is_asked_again(tmp_path: Path) -> None:
    here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
    assert isinstance(here.call(METHOD, b"", deadline=1.0, limit=LIMIT, rest=60.0), Unreadable)
    with RawServer(talk(fine(b"up")), path=tmp_path / "a.sock"):
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT, rest=60.0) == b"up"


def in_turn(*answers: Answer) -> Answer:
    """The first call of a server has the first answer, and so on."""
    left = iter(answers)

    def answer(here: GrpcCaller) -> None:
        next(left)(here)

    return answer


def test_one_connection_serves_call_after_call(tmp_path: Path) -> None:
    with serving(tmp_path / "a.sock", {METHOD: b"x" * 100_000, "/b.B/B": b"other"}) as server:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        for _ in range(100):
            assert here.call(METHOD, b"q" * 1000, deadline=LONG, limit=LIMIT) == b"x" * 100_000
            assert here.call("/b.B/B", b"", deadline=LONG, limit=LIMIT) == b"other"
        assert server.connections == 1
        for _ in range(CALLS):
            assert here.call("/b.B/B", b"", deadline=LONG, limit=LIMIT) == b"other"
        assert server.connections == 2, "h2 remembers each stream of a connection"


@pytest.mark.parametrize(
    "ending",
    [
        GrpcCaller.hang_up,
        lambda here: here.goaway(),
        lambda here: here.goaway(code=ErrorCodes.ENHANCE_YOUR_CALM).hang_up(),
        lambda here: here.says(b"no frame at all").linger(),
    ],
    ids=["closes", "goes away", "goes away and closes", "sends what is no frame"],
)
def test_a_connection_that_ended_between_two_calls_is_made_again(
    tmp_path: Path, ending: Callable[[GrpcCaller], object]
) -> None:
    def once(here: GrpcCaller) -> None:
        fine(b"first")(here)
        ending(here)

    with RawServer(talk(once), talk(fine(b"second")), path=tmp_path / "a.sock") as server:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"first"
        time.sleep(0.05)  # what a server sends after its answer has come, or comes with the next
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"second"
        assert server.connections == 2


def test_what_a_server_sends_between_two_calls_is_heard(tmp_path: Path) -> None:
    """A PING is answered, and the connection goes on."""
    heard: list[GrpcCaller] = []

    def answer(here: GrpcCaller) -> None:
        heard.append(here)
        fine(b"x")(here)
        here.says(b"\0\0\x08\6\0\0\0\0\0" + b"12345678")

    with RawServer(talk(answer), path=tmp_path / "a.sock") as server:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        for _ in range(3):
            assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"x"
        assert server.connections == 1
    assert len(heard[0].of(PingAckReceived)) >= 1


def test_what_fails_in_the_middle_of_an_answer_is_not_asked_again(tmp_path: Path) -> None:
    answer = in_turn(fine(b"first"), lambda here: here.head().hang_up())
    with RawServer(talk(answer), path=tmp_path / "a.sock") as server:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"first"
        found = here.call(METHOD, b"", deadline=LONG, limit=LIMIT)
        assert isinstance(found, Unreadable)
        assert "in the middle of its answer" in found.detail
        assert server.connections == 1


def test_after_a_failure_nothing_is_kept(tmp_path: Path) -> None:
    """The rest of a refused answer is never read as that of the next call."""
    answer = in_turn(fine(b"x" * 1000), fine(b"first"), fine(b"second"))
    with RawServer(talk(answer), path=tmp_path / "a.sock") as server:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        assert isinstance(here.call(METHOD, b"", deadline=LONG, limit=100), Unreadable)
        assert here.call(METHOD, b"", deadline=LONG, limit=100) == b"first"
        assert here.call(METHOD, b"", deadline=LONG, limit=100) == b"second"
        assert server.connections == 2


def test_another_socket_at_the_path_is_another_server(tmp_path: Path) -> None:
    """A kubelet that starts again makes its socket anew. The former one may live on for a while."""
    path = tmp_path / "a.sock"
    here = GrpcSocket("/a.sock", lambda: str(path))
    with serving(path, {METHOD: b"former"}):
        assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"former"
        path.unlink()
        found = here.call(METHOD, b"", deadline=LONG, limit=LIMIT)
        assert isinstance(found, Unreadable)
        assert found.kind is Why.MISSING
        with serving(path, {METHOD: b"new"}):
            assert here.call(METHOD, b"", deadline=LONG, limit=LIMIT) == b"new"


def test_calls_at_the_same_time_have_a_connection_each(tmp_path: Path) -> None:
    both = Barrier(2, timeout=LONG)

    def answer(here: GrpcCaller) -> None:
        both.wait()
        fine(here.message)(here)

    with RawServer(talk(answer), path=tmp_path / "a.sock"), ThreadPoolExecutor(2) as pool:
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        for _ in range(5):
            calls = [pool.submit(here.call, METHOD, one, deadline=LONG, limit=LIMIT) for one in (b"a", b"b")]
            assert [call.result() for call in calls] == [b"a", b"b"]


def test_who_is_done_with_a_server_leaves_no_descriptor(tmp_path: Path) -> None:
    with serving(tmp_path / "a.sock", {METHOD: b"x"}):
        before = descriptors()
        here = GrpcSocket("/a.sock", lambda: str(tmp_path / "a.sock"))
        here.call(METHOD, b"", deadline=LONG, limit=LIMIT)
        assert descriptors() == before + 2, "both ends of the kept connection"
        del here
        until(lambda: descriptors() == before, "both ends are closed")


def answer_of(root: Path, path: str = "/run/a.sock") -> bytes | Unreadable:
    return Host(str(root)).grpc(path, METHOD, b"", deadline=LONG, limit=LIMIT, rest=0.0)


def test_sockets_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    missing = Unreadable(Why.MISSING, "/run/a.sock", errno.ENOENT, "no such socket")
    assert answer_of(tmp_path) == missing
    assert answer_of(tmp_path, "/none/a.sock") == Unreadable(
        Why.MISSING, "/none/a.sock", errno.ENOENT, "no such socket"
    )
    (tmp_path / "run/a.sock").write_text("")
    refused = Unreadable(Why.IO_ERROR, "/run/a.sock", errno.ECONNREFUSED, "Connection refused")
    assert answer_of(tmp_path) == refused
    (tmp_path / "run/a.sock").unlink()
    with RawServer(silent, path=tmp_path / "run/a.sock"):
        pass
    assert answer_of(tmp_path) == refused, "what a dead server leaves"


def test_links_are_followed_inside_the_root_and_names_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    (deep / "run").symlink_to("/" + "y" * 100)
    (deep / ("y" * 100)).mkdir()
    here = os.open(deep / ("y" * 100), os.O_PATH)
    with serving(Path(f"/proc/self/fd/{here}/a.sock"), {METHOD: b"found"}):
        assert answer_of(deep) == b"found"
    os.close(here)


def test_what_is_excluded_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with serving(tmp_path / "run/a.sock", {METHOD: b"x"}) as server:
        host = Host(str(tmp_path), excluded=("/run/*",))
        found = host.grpc("/run/a.sock", METHOD, b"", deadline=1.0, limit=LIMIT, rest=0.0)
        assert isinstance(found, Unreadable)
        assert found.is_excluded
        assert server.connections == 0


def as_nobody(question: Callable[[], str]) -> str:
    """What a question answers in a process without root's rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        os.write(writing, question().encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 10_000).decode()
    os.close(reading)
    os.waitpid(child, 0)
    return said


@needs_root("a socket of another user")
def test_a_socket_of_root_is_denied_to_others(tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    (tmp_path / "run").mkdir()
    with serving(tmp_path / "run/a.sock", {METHOD: b"x"}):
        (tmp_path / "run/a.sock").chmod(0o600)
        said = as_nobody(lambda: str(answer_of(tmp_path)))
    assert said == "/run/a.sock: denied (Permission denied)"


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with serving(tmp_path / "run/a.sock", {METHOD: b"x"}):
        answer_of(tmp_path)
        before = descriptors()
        for _ in range(5):
            answer_of(tmp_path)
            answer_of(tmp_path, "/run/none.sock")
        until(lambda: descriptors() <= before, "the server's own ends closed")


def descriptors() -> int:
    gc.collect()  # a Host and its kept connections end when that cycle is found
    return len(tuple(Path("/proc/self/fd").iterdir()))


def test_nothing_is_imported_where_nobody_listens(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom nodeprep.doors.node_host import Host\n"
        f"print(Host({str(tmp_path)!r}).grpc('/a.sock', '/a.B/C', b'', deadline=1.0, limit=9, rest=0.0))\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('h2', 'hpack', 'hyperframe', 'h11')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "/a.sock: missing (no such socket)\n[]\n"


def played(data: bytes, pieces: list[int]) -> bytes | None:
    """What an exchange makes of these bytes of a server in these pieces; None for a failure."""
    exchange = Exchange()
    exchange.begin(METHOD, b"", clock.now() + 1.0, 1 << 16)
    try:
        for size in (*pieces, len(data)):
            piece, data = data[:size], data[size:]
            if piece and not exchange.ended:
                exchange.take(piece)
        return exchange.message() if exchange.ended else None
    except GrpcFailure:
        return None


def recorded(message: bytes) -> bytes:
    """All bytes of a server that answers."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection

    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(1, [(":method", "POST"), (":scheme", "http"), (":path", METHOD), (":authority", "x")], True)
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    server.send_headers(1, HEAD)
    server.send_data(1, prefixed(message))
    server.send_headers(1, (("grpc-status", "0"),), end_stream=True)
    return bytes(server.data_to_send())


ANSWER = recorded(b"the message")


LINES = (Path(__file__).parent / "grpc_go.tsv").read_text().splitlines()
OF_GO = [line.split("\t") for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("name", "sent", "says"), OF_GO, ids=[row[0] for row in OF_GO])
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_what_grpc_go_sent(name: str, sent: str, says: str, size: int) -> None:
    """Its headers are Huffman-coded and go by HPACK's dynamic table; one goes away in the middle of its answer."""
    data = bytes.fromhex(sent)
    exchange = Exchange()
    exchange.begin(METHOD, b"", clock.now() + LONG, LIMIT)
    for place in range(0, len(data), size):
        exchange.take(data[place : place + size])
    assert exchange.ended, name
    if says.startswith("grpc-status"):
        with pytest.raises(GrpcFailure) as failed:
            exchange.message()
        assert failed.value.detail == says
    else:
        assert exchange.message().hex() == says


@given(pieces=st.lists(st.integers(1, 30), max_size=40))
def test_bytes_may_come_in_any_pieces(pieces: list[int]) -> None:
    assert played(ANSWER, pieces) == b"the message"


@given(
    changes=st.lists(st.tuples(st.integers(0, len(ANSWER) - 1), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, len(ANSWER)),
    inserted=st.binary(max_size=20),
    pieces=st.lists(st.integers(1, 30), max_size=5),
)
def test_damaged_answers_end_in_a_failure_and_never_in_another_exception(
    changes: list[tuple[int, int]], cut: int, inserted: bytes, pieces: list[int]
) -> None:
    data = bytearray(ANSWER)
    for place, value in changes:
        data[place] = value
    played(bytes(data[:cut]) + inserted + bytes(data[cut:]), pieces)


@given(frames=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 255), st.integers(0, 3), st.binary(max_size=40))))
def test_any_frames_end_in_a_failure_and_never_in_another_exception(
    frames: list[tuple[int, int, int, bytes]],
) -> None:
    data = b"".join(
        len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload
        for kind, flags, stream, payload in frames
    )
    played(data, [])
