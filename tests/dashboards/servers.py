"""Debian's Alertmanager on the loopback, whom it tells, and what a Prometheus scrapes."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import yaml

from tests.dashboards import targets
from tests.dashboards.targets import Document
from tests.rigs import prometheus_server
from tests.rigs.waiting import until

LOOPBACK = "127.0.0.1"
RULES = targets.ROOT / "dashboards/plain/rules.yaml"
DURATION = re.compile(r"\b(\d+)(ms|s|m|h|d)\b")
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def shortened(text: str, factor: float) -> str:
    """The same with each duration divided: an hour of a rule is a minute of a test with the factor 60."""

    def short(found: re.Match[str]) -> str:
        return f"{max(1, round(int(found[1]) * SECONDS[found[2]] / factor * 1000))}ms"

    return DURATION.sub(short, text)


def asked(url: str, body: object = None) -> Any:
    """The JSON that a server answers. Raises OSError."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text.strip() else None


def ran(program: str, *words: str | Path) -> None:
    """A program that must be content."""
    prometheus_server.needed(program)
    done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def alertmanager(directory: Path, configuration: str, inside: int | None = None) -> Iterator[str]:
    """Alertmanager with this configuration; its address. `inside`: as for Prometheus."""
    prometheus_server.needed(prometheus_server.ALERTMANAGER)
    file, log, port = directory / "alertmanager.yaml", directory / "alertmanager.log", prometheus_server.free_port()
    file.write_text(configuration)
    url = f"http://{LOOPBACK}:{port}"
    words = (f"--config.file={file}", f"--storage.path={directory / 'alerts'}", "--cluster.listen-address=")
    with log.open("wb") as out:
        program = (*prometheus_server.entering(inside), prometheus_server.ALERTMANAGER)
        command = (*program, *words, f"--web.listen-address={LOOPBACK}:{port}")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        with prometheus_server.way_in(inside, port):
            until(lambda: answers(f"{url}/-/ready") or process.poll() is not None, "Alertmanager is ready")
            assert process.poll() is None, log.read_text()
            yield url
    finally:
        process.terminate()
        process.wait(60)


def short_rules(factor: float) -> Document:
    """The shipped rules with each duration divided, those in expressions too."""
    document: Document = yaml.safe_load(RULES.read_text())
    for group in document["groups"]:
        for thing in (group, *group["rules"]):
            for key in {"interval", "for", "keep_firing_for", "expr"} & set(thing):
                thing[key] = shortened(thing[key], factor)
    return document


def alerts(url: str) -> list[Document]:
    """Those that an Alertmanager has now."""
    found: list[Document] = asked(f"{url}/api/v2/alerts")
    return found


def named(url: str, name: str) -> list[Document]:
    return [one for one in alerts(url) if one["labels"]["alertname"] == name]


class Handler(BaseHTTPRequestHandler):
    """Answers by the function of its server, and says nothing on stderr."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = self.server.told(self.path, body)  # type: ignore[attr-defined]
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Length", str(len(text or b"")))
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text or b"")

    do_GET = do_POST = answer  # noqa: N815 - as the base class calls them

    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what a test says."""


class Server(ThreadingHTTPServer):
    """After a moment without a processor all clients come at once. The usual queue takes five of them."""

    daemon_threads = True
    request_queue_size = 1024


@contextmanager
def http_server(told: Callable[[str, bytes], bytes | None]) -> Iterator[int]:
    """A server whose answers a function makes of path and body; its port. None is 404."""
    server = Server((LOOPBACK, 0), Handler)
    server.told = told  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
