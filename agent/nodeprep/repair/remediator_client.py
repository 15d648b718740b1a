"""Has the node's remediator run a remedy, and awaits the end."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import nodeprep
from nodeprep.agent_state import RepairAttempt
from nodeprep.decide import remediator_protocol
from nodeprep.decide.remediator_limits import RefusedRun, RunRefusal
from nodeprep.decide.remediator_protocol import LINE_BYTES
from nodeprep.decide.repair_attempt import RunAnswer, StatusAnswer
from nodeprep.doors import clock, unix_socket
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine, TaskResult

if TYPE_CHECKING:
    from typing import Self

    from nodeprep.repair.remedy_act import RemedyAct

DIRECTORY_VARIABLE = "NODEPREP_REMEDIATOR_DIR"  # of the socket
ANSWER_SECONDS = 5.0
PERIOD_SECONDS = 0.2  # between two questions for the status
AWAY_SECONDS = 15.0  # in which one that went away while it ran what we asked for may come again
MARGIN_SECONDS = 180.0  # after the deadline of a play: the idle proof, and an attempt that ends slowly
ENDING_SECONDS = 60.0  # for an attempt that was cancelled
SHOWN_CHARACTERS = 40  # of an answer that is none
HELLO = {"hello": {"version": nodeprep.__version__}}
# The ends that are no RunEnd. "interrupted": somebody else cancelled it, or the remediator ended.
ENDS = {"checked": RunEnd.DONE, "interrupted": RunEnd.BROKEN}
ABSENT = "wanted the remediator of this node: is components/repair applied, and does its pod run here?"


class NoRemediator(Exception):
    """Nobody answers as a remediator of our version. Its text is one line that names the socket."""


class OtherVersion(NoRemediator):
    """It is of another version than we are."""


class CrowdedOut(NoRemediator):
    """It is there, and others are in our way: it hangs up on who has been silent for longest."""


def socket_path() -> str:
    """Where the remediator's socket is on this node."""
    return f"{os.environ.get(DIRECTORY_VARIABLE) or remediator_protocol.DIRECTORY}/{remediator_protocol.SOCKET}"


class RemediatorClient:
    """The remediator at a socket. Each call connects anew: one that is silent is the first to be hung up on."""

    def __init__(self, path: str) -> None:
        self._path = path

    def require(self) -> None:
        """Raise NoRemediator where none of our version answers."""
        told = _asked(self._path, HELLO, clock.now() + AWAY_SECONDS, absent=0.0)
        _hold_version(self._path, told)

    def require_ansible(self) -> None:
        """The remediator has its own, and says so where it is missing."""

    def begin(self, attempt: RepairAttempt, begin_by: float) -> RunAnswer:
        """Ask once to run an attempt of the agent, which begins until `begin_by` (CLOCK_BOOTTIME seconds) or never.

        What was lost on the way is no refusal: it may have begun.
        """
        words = {"remedy": attempt.remedy, "args": dict(attempt.args), "check": False}
        run = {**words, "deadline": attempt.deadline, "begin_by": begin_by}
        is_sent = False
        try:
            with _Connection(self._path) as connection:
                _hold_version(self._path, connection.ask(HELLO))
                is_sent = True
                told = connection.ask({"run": {"attempt": attempt.id, **run}})
        except OtherVersion as other:
            return RunAnswer(attempt.id, sent=False, refused=RunRefusal.VERSION, why=str(other))
        except NoRemediator:
            return RunAnswer(attempt.id, sent=is_sent)
        refused = told.get("refused")
        word, why = (str(refused.get(key, "")) if isinstance(refused, dict) else "" for key in ("reason", "why"))
        return RunAnswer(attempt.id, is_running=told.get("status") == "running", refused=word, why=why)

    def status(self, attempt: str) -> StatusAnswer:
        """What it says of an attempt now. Nothing, where it does not answer."""
        try:
            told = _asked(self._path, {"status": {"attempt": attempt}}, clock.now(), absent=0.0)
        except NoRemediator:
            return StatusAnswer(attempt)
        status, end, refused, why = (str(told.get(key) or "") for key in ("status", "end", "refused", "why"))
        return StatusAnswer(attempt, status, end, refused, why, hangs=bool(told.get("hangs")))

    def run(self, act: RemedyAct, say: Callable[[TaskLine], None]) -> RunOutcome:
        """Run a remedy once, as the attempt of its id, and wait for its end. An interruption ends it first.

        `say` hears of each task that has ended. Raises RefusedRun where the remediator does not allow it. Where it goes
        away meanwhile, the run is broken: whether it began, only the remediator's ledger knows.
        """
        began = clock.now()
        try:
            return _Attempt(self._path, act, say).ran()
        except NoRemediator as lost:
            words = f"{lost}; its ledger knows of attempt {act.attempt}"
            return RunOutcome(RunEnd.BROKEN, clock.now() - began, message=words)
        except KeyboardInterrupt:
            self._cancel(act.attempt)
            raise

    def _cancel(self, attempt: str) -> None:
        """End it, and wait until it has ended. The connection that asked for it is over, so all was read that came."""
        until = clock.now() + ENDING_SECONDS
        with suppress(NoRemediator):
            _asked(self._path, {"cancel": {"attempt": attempt}}, until)
            while clock.now() < until:
                if _asked(self._path, {"status": {"attempt": attempt}}, until).get("status") != "running":
                    return
                clock.sleep(PERIOD_SECONDS)


