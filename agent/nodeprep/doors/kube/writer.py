"""Writes to the Kubernetes API: one request, one outcome. The caller decides whether and when to ask again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.requests import WORDS, ApiResponse, Broken, Wire
from nodeprep.model import Unreadable
from nodeprep.values import Value, field

if TYPE_CHECKING:
    from typing import Self

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"  # lists merge by their keys: conditions by type
JSON = "application/json"
LOST = 0  # instead of a status: no answer; the write may have been done or not


class WriteOutcome(Value):
    """The result of a request: its HTTP status (LOST: no answer), the object in the answer, and an error in one line.

    `retry_after` is how many seconds we shall wait before the next request, 0.0 if the server does not say. `date` is
    the server's clock, seconds since 1970.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    retry_after: float = 0.0
    date: float | None = None

    @property
    def said(self) -> str:
        """The server's own words in full; `message` shortens them."""
        words = self.body.get("message")
        return words if isinstance(words, str) else ""

    @property
    def done(self) -> bool:
        return 200 <= self.status < 300


class ApiWriter:
    """Requests to the server of `access`, all within `seconds`. Use it as a context manager. It raises nothing."""

    def __init__(self, access: ApiAccess, seconds: float) -> None:
        self._access = access
        self._wire: Wire | None = None
        opened = access.opened(seconds)
        if isinstance(opened, Unreadable):
            self._lost = str(opened)
        else:
            self._wire, self._headers = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._wire is not None:
            self._wire.close()

    def request(self, method: str, path: str, body: object = None, content_type: str = MERGE) -> WriteOutcome:
        """Ask for one thing; `body` is sent as JSON."""
        if self._wire is None:
            return WriteOutcome(LOST, message=self._lost)
        sent = None if body is None else json.dumps(body).encode()
        headers = self._headers if sent is None else {**self._headers, "Content-Type": content_type}
        try:
            answer = self._wire.request(method, path, headers, sent)
        except Broken as broken:
            self._access.count(method, LOST)
            return WriteOutcome(LOST, message=f"{self._access.peer.url}: {broken.detail}")
        self._access.count(method, answer.status)
        if answer.status == 401 and self._access.plugin is not None:
            self._access.plugin.forget()
        return _read(answer, f"{method} {path.partition('?')[0]}")


def _read(answer: ApiResponse, asked: str) -> WriteOutcome:
    try:
        told = None if answer.body is None else json.loads(answer.body)
    except (ValueError, RecursionError):
        told = None
    found = told if isinstance(told, dict) else {}
    if 200 <= answer.status < 300 and isinstance(told, dict):
        return WriteOutcome(answer.status, found, date=answer.date)
    if 200 <= answer.status < 300:
        return WriteOutcome(LOST, message=f"{asked}: the answer is no JSON object")
    said = found.get("message")
    words = f": {' '.join(said.split())[:WORDS]}" if isinstance(said, str) else ""
    return WriteOutcome(answer.status, found, f"{asked}: HTTP {answer.status}{words}", answer.retry_after)
