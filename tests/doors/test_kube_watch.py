"""Lists in pages and watches where a server answers as a real one rarely does; with a real one: tests/cluster."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from nodeprep.doors.kube import watch
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import BODY_LIMIT_BYTES, LONGEST_LINE, Peer
from nodeprep.doors.kube.watch import PAGE, ApiLists, WatchEvent, WatchLost
from nodeprep.model import Unreadable, Why
from tests.rigs.api_server import Answer, Handler, Server, refused, sent, told

NODES = "/api/v1/nodes"


def access(server: Server) -> ApiAccess:
    return ApiAccess("", Peer(server.url), dict)


def listed(server: Server) -> Any:
    with ApiLists(access(server)) as api:
        return api.listed(NODES, "nodes", lambda one: one["metadata"]["name"], may="list nodes")


def query(handler: Handler) -> dict[str, str]:
    return {key: one[0] for key, one in parse_qs(urlsplit(handler.path).query).items()}


def page(names: list[str], more: str = "", version: str = "7") -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    return told({"metadata": {"continue": more, "resourceVersion": version}, "items": items})


def test_a_list_whose_version_expires_is_listed_anew() -> None:
    """A real server forgets a version after five minutes."""
    expired: list[int] = []

    def answer(handler: Handler) -> None:
        if "continue" not in query(handler):
            page(["n1", "n2"], more="rest")(handler)
        elif not expired:
            expired.append(1)
            refused(410, "The provided continue parameter is too old")(handler)
        else:
            page(["n3"])(handler)

    with Server({NODES: answer}) as server:
        assert listed(server).items == ("n1", "n2", "n3")


def test_objects_too_large_for_a_page_come_in_smaller_ones() -> None:
    def answer(handler: Handler) -> None:
        asked = query(handler)
        if int(asked["limit"]) == PAGE:
            sent(b" " * (BODY_LIMIT_BYTES + 1))(handler)
        else:
            page(["n1"] if "continue" not in asked else ["n2"], more="" if "continue" in asked else "rest")(handler)

    with Server({NODES: answer}) as server:
        assert listed(server).items == ("n1", "n2")


def test_garbage_is_no_list() -> None:
    with Server({NODES: sent(b"<html>")}) as server:
        found = listed(server)
    assert isinstance(found, Unreadable)
    assert found.kind is Why.MALFORMED
    assert not watch.is_refused_selector(found)


@pytest.mark.parametrize(("code", "selector"), [(400, True), (403, False), (500, False)])
def test_whose_fault_a_refusal_is(code: int, selector: bool) -> None:
    with Server({NODES: refused(code, "no")}) as server:
        found = listed(server)
    assert isinstance(found, Unreadable)
    assert watch.is_refused_selector(found) is selector


def events(*told: object) -> Answer:
    return sent(b"".join(json.dumps(one).encode() + b"\n" for one in told))


def event(kind: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": "n1", "resourceVersion": version}}}


def test_a_watch_goes_on_from_where_it_was() -> None:
    with Server({NODES: events(event("MODIFIED", "8"), event("BOOKMARK", "9"))}) as server:
        found = list(watch.watch(access(server), NODES, "7", 1, labelSelector="a=b"))
        (path,) = server.requests
    assert [(one.kind, one.version) for one in found] == [("MODIFIED", "8"), ("BOOKMARK", "9")]
    assert isinstance(found[0], WatchEvent)
    for word in ("watch=1", "resourceVersion=7", "timeoutSeconds=1", "labelSelector=a%3Db"):
        assert word in path


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
LOST = [
    (events(event("MODIFIED", "8"), GONE), "HTTP 410: too old resource version"),
    (refused(410, "too old"), "HTTP 410"),
    (refused(403, "no watch"), "HTTP 403"),
    (sent(b"no json\n"), "no JSON object"),
    (events([1]), "no JSON object"),
    (sent(b"x" * (LONGEST_LINE + 1)), "a line of more than 4 MiB"),
    (sent(b'{"type": "BOOKMARK", "object": {}}\n', 200, Content_Length="99", Connection="close"), "127.0.0.1"),
]


@pytest.mark.parametrize(("answer", "why"), LOST)
def test_a_lost_watch_is_said_to_be_one(answer: Answer, why: str) -> None:
    with Server({NODES: answer}) as server, pytest.raises(WatchLost, match=why):
        list(watch.watch(access(server), NODES, "7", 1))
