"""The metadata door, against a real HTTP server that is well or ill in every way that we know (tests/rigs)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeprep.door_values import Instance, Interface
from nodeprep.doors.http.imds import READ, Metadata, MetadataAnswer
from nodeprep.model import Unreadable, Why, raw
from tests.rigs import imds_server
from tests.rigs.imds_modes import MODES, Asked, Parts, Service, optional
from tests.rigs.imds_server import MetadataServer, shapes

PATIENCE = 20.0  # seconds for all retries, however slow the machine
SOON = 30.0  # seconds; two of them are the longest that one answer may take


def waiting(mode: str) -> float:
    """The door's own time for a service that hangs; any for one that is well, on however busy a machine."""
    return READ if mode in ("hop-limit", "hang", "drip") else PATIENCE


def read(mode: str, shape: str = "two-enis") -> tuple[MetadataAnswer | Unreadable, list[str]]:
    with MetadataServer(shape, mode) as server:
        begun = time.monotonic()
        told = Metadata(server.url, PATIENCE, waiting(mode)).read()
        took = time.monotonic() - begun
        assert took < SOON
        assert isinstance(told, Unreadable) or 0 < told.milliseconds <= took * 1e3
        return told, server.asked


PRIMARY = Interface(
    mac="00:16:3e:00:00:01",
    eni="eni-primary",
    primary_address="192.168.0.116",
    addresses=("192.168.0.116",),
    ipv6_addresses=(),
    prefix=24,
    gateway="192.168.0.253",
    vswitch="vsw-bp1exemplar",
    vswitch_cidr="192.168.0.0/24",
)
SHARED = Interface(
    mac="00:16:3e:aa:bb:01",
    eni="eni-shared1",
    primary_address="192.168.0.130",
    addresses=("192.168.0.130", "192.168.0.134", "192.168.0.135"),
    ipv6_addresses=(),
    prefix=24,
    gateway="192.168.0.253",
    vswitch="vsw-bp1exemplar",
    vswitch_cidr="192.168.0.0/24",
)


def the_instance(*, token_required: bool) -> Instance:
    return Instance(
        id="i-bp1exemplar",
        type="ecs.g8i.4xlarge",
        region="cn-hangzhou",
        zone="cn-hangzhou-j",
        primary_mac="00:16:3e:00:00:01",
        token_required=token_required,
        interfaces=(PRIMARY, SHARED),
    )


WELL = [
    # mode          required  requests
    ("optional", False, 3),
    ("required", True, 3),
    ("required-401", True, 3),
    ("chunked", False, 3),
    ("unmeasured", False, 3),
    ("no-all", False, 25),
    ("thin-all", False, 19),
    ("burst-429", False, 5),
    ("burst-5xx", False, 5),
    ("token-expired", False, 5),
]


@pytest.mark.parametrize(("mode", "required", "requests"), WELL, ids=[row[0] for row in WELL])
def test_it_is_told_the_instance(mode: str, required: bool, requests: int) -> None:
    told, asked = read(mode)
    assert isinstance(told, MetadataAnswer), told
    assert told.instance == the_instance(token_required=required)
    assert len(asked) == requests, asked


TOKEN, ONE, ALL = "/latest/api/token", "/latest/meta-data/instance-id", "/2016-01-01/meta-data/all"
LONG = "the body is larger than 1048576 bytes"
ILL = [
    # mode          why            path   says
    ("always-429", Why.IO_ERROR, TOKEN, "answered 429 to 3 requests: it throttles"),
    ("always-500", Why.IO_ERROR, TOKEN, "answered 500 to 3 requests: it is broken"),
    ("disabled-403", Why.DENIED, TOKEN, "answered 403: its HttpEndpoint is disabled"),
    ("no-token", Why.MALFORMED, TOKEN, "answered 404 and no token"),
    ("odd-token", Why.MALFORMED, TOKEN, "answered 200 and no token"),
    ("forbidden", Why.DENIED, ALL, "answered 403 to a request with a fresh token"),
    ("not-authorised", Why.DENIED, ALL, "answered 401 to a request with a fresh token"),
    ("redirect", Why.MALFORMED, ONE, "answered 302; redirects are not followed"),
    ("endless-headers", Why.MALFORMED, ONE, "no valid answer: more than 16384 bytes of headers"),
    ("endless-line", Why.MALFORMED, ONE, "no valid answer: more than 16384 bytes of headers"),
    ("endless-chunks", Why.MALFORMED, ONE, f"no valid answer: {LONG}"),
    ("endless-body", Why.MALFORMED, ONE, f"no valid answer: {LONG}"),
    ("huge", Why.MALFORMED, ONE, f"no valid answer: {LONG}"),
    ("truncated", Why.MALFORMED, ONE, "no valid answer: the connection ended in the middle of the answer's body"),
    ("cut-json", Why.MALFORMED, ALL, "is no JSON (Unterminated string starting at: line 1 column 662 (char 661))"),
    ("no-json", Why.MALFORMED, ALL, "is no JSON (Expecting value: line 1 column 1 (char 0))"),
    ("list-json", Why.MALFORMED, ALL, "is no JSON object"),
    ("deep-json", Why.MALFORMED, ALL, "is no JSON (maximum recursion depth exceeded"),
    ("non-utf8", Why.MALFORMED, ALL, "byte 64 of the answer is no UTF-8"),
    (
        "other-protocol",
        Why.MALFORMED,
        ONE,
        "no valid answer: it begins with b'SSH-2.0-OpenSSH_9.6\\r', which is not HTTP",
    ),
    ("two-lengths", Why.MALFORMED, ONE, "no valid answer: conflicting Content-Length headers"),
    ("no-length", Why.MALFORMED, ONE, "no valid answer: bad Content-Length"),
    ("length-and-chunks", Why.MALFORMED, ONE, "no valid answer: both Content-Length and Transfer-Encoding"),
    ("odd-header", Why.MALFORMED, ONE, "no valid answer: illegal header line: (b'no header')"),
    ("odd-chunk", Why.MALFORMED, ONE, "no valid answer: illegal chunk header: (b'zz"),
    ("long-chunk", Why.MALFORMED, ONE, "no valid answer: malformed chunk footer"),
    ("nothing", Why.MALFORMED, ONE, "no valid answer: the connection ended without an answer"),
    ("half-a-head", Why.MALFORMED, ONE, "no valid answer: the connection ended in the middle of the answer's head"),
    ("odd-mac-tree", Why.MALFORMED, "/latest/meta-data/network/interfaces/macs/", "'../../x y' is not a MAC address"),
    ("hop-limit", Why.TIMEOUT, TOKEN, "the token's hop limit is 1 (then run with hostNetwork)"),
    ("hang", Why.TIMEOUT, TOKEN, "it hangs, or the token's hop limit is 1"),
    ("drip", Why.TIMEOUT, ONE, "no whole answer in "),
]


