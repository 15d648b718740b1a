"""Has the node's remediator run a remedy, and awaits the end."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import nodeprep
from nodeprep.decide.remediator_protocol import LINE_BYTES
from nodeprep.doors import clock
from nodeprep.repair.remedy_act import RemedyAct
from nodeprep.values import Value

ANSWER_SECONDS = 5.0
PERIOD_SECONDS = 0.2  # between two questions for the status
MARGIN_SECONDS = 180.0  # after the deadline of a play: the idle proof, and an attempt that ends slowly


class RemediatorAnswer(Value):
    """How an attempt ended: `end` is the word of the play, "refused" or "interrupted"; `refused` is the reason."""

    end: str
    refused: str = ""
    why: str = ""
    changed: int = 0
    seconds: float = 0.0


class NoRemediator(Exception):
    """Nobody answers as a remediator of this version. Its text is one line that names the socket."""


class RemediatorClient:
    """One connection. Entering raises NoRemediator."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._came = b""

    def __enter__(self) -> Self:
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.connect(self._path)
        except OSError as error:
            self._socket.close()
            words = "is components/repair applied, and its pod on this node running?"
            raise NoRemediator(f"{self._path}: {error.strerror or error}; {words}") from error
        told = self._ask({"hello": {"version": nodeprep.__version__}}).get("hello", {})
        if not told.get("runs"):
            self._socket.close()
            found = f"found a remediator of version {str(told.get('version'))[:20]!r}, wanted {nodeprep.__version__}"
            raise NoRemediator(f"{self._path}: {found}: agent and remediator must be of one version")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def run(self, act: RemedyAct) -> RemediatorAnswer:
        """Run a remedy as an attempt of its own, and wait for its end. An interruption cancels it.

        Raises NoRemediator where the remediator goes away meanwhile: whether the attempt ran, its ledger knows.
        """
        attempt = uuid4().hex
        body = {"attempt": attempt, "remedy": act.header.name, "args": dict(act.args), "check": act.check}
        told = self._ask({"run": {**body, "deadline": act.seconds}})
        if "refused" in told:
            return RemediatorAnswer("refused", str(told["refused"]["reason"]), str(told["refused"]["why"]))
        until = clock.now() + act.seconds + MARGIN_SECONDS
        try:
            while told.get("status") == "running":
                if clock.now() >= until:
                    return RemediatorAnswer("broken", why="the remediator has not told its end; see its log")
                clock.sleep(PERIOD_SECONDS)
                told = self._ask({"status": {"attempt": attempt}})
        except KeyboardInterrupt:
            self._ask({"cancel": {"attempt": attempt}})
            raise
        if told.get("status") != "done":
            raise NoRemediator(f"{self._path}: {told.get('error', told)}")
        return RemediatorAnswer(
            str(told["end"]),
            str(told["refused"] or ""),
            str(told["why"]),
            int(told["changed"]),
            float(told["seconds"]),
        )

    def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while b"\n" not in self._came:
                part = self._socket.recv(LINE_BYTES)
                if not part or len(self._came) > LINE_BYTES:
                    raise NoRemediator(f"{self._path}: the remediator hung up")
                self._came += part
            line, _, self._came = self._came.partition(b"\n")
            told = json.loads(line)
        except (OSError, ValueError) as error:
            raise NoRemediator(f"{self._path}: {error}") from error
        if not isinstance(told, dict):
            raise NoRemediator(f"{self._path}: found {line[:40]!r}, wanted an answer of a remediator")
        return told
