"""Asks the instance metadata service of ECS: with a token, `all` in one answer or else its tree, and never for long."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from nodeprep.doors import clock
from nodeprep.doors.files.reader import DENIED
from nodeprep.doors.http import imds_parse
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.imds_parse import InstanceMetadata
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value, replace

TOTAL = 4.5  # seconds for all of it, within the 5 of the fact
CONNECT = 1.0  # seconds; it is one hop away
READ = 1.8  # seconds for all answers: a service that hangs, drips or is slow must not cost a look more than two
SLOW_FAILURE_SECONDS = (
    0.5  # seconds; a failure that took longer would be felt if one check, which looks twice, met it twice
)
BODY = 1 << 20  # bytes; `all` of an instance with 16 ENIs has 20 KB
FAILURE_HOLD_SECONDS = 10.0  # seconds that such a failure stands before the service is asked again
RETRIES, PAUSE, GROWTH = 4, 0.5, 1.2  # of 429 and 5xx, as Terway does (pkg/aliyun/metadata/metadata.go)
FOUND, UNAUTHORISED, ABSENT, THROTTLED = 200, 401, 404, 429  # RFC 9110, RFC 6585
BUSY_STATUSES = (THROTTLED, *range(500, 600))
REFUSED = (UNAUTHORISED, 403)
TTL = 21600  # seconds, the longest that the service grants; Terway and cloud-init ask for it too
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - where one is asked for
TTL_HEADER, TOKEN_HEADER = "X-aliyun-ecs-metadata-token-ttl-seconds", "X-aliyun-ecs-metadata-token"
TOKEN = Pattern(r"[!-~]{1,1024}")
ALL, TREE = "/2016-01-01/meta-data/all", "/latest/meta-data"
MACS = "network/interfaces/macs"
KEYS = ("instance-id", "instance/instance-type", "region-id", "zone-id", "mac")
INTERFACE_KEYS = (
    "network-interface-id",
    "primary-ip-address",
    "private-ipv4s",
    "ipv6s",
    "netmask",
    "gateway",
    "vswitch-id",
    "vswitch-cidr-block",
)


class MetadataAnswer(Value):
    """`token_required` is whether a request without a token was refused; `milliseconds` what all requests took."""

    instance: InstanceMetadata
    token_required: bool
    milliseconds: float


class MetadataPage(Value):
    """An answer of the service. `body` is read where `status` is 200 only."""

    status: int
    body: bytes


class _Stopped(Exception):
    """Nothing more can be learned, and why. `connected` is whether there was a connection."""

    def __init__(self, blind: Unreadable, *, connected: bool = False) -> None:
        super().__init__(str(blind))
        self.blind = blind
        self.connected = connected


class Metadata:
    """The service at `base`, asked by one thread at a time.

    A reading may take `total` seconds, and of these `waiting` for answers; the others are pauses of a busy service.
    The token is kept here for half its life, and nowhere else.
    """

    def __init__(self, base: str, total: float = TOTAL, waiting: float = READ) -> None:
        parts = urlsplit(base)
        self.base = f"http://{parts.netloc}"
        server = Endpoint(parts.hostname or "", parts.port or 80, resolve=False)
        self._client = HttpClient(server, connect_seconds=CONNECT, keep_alive=False)
        self.total = total
        self.waiting = waiting
        self._waited = 0.0
        self._end = 0.0
        self._token = ""
        self._token_until = 0.0
        self._held: tuple[float, Unreadable] | None = None

    def read(self) -> MetadataAnswer | Unreadable:
        """What the instance is and which interfaces it has, or why that cannot be told."""
        begun = clock.now()
        if self._held and begun < self._held[0]:
            return self._held[1]
        self._end, self._held, self._waited = begun + self.total, None, 0.0
        try:
            self._fresh_token()
            required = self._is_refused_without_token()
            tree = self._all() or self._tree()
        except _Stopped as stopped:
            if clock.now() - begun > SLOW_FAILURE_SECONDS:
                self._held = (clock.now() + FAILURE_HOLD_SECONDS, stopped.blind)
            return stopped.blind
        found = imds_parse.instance(tree)
        return found if isinstance(found, Unreadable) else MetadataAnswer(found, required, (clock.now() - begun) * 1e3)

    def _fresh_token(self) -> str:
        if self._token and clock.now() < self._token_until:
            return self._token
        try:
            answer = self._ask("PUT", TOKEN_PATH, {TTL_HEADER: str(TTL)})
        except _Stopped as stopped:
            if stopped.connected and stopped.blind.kind is Why.TIMEOUT:
                detail = f"{stopped.blind.detail}: it hangs, or the token's hop limit is 1 (then run with hostNetwork)"
                raise _Stopped(replace(stopped.blind, detail=detail), connected=True) from stopped
            raise
        if answer.status in REFUSED:
            raise self._stop(Why.DENIED, TOKEN_PATH, f"answered {answer.status}: its HttpEndpoint is disabled")
        token = self._text(TOKEN_PATH, answer).strip() if answer.status == FOUND else ""
        if not TOKEN.fullmatch(token):  # what it is, is never said
            raise self._stop(Why.MALFORMED, TOKEN_PATH, f"answered {answer.status} and no token")
        self._token, self._token_until = token, clock.now() + TTL / 2
        return token

    def _is_refused_without_token(self) -> bool:
        """HttpTokens=required. No document says whether it refuses with 401 or 403."""
        path = f"{TREE}/instance-id"
        answer = self._ask("GET", path, {})
        if answer.status not in (FOUND, *REFUSED):
            raise self._stop(Why.MALFORMED, path, _unexpected(answer))
        return answer.status in REFUSED

    def _all(self) -> dict[str, object] | None:
        """The whole tree in one answer; None where the service has no such page."""
        text = self._get(ALL)
        if text is None:
            return None
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._stop(Why.MALFORMED, ALL, f"is no JSON ({str(error)[:80]})") from error
        if not isinstance(tree, dict) or not tree:
            raise self._stop(Why.MALFORMED, ALL, "is no JSON object")
        macs = imds_parse.under(tree, "network", "interfaces", "macs") or {}
        for name, entry in macs.items():
            # Where it tells less of an interface than the tree does.
            if isinstance(entry, dict) and "private-ipv4s" not in entry:
                entry.update(self._interface(name))
        return tree

    def _tree(self) -> dict[str, object]:
        """The same, key by key: an instance of 8 interfaces takes some 70 requests."""
        tree: dict[str, object] = {key: self._get(f"{TREE}/{key}") for key in KEYS}
        tree["instance"] = {"instance-type": tree.pop("instance/instance-type")}
        lines = (self._get(f"{TREE}/{MACS}/") or "").split("\n")
        macs = {name: self._interface(name) for line in lines if (name := imds_parse.first_line(line))}
        return tree | {"network": {"interfaces": {"macs": macs}}}

    def _interface(self, name: str) -> dict[str, object]:
        mac = imds_parse.mac_of(name, MACS)
        if isinstance(mac, Unreadable):  # nothing but a MAC becomes part of a path
            raise self._stop(mac.kind, f"{TREE}/{MACS}/", mac.detail)
        told = {key: self._get(f"{TREE}/{MACS}/{mac}/{key}") for key in INTERFACE_KEYS}
        return {key: text for key, text in told.items() if text is not None}

    def _get(self, path: str) -> str | None:
        """A page with the token, None where there is none. A token that is refused is asked for anew, once."""
        answer = self._ask("GET", path, {TOKEN_HEADER: self._fresh_token()})
        if answer.status == UNAUTHORISED:
            self._token = ""
            answer = self._ask("GET", path, {TOKEN_HEADER: self._fresh_token()})
        if answer.status == ABSENT:
            return None
        if answer.status in REFUSED:
            self._token = ""
            raise self._stop(Why.DENIED, path, f"answered {answer.status} to a request with a fresh token")
        if answer.status != FOUND:
            raise self._stop(Why.MALFORMED, path, _unexpected(answer))
        return self._text(path, answer)

    def _text(self, path: str, answer: MetadataPage) -> str:
        try:
            return answer.body.decode()
        except UnicodeDecodeError as error:
            raise self._stop(Why.MALFORMED, path, f"byte {error.start} of the answer is no UTF-8") from error

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> MetadataPage:
        """One answer that is final; a service that is busy is asked again, as long as there is time."""
        tried, pause = 1, PAUSE
        while (answer := self._once(method, path, headers)).status in BUSY_STATUSES:
            if tried > RETRIES or clock.now() + pause >= self._end:
                busy = "it throttles" if answer.status == THROTTLED else "it is broken"
                raise self._stop(Why.IO_ERROR, path, f"answered {answer.status} to {tried} requests: {busy}")
            clock.sleep(pause)
            tried, pause = tried + 1, pause * GROWTH
        return answer

    def _once(self, method: str, path: str, headers: dict[str, str]) -> MetadataPage:
        begun = clock.now()
        until = min(self._end, begun + self.waiting - self._waited)
        try:
            with self._client.send(method, path, headers, until=until) as response:
                return MetadataPage(response.status, response.read(BODY) if response.status == FOUND else b"")
        except HttpFailure as failure:
            raise self._failed(path, failure, begun) from failure
        finally:
            self._waited += clock.now() - begun

    def _failed(self, path: str, failure: HttpFailure, begun: float) -> _Stopped:
        what = "no whole answer" if failure.connected else "no connection"
        if failure.kind is Why.MALFORMED:
            return self._stop(Why.MALFORMED, path, f"no valid answer: {failure.detail}")
        if failure.kind is Why.TIMEOUT:
            before = (
                f", after {self._waited:.1f} s for the answers before" if self._waited > SLOW_FAILURE_SECONDS else ""
            )
            took = f"{what} in {clock.now() - begun:.1f} s{before}"
            return self._stop(Why.TIMEOUT, path, took, connected=failure.connected)
        kind = Why.DENIED if failure.errno in DENIED else Why.IO_ERROR
        return self._stop(kind, path, f"{what}: {failure.detail}", failure.errno)

    def _stop(
        self, kind: Why, path: str, detail: str, errno: int | None = None, *, connected: bool = False
    ) -> _Stopped:
        return _Stopped(Unreadable(kind, f"{self.base}{path}", errno, detail), connected=connected)


def _unexpected(answer: MetadataPage) -> str:
    moved = "; redirects are not followed" if 300 <= answer.status < 400 else ""
    return f"answered {answer.status}{moved}"
