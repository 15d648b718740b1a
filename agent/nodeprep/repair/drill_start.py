"""Starts the watcher of a drill and talks to it. It goes on when we are gone, and undoes the drill then."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import nodeprep
from nodeprep.decide import drill_record
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.repair import drill_look, drill_undo, drill_watcher
from nodeprep.repair.drill_undo import DrillUndo
from nodeprep.repair.drill_watcher import END, MADE, MAKE, NOT_MADE, READY, UNDONE

if TYPE_CHECKING:
    from typing import Self

START_SECONDS = 30.0  # for the watcher to be there; a busy machine takes some
READ_BYTES = 1 << 16
# For the whole undo, from the word to the end: commands may take their time, each try anew.
UNDO_SECONDS = drill_undo.BACK_SECONDS + drill_undo.TRIES * 4 * drill_look.COMMAND_SECONDS


class WatcherGone(Exception):
    """The watcher ended, or says nothing. Its text is one line."""


class RunningDrill:
    """A watcher and the pipes to it, as a context: at its end the drill is undone, or the watcher goes on with that.

    `lock` is the open file of the repair lock: the watcher holds it too, so no repair begins before the undo.
    """

    def __init__(self, directory: str, record: DrillRecord, lock: int) -> None:
        self._order = {
            "record": drill_record.document(record),
            "directory": directory,
            "ordered_by": os.getpid(),
        }
        self._lock = lock
        self._rest = b""
        self._heard: list[Mapping[str, Any]] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-s", "-m", drill_watcher.__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={**drill_look.ENVIRONMENT, "PYTHONPATH": str(Path(nodeprep.__file__).parents[1])},
            start_new_session=True,  # Ctrl-C is for us
            pass_fds=(self._lock,),
        )
        self._write(json.dumps(self._order).encode())
        try:
            self._answer(READY, START_SECONDS)
        except BaseException:
            self._part()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._part()

    def _part(self) -> None:
        """Close the pipes. A watcher that still holds a fault undoes it by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def make(self) -> str:
        """Have the fault made: "" or why it was not. Raises WatcherGone."""
        self._write(MAKE)
        told = self._answer((MADE, NOT_MADE), START_SECONDS + drill_look.COMMAND_SECONDS)
        return str(told["why"])

    def has_ended(self) -> bool:
        """Whether the drill is undone: its deadline came, or somebody stopped it. Raises WatcherGone."""
        self._listen(0.0)
        return any(one["did"] == UNDONE for one in self._heard)

    def undo(self) -> tuple[DrillUndo, str]:
        """Have it undone: how that went, and why it came to it. Raises WatcherGone."""
        self._write(END)
        told = self._answer(UNDONE, UNDO_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(START_SECONDS)  # then the lock is free
        return DrillUndo(tuple(told["lacking"]), tuple(told["troubles"])), str(told["why"])

    def _write(self, word: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for mypy
        with suppress(OSError):  # it ended; what it said is in the other pipe
            self._process.stdin.write(word + b"\n")
            self._process.stdin.flush()

    def _answer(self, did: str | tuple[str, ...], seconds: float) -> Mapping[str, Any]:
        until, wanted = clock.now() + seconds, (did,) if isinstance(did, str) else did
        while True:
            found = next((one for one in self._heard if one["did"] in wanted), None)
            if found is not None:
                return found
            if clock.now() >= until:
                raise WatcherGone(f"the watcher (pid {self._process.pid}) says nothing for {seconds:g} s")
            self._listen(until - clock.now())

    def _listen(self, seconds: float) -> None:
        """Take in what it said, within so many seconds. Raises WatcherGone at the end of the pipe."""
        assert self._process.stdout is not None  # noqa: S101 - for mypy
        pipe = self._process.stdout.fileno()
        ready, _, _ = select.select((pipe,), (), (), seconds)
        if not ready:
            return
        part = os.read(pipe, READ_BYTES)
        *lines, self._rest = (self._rest + part).split(b"\n")
        self._heard += map(json.loads, lines)
        if not part and not any(one["did"] == UNDONE for one in self._heard):
            raise WatcherGone(f"the watcher (pid {self._process.pid}) is gone")
