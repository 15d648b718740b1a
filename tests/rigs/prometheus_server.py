"""Debian's Prometheus on the loopback: it scrapes what it is told to, or serves history that promtool made.

Real here: the server, its storage, its rules and its API. Only the intervals are shorter than in a cluster.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.rigs.absent import cannot_start
from tests.rigs.relay import Relay
from tests.rigs.waiting import until

BINARY, TOOL, ALERTMANAGER = "prometheus", "promtool", "prometheus-alertmanager"
PACKAGES = {BINARY: "prometheus", TOOL: "prometheus", ALERTMANAGER: "prometheus-alertmanager"}
NEVER = {"global": {"scrape_interval": "1h"}, "scrape_configs": []}
ASK_SECONDS = 60.0

Vector = list[tuple[dict[str, str], float]]


def needed(*programs: str) -> None:
    """Skip, or fail in CI, where a program of Debian's packages is missing."""
    for one in programs:
        if shutil.which(one) is None:
            cannot_start(f"no {one} on PATH: apt-get install {PACKAGES[one]}")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """A running Prometheus. `ask` gives the vector of an expression, and how long the server took."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._http = urllib3.PoolManager(retries=False, timeout=ASK_SECONDS)

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of the API.

        Raises:
            ValueError: the server refuses the question; the text is its own.
        """
        answer = self._http.request("GET", f"{self.url}/api/v1/{path}", fields=query)
        told = json.loads(answer.data)
        if told["status"] != "success":
            raise ValueError(f"{told['errorType']}: {told['error']}: {query}")
        return told["data"]

    def ask(self, expression: str, at: float | None = None) -> Vector:
        """The vector of now, or of a moment in seconds since 1970. A scalar is a vector without labels."""
        when = {} if at is None else {"time": str(at)}
        data = self.get("query", query=expression, **when)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def ask_range(self, expression: str, begin: float, end: float, step: float) -> list[dict[str, Any]]:
        found = self.get("query_range", query=expression, start=str(begin), end=str(end), step=str(step))["result"]
        assert isinstance(found, list)
        return found

    def is_ready(self) -> bool:
        try:
            return self._http.request("GET", f"{self.url}/-/ready").status == 200
        except urllib3.exceptions.HTTPError:
            return False


@contextmanager
def serving(
    directory: Path, config: Mapping[str, Any] = NEVER, data: Path | None = None, inside: int | None = None
) -> Iterator[Server]:
    """Prometheus with this configuration; `data` is its storage, of its own by default.

    It runs in the network namespace of the process `inside`, if one is given.
    """
    needed(BINARY)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "prometheus.yml").write_text(yaml.safe_dump(dict(config), sort_keys=False))
    port = free_port()
    command = [
        *entering(inside),
        BINARY,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={data or directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=10y",
        "--query.lookback-delta=5m",
        "--log.level=warn",
    ]
    log = directory / "prometheus.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    server = Server(port)
    try:
        with way_in(inside, port):
            until(lambda: server.is_ready() or process.poll() is not None, "Prometheus is ready")
            if process.poll() is not None:
                raise RuntimeError(f"Prometheus ended with {process.returncode}: {log.read_text()}")
            yield server
    finally:
        process.terminate()
        process.wait(60)


def entering(inside: int | None) -> tuple[str, ...]:
    """The words before a command that is to end with us, in the network namespace of a process if one is given."""
    space = () if inside is None else ("nsenter", "--target", str(inside), "--net")
    return ("setpriv", "--pdeathsig", "KILL", *space)


def way_in(inside: int | None, port: int) -> AbstractContextManager[object]:
    """Leads our port to the same one there."""
    return nullcontext() if inside is None else Relay(inside, port, inward=True)


def backfill(data: Path, openmetrics: Path) -> float:
    """Make blocks of history from a file in the OpenMetrics format; the seconds that it took."""
    needed(TOOL)
    began = time.monotonic()
    done = subprocess.run(
        [TOOL, "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(openmetrics), str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"promtool ended with {done.returncode}: {done.stderr[-2000:]}")
    return time.monotonic() - began