class _Attempt:
    """One attempt. Each question has a connection of its own."""

    def __init__(self, path: str, act: RemedyAct, say: Callable[[TaskLine], None]) -> None:
        self._path, self._act, self._say = path, act, say
        self._told = 0  # tasks
        self._until = clock.now() + act.seconds + MARGIN_SECONDS

    def ran(self) -> RunOutcome:
        """Raises NoRemediator, RefusedRun."""
        told = self._begun()
        try:
            while told.get("status") == "running":
                if clock.now() >= self._until:
                    raise NoRemediator(f"{self._path}: it has not told the end of the attempt in time")
                clock.sleep(PERIOD_SECONDS)
                told = self._status()
                self._tell(told.get("tasks", ()))
            return _outcome(told)
        except (LookupError, TypeError, ValueError):
            raise _odd(self._path, told) from None

    def _begun(self) -> Mapping[str, Any]:
        """What it says to the run. Where that gets lost it is asked again: an id never begins twice."""
        away, is_again = clock.now() + AWAY_SECONDS, False
        while True:
            try:
                told = self._asked_to_run()
            except CrowdedOut:
                if clock.now() >= away:
                    raise
                told = self._status()
            else:
                is_seen = is_again and told.get("refused", {}).get("reason") == RunRefusal.SEEN
                return self._status() if is_seen else told
            if told.get("status") != "unknown":
                return told
            is_again = True
            clock.sleep(PERIOD_SECONDS)

    def _asked_to_run(self) -> Mapping[str, Any]:
        act = self._act
        body = {"attempt": act.attempt, "remedy": act.header.name, "args": dict(act.args), "check": act.check}
        with _Connection(self._path) as connection:
            _hold_version(self._path, connection.ask(HELLO))
            return connection.ask({"run": {**body, "deadline": act.seconds}})

    def _status(self) -> Mapping[str, Any]:
        return _asked(self._path, {"status": {"attempt": self._act.attempt}}, self._until)

    def _tell(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        lines = [TaskLine(str(one["task"]), TaskResult(one["result"])) for one in tasks]
        for line in lines[self._told :]:
            self._say(line)
        self._told = max(self._told, len(lines))


def _outcome(told: Mapping[str, Any]) -> RunOutcome:
    """Raises RefusedRun, and what odd values lead to."""
    if isinstance(told.get("refused"), dict):
        raise RefusedRun(RunRefusal(told["refused"]["reason"]), str(told["refused"]["why"]))
    if told["status"] != "done":
        raise ValueError
    if told["refused"]:
        raise RefusedRun(RunRefusal(told["refused"]), str(told["why"]))
    end = ENDS.get(told["end"]) or RunEnd(told["end"])
    return RunOutcome(end, float(told["seconds"]), int(told["changed"]), message=str(told["why"]))


class _Connection:
    """A connection. Entering raises NoRemediator. After leaving it the remediator has read all that was sent."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._came = b""

    def __enter__(self) -> Self:
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            unix_socket.connect(self._socket, Path(self.path))
        except OSError as error:
            self._socket.close()
            if isinstance(error, BlockingIOError):
                raise CrowdedOut(f"{self.path}: too many want to speak to the remediator") from error
            raise NoRemediator(f"{self.path}: {error.strerror or error}; {ABSENT}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(LINE_BYTES):
                pass
        self._socket.close()

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a request. Raises NoRemediator."""
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while b"\n" not in self._came:
                part = self._socket.recv(LINE_BYTES)
                if not part or len(self._came) > LINE_BYTES:
                    raise CrowdedOut(f"{self.path}: the remediator hung up")
                self._came += part
        except OSError as error:
            raise CrowdedOut(f"{self.path}: {error.strerror or error}") from error
        line, _, self._came = self._came.partition(b"\n")
        try:
            told = json.loads(line)
        except ValueError:
            raise _odd(self.path, line) from None
        if not isinstance(told, dict):
            raise _odd(self.path, line)
        return told


def _hold_version(path: str, told: Mapping[str, Any]) -> None:
    """Raise NoRemediator for an answer to HELLO that is not of our version."""
    hello = told.get("hello")
    if not isinstance(hello, dict):
        raise _odd(path, hello)
    if hello.get("runs") is not True:
        found = f"found a remediator of version {str(hello.get('version'))[:SHOWN_CHARACTERS]!r}"
        raise OtherVersion(f"{path}: {found}, wanted {nodeprep.__version__}: give both pods one version")


def _asked(path: str, request: Mapping[str, Any], until: float, absent: float = AWAY_SECONDS) -> Mapping[str, Any]:
    """The answer, asked for again until that time of the monotonic clock where others are in our way.

    One that is not there may come again within `absent` seconds. Raises NoRemediator.
    """
    away = clock.now() + absent
    while True:
        try:
            with _Connection(path) as connection:
                return connection.ask(request)
        except NoRemediator as none:
            if isinstance(none, CrowdedOut):
                away = clock.now() + PERIOD_SECONDS + absent
            if clock.now() >= min(away, until):
                raise
        clock.sleep(PERIOD_SECONDS)


def _odd(path: str, told: object) -> NoRemediator:
    """The exception for an answer that is none."""
    return NoRemediator(f"{path}: found {ascii(told)[:SHOWN_CHARACTERS]}, wanted an answer of a remediator")
