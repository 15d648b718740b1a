"""The process of one attempt: it proves that the remedy may run, and runs it, with the lock of the node.

`remediator` starts it. Its standard input is one line of JSON, the order, and then stays open as long as the attempt is
wanted: at its end everything is ended. Its standard output is one line for each task and at last one for the end. What
sleeps in the kernel outlives its kill: then a line names it, and the end comes when it is gone. Meanwhile the lock is
held.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from nodeprep.config import remedy_files
from nodeprep.config.idle_policy import IdlePolicy
from nodeprep.decide.remediator_limits import RefusedRun, RunRefusal
from nodeprep.decide.remedy_arguments import InvalidArgument
from nodeprep.decide.remedy_header import RemedyHeader
from nodeprep.doors import host_tree
from nodeprep.doors.host_tree import NoHostTree
from nodeprep.doors.node_host import Host
from nodeprep.repair import host_tools, remedy_act
from nodeprep.repair.playbook_run import AnsibleMissing
from nodeprep.repair.remedy_act import RemedyAct
from nodeprep.repair.repair_lock import RepairLock, RepairUnderWay
from nodeprep.repair.run_outcome import RunEnd, RunOutcome, TaskLine
from nodeprep.values import Value, asdict

SCRATCH = ("/tmp", "/dev/shm")  # noqa: S108 - of one attempt alone: what a play leaves there ends with it
READ_BYTES = 4096
WHY_CHARACTERS = 600  # of a reason: who opens 20,000 sockets makes that of a refusal as long as they are many


class AttemptOrder(Value):
    """What the process is told.

    `host_process` is that of the host's first process, "" on the host itself; then its file systems are mounted at
    `host_root`. `on_host` are the words before a command. `locks` is on the host the directory of its repair lock.
    """

    attempt: str
    remedy: str
    args: Mapping[str, str]
    seconds: float
    check: bool
    host_process: str
    host_root: str
    on_host: tuple[str, ...]
    locks: str


class AttemptEnd(Value):
    """How it ended. `end` is that of the play, "refused" or "interrupted"; `refused` is the reason, "" for none."""

    end: str
    refused: str = ""
    why: str = ""
    changed: int = 0
    seconds: float = 0.0


def main() -> None:
    line = sys.stdin.buffer.readline()
    order = json.loads(line)
    signal.signal(signal.SIGTERM, _interrupt)
    told = AttemptOrder(**{**order, "on_host": tuple(order["on_host"])})
    try:
        if told.host_process:
            host_tree.attach(told.host_process, told.host_root, SCRATCH)  # before any thread
        Thread(target=_end_with_input, name="end-with-input", daemon=True).start()
        end = perform(told)
    except NoHostTree as error:
        end = AttemptEnd("refused", RunRefusal.MISSING_TOOL, str(error))
    except KeyboardInterrupt:
        end = AttemptEnd("interrupted", why="it was cancelled, or the remediator ended; what ran was ended")
    _tell({**asdict(end), "why": end.why[:WHY_CHARACTERS]})


def _interrupt(number: int, _: object) -> None:
    """Once: who stops a service tells each of its processes, and then the remediator closes our input too."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_input() -> None:
    while os.read(0, READ_BYTES):  # not through the buffer: its lock would break the end of a process that waits in it
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def perform(order: AttemptOrder) -> AttemptEnd:
    """Prove and run. A remedy that may not run is refused with its reason."""
    header = remedy_files.headers()[order.remedy]
    host = Host(order.host_root or "/")
    is_held = False
    try:
        with RepairLock(
            f"{order.host_root}{order.locks}", f"the remediator (attempt {order.attempt})", shows_pid=False
        ) as lock:
            _hold(host, header, order)
            is_held = True
            outcome = remedy_act.run(host, _act(header, order, lock.descriptor), _tell_task, _tell_hangs)
    except RefusedRun as refused:
        return AttemptEnd("refused", refused.reason, str(refused))
    except RepairUnderWay as busy:
        return AttemptEnd("refused", RunRefusal.BUSY, _on_host(order, str(busy)))
    except AnsibleMissing as missing:
        return AttemptEnd("refused", RunRefusal.MISSING_TOOL, str(missing))
    except OSError as error:
        why = _on_host(order, f"{error.filename or header.name}: {error.strerror}")
        return AttemptEnd("broken", why=why) if is_held else AttemptEnd("refused", RunRefusal.LEDGER, why)
    return _ended(outcome)


def _on_host(order: AttemptOrder, words: str) -> str:
    """A message with the paths that they have on the host."""
    return words.replace(f"{order.host_root}/", "/") if order.host_root else words


def _hold(host: Host, header: RemedyHeader, order: AttemptOrder) -> None:
    """Raises RefusedRun."""
    missing = sorted(set(header.tools) - host_tools.found(header.tools, order.host_root))
    if missing:
        raise RefusedRun(RunRefusal.MISSING_TOOL, f"{header.name}: the host has no {', '.join(missing)}")
    try:
        remedy_act.hold_arguments(host, header, order.args)
    except InvalidArgument as invalid:
        raise RefusedRun(RunRefusal.ARGUMENT, str(invalid)) from invalid
    idle = remedy_act.idle(host, header, order.args, IdlePolicy().ignore)
    if not idle.is_idle:
        reason = RunRefusal.IN_USE if idle.holders else RunRefusal.DOUBT
        raise RefusedRun(reason, "; ".join(idle.words()))


def _act(header: RemedyHeader, order: AttemptOrder, lock: int) -> RemedyAct:
    return RemedyAct(
        header,
        order.args,
        order.seconds,
        order.check,
        on_host=order.on_host,
        host_root=order.host_root,
        held=(lock,),
    )


def _ended(outcome: RunOutcome) -> AttemptEnd:
    left = f"; still there: {', '.join(outcome.left)}" if outcome.left else ""
    task = f"{outcome.failed_task}: " if outcome.failed_task and outcome.end is not RunEnd.DONE else ""
    return AttemptEnd(outcome.end, "", f"{task}{outcome.message}{left}", outcome.changed, outcome.seconds)


def _tell_task(line: TaskLine) -> None:
    _tell({"task": line.task, "result": line.result})


def _tell_hangs(processes: Sequence[str]) -> None:
    _tell({"hangs": [*processes]})


def _tell(told: Mapping[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the remediator is gone, and its next life goes by the lock
        os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()
