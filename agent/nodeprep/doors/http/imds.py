"""Asks the instance metadata service of ECS with a token and a short deadline: `all` in one answer, else its tree."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from nodeprep.door_values import Instance
from nodeprep.doors import clock
from nodeprep.doors.files.reader import DENIED
from nodeprep.doors.http import imds_parse
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value, replace

TOTAL = 1.9  # seconds for everything, pauses after 429 and 5xx included: a look may cost two at most
CONNECT = 1.0  # seconds; it is one hop away
READ = 1.8  # seconds for all answers: a service that hangs or is slow must not cost a look more than two seconds
SLOW_FAILURE_SECONDS = 0.5  # a slower failure is kept for a while: a `check` looks twice and would wait twice
BODY = 1 << 20  # bytes; `all` of an instance with 16 ENIs has 20 KB
FAILURE_HOLD_SECONDS = 10.0  # seconds after such a failure in which the service is not asked again
RETRIES, PAUSE, GROWTH = 2, 0.5, 1.2  # after 429 and 5xx; Terway pauses so too (pkg/aliyun/metadata/metadata.go)
FOUND, UNAUTHORISED, ABSENT, THROTTLED = 200, 401, 404, 429  # RFC 9110, RFC 6585
BUSY_STATUSES = (THROTTLED, *range(500, 600))
REFUSED = (UNAUTHORISED, 403)
TTL = 21600  # seconds, the maximum of the service; Terway and cloud-init ask for it too
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
    """`milliseconds` is the time of all requests."""

    instance: Instance
    milliseconds: float


class MetadataPage(Value):
    """An answer of the service. `body` is read only if `status` is 200."""

    status: int
    body: bytes


class _Stopped(Exception):
    """Why nothing more can be learned. `connected` is whether there was a connection."""

    def __init__(self, blind: Unreadable, *, connected: bool = False) -> None:
        super().__init__(str(blind))
        self.blind = blind
        self.connected = connected


class Metadata:
    """The service at `base`. One thread at a time may ask it.

    A reading may take `total` seconds. At most `waiting` seconds of them are waits for answers; the others are pauses
    before a busy service is asked again. The token is kept only here, for half its lifetime.
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
        """The instance and its interfaces, or why they could not be read."""
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
        found = imds_parse.instance(tree, token_required=required)
        return found if isinstance(found, Unreadable) else MetadataAnswer(found, (clock.now() - begun) * 1e3)

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
        if not TOKEN.fullmatch(token):  # a token is never shown
            raise self._stop(Why.MALFORMED, TOKEN_PATH, f"answered {answer.status} and no token")
        self._token, self._token_until = token, clock.now() + TTL / 2
        return token

    def _is_refused_without_token(self) -> bool:
        """Whether HttpTokens=required. No document says whether the refusal is 401 or 403."""
        path = f"{TREE}/instance-id"
        answer = self._ask("GET", path, {})
        if answer.status not in (FOUND, *REFUSED):
            raise self._stop(Why.MALFORMED, path, _unexpected(answer))
        return answer.status in REFUSED

    def _all(self) -> dict[str, object] | None:
        """The whole tree in one answer; None if the service has no such page."""
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
            # `all` may say less about an interface than the tree.
            if isinstance(entry, dict) and "private-ipv4s" not in entry:
                entry.update(self._interface(name))
        return tree

    def _tree(self) -> dict[str, object]:
        """The same tree key by key: about 70 requests for an instance with 8 interfaces."""
        tree: dict[str, object] = {key: self._get(f"{TREE}/{key}") for key in KEYS}
        tree["instance"] = {"instance-type": tree.pop("instance/instance-type")}
        lines = (self._get(f"{TREE}/{MACS}/") or "").split("\n")
        macs = {name: self._interface(name) for line in lines if (name := imds_parse.first_line(line))}
        return tree | {"network": {"interfaces": {"macs": macs}}}

    def _interface(self, name: str) -> dict[str, object]:
        mac = imds_parse.mac_of(name, MACS)
        if isinstance(mac, Unreadable):  # only a MAC becomes part of a path
            raise self._stop(mac.kind, f"{TREE}/{MACS}/", mac.detail)
        told = {key: self._get(f"{TREE}/{MACS}/{mac}/{key}") for key in INTERFACE_KEYS}
        return {key: text for key, text in told.items() if text is not None}

    def _get(self, path: str) -> str | None:
        """A page, asked for with the token; None if it does not exist. A refused token is replaced once."""
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
        """The final answer to a request. A busy service is asked again while there is time."""
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
