"""Asks the Kubernetes API server: single objects by name and lists by selector, as raw JSON, within one deadline."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from nodeprep import __version__, newer_python, redaction
from nodeprep.doors import clock
from nodeprep.doors.kube.requests import BODY_LIMIT_BYTES, CONNECT, READ, WORDS, ApiResponse, Broken, Peer, Wire
from nodeprep.model import CannotLook, Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value, field, replace

if TYPE_CHECKING:
    from typing import Self

    from nodeprep.doors.kube.exec_plugin import ExecPlugin

OBSERVATION_TIMEOUT_SECONDS = 4.5  # for all requests and the plugin of one observation, which has 5 s
NAMESPACE = "nodeprep"  # of our own objects, unless a pod says otherwise
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Names of Nodes are DNS subdomains (k8s.io/apimachinery/pkg/util/validation IsDNS1123Subdomain).
NODE_NAME = Pattern(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

Object = Mapping[str, Any]
GET = "GET"


class ApiAccess(Value):
    """The API server, the name of the Node that we run on, and who asks.

    `credential` gives the headers that say who asks. It is called for each observation and may raise OSError. With a
    `plugin`, the plugin is asked instead. `requests` counts the requests so far by verb and HTTP code ("lost" without
    an answer). `namespace` is that of our own objects, in a pod the pod's. The server has `connect` seconds for a
    connection and `read` seconds for one silence.
    """

    node: str
    peer: Peer
    credential: Callable[[], Mapping[str, str]]
    plugin: ExecPlugin | None = None
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    namespace: str = NAMESPACE
    connect: float = CONNECT
    read: float = READ
    _lock: Lock = field(default_factory=Lock)

    def count(self, verb: str, code: int) -> None:
        """Count one request. Any thread may call this. `code` is 0 if no answer came."""
        with self._lock:
            self.requests[verb, str(code) if code else "lost"] += 1

    def opened(self, seconds: float) -> tuple[Wire, Mapping[str, str]] | Unreadable:
        """A connection for `seconds` and the headers that say who asks, or why there is none. The caller closes it."""
        begun = clock.now()
        who = self.identity(seconds)
        if isinstance(who, Unreadable):
            return who
        peer, headers = who
        try:
            left = max(0.0, round(seconds - (clock.now() - begun), 1))
            return Wire(peer, left, self.connect, self.read), headers
        except (OSError, ImportError, ValueError) as error:
            return self._unusable(error)

    def identity(self, seconds: float) -> tuple[Peer, Mapping[str, str]] | Unreadable:
        """The server, and the headers that say who asks; within `seconds`, which a plugin may take."""
        peer = self.peer
        try:
            if self.plugin is None:
                who = self.credential()
            else:
                held = self.plugin.credential(seconds)
                who, peer = held.headers, replace(peer, pem=held.pem)
        except CannotLook as cannot:
            return cannot.blind
        except (OSError, ImportError, ValueError) as error:
            return self._unusable(error)
        return peer, {**who, "Accept": "application/json", "User-Agent": f"nodeprep/{__version__}"}

    def _unusable(self, error: Exception) -> Unreadable:
        """Why a credential or a file of the server's cannot be used."""
        server = redaction.masked(self.peer.url)
        if isinstance(error, OSError):
            words = redaction.masked(error.strerror or str(error))
            return Unreadable(Why.IO_ERROR, error.filename or server, error.errno, words[:WORDS])
        kind = Why.MALFORMED if isinstance(error, ValueError) else Why.MISSING_TOOL
        return Unreadable(kind, server, detail=redaction.masked(str(error))[:WORDS])


