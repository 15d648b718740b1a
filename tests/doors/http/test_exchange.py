"""One HTTP exchange: whatever comes in, it ends, with an answer or with what was wrong."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodeprep.doors import clock
from nodeprep.doors.http import exchange
from nodeprep.doors.http.connection import SocketLink
from nodeprep.doors.http.exchange import HEAD_BYTES, INTERIM_COUNT, HttpConnection, Response
from nodeprep.doors.http.failure import BodyTooLarge, HttpFailure
from nodeprep.model import Why

OK = b"HTTP/1.1 200 OK\r\n"
LIMIT = 1 << 20  # bytes of a body here
LONG = 20.0  # seconds that an exchange may take here


def heard(sent: bytes, seconds: float = LONG) -> tuple[int, bytes, bytes]:
    """Status and body that are made of these bytes and the end of the connection, and what was asked."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        there.shutdown(socket.SHUT_WR)
        asked = exchange.request_of("GET", "/x", {"Host": "h", "X-Key": "v"}, b"")
        with Response(HttpConnection(SocketLink(here)), clock.now() + seconds).started(asked, b"") as response:
            body = response.read(LIMIT)
        return response.status, body, there.recv(4096)


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ANSWERS = [
    (OK + b"Content-Length: 2\r\n\r\nab", 200, b"ab"),
    (OK + b"Content-Length: 2\r\n\r\nabc", 200, b"ab"),
    (OK + b"Content-Length: 0\r\n\r\n", 200, b""),
    (OK + b"content-LENGTH:\t2 \r\nContent-Length: 2\r\n\r\nab", 200, b"ab"),
    (OK + b"Content-Length: 2,2\r\n\r\nab", 200, b"ab"),
    (OK + b"Set-Cookie: a\r\nSet-Cookie: b\r\n\r\nab", 200, b"ab"),
    (b"HTTP/1.0 200\n\nab", 200, b"ab"),
    (OK + b"Transfer-Encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, b"abc"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, b"ab"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 404, b"no"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (CONTINUE + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nab", 200, b"ab"),
    (CONTINUE * INTERIM_COUNT + OK + b"\r\nab", 200, b"ab"),
]


@pytest.mark.parametrize(("sent", "status", "body"), ANSWERS)
def test_answers(sent: bytes, status: int, body: bytes) -> None:
    assert heard(sent) == (status, body, b"GET /x HTTP/1.1\r\nHost: h\r\nX-Key: v\r\n\r\n")


WRONG = [
    (b"", "the connection ended without an answer"),
    (b"HTT", "the connection ended in the middle of the answer's head"),
    (OK, "the connection ended in the middle of the answer's head"),
    (OK + b"Content-Length: 3\r\n\r\nab", "the connection ended in the middle of the answer's body"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", "the connection ended in the middle of the answer's body"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "the connection ended in the middle of the answer's body"),
    (b"\x15\x03\x01\x00\x02\x02", "it begins with b'\\x15\\x03\\x01\\x00\\x02\\x02', which is not HTTP"),
    (b"HTTP/2 200\r\n\r\n", "illegal status line"),
    (b"HTTP/1.1 0200 OK\r\n\r\n", "illegal status line"),
    (b"HTTP/1.1 200 OK\rX: y\r\n\r\n", "illegal status line"),
    (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "SWITCH"),
    (OK + b" folded: 1\r\n\r\n", "continuation line"),
    (OK + b"Content-Length : 1\r\n\r\nx", "illegal header line"),
    (OK + b"Content-Length: 1,2\r\n\r\nx", "conflicting Content-Length"),
    (OK + b"Content-Length: +1\r\n\r\nx", "bad Content-Length"),
    (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nx", "bad Content-Length"),
    (OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "both Content-Length and"),
    (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "Only Transfer-Encoding: chunked"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", "illegal chunk header"),
    (OK + b"X: 1\r\n" * 101 + b"\r\n", "more than 100 headers"),
    (OK + b"X: " + b"a" * HEAD_BYTES + b"\r\n\r\n", f"more than {HEAD_BYTES} bytes of headers"),
    (CONTINUE * (INTERIM_COUNT + 1) + OK + b"\r\n", f"more than {INTERIM_COUNT} interim answers (HTTP 1xx)"),
]


@pytest.mark.parametrize(("sent", "says"), WRONG)
def test_what_is_no_answer(sent: bytes, says: str) -> None:
    with pytest.raises(HttpFailure) as failed:
        heard(sent)
    assert failed.value.kind is Why.MALFORMED
    assert says in failed.value.detail
    assert failed.value.detail.isprintable()
    assert failed.value.connected


LARGE = [
    OK + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1),
    OK + b"Content-Length: 99999999999999\r\n\r\nab",
]


@pytest.mark.parametrize("sent", LARGE)
def test_a_body_that_says_it_is_too_large_is_not_read(sent: bytes) -> None:
    with pytest.raises(BodyTooLarge, match="larger than 1048576 bytes"):
        heard(sent)


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"HTTP/1.1 200 \xff\r\n\r\n")
def test_any_bytes_end_it(noise: bytes) -> None:
    for sent in (noise, OK + noise, OK + b"\r\n" + noise, OK + b"Transfer-Encoding: chunked\r\n\r\n" + noise):
        with contextlib.suppress(HttpFailure):
            assert len(heard(sent)[1]) <= LIMIT


def test_when_the_time_is_over_nothing_is_begun() -> None:
    with pytest.raises(HttpFailure) as failed:
        heard(OK + b"\r\n", seconds=-1.0)
    assert failed.value.kind is Why.TIMEOUT


SECRET = "s3cret"
FORBIDDEN = [
    ("/x", {"Authorization": f"Bearer {SECRET}\r\nX: b"}),
    ("/x", {"Authorization": f"Bearer {SECRET}\u2028"}),
    (f"/{SECRET} x", {}),
    (f"/{SECRET}\r\nX: b", {}),
]


@pytest.mark.parametrize(("path", "headers"), FORBIDDEN)
def test_what_no_request_can_hold_is_not_sent_and_not_said(path: str, headers: dict[str, str]) -> None:
    with pytest.raises(HttpFailure) as failed:
        exchange.request_of("GET", path, {"Host": "h", **headers}, b"")
    assert SECRET not in failed.value.detail
    assert failed.value.__suppress_context__, "a traceback would show it"


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("GET", b"", None), ("DELETE", b"", None), ("POST", b"", b"0"), ("PUT", b"", b"0"), ("PATCH", b"{}", b"2")],
)
def test_a_request_states_the_length_of_its_body(method: str, body: bytes, length: bytes | None) -> None:
    assert dict(exchange.request_of(method, "/", {"Host": "h"}, body).headers).get(b"content-length") == length
