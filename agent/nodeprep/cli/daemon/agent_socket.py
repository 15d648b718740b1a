"""Talks to the agent of this node over its unix socket, which only root may open."""

from __future__ import annotations

import json
from typing import Any

from nodeprep.doors import clock
from nodeprep.model import Finding, Remedy, Severity, Status, Subject, Unreadable, Verdict, Why
from nodeprep.values import Value

REQUEST_TIMEOUT_SECONDS = 5.0  # seconds for a request and its whole answer
REPORT_LIMIT_BYTES = 8 << 20  # bytes of a report
REPORT_VALIDITY_SECONDS = 60.0  # seconds after which an agent's report is too old to describe the node


class AgentAnswer(Value):
    """The agent's answer: an HTTP status and a text."""

    status: int
    text: str


def ask(path: str, verb: str, page: str) -> AgentAnswer:
    """One request. Raises OSError if nobody answers in time, or not as an agent does."""
    from nodeprep.doors.http.client import HttpClient
    from nodeprep.doors.http.failure import HttpFailure
    from nodeprep.doors.http.transport import Endpoint

    client = HttpClient(Endpoint("agent", 0, socket_path=path), keep_alive=False)
    try:
        with client.send(verb, page, {}, until=clock.now() + REQUEST_TIMEOUT_SECONDS) as response:
            return AgentAnswer(response.status, response.read(REPORT_LIMIT_BYTES).decode(errors="replace"))
    except HttpFailure as failure:
        raise OSError(failure.errno, failure.detail) from failure


def findings(path: str, checks: frozenset[str]) -> tuple[Finding, ...]:
    """The agent's findings of these checks; none if there is no agent, it may not be asked, or its report is old."""
    try:
        answer = ask(path, "GET", "/report")
        content = json.loads(answer.text)
        if clock.now() - content["agent"]["at"] > REPORT_VALIDITY_SECONDS:
            return ()
        return tuple(_finding(one) for one in content["report"]["findings"] if one["check"] in checks)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _finding(finding: dict[str, Any]) -> Finding:
    remedy, blind, subject = finding["remedy"], finding["blind"], finding["subject"]
    verdict = Verdict(
        Subject(subject["place"], subject["port"], subject["name"]),
        Status(finding["status"]),
        finding["reason"],
        finding["message"],
        None if remedy is None else Remedy(remedy["name"], remedy["args"]),
        finding["observed"],
        finding["expected"],
        None if blind is None else Unreadable(Why(blind["kind"]), blind["path"], blind["errno"], blind["detail"]),
    )
    fix = finding["fix"] if verdict.status is not Status.UNKNOWN else ""  # of UNKNOWN we know ourselves what helps
    return Finding(finding["check"], Severity(finding["severity"]), verdict, fix=fix)
