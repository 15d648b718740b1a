"""Answers requests, one attempt at a time. What it may do is said by its own limits, and never by who asks.

Everything that looks at the host or changes it happens in a process of the attempt (`attempt`): this one only reads
lines, keeps the ledger and waits. So it is small, and no remedy can bring it down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import nodeprep
from nodeprep.decide import remediator_limits, remediator_protocol, remedy_arguments
from nodeprep.decide.remediator_limits import RefusedRun, RemediatorLimits, RunRefusal
from nodeprep.decide.remediator_protocol import (
    TASK_CHARACTERS,
    TASKS,
    CancelRequest,
    Hello,
    InvalidRequest,
    RunRequest,
    StatusRequest,
)
from nodeprep.decide.remedy_arguments import InvalidArgument
from nodeprep.decide.remedy_header import RemedyHeader
from nodeprep.doors import clock
from nodeprep.repair import attempt, host_tools, idle_proof, playbook_run, repair_history
from nodeprep.repair.attempt_ledger import AttemptLedger, LedgerLost
from nodeprep.repair.repair_history import BEGAN, RepairRecord
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay
from nodeprep.repair.run_outcome import RunEnd
from nodeprep.values import Struct, Value, asdict, field, replace

COMMAND = "remediator"
MARGIN_SECONDS = 120.0  # after a deadline: for the idle proof, a busy machine, and what sleeps in the kernel
ENDING_SECONDS = playbook_run.ENDING_SECONDS + 10.0  # for an attempt that was cancelled; in it, it names who hangs
PERIOD_SECONDS = 0.05  # between two looks whether an attempt has ended
HEARD_SECONDS = 5.0  # in which an agent asks at least twice how its attempt stands
FORMER_PERIOD_SECONDS = 1.0  # the same of a former life's attempt that hangs, perhaps for days
WORDS = attempt.WHY_CHARACTERS  # of a reason in an answer


class HostWay(Value):
    """How an attempt gets to the host: as in an AttemptOrder.

    `boot_id` is that of the host's boot, for the ledger.
    """

    process: str = ""
    root: str = ""
    words: tuple[str, ...] = ()
    locks: str = "/var/lib/nodeprep-repair"
    boot_id: str = ""


class Caller(Struct):
    """Who is at the other end of one connection. `is_equal`: it said hello with our version."""

    is_equal: bool = False


class RunningAttempt(Struct):
    """The attempt that runs now. `hangs`: of its play something sleeps in the kernel, and is awaited."""

    record: RepairRecord
    process: subprocess.Popen[bytes]
    until: float
    tasks: list[Mapping[str, str]] = field(default_factory=list)
    is_cancelled: bool = False
    hangs: bool = False


class Remediator:
    """One for a node. `log` takes one line of JSON fields for each thing that happened."""

    def __init__(
        self,
        ledger: AttemptLedger,
        limits: RemediatorLimits,
        headers: Mapping[str, RemedyHeader],
        way: HostWay,
        log: Callable[[Mapping[str, object]], object],
    ) -> None:
        self._ledger, self._limits, self._headers, self._way, self._log = ledger, limits, headers, way, log
        self._running: RunningAttempt | None = None
        self._last: RunningAttempt | None = None  # that has ended; its tasks are told, and no longer kept
        self._lock = Lock()  # the thread that awaits an attempt writes its end
        self._is_ending = False

    def settle(self) -> None:
        """Say of what a former life of ours began that it was ended with it. Before the first request.

        In a container nothing outlives us. On a host an attempt takes some seconds to end, and holds the lock of the
        node meanwhile. One of which something sleeps in the kernel runs until that is gone. Raises OSError.
        """
        left = self._ledger.open_attempts()
        holder = "" if self._way.process or not left else self._holder(left)
        until = clock.now() + ENDING_SECONDS
        while holder and clock.now() < until:
            clock.sleep(PERIOD_SECONDS)
            holder = self._holder(left)
        if not holder:
            self._close(left)
            return
        for record in left:
            self._log({"event": "attempt-hangs", "attempt": record.id, "processes": [], "why": holder})
        Thread(target=self._close_when_free, args=(left,), name="former-attempt", daemon=True).start()

    def _close_when_free(self, left: Sequence[RepairRecord]) -> None:
        told = ""
        while True:
            trouble = ""
            try:
                if not self._holder(left):
                    break
            except OSError as error:  # a disk that is full: nobody knows whether it is free
                trouble = f"{error.filename}: {error.strerror}"
            if trouble and trouble != told:
                self._log({"event": "ledger-trouble", "why": trouble})
            told = trouble
            clock.sleep(FORMER_PERIOD_SECONDS)
        with self._lock:
            self._close(left)

    def _close(self, left: Sequence[RepairRecord]) -> None:
        for record in left:
            why = "the remediator ended while it ran, and everything was ended with it"
            self._write_end(replace(record, at=clock.wall(), state=repair_history.INTERRUPTED, why=why))

    def _holder(self, left: Sequence[RepairRecord]) -> str:
        """Who of these attempts holds the lock of the node, in the words of the lock; "" for none. Raises OSError.

        Where another holds it, they have ended: they had it from before anything of them ran.
        """
        try:
            with RepairLock(self._way.locks, COMMAND):
                return ""
        except RepairUnderWay as held:
            return str(held) if any(one.id in str(held) for one in left) else ""

    def answer(self, caller: Caller, line: bytes) -> Mapping[str, Any]:
        """What a line is answered with. Raises nothing for whatever was sent."""
        try:
            request = remediator_protocol.parsed(line)
        except InvalidRequest as invalid:
            self._log({"event": "invalid-request", "why": str(invalid)})
            return {"error": str(invalid)}
        match request:
            case Hello():
                return self._hello(caller, request)
            case RunRequest():
                return self._run(caller, request)
            case StatusRequest():
                return self._status(request.attempt)
            case CancelRequest():
                return self._cancel(request.attempt)

    def _hello(self, caller: Caller, request: Hello) -> Mapping[str, Any]:
        caller.is_equal = request.version == nodeprep.__version__
        return {"hello": {"version": nodeprep.__version__, "runs": caller.is_equal}}

    def _run(self, caller: Caller, request: RunRequest) -> Mapping[str, Any]:
        try:
            with self._lock:
                header = self._held(caller, request)
                self._begin(header, request)
        except RefusedRun as refused:
            told = {"reason": refused.reason, "why": str(refused)[:WORDS]}
            self._log({"event": "run-refused", "attempt": request.attempt, "remedy": request.remedy, **told})
            return {"refused": told}
        self._log({"event": "run-began", "attempt": request.attempt, "remedy": request.remedy, "args": request.args})
        return {"status": "running"}

    def _held(self, caller: Caller, request: RunRequest) -> RemedyHeader:
        """Raises RefusedRun."""
        if not caller.is_equal:
            words = f"found no hello of version {nodeprep.__version__}: agent and remediator must be of one version"
            raise RefusedRun(RunRefusal.VERSION, words)
        if self._ledger.record(request.attempt) is not None:
            raise RefusedRun(RunRefusal.SEEN, f"attempt {request.attempt} has begun before")
        _hold_time(request)
        if self._is_ending:
            raise RefusedRun(RunRefusal.BUSY, "the remediator ends")
        if self._running is not None:
            raise RefusedRun(RunRefusal.BUSY, f"{self._running.record.remedy} runs: one at a time")
        header = self._headers.get(request.remedy)
        held = remediator_limits.hold(self._limits, header, request, self._ledger.past(self._headers), clock.wall())
        try:
            remedy_arguments.hold_shapes(held, request.args)
        except InvalidArgument as invalid:
            raise RefusedRun(RunRefusal.ARGUMENT, str(invalid)) from invalid
        return held

    def _begin(self, header: RemedyHeader, request: RunRequest) -> None:
        record = RepairRecord(
            request.attempt, clock.wall(), self._way.boot_id, COMMAND, header.name, BEGAN, dict(request.args)
        )
        try:
            self._ledger.begin(record)
        except LedgerLost as lost:
            raise RefusedRun(RunRefusal.LEDGER, str(lost)) from lost
        except OSError as error:
            words = f"{error.filename}: {error.strerror}; nothing runs that the ledger cannot keep"
            raise RefusedRun(RunRefusal.LEDGER, words) from error
        try:
            _hold_time(request)  # a disk that hangs may have taken long
        except RefusedRun as late:
            why = f"{late.reason}: {late}"
            self._write_end(replace(record, at=clock.wall(), state=repair_history.REFUSED, why=why[:WORDS]))
            raise
        try:
            process = self._started(header, request)
        except OSError as error:
            why = f"{sys.executable}: {error.strerror}"
            refusal = f"{RunRefusal.MISSING_TOOL}: {why}"
            self._write_end(replace(record, at=clock.wall(), state=repair_history.REFUSED, why=refusal))
            raise RefusedRun(RunRefusal.MISSING_TOOL, why) from error
        self._running = RunningAttempt(record, process, clock.now() + request.deadline + MARGIN_SECONDS)
        Thread(target=self._await, args=(self._running, request.check), name="attempt", daemon=True).start()

    def _started(self, header: RemedyHeader, request: RunRequest) -> subprocess.Popen[bytes]:
        order = attempt.AttemptOrder(
            request.attempt,
            header.name,
            dict(request.args),
            request.deadline,
            request.check,
            self._way.process,
            self._way.root,
            self._way.words,
            self._way.locks,
        )
        process = subprocess.Popen(
            (sys.executable, "-P", "-s", "-m", attempt.__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=_surroundings(),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - for mypy
        with suppress(BrokenPipeError):  # its end tells
            process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
            process.stdin.flush()
        return process

    def _await(self, running: RunningAttempt, check: bool) -> None:
        """In a thread: hear the attempt to its end, and write that into the ledger."""
        told: Mapping[str, Any] = {"end": RunEnd.BROKEN, "why": "the remediator could not hear it to its end"}
        try:
            told = self._heard_out(running)
        finally:
            self._ended(running, told, check)

    def _heard_out(self, running: RunningAttempt) -> Mapping[str, Any]:
        """What the attempt says at its end."""
        told: Mapping[str, Any] = {}
        assert running.process.stdout is not None  # noqa: S101 - for mypy
        self._have_guarded(running)
        for line in running.process.stdout:
            told = _told(line)
            if "task" in told:
                self._heard(running, told)
            if "hangs" in told:
                running.hangs = True
                self._log({"event": "attempt-hangs", "attempt": running.record.id, "processes": told["hangs"]})
        code = running.process.wait()
        ended = {"end": repair_history.INTERRUPTED, "why": f"the attempt's process ended with {code}"}
        return told if "end" in told else ended

    def _heard(self, running: RunningAttempt, told: Mapping[str, Any]) -> None:
        task = {"task": str(told["task"])[:TASK_CHARACTERS], "result": str(told["result"])}
        self._log({"event": "task", "attempt": running.record.id, **task})
        if len(running.tasks) < TASKS:
            running.tasks.append(task)

    def _have_guarded(self, running: RunningAttempt) -> None:
        """End it when its time is over, as that is now."""
        Thread(target=self._guard, args=(running,), name="attempt-guard", daemon=True).start()

    def _guard(self, running: RunningAttempt) -> None:
        try:
            running.process.wait(max(running.until - clock.now(), 0.0))
        except subprocess.TimeoutExpired:
            if running.hangs:
                return  # it waits for what sleeps in the kernel, and nothing else runs meanwhile
            self._log(
                {
                    "event": "attempt-hangs",
                    "attempt": running.record.id,
                    "processes": [f"attempt ({running.process.pid})"],
                }
            )
            running.process.kill()

    def _ended(self, running: RunningAttempt, told: Mapping[str, Any], check: bool) -> None:
        end, why = str(told["end"]), str(told.get("why", ""))
        if why and told.get("refused"):
            why = f"{told['refused']}: {why}"
        state = repair_history.CHECKED if check and end == "done" else end
        record = replace(
            running.record,
            at=clock.wall(),
            state=state,
            changed=int(told.get("changed", 0)),
            seconds=float(told.get("seconds", 0.0)),
            why=why,
        )
        with self._lock:
            self._write_end(record)
            self._running, self._last = None, running
        self._log({"event": "run-ended", "attempt": record.id, "remedy": record.remedy, "state": state, "why": why})

    def _status(self, attempt_id: str) -> Mapping[str, Any]:
        with self._lock:
            record = self._ledger.record(attempt_id)
            if record is None:
                return {"status": "unknown"}
            told = self._running_status(record) if record.state == BEGAN else status_of(record)
            return {**told, "tasks": self._tasks(attempt_id)}

    def _running_status(self, record: RepairRecord) -> Mapping[str, Any]:
        """Of a former life only what sleeps in the kernel still runs (`settle`)."""
        running = self._running
        if running is not None and running.record.id == record.id:
            return {"status": "running", "hangs": running.hangs}
        return {"status": "running", "hangs": True}

    def _tasks(self, attempt_id: str) -> list[Mapping[str, str]]:
        """The tasks of an attempt that have ended: of the one that runs, and of the last one."""
        known = (one for one in (self._running, self._last) if one is not None and one.record.id == attempt_id)
        return [task for one in known for task in one.tasks]

    def _write_end(self, record: RepairRecord) -> None:
        try:
            self._ledger.end(record)
        except (OSError, LedgerLost) as error:
            self._log({"event": "ledger-trouble", "why": str(error)})

    def _cancel(self, attempt_id: str) -> Mapping[str, Any]:
        with self._lock:
            running = self._running
            if running is None or running.record.id != attempt_id:
                return {"error": f"cancel: attempt {attempt_id} does not run"}
            if not running.is_cancelled and not running.hangs:  # what hangs has been killed
                self._have_cancelled(running)
        return {"status": "running"}

    def _have_cancelled(self, running: RunningAttempt) -> None:
        assert running.process.stdin is not None  # noqa: S101 - for mypy
        running.is_cancelled = True
        running.until = min(running.until, clock.now() + ENDING_SECONDS)
        self._have_guarded(running)
        with suppress(OSError):
            running.process.stdin.close()

    def end(self) -> None:
        """Cancel what runs, and wait until it has ended. Nothing begins from now on.

        What sleeps in the kernel is left: on a host the next life awaits it. In a container there is none, for it keeps
        the container from its end, so time is left for the agent to hear of it.
        """
        with self._lock:
            self._is_ending, running = True, self._running
        if running is None:
            return
        self._cancel(running.record.id)
        until = clock.now() + ENDING_SECONDS
        while self._running is not None and not running.hangs and clock.now() < until:
            clock.sleep(PERIOD_SECONDS)
        if running.hangs:
            clock.sleep(HEARD_SECONDS)


def _surroundings() -> Mapping[str, str]:
    """The environment of an attempt. The idle proof asks for the address of the API server that the kubelet told us."""
    made = {"PYTHONPATH": str(Path(nodeprep.__file__).parents[1]), "PATH": host_tools.PATH, "LANG": "C.UTF-8"}
    told = os.environ.get(idle_proof.SERVICE_HOST)
    return made if told is None else {**made, idle_proof.SERVICE_HOST: told}


def _told(line: bytes) -> Mapping[str, Any]:
    """What a line of an attempt says; nothing where it is no object."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def status_of(record: RepairRecord) -> Mapping[str, Any]:
    """How an attempt ended: `rc` 0 only where every task ran, `refused` is the reason or null."""
    refused, why = None, record.why
    if record.state == repair_history.REFUSED:
        refused, _, why = why.partition(": ")
    is_good = record.state in ("done", repair_history.CHECKED)
    return {
        "status": "done",
        "rc": None if refused else 0 if is_good else 1,
        "end": record.state,
        "changed": record.changed,
        "refused": refused,
        "seconds": record.seconds,
        "why": why[:WORDS],
    }


def _hold_time(request: RunRequest) -> None:
    """Raise RefusedRun where it is too late to begin."""
    late = clock.now() - request.begin_by
    if request.begin_by and late > 0:
        words = f"found it {late:.0f} s after it was to begin at the latest: what was proved for it is old"
        raise RefusedRun(RunRefusal.LATE, words)
