"""Asks a server on this node's loopback for one page, with a short deadline."""

from __future__ import annotations

import errno

from nodeprep.doors import clock, processor
from nodeprep.doors.http.client import HttpClient
from nodeprep.doors.http.failure import HttpFailure
from nodeprep.doors.http.transport import Endpoint
from nodeprep.model import Unreadable, Why

ADDRESS = "127.0.0.1"


def page(port: int, path: str, *, deadline: float, limit: int) -> tuple[int, bytes] | None | Unreadable:
    """Status and body of a page. None where nobody listens on the port.

    `deadline` is for the connection and the whole answer, in seconds. `limit` is the most bytes of the body.
    """
    where = f"http://{ADDRESS}:{port}{path}"
    began, moment = clock.now(), processor.moment()
    client = HttpClient(Endpoint(ADDRESS, port, resolve=False), keep_alive=False)
    try:
        with client.send("GET", path, {}, until=began + deadline) as response:
            return response.status, response.read(limit)
    except HttpFailure as failure:
        if failure.errno == errno.ECONNREFUSED and not failure.connected:
            return None
        kind = processor.silence(moment, deadline) if failure.kind is Why.TIMEOUT else failure.kind
        return Unreadable(kind, where, failure.errno, failure.detail)
