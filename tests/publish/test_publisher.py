"""The publisher's thread over real sockets, with a server that knows one Node. With a real one: tests/cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from nodeprep.agent_state import NodeState
from nodeprep.decide.desired import TRAINING_READY, Desired, GatePolicy, NodeCondition, Taint
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import Peer
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS
from nodeprep.publish.publisher import REPAIRING_PERIOD_SECONDS, Publisher
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow

HOUR = 3600.0  # between two looks at the Node, so that nothing here happens by that period
LIMIT = 60.0  # seconds for what takes milliseconds on a machine that does nothing else
NODE = "/api/v1/nodes/n1"
NAMES = GatePolicy()
UNDER_REPAIR = Desired(
    NodeState.REPAIRING,
    conditions=(NodeCondition(TRAINING_READY, "False", "PortDown", "mlx5_0/1 is down"),),
    labels={"nodeprep.io/state": "Repairing"},
    taints=(Taint(NAMES.unhealthy_taint, "PortDown", "NoSchedule"),),
)


class Api(ThreadingHTTPServer):
    """A Node on which labels are merged, and taints and conditions are replaced. It knows no Leases and no Events.

    `failures` are given in place of what it would answer about the Node.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.labels: dict[str, str] = {}
        self.taints: list[Any] = []
        self.conditions: list[Any] = []
        self.failures: list[int] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked = urlsplit(path)
        if asked.path not in (NODE, f"{NODE}/status") or "dryRun" in asked.query:
            return 404, {}
        if self.failures:
            return self.failures.pop(0), {}
        self.labels |= body.get("metadata", {}).get("labels", {})
        self.taints = body.get("spec", {}).get("taints", self.taints)
        self.conditions = body.get("status", {}).get("conditions", self.conditions)
        metadata = {"name": "n1", "uid": "u1", "labels": self.labels}
        return 200, {"metadata": metadata, "spec": {"taints": self.taints}, "status": {"conditions": self.conditions}}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Api

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        code, told = self.server.answer(self.path, json.loads(body or b"{}"))
        data = json.dumps(told).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - the name is the library's
        """Quiet."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as served:
        Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture
def publisher(api: Api) -> Iterator[Publisher]:
    peer = Peer(f"http://127.0.0.1:{api.server_address[1]}")
    made = Publisher(ApiAccess("n1", peer, dict, connect=30.0, read=30.0), HOUR)
    made.start()
    yield made
    made.stop()


def test_while_a_remedy_runs_a_taint_that_is_taken_away_comes_back_soon(api: Api, publisher: Publisher) -> None:
    """Else a job lands where a driver is just loaded anew."""
    publisher.publish(UNDER_REPAIR, NAMES, "u1", opening=False)
    assert publisher.finish(LIMIT)
    (taint,) = api.taints
    assert taint["key"] == NAMES.unhealthy_taint
    api.taints = []
    until(lambda: api.taints == [taint], f"the taint, which comes each {REPAIRING_PERIOD_SECONDS:g} s")


def test_what_failed_is_written_again_without_a_period(api: Api, publisher: Publisher) -> None:
    api.failures = [503, 500, 409]
    publisher.publish(UNDER_REPAIR, NAMES, "u1", opening=False)
    assert publisher.finish(LIMIT)
    assert [one["key"] for one in api.taints] == [NAMES.unhealthy_taint]


def test_a_fault_of_our_own_is_told_and_tried_again_only_after_a_while(publisher: Publisher) -> None:
    asked: list[float] = []

    def broken() -> bool:
        asked.append(clock.now())
        raise RuntimeError("no such key")

    publisher.is_alive = broken
    publisher.publish(UNDER_REPAIR, NAMES, "u1", opening=False)
    until(lambda: "RuntimeError: no such key; please report it" in publisher.api_status.trouble, "the trouble")
    time.sleep(0.5)
    assert len(asked) == 1 or asked[1] - asked[0] > FUTILE_RETRY_SECONDS
