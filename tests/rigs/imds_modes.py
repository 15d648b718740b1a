"""Modes of a metadata service: what it sends, part by part, for each request."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

TOKEN_PATH = "/latest/api/token"
ROOTS = ("/2016-01-01/meta-data", "/latest/meta-data")
LONGEST = 60.0  # seconds for which a service without an answer holds a connection
HUGE = 50 << 20  # bytes
ESCAPES = "\x1b]0;owned\x07\x1b[2J"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; `token` is None if it has none. `headers` by lower-case name."""

    method: str
    path: str
    token: str | None
    headers: Mapping[str, str]

    @property
    def key(self) -> str | None:
        """The metadata key that is asked for."""
        root = next((root for root in ROOTS if self.path.startswith(f"{root}/")), None)
        return None if root is None else self.path.removeprefix(f"{root}/")


class Service(Protocol):
    """What a mode knows of the server: its tree, its tokens, and its requests with the present one."""

    tree: dict[str, Any]
    tokens: set[str]
    asked: list[str]
    closed: Event
    mode: Mode


Parts = Iterator[bytes]
Mode = Callable[[Service, Asked], Parts]


def answer(service: Service, asked: Asked) -> Parts:
    return service.mode(service, asked)


def reply(status: int, body: bytes = b"", *headers: str) -> Parts:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}", *headers))
    yield f"{head}\r\n".encode() + body


def optional(service: Service, asked: Asked) -> Parts:
    """As documented: tokens are given, and not required."""
    if asked.method == "PUT":
        ttl = asked.headers.get("x-aliyun-ecs-metadata-token-ttl-seconds", "")
        if asked.path != TOKEN_PATH or not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
            return reply(400)
        token = secrets.token_urlsafe(24)
        service.tokens.add(token)
        return reply(200, token.encode())
    if asked.token is not None and asked.token not in service.tokens:
        return reply(401)
    return tell(service.tree, asked.key)


def tell(tree: Mapping[str, Any], key: str | None) -> Parts:
    """A key of the tree as the service writes it: directories by line, with slashes; lists as JSON."""
    here: Any = tree if key is not None else None
    if key == "all":
        return reply(200, json.dumps(tree).encode(), "Content-Type: application/json")
    for part in (key or "").split("/"):
        if part:
            here = here.get(part) if isinstance(here, Mapping) else None
    if here is None:
        return reply(404)
    if isinstance(here, Mapping):
        lines = (f"{name}/" if isinstance(value, Mapping) else name for name, value in here.items())
        return reply(200, "\n".join(lines).encode())
    return reply(200, (here if isinstance(here, str) else json.dumps(here)).encode())


def required(service: Service, asked: Asked, status: int = 403) -> Parts:
    return reply(status) if asked.method == "GET" and asked.token is None else optional(service, asked)


def no_all(service: Service, asked: Asked) -> Parts:
    return reply(404) if asked.key == "all" else optional(service, asked)


def thin_all(service: Service, asked: Asked) -> Parts:
    """`all` lists only identifier, netmask and gateway of an interface."""
    if asked.key != "all":
        return optional(service, asked)
    tree = json.loads(json.dumps(service.tree))
    macs = tree["network"]["interfaces"]["macs"]
    for mac, told in macs.items():
        macs[mac] = {key: told[key] for key in ("network-interface-id", "netmask", "gateway")}
    return tell(tree, "all")


def burst(status: int, count: int) -> Mode:
    """The first `count` requests get this status. Then the service is healthy."""
    return lambda service, asked: reply(status) if len(service.asked) <= count else optional(service, asked)


def always(status: int, *headers: str, method: str = "GETPUT", token: bool | None = None) -> Mode:
    """Every request of this method, with or without a token, gets this status."""

    def mode(service: Service, asked: Asked) -> Parts:
        meant = asked.method in method and token in (None, asked.token is not None)
        return reply(status, b"", *headers) if meant else optional(service, asked)

    return mode


def token_expired(service: Service, asked: Asked) -> Parts:
    """The first token that is used has expired."""
    used = [one for one in service.asked if one.endswith("with a token")]
    return reply(401) if asked.token is not None and len(used) == 1 else optional(service, asked)


def silent(service: Service, asked: Asked, methods: str = "GETPUT") -> Parts:
    if asked.method not in methods:
        yield from optional(service, asked)
    service.closed.wait(LONGEST if asked.method in methods else 0)


def paged(part: Callable[[Service, Asked], Parts]) -> Mode:
    """Tokens are given as they should be, and every page is sent by `part`."""
    return lambda service, asked: optional(service, asked) if asked.method == "PUT" else part(service, asked)