def in_cluster(
    node: str, environment: Mapping[str, str] = os.environ, directory: str = SERVICE_ACCOUNT
) -> ApiAccess | None:
    """The access of a pod's service account; None outside a pod or without a service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = f"{directory}/token"
    if not host or not port or not os.path.isfile(token):
        return None

    def credential() -> Mapping[str, str]:
        with open(token, encoding="utf-8") as file:  # each time: the kubelet renews it within the hour
            return {"Authorization": f"Bearer {file.read().strip()}"}

    try:
        with open(f"{directory}/namespace", encoding="utf-8") as file:
            namespace = file.read().strip()
    except OSError:
        namespace = NAMESPACE
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ApiAccess(node, Peer(url, authority=f"{directory}/ca.crt"), credential, namespace=namespace)


class ApiReader:
    """The requests of one observation. Use it as a context manager.

    `lost` is why nothing more is asked: the server cannot be reached or does not know us. `now` is the server's clock,
    in seconds since 1970, to compare with times in its objects. It is our own clock until the server has told its time.
    """

    def __init__(self, access: ApiAccess, seconds: float = OBSERVATION_TIMEOUT_SECONDS) -> None:
        self.node = access.node
        self.server = redaction.masked(access.peer.url)
        self.lost: Unreadable | None = None
        self.now = newer_python.moment(clock.utc()).timestamp()
        self._wire: Wire | None = None
        self._access = access
        opened = access.opened(seconds)
        if isinstance(opened, Unreadable):
            self.lost = opened
        else:
            self._wire, self._headers = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wire is not None:
            self._wire.close()

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> Object | None | Unreadable:
        """An object; None if the object or its kind does not exist. `group` is "v1" or, for example, "apps/v1"."""
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        path = f"{_root(group)}{inside}/{resource}/{quote(name, safe='')}"
        kind = _kind(group, resource)
        may = f"get {kind}/{name}" + (f" -n {namespace}" if namespace else "")
        return self._ask(path, f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}", may)

    def list(self, group: str, resource: str, **selectors: str) -> tuple[Object, ...] | Unreadable:
        """The objects of all namespaces that match `selectors` (query parameters). An unknown kind has no objects."""
        kind = _kind(group, resource)
        told = self._ask(f"{_root(group)}/{resource}?{urlencode(selectors)}", kind, f"list {kind} --all-namespaces")
        if told is None or isinstance(told, Unreadable):
            return () if told is None else told
        items = told.get("items") or []
        if isinstance(items, list) and all(isinstance(item, dict) for item in items):
            return tuple(items)
        return Unreadable(Why.MALFORMED, kind, detail=".items is no list of objects")

    def kinds(self, group: str) -> frozenset[str] | None | Unreadable:
        """The kinds of a group and version such as "kubeflow.org/v1"; None if the server does not know it."""
        told = self._ask(_root(group), group, f"get {_root(group)}")
        if told is None or isinstance(told, Unreadable):
            return told
        found = told.get("resources")
        entries = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        return frozenset(str(one.get("kind")) for one in entries)

    def _ask(self, path: str, what: str, may: str) -> Object | None | Unreadable:
        """The answer to one GET of `what`. `may` is the permission for it, in the words of `kubectl auth can-i`."""
        if self.lost is not None or self._wire is None:
            return self.lost
        try:
            answer = self._wire.get(path, self._headers)
        except Broken as broken:
            self._access.count(GET, 0)
            where = self.server if broken.lost else what
            trouble = Unreadable(broken.kind, where, broken.errno, broken.detail)
            self.lost = trouble if broken.lost else None
            return trouble
        self._access.count(GET, answer.status)
        self.now = self.now if answer.date is None else answer.date
        if answer.status == 401:
            if self._access.plugin is not None:
                self._access.plugin.forget()
            detail = "HTTP 401: it does not know who we are; see kubectl auth whoami"
            self.lost = Unreadable(Why.DENIED, self.server, errno.EACCES, detail)
            return self.lost
        if answer.status == 403:
            return Unreadable(Why.DENIED, what, errno.EACCES, f"HTTP 403: may not; see kubectl auth can-i {may}")
        return None if answer.status == 404 else _read(answer, what)


def _read(answer: ApiResponse, what: str) -> Object | Unreadable:
    if answer.body is None:
        return Unreadable(Why.MALFORMED, what, detail=f"an answer of more than {BODY_LIMIT_BYTES >> 20} MiB")
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        told = None
    if answer.status != 200:
        said = told.get("message") if isinstance(told, dict) else None
        words = f": {redaction.masked(said)[:WORDS]}" if isinstance(said, str) else ""
        # A status below 400 is a redirect. No API server sends one, and we never follow one with our credentials.
        kind = Why.IO_ERROR if answer.status >= 400 else Why.MALFORMED
        return Unreadable(kind, what, detail=f"HTTP {answer.status}{words}")
    return told if isinstance(told, dict) else Unreadable(Why.MALFORMED, what, detail="the answer is no JSON object")


def _root(group: str) -> str:
    return f"/apis/{group}" if "/" in group else f"/api/{group}"


def _kind(group: str, resource: str) -> str:
    """The resource as kubectl names it: this tells nodes of Terway from nodes of the core group."""
    return f"{resource}.{group.partition('/')[0]}" if "/" in group else resource