@pytest.mark.parametrize(("mode", "why", "path", "says"), ILL, ids=[row[0] for row in ILL])
def test_why_it_is_not(mode: str, why: Why, path: str, says: str) -> None:
    told: MetadataAnswer | Unreadable | None = None
    for _ in range(5):
        told, _ = read(mode)
        assert isinstance(told, Unreadable), told
        if mode != "drip" or told.path.endswith(path):  # else the machine used up the time before
            break
    assert isinstance(told, Unreadable)
    assert (told.kind, told.path.partition("127.0.0.1")[2].partition("/")[2]) == (why, path[1:])
    assert says in told.detail
    assert str(told).isprintable()


def test_every_mode_of_the_rig_is_tried() -> None:
    tried = {row[0] for row in WELL} | {row[0] for row in ILL} | {"escapes", "odd-mac"}
    assert tried == set(MODES)


def test_escape_codes_spoil_only_what_they_stand_in() -> None:
    told, _ = read("escapes")
    assert isinstance(told, MetadataAnswer)
    zone = raw(told.instance)["zone"]
    assert isinstance(zone, Unreadable)
    assert isinstance(raw(told.instance.interfaces[0])["eni"], Unreadable)
    assert str(zone) == ("metadata zone-id: malformed ('\\x1b]0;owned\\x07\\x1b[2J' is not a word)")
    assert told.instance.interfaces[1] == SHARED


def test_an_interface_that_has_no_mac_spoils_the_book() -> None:
    told, _ = read("odd-mac")
    assert isinstance(told, Unreadable)
    assert str(told) == "metadata network/interfaces/macs: malformed ('../../x y\\r\\nZ: 1' is not a MAC address)"


COUNTS = {"eris": 4, "ipv6-prefixes": 2, "member-enis": 4, "primary-only": 1, "seven-enis": 7, "two-enis": 2}


@pytest.mark.parametrize("mode", ["optional", "no-all"])
@pytest.mark.parametrize("shape", shapes())
def test_all_and_the_tree_tell_the_same(shape: str, mode: str) -> None:
    told, _ = read(mode, shape)
    straight, _ = read("required", shape)
    assert isinstance(told, MetadataAnswer)
    assert isinstance(straight, MetadataAnswer)
    assert raw(told.instance) | {"token_required": True} == raw(straight.instance)
    assert len(told.instance.interfaces) == COUNTS[shape]
    whole = [value for one in told.instance.interfaces for value in raw(one).values()]
    assert not [value for value in whole if isinstance(value, Unreadable)]


def test_ipv6_addresses_are_written_as_the_kernel_writes_them() -> None:
    told, _ = read("no-all", "ipv6-prefixes")
    assert isinstance(told, MetadataAnswer)
    assert [one.ipv6_addresses for one in told.instance.interfaces] == [
        ("fd00:0:0:1::a",),
        ("fd00:0:0:1::b", "fd00:0:0:1::c"),
    ]


