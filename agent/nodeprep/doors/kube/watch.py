"""Complete lists of the API server, in pages, and their later changes: for people who look at a fleet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from nodeprep.doors.kube.reader import ApiAccess, ApiReader, Object
from nodeprep.doors.kube.requests import Broken
from nodeprep.model import Unreadable, Why
from nodeprep.values import Value

T = TypeVar("T")

PAGE = 256  # objects of one answer at first: Nodes of 20 KiB each stay well below BODY_LIMIT_BYTES
LISTING = 60.0  # seconds for all pages of all lists of one look
GRACE = 5.0  # seconds that a watch may take after its own end
GONE_STATUS = "HTTP 410"  # the server no longer keeps that version: list again


class ListedObjects(Value, Generic[T]):
    """What was kept of the objects of a list, and the version of the list, from which a watch can start."""

    items: tuple[T, ...]
    version: str


class WatchEvent(Value):
    """A change of an object. `kind` is ADDED, MODIFIED, DELETED or BOOKMARK, which only says how far the watch is.

    A later watch starts from `version`.
    """

    kind: str
    object: Object
    version: str


class WatchLost(Exception):
    """A watch ended too early or could not begin. Only a new list shows what has changed since."""


class ApiLists(ApiReader):
    """Lists of one look at the cluster. Use it as a context manager."""

    def __init__(self, access: ApiAccess, seconds: float = LISTING) -> None:
        super().__init__(access, seconds)

    def listed(
        self, path: str, kind: str, keep: Callable[[Object], T | None], *, may: str, **selectors: str
    ) -> ListedObjects[T] | Unreadable:
        """The results of `keep` for the objects of the list at `path`, without None."""
        told = self._pages(path, kind, keep, may, selectors)
        # The version of a list may expire before its last page.
        again = isinstance(told, Unreadable) and told.detail.startswith(GONE_STATUS)
        return self._pages(path, kind, keep, may, selectors) if again else told

    def _pages(
        self, path: str, kind: str, keep: Callable[[Object], T | None], may: str, selectors: Mapping[str, str]
    ) -> ListedObjects[T] | Unreadable:
        kept: list[T] = []
        query, limit = dict(selectors), PAGE
        while True:
            told = self._ask(f"{path}?{urlencode({**query, 'limit': limit})}", kind, may)
            if isinstance(told, Unreadable) and told.kind is Why.MALFORMED and limit > 1:
                limit = max(1, limit // 8)  # such a page of large objects exceeds the limit
                continue
            if isinstance(told, Unreadable):
                return told
            metadata = (told or {}).get("metadata") or {}
            for item in (told or {}).get("items") or ():
                one = keep(item)
                if one is not None:
                    kept.append(one)
            if not metadata.get("continue"):
                return ListedObjects(tuple(kept), str(metadata.get("resourceVersion", "")))
            query["continue"] = str(metadata["continue"])


def watch(access: ApiAccess, path: str, version: str, seconds: int, **selectors: str) -> Iterator[WatchEvent]:
    """The changes in the list at `path` after `version`, for about `seconds`, each as it comes.

    Raises WatchLost if the server no longer keeps that version, ends too early or cannot be reached.
    """
    opened = access.opened(seconds + GRACE)
    if isinstance(opened, Unreadable):
        raise WatchLost(str(opened))
    wire, headers = opened
    query = {**selectors, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
    query["resourceVersion"] = version
    try:
        for line in wire.stream(f"{path}?{urlencode(query)}", headers):
            yield _change(line)
    except Broken as broken:
        raise WatchLost(f"{access.peer.url}: {broken.detail}") from broken
    finally:
        wire.close()


def _change(line: bytes) -> WatchEvent:
    try:
        event: Any = json.loads(line)
    except ValueError:
        event = None
    thing = event.get("object") if isinstance(event, dict) else None
    if not isinstance(thing, dict):
        raise WatchLost("an event that is no JSON object")
    if event.get("type") == "ERROR":
        raise WatchLost(f"HTTP {thing.get('code')}: {thing.get('message')}")
    metadata = thing.get("metadata") or {}
    return WatchEvent(str(event.get("type")), thing, str(metadata.get("resourceVersion", "")))


def is_refused_selector(trouble: Unreadable) -> bool:
    """Whether the server refused a selector, which a human typed, as invalid."""
    return trouble.kind is Why.IO_ERROR and trouble.detail.startswith("HTTP 400")
