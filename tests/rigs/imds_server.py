"""The instance metadata service of an ECS instance, healthy or faulty, on a real socket.

    python tests/rigs/imds_server.py run --shape two-enis --mode required -- COMMAND    # $METADATA_URL is where it is
    python tests/rigs/imds_server.py serve --shape two-enis --mode hang 100.100.100.200 80

Real here: TCP, HTTP, time. Not real: the answers, written after public documents and clients (tests/trees/imds/).
We do not know whether the real service lists member ENIs (member-enis does). It does not tell an ERI from another ENI.
"""

from __future__ import annotations

import argparse
import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.rigs.imds_modes import MODES, Asked, Mode, answer

SHAPES = Path(__file__).resolve().parents[1] / "trees" / "imds"


def shapes() -> list[str]:
    return sorted(path.stem for path in SHAPES.glob("*.json"))


class MetadataServer(socketserver.ThreadingTCPServer):
    """Serves until it is closed. `asked` lists the requests. `mode` may be changed at any time.

    Not http.server.HTTPServer: it looks up its own name, which takes seconds in a namespace with a default route.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, shape: str, mode: str = "optional", host: str = "127.0.0.1", port: int = 0) -> None:
        self.tree = json.loads((SHAPES / f"{shape}.json").read_text())
        self.mode: Mode = MODES[mode]
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        self.closed = Event()
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed.set()
        self.shutdown()
        self.server_close()


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = cast(MetadataServer, self.server)
        try:
            method, path, _ = self.rfile.readline(8192).decode("latin-1").split(" ", 2)
            headers: dict[str, str] = {}
            while (line := self.rfile.readline(8192).decode("latin-1").strip()) != "":
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
        except ValueError:
            return  # a client that only tried the port
        asked = Asked(method, path, headers.get("x-aliyun-ecs-metadata-token"), headers)
        server.asked.append(f"{method} {path}{' with a token' if asked.token is not None else ''}")
        try:
            for part in answer(server, asked):
                self.wfile.write(part)
        except OSError:
            pass  # the client has left


def serve(shape: str, mode: str, host: str, port: int) -> None:
    """Serve until the process ends."""
    with MetadataServer(shape, mode, host, port) as server:
        server.closed.wait()


def run(shape: str, mode: str, command: list[str]) -> int:
    with MetadataServer(shape, mode) as server:
        done = subprocess.run(command, env=os.environ | {"METADATA_URL": server.url}, check=False)
        return done.returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("run", "serve"):
        one = commands.add_parser(name)
        one.add_argument("--shape", choices=shapes(), default="two-enis")
        one.add_argument("--mode", choices=sorted(MODES), default="optional")
        if name == "serve":
            one.add_argument("host")
            one.add_argument("port", type=int)
        else:
            one.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if given.what == "serve":
        serve(given.shape, given.mode, given.host, given.port)
        return 0
    command = [word for index, word in enumerate(given.command) if index or word != "--"]
    return run(given.shape, given.mode, command) if command else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