def test_a_token_serves_many_readings_and_is_never_said() -> None:
    with MetadataServer("two-enis", "required") as server:
        door = Metadata(server.url, PATIENCE, PATIENCE)
        assert isinstance(door.read(), MetadataAnswer)
        assert isinstance(door.read(), MetadataAnswer)
        assert [one.partition(" ")[0] for one in server.asked] == ["PUT", "GET", "GET", "GET", "GET"]
        server.tokens.clear()  # the service was restarted
        assert isinstance(door.read(), MetadataAnswer)
        assert len([one for one in server.asked if one.startswith("PUT")]) == 2
        (token,) = server.tokens
        server.mode = MODES["forbidden"]
        refused = door.read()
    assert isinstance(refused, Unreadable)
    assert token not in str(refused) + repr(refused)


@pytest.mark.parametrize(("mode", "requests"), [("hang", 1), ("always-429", 3)])
def test_what_took_its_time_is_not_asked_again_at_once(mode: str, requests: int) -> None:
    """One check looks twice, and must not wait twice."""

    def both() -> tuple[object, object, int]:
        with MetadataServer("two-enis", mode) as server:
            door = Metadata(server.url, PATIENCE, waiting(mode))
            first = door.read()
            server.mode = MODES["optional"]
            return first, door.read(), len(server.asked)

    # A machine may stand still until it is asked again, or ask late. This does not happen each time.
    assert any(first == second and asked == requests for first, second, asked in (both() for _ in range(5)))


def test_slow_answers_cost_together_what_one_may() -> None:
    def slow(service: Service, asked: Asked) -> Parts:
        service.closed.wait(0.7)
        yield from optional(service, asked)

    with MetadataServer("two-enis", "optional") as server:
        server.mode = slow
        told: MetadataAnswer | Unreadable | None = None
        for _ in range(10):
            server.asked.clear()
            told = Metadata(server.url, PATIENCE).read()
            if len(server.asked) > 1:  # else it was the machine that used up the time, and not the answers together
                break
        assert len(server.asked) <= 3
        assert isinstance(told, Unreadable)
        assert told.kind is Why.TIMEOUT
        assert " s for the answers before" in told.detail
        assert isinstance(Metadata(server.url, PATIENCE, PATIENCE).read(), MetadataAnswer)


def test_what_answered_wrongly_is_asked_again() -> None:
    def again() -> object:
        with MetadataServer("two-enis", "no-json") as server:
            door = Metadata(server.url, PATIENCE, PATIENCE)
            assert isinstance(door.read(), Unreadable)
            server.mode = MODES["optional"]
            return door.read()

    # A wrong answer that a machine delays is kept for a while. This does not happen each time.
    assert any(isinstance(again(), MetadataAnswer) for _ in range(5))


@pytest.mark.parametrize("mode", ["hang", "drip", "always-429", "always-500"])
def test_a_look_costs_two_seconds_at_most(mode: str) -> None:
    """The others here have time, so that they hold on a busy machine. This one is not busy each time."""

    def seconds() -> float:
        with MetadataServer("two-enis", mode) as server:
            begun = time.monotonic()
            assert isinstance(Metadata(server.url).read(), Unreadable)
            return time.monotonic() - begun

    assert any(seconds() < 2.0 for _ in range(20))


def test_retries_end_with_the_time_that_is_given() -> None:
    def told() -> str:
        with MetadataServer("two-enis", "always-429") as server:
            blind = Metadata(server.url, total=0.8).read()
            assert isinstance(blind, Unreadable)
            asked = len(server.asked)
        assert asked <= 2  # a third would come after 1.1 s
        return blind.detail if f"answered 429 to {asked} request" in blind.detail else ""

    # A machine that stands still for the time that is given makes it a silence. This does not happen each time.
    assert any(told() for _ in range(10))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    told = Metadata(f"http://127.0.0.1:{port}").read()
    assert str(told) == (f"http://127.0.0.1:{port}/latest/api/token: io-error (no connection: Connection refused)")


def test_nobody_lets_us_in() -> None:
    """A listener whose queue is full drops what comes, as a firewall does."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(deaf.getsockname())
        begun = time.monotonic()
        told = Metadata(f"http://127.0.0.1:{deaf.getsockname()[1]}").read()
        assert time.monotonic() - begun < SOON
        for one in waiting:
            one.close()
    assert isinstance(told, Unreadable)
    assert told.kind is Why.TIMEOUT
    assert "no connection in " in told.detail
    assert "hop limit" not in told.detail


def test_a_name_is_never_looked_up() -> None:
    told = Metadata("http://localhost").read()
    assert isinstance(told, Unreadable)
    assert told.kind is Why.IO_ERROR


def test_an_ipv6_address_will_do() -> None:
    told = Metadata("http://[::1]:9").read()
    assert isinstance(told, Unreadable)
    assert told.path == "http://[::1]:9/latest/api/token"


def test_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(read("optional")[0], MetadataAnswer)


def test_the_rig_is_a_program() -> None:
    script = (
        "import os, urllib.request as u; print(u.urlopen(os.environ['METADATA_URL'] + '/latest/meta-data/mac').read())"
    )
    rig = [sys.executable, str(Path(imds_server.__file__)), "run", "--shape", "eris", "--mode", "optional", "--"]
    done = subprocess.run([*rig, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "b'00:16:3e:00:00:01'\n"), done.stderr
