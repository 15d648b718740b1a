"""TLS of the HTTP client against real servers with real certificates: whom it trusts, and for how long it waits."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from socket import create_connection
from typing import Any

import pytest

from nodeprep.doors import clock
from nodeprep.doors.http import tls as http_tls
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.doors.kube.requests import Broken, Peer, Wire
from nodeprep.model import Why
from tests.rigs.raw_server import Caller, RawServer, always, certificate, once

AMPLE = 60.0  # seconds for a request, where its deadline is not what is looked at
SLACK = 30.0  # seconds that a busy machine may take longer; whoever is late here, is so for ever
LIMIT = 1 << 20  # bytes of a body here
OK = b"HTTP/1.1 200 OK\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\nab"
HERE = "DNS:localhost,IP:127.0.0.1"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: `ca`, of it `here` (this host), `other` (another one) and `me` (a client); and `stranger`."""
    directory = tmp_path_factory.mktemp("keys")
    certificate(directory, "ca", "DNS:ca")
    for name, names in {"here": HERE, "other": "DNS:other.example", "me": "DNS:me"}.items():
        certificate(directory, name, names, "ca")
    certificate(directory, "stranger", HERE)
    return directory


def serving(keys: Path, name: str = "here", *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / f"{name}.crt", keys / f"{name}.key")
    if wants_client:
        context.load_verify_locations(keys / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def wire(port: int, keys: Path, seconds: float = AMPLE, **peer: Any) -> Iterator[Wire]:
    made = Wire(Peer(f"https://127.0.0.1:{port}", **{"authority": str(keys / "ca.crt"), **peer}), seconds, AMPLE, AMPLE)
    try:
        yield made
    finally:
        made.close()


def asked(port: int, keys: Path, **peer: Any) -> bytes | None:
    with wire(port, keys, **peer) as ours:
        return ours.get("/x", {}).body


def broken(act: Callable[[], object]) -> Broken:
    with pytest.raises(Broken) as failed:
        act()
    return failed.value


def test_requests_share_a_connection(keys: Path) -> None:
    """TLS 1.3 sends tickets after the handshake: these are no reason to take a connection for a used one."""
    with RawServer(always(TWO), tls=serving(keys)) as server, wire(server.port, keys) as ours:
        for _ in range(3):
            assert ours.get("/x", {}).body == b"ab"
            time.sleep(0.05)
        assert (server.connections, len(server.heard)) == (1, 3)


def test_a_large_body_is_whole(keys: Path) -> None:
    body = bytes(range(256)) * 20_000
    with RawServer(always(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body), tls=serving(keys)) as server:
        assert asked(server.port, keys) == body


def test_a_large_request_is_whole(keys: Path) -> None:
    body = b"a" * (5 << 20)
    taken: list[bytes] = []

    def take(caller: Caller) -> None:
        caller.request()
        while sum(map(len, taken)) < len(body):
            taken.append(caller.link.recv(1 << 16))
        caller.says(TWO)

    with RawServer(take, tls=serving(keys)) as server, wire(server.port, keys) as ours:
        assert ours.request("PATCH", "/x", {}, body).body == b"ab"
    assert b"".join(taken) == body


UNTRUSTED = [
    pytest.param("stranger", {}, "its certificate is not accepted: self-signed certificate", id="authority"),
    pytest.param("other", {}, "its certificate is not accepted: IP address mismatch", id="address"),
    pytest.param("here", {"server_name": "other.example"}, "its certificate is not accepted: Hostname", id="name"),
]


@pytest.mark.parametrize(("name", "peer", "says"), UNTRUSTED)
def test_a_certificate_that_is_not_accepted(keys: Path, name: str, peer: dict[str, Any], says: str) -> None:
    with RawServer(always(TWO), tls=serving(keys, name)) as server:
        why = broken(lambda: asked(server.port, keys, **peer))
        assert server.heard == [], "nothing is said to a server that is not trusted"
    assert (why.kind, why.errno, why.lost) == (Why.IO_ERROR, None, True)
    assert why.detail.startswith(says)


TRUSTED: list[tuple[str, dict[str, Any]]] = [
    ("here", {}),
    ("other", {"server_name": "other.example"}),
    ("other", {"verify": False}),
    ("stranger", {"verify": False, "authority": None}),
]


@pytest.mark.parametrize(("name", "peer"), TRUSTED)
def test_a_certificate_that_is(keys: Path, name: str, peer: dict[str, Any]) -> None:
    with RawServer(always(TWO), tls=serving(keys, name)) as server:
        assert asked(server.port, keys, **peer) == b"ab"


def test_who_we_are_is_told_by_files_or_by_a_text(keys: Path) -> None:
    certificate_file, key_file = keys / "me.crt", keys / "me.key"
    files = {"certificate": str(certificate_file), "key": str(key_file)}
    with RawServer(always(TWO), tls=serving(keys, wants_client=True)) as server:
        assert asked(server.port, keys, **files) == b"ab"
        assert asked(server.port, keys, pem=certificate_file.read_text() + key_file.read_text()) == b"ab"
        why = broken(lambda: asked(server.port, keys))
    assert why.errno is None, "OpenSSL's numbers are not the kernel's"
    assert "certificate required" in why.detail.lower().replace("_", " ")


def test_a_handshake_that_hangs_ends(keys: Path) -> None:
    """The connection is there, and the server says nothing."""
    with RawServer(lambda caller: caller.over.wait()) as server:
        endpoint = Endpoint("127.0.0.1", server.port, tls=http_tls.client_context(str(keys / "ca.crt")))
        began = time.monotonic()
        with pytest.raises(HttpFailure) as failed:
            HttpClient(endpoint, connect_seconds=0.5).send("GET", "/", {}, until=clock.now() + AMPLE)
        assert 0.4 < time.monotonic() - began < 0.5 + SLACK
    why = failed.value
    assert (why.kind, why.detail, why.connected) == (Why.TIMEOUT, "no TLS handshake in 0.5 s", False)


def test_a_handshake_that_drips_ends(keys: Path) -> None:
    """Each byte of a record that never ends is a sign of life; the deadline is for all of them."""
    with RawServer(lambda caller: caller.drips(b"\x16\x03\x03\x40\x00" + b"\x02" * 60, 1.0)) as server:
        began = time.monotonic()
        with wire(server.port, keys, seconds=2.5) as ours:
            why = broken(lambda: ours.get("/", {}))
        assert 2.4 < time.monotonic() - began < 2.5 + SLACK
    assert (why.kind, why.detail, why.lost) == (Why.TIMEOUT, "no answer in 2.5 s", True)


def test_a_body_that_drips_in_tls_ends(keys: Path) -> None:
    def drip(caller: Caller) -> None:
        caller.request()
        caller.says(OK + b"Content-Length: 60\r\n\r\n")
        caller.drips(b"a" * 60, 1.0)

    with RawServer(drip, tls=serving(keys)) as server, wire(server.port, keys, seconds=2.5) as ours:
        why = broken(lambda: ours.get("/", {}))
    assert (why.kind, why.detail) == (Why.TIMEOUT, "no answer in 2.5 s")


NO_TLS = [
    pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\nThis is TLS", id="plain HTTP"),
    pytest.param(b"\x15\x03\x03\x00\x02\x02\x28", id="an alert"),
    pytest.param(b"", id="nothing"),
    pytest.param(b"\x16\x03\x03", id="half a record"),
]


@pytest.mark.parametrize("data", NO_TLS)
def test_what_is_no_tls(keys: Path, data: bytes) -> None:
    def speak(caller: Caller) -> None:
        caller.link.recv(1 << 16)
        caller.says(data)

    with RawServer(speak) as server:
        why = broken(lambda: asked(server.port, keys))
    assert (why.kind, why.errno, why.lost) == (Why.IO_ERROR, None, True)
    assert why.detail.isprintable()


def test_an_answer_that_ends_without_a_goodbye_is_whole_only_if_http_says_so(keys: Path) -> None:
    with RawServer(once(TWO), tls=serving(keys)) as server:
        assert asked(server.port, keys) == b"ab"
    with RawServer(once(OK + b"Content-Length: 3\r\n\r\nab"), tls=serving(keys)) as server:
        why = broken(lambda: asked(server.port, keys))
    assert why.detail == "the connection ended in the middle of the answer's body"


def test_a_server_that_restarted_is_asked_on_a_new_connection(keys: Path) -> None:
    with RawServer(once(TWO), always(TWO), tls=serving(keys)) as server, wire(server.port, keys) as ours:
        assert ours.request("PATCH", "/x", {}, b"{}").body == b"ab"
        time.sleep(0.2)
        assert ours.request("PATCH", "/x", {}, b"{}").body == b"ab"
        assert (server.connections, len(server.heard)) == (2, 2)


def tunnelling(caller: Caller) -> None:
    """What a proxy does with CONNECT; in one thread, for OpenSSL is not to read and write in two at once."""
    port = int(caller.request().split(b" ")[1].rpartition(b":")[2])
    with create_connection(("127.0.0.1", port)) as onward:
        caller.says(b"HTTP/1.1 200 Connection established\r\n\r\n")
        while True:
            ready, _, _ = select((caller.link, onward), (), ())
            data = ready[0].recv(1 << 16)  # more than a record of TLS has, so that none is left in OpenSSL
            if not data:
                return
            (onward if ready[0] is caller.link else caller.link).sendall(data)


def test_through_a_proxy_it_is_the_server_that_is_trusted(keys: Path) -> None:
    with RawServer(tunnelling) as proxy, RawServer(always(TWO), tls=serving(keys)) as server:
        assert asked(server.port, keys, proxy=f"http://127.0.0.1:{proxy.port}") == b"ab"
        where = f"127.0.0.1:{server.port}".encode()
        assert proxy.heard == [b"CONNECT " + where + b" HTTP/1.1\r\nHost: " + where + b"\r\n\r\n"]
        why = broken(lambda: asked(server.port, keys, proxy=f"127.0.0.1:{proxy.port}", server_name="other.example"))
    assert why.detail.startswith("its certificate is not accepted: ")


ASK = """\
import sys
from nodeprep.doors.kube.requests import Peer, Wire
url, authority, proxy = sys.argv[1:]
wire = Wire(Peer(url, authority=authority, proxy=proxy), 60.0, 60.0, 60.0)
print(wire.get("/x", {}).body)
wire.close()
"""


def test_a_proxy_may_speak_tls_itself(keys: Path) -> None:
    """It is held against the system's authorities, which OpenSSL takes from SSL_CERT_FILE."""
    with RawServer(tunnelling, tls=serving(keys)) as proxy, RawServer(always(TWO), tls=serving(keys)) as server:
        words = (f"https://127.0.0.1:{server.port}", str(keys / "ca.crt"), f"https://127.0.0.1:{proxy.port}")
        trusting, wary = (
            subprocess.run(
                (sys.executable, "-c", ASK, *words),
                env={"SSL_CERT_FILE": str(keys / f"{authority}.crt")},
                capture_output=True,
                text=True,
                check=False,
            )
            for authority in ("ca", "stranger")
        )
    assert (trusting.returncode, trusting.stdout) == (0, "b'ab'\n"), trusting.stderr
    assert wary.returncode == 1
    assert "its certificate is not accepted" in wary.stderr


def test_a_proxy_that_refuses_is_named(keys: Path) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with RawServer(once(refusal)) as proxy:
        why = broken(lambda: asked(1, keys, proxy=f"http://127.0.0.1:{proxy.port}"))
    assert (why.detail, why.lost) == ("the proxy answers HTTP 407", True)


def test_a_proxy_that_hangs_ends(keys: Path) -> None:
    with RawServer(lambda caller: caller.over.wait()) as proxy:
        peer = Peer("https://127.0.0.1:1", str(keys / "ca.crt"), proxy=f"http://127.0.0.1:{proxy.port}")
        why = broken(lambda: Wire(peer, AMPLE, 0.5, AMPLE).get("/", {}))
    assert (why.kind, why.detail, why.lost) == (Why.TIMEOUT, "no answer of the proxy in 0.5 s", True)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "http://", "http://a:99999"])
def test_what_is_no_proxy_of_ours(proxy: str) -> None:
    with pytest.raises(ValueError, match=r"is no URL of https or http|Port out of range"):
        Wire(Peer("http://127.0.0.1:1", proxy=proxy), 1.0)
