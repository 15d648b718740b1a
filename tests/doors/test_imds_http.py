"""One HTTP exchange: whatever comes in, it ends, with an answer or with what was wrong."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodeprep.doors import clock
from nodeprep.doors.http import imds_exchange
from nodeprep.doors.http.imds_exchange import BODY, MetadataResponse, NotHttpError, Request, Server

SERVER = Server("127.0.0.1", 80)
OK = b"HTTP/1.1 200 OK\r\n"
LONG = 20.0  # seconds that an exchange may take here


def heard(sent: bytes) -> tuple[MetadataResponse, bytes]:
    """What is made of these bytes and the end of the connection, and what was asked."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        there.shutdown(socket.SHUT_WR)
        answer = imds_exchange.exchange(here, SERVER, Request("GET", "/x", {"X-Key": "v"}), clock.now() + LONG)
        return answer, there.recv(4096)


ANSWERS = [
    (OK + b"Content-Length: 2\r\n\r\nab", MetadataResponse(200, b"ab")),
    (OK + b"Content-Length: 2\r\n\r\nabc", MetadataResponse(200, b"ab")),
    (OK + b"Content-Length: 0\r\n\r\n", MetadataResponse(200, b"")),
    (OK + b"content-LENGTH:\t2 \r\nContent-Length: 2\r\n\r\nab", MetadataResponse(200, b"ab")),
    (OK + b"Set-Cookie: a\r\nSet-Cookie: b\r\n\r\nab", MetadataResponse(200, b"ab")),
    (b"HTTP/1.0 200\n\nab", MetadataResponse(200, b"ab")),
    (OK + b"Transfer-Encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", MetadataResponse(200, b"abc")),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\n", MetadataResponse(404, b"")),
    (OK + b"Content-Length: %d\r\n\r\n" % 3 + b"abc", MetadataResponse(200, b"abc")),
]


@pytest.mark.parametrize(("sent", "means"), ANSWERS)
def test_answers(sent: bytes, means: MetadataResponse) -> None:
    answer, asked = heard(sent)
    assert answer == means
    assert asked == b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\nX-Key: v\r\n\r\n"


WRONG = [
    b"",
    b"HTTP/2 200\r\n\r\n",
    b"HTTP/1.1 0200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\rX: y\r\n\r\n",
    OK + b" folded: 1\r\n\r\n",
    OK + b"Content-Length : 1\r\n\r\nx",
    OK + b"Content-Length: 1,1\r\n\r\nx",
    OK + b"Content-Length: +1\r\n\r\nx",
    OK + b"Content-Length: %d\r\n\r\n" % (BODY + 1),
    OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n100001\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
]


@pytest.mark.parametrize("sent", WRONG)
def test_what_is_no_answer(sent: bytes) -> None:
    with pytest.raises(NotHttpError):
        heard(sent)


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"HTTP/1.1 200 \xff\r\n\r\n")
def test_any_bytes_end_it(noise: bytes) -> None:
    for sent in (noise, OK + noise, OK + b"\r\n" + noise, OK + b"Transfer-Encoding: chunked\r\n\r\n" + noise):
        with contextlib.suppress(NotHttpError):
            assert len(heard(sent)[0].body) <= BODY


def test_when_the_time_is_over_nothing_is_begun() -> None:
    with pytest.raises(TimeoutError):
        imds_exchange.connect(SERVER, clock.now() - 1)
    here, there = socket.socketpair()
    with here, there, pytest.raises(TimeoutError):
        imds_exchange.exchange(here, SERVER, Request("GET", "/", {}), clock.now() - 1)
