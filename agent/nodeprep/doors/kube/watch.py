"""Whole lists of the API server in pages, and what changes in them afterwards: for people who look at a fleet."""

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

PAGE = 256  # objects of one answer at first: Nodes of 20 KiB each stay well below the largest that is taken
LISTING = 60.0  # seconds for all pages of all lists of one look
GRACE = 5.0  # seconds beyond its own end that a watch may take
GONE_STATUS = "HTTP 410"  # the version that was asked for is no longer kept: list anew


class ListedObjects(Value, Generic[T]):
    """What was kept of the objects of a list, and the version of the whole, from which it can be watched."""

    items: tuple[T, ...]
    version: str


class WatchEvent(Value):
    """What `kind` says of an object: ADDED, MODIFIED, DELETED, or BOOKMARK, which only tells how far the watch is.

    A later watch goes on from `version`.
    """

    kind: str
    object: Object
    version: str


class WatchLost(Exception):
    """A watch ended before its time, or could not begin: what changed since is only known from a new list."""


class ApiLists(ApiReader):
    """Lists of one look at the cluster. Use it as a context manager."""

    def __init__(self, access: ApiAccess, seconds: float = LISTING) -> None:
        super().__init__(access, seconds)

    def listed(
        self, path: str, kind: str, keep: Callable[[Object], T | None], *, may: str, **selectors: str
    ) -> ListedObjects[T] | Unreadable:
        """What `keep` makes of each object of the list at `path`, without what it makes None of."""
        told = self._pages(path, kind, keep, may, selectors)
        # A list of many pages can outlive the version that it began with.
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
                limit = max(1, limit // 8)  # objects so large that a page of them is more than is taken
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
    """What changes in the list at `path` after `version`, for about `seconds`; each change as it comes.

    Raises WatchLost where the server no longer keeps that version, ends too early or cannot be reached.
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
    """Whether the server could not make sense of a selector, which a human typed."""
    return trouble.kind is Why.IO_ERROR and trouble.detail.startswith("HTTP 400")