def drip(service: Service, asked: Asked) -> Parts:
    """A byte a second."""
    for byte in b"".join(optional(service, asked)):
        yield bytes([byte])
        if service.closed.wait(1):
            return


def endless(first: bytes, again: bytes) -> Mode:
    def part(service: Service, asked: Asked) -> Parts:  # noqa: ARG001
        yield first
        while not service.closed.is_set():
            yield again

    return paged(part)


def bytes_of(data: bytes) -> Mode:
    return paged(lambda service, asked: iter((data,)))  # noqa: ARG005


def whole(edit: Callable[[bytes], bytes]) -> Mode:
    """`all` with another body."""

    def mode(service: Service, asked: Asked) -> Parts:
        if asked.key != "all":
            return optional(service, asked)
        return reply(200, edit(json.dumps(service.tree).encode()))

    return mode


def truncated(service: Service, asked: Asked) -> Parts:
    """The connection ends in the middle of a page."""
    yield b"".join(optional(service, asked))[:-5]


def chunked(service: Service, asked: Asked) -> Parts:
    """As by a server that does not know the length beforehand."""
    head, _, body = b"".join(optional(service, asked)).partition(b"\r\n\r\n")
    yield head.partition(b"\r\n")[0] + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    for at in range(0, len(body), 100):
        part = body[at : at + 100]
        yield b"%x\r\n%s\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


def unmeasured(service: Service, asked: Asked) -> Parts:
    """Without a length: the page ends with the connection."""
    head, _, body = b"".join(optional(service, asked)).partition(b"\r\n\r\n")
    yield head.partition(b"\r\n")[0] + b"\r\n\r\n" + body


OK = b"HTTP/1.1 200 OK\r\n"
MODES: dict[str, Mode] = {
    "optional": optional,
    "required": required,
    "required-401": lambda service, asked: required(service, asked, 401),
    "chunked": paged(chunked),
    "unmeasured": paged(unmeasured),
    "no-all": no_all,
    "thin-all": thin_all,
    "burst-429": burst(429, 2),
    "burst-5xx": burst(503, 2),
    "always-429": always(429),
    "always-500": always(500),
    "disabled-403": always(403),
    "no-token": always(404, method="PUT"),
    "forbidden": always(403, method="GET", token=True),
    "not-authorised": always(401, method="GET", token=True),
    "redirect": always(302, "Location: http://127.0.0.1:9/latest/meta-data/all", method="GET"),
    "token-expired": token_expired,
    "odd-token": lambda service, asked: (
        reply(200, b"a b\r\nX: y") if asked.method == "PUT" else optional(service, asked)
    ),
    "hop-limit": lambda service, asked: silent(service, asked, "PUT"),
    "hang": silent,
    "drip": paged(drip),
    "endless-headers": endless(OK, b"X-More: 1\r\n"),
    "endless-line": endless(OK + b"X-More: ", b"1" * 4096),
    "endless-chunks": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "endless-body": endless(OK + b"\r\n", b" " * 4096),
    "huge": paged(lambda service, asked: reply(200, b" " * HUGE)),  # noqa: ARG005
    "truncated": paged(truncated),
    "cut-json": whole(lambda body: body[: len(body) // 2]),
    "no-json": whole(lambda body: b"<html>" + body),
    "list-json": whole(lambda body: b"[" + body + b"]"),
    "deep-json": whole(lambda body: b"[" * 200_000),  # noqa: ARG005
    "non-utf8": whole(lambda body: body.replace(b"ecs.g8i", b"\xff\xfe")),
    "other-protocol": bytes_of(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "two-lengths": bytes_of(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
    "no-length": bytes_of(OK + b"Content-Length: -1\r\n\r\nxx"),
    "length-and-chunks": bytes_of(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    "odd-header": bytes_of(OK + b"no header\r\n\r\n"),
    "odd-chunk": bytes_of(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "long-chunk": bytes_of(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n"),
    "nothing": bytes_of(b""),
    "half-a-head": bytes_of(OK),
    "escapes": whole(
        lambda body: body.replace(b'"cn-hangzhou-j"', json.dumps(ESCAPES).encode()).replace(
            b'"eni-primary"', json.dumps(ESCAPES).encode()
        )
    ),
    "odd-mac": whole(lambda body: body.replace(b'"00:16:3e:00:00:01": {', b'"../../x y\\r\\nZ: 1": {')),
    "odd-mac-tree": lambda service, asked: (
        reply(200, b"../../x y/\n") if asked.key == "network/interfaces/macs/" else no_all(service, asked)
    ),
}
