"""The process that holds a drill: it makes the fault, and undoes it however the command that ordered it ends.

`drill_start` starts it in a session of its own, with the lock of repairs open. Its standard input is one line of JSON,
the record of the drill, and then words: "make" and "end". Its standard output takes a line of JSON for each thing that
it did. It undoes the drill at "end", at the deadline, on a signal that ends it, and when the command is gone. It holds
a pidfd of that, so kill -9 is noticed too. If it is killed itself, the file of the drill has the undo
(`nodeprep drill stop`), and so says `nodeprep drill list`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nodeprep.decide import drill_record
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair import drill_files, drill_history, drill_look, drill_undo
from nodeprep.repair.drill_undo import DrillUndo
from nodeprep.values import replace

READ_BYTES = 1 << 16
READY, MADE, NOT_MADE, UNDONE = "ready", "made", "not-made", "undone"
MAKE, END = b"make", b"end"
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GONE, ORDERED, DEADLINE, STOPPED = (
    "the command is gone",
    "it ended",
    "its deadline came",
    "nodeprep drill stop, or SIGTERM",
)
ENDED_STATES = ("Z", "X")  # proc_pid_stat(5): nobody asked for its exit code yet
SPARED = "-900"  # of oom_score_adj: whoever is killed for memory, the undo is not


class DrillWatcher:
    """One drill, from its record to its undo."""

    def __init__(self, directory: str, record: DrillRecord, ordered_by: int) -> None:
        self._directory, self._record = directory, record
        self._words = b""
        self._pidfd = os.pidfd_open(ordered_by)
        self._signal, noted = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(noted)
        for number in ENDING_SIGNALS:
            signal.signal(number, lambda *_: None)  # the byte in the pipe wakes `_word`

    def run(self) -> int:
        """Keep the record, make the fault when told, and undo it. Returns the exit code."""
        drill_files.keep(self._directory, self._record)
        _say({"did": READY})
        why = self._word(MAKE)
        if why:
            drill_files.remove(self._record.told)
            drill_files.remove(self._directory)
            return 1
        drill_history.begin(self._directory, self._record)
        trouble = next(filter(None, map(drill_look.run, self._record.make)), "")
        _say({"did": NOT_MADE if trouble else MADE, "why": trouble})
        why = f"it was not made: {trouble}" if trouble else self._word(END)
        return self._undo(why or ORDERED)

    def _undo(self, why: str) -> int:
        undone = drill_undo.undo(self._record)
        end(self._directory, self._record, undone, why)
        heard = _say({"did": UNDONE, "why": why, "lacking": undone.lacking, "troubles": undone.troubles})
        if not heard or why == GONE:
            _tell_terminal(self._record, undone, why)
        return 0 if undone.is_back else 1

    def _word(self, wanted: bytes) -> str:
        """Wait for a word: "" if it came, else why we are to end."""
        while wanted not in self._words.split(b"\n"):
            left = self._record.until - clock.now()
            if left <= 0:
                return DEADLINE
            ready, _, _ = select.select((0, self._pidfd, self._signal), (), (), left)
            if self._signal in ready:
                return STOPPED
            part = os.read(0, READ_BYTES) if 0 in ready else b""
            if (0 in ready and not part) or (self._pidfd in ready and not part):
                return GONE
            self._words += part
        return ""


def end(directory: str, record: DrillRecord, undone: DrillUndo, why: str) -> None:
    """Write how a drill ended. What is not back keeps its record, for `nodeprep drill stop`."""
    with suppress(OSError):  # it is undone, or told to be not, whatever the disk says
        drill_history.end(directory, record, undone, why)
    with suppress(OSError):
        drill_files.remove(record.told)
    if undone.is_back:
        with suppress(OSError):
            drill_files.remove(directory)


def _say(did: Mapping[str, Any]) -> bool:
    """Whether somebody hears it."""
    try:
        os.write(1, json.dumps(did).encode() + b"\n")
    except OSError:
        return False
    return True


def _tell_terminal(record: DrillRecord, undone: DrillUndo, why: str) -> None:
    """On the terminal of the command that is gone: its user should not have to ask."""
    words = "is undone, the state is as before" if undone.is_back else f"is NOT undone: {undone.words}; run: "
    words += "" if undone.is_back else "; ".join(record.by_hand)
    with suppress(OSError):
        os.write(2, f"nodeprep drill: {record.words} {words} ({why})\n".encode("utf-8", "backslashreplace"))


def started(process: int) -> str:
    """When a process started, in clock ticks, as the kernel says it; "" if there is none, or only its exit code."""
    try:
        told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        state, *numbers = told.rpartition(")")[2].split()
        return "" if state in ENDED_STATES else numbers[18]
    except (OSError, IndexError):
        return ""


def _line() -> Mapping[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1)  # not a byte more: words follow
        if not part:
            sys.exit(1)
        line += part
    order: Mapping[str, Any] = json.loads(line)
    return order


def main() -> None:
    order = _line()
    record = drill_record.parsed(order["record"])
    if record is None:
        sys.exit("nodeprep drill: this is no record of a drill")
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(SPARED, encoding="ascii")
    ours = replace(record, process=os.getpid(), started=started(os.getpid()))
    sys.exit(DrillWatcher(order["directory"], ours, order["ordered_by"]).run())


if __name__ == "__main__":
    main()
