"""One drill from its fault to its undo: watches with our own checks, and in the report of the agent that runs here."""

from __future__ import annotations

import json
from collections.abc import Iterable

from nodeprep.cli import terminal
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.cli.daemon import agent_socket
from nodeprep.cli.repair import drill_page, repair_command
from nodeprep.cli.repair.repair_page import PageStyle
from nodeprep.decide import drill_notice
from nodeprep.decide.drill_record import DrillRecord
from nodeprep.doors import clock
from nodeprep.model import Finding, Report
from nodeprep.repair import drill_undo, drill_watcher
from nodeprep.repair.drill_start import RunningDrill, WatcherGone
from nodeprep.repair.drill_undo import DrillUndo

LOOK_SECONDS = 0.5  # between two looks
PASS_SECONDS = 30.0  # after the undo, for our checks to say again what they said before


class DrillSession:
    """Watches one drill. `agent` is the address of the agent's socket, "" without one."""

    def __init__(
        self, watch: NodeWatch, running: RunningDrill, record: DrillRecord, agent: str, style: PageStyle
    ) -> None:
        self._watch, self._running, self._record = watch, running, record
        self._agent, self._style = agent, style
        self._seen: Finding | None = None
        self._reported = not agent

    def run(self, *, hold: bool) -> int:
        """Make the fault, watch it, have it undone; returns the exit code. Raises WatcherGone before it is made."""
        trouble = self._running.make()
        interrupted = False
        try:
            if not trouble:
                self._watched(hold=hold)
        except KeyboardInterrupt:
            interrupted = True
        except WatcherGone:
            pass  # the undo finds that too
        try:
            code = self._undone(trouble)
        except KeyboardInterrupt:
            terminal.complain("nodeprep drill: the undo goes on without this command; nodeprep drill list shows it")
            return repair_command.INTERRUPTED
        return repair_command.INTERRUPTED if interrupted else code

    def _watched(self, *, hold: bool) -> None:
        """Look until it is seen, or over."""
        began = clock.now()
        self._say(drill_page.made(self._record, self._style))
        if not self._agent:
            self._say(drill_page.agent("none runs here: only our own checks look", self._style))
        while not self._running.has_ended():
            if self._seen is None:
                self._seen = self._look(self._watch.report(), began)
            if not self._reported:
                self._reported = self._is_reported(began)
            if self._seen is not None and self._reported and not hold:
                return
            clock.sleep(LOOK_SECONDS)

    def _look(self, report: Report, began: float) -> Finding | None:
        found = next((one for one in report.findings if one.drill and one.waived is None), None)
        if found is not None:
            self._say(drill_page.seen(found, clock.now() - began, self._style))
        return found

    def _is_reported(self, began: float) -> bool:
        """Whether the agent's report has a finding of this drill."""
        try:
            content = json.loads(agent_socket.ask(self._agent, "GET", "/report").text)
            found = [one for one in content["report"]["findings"] if one["drill"] == self._record.name]
            state = content["agent"]["state"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if found:
            words = (
                f"its report has it as a drill after {clock.now() - began:.1f} s ({found[0]['check']}, state {state})"
            )
            self._say(drill_page.agent(words, self._style))
        return bool(found)

    def _undone(self, trouble: str) -> int:
        """Have it undone, say whether the state is back and our checks pass; returns the exit code."""
        end, why = self._end()
        self._say(drill_page.undone(self._record, end, why, self._style))
        if self._seen is None and not trouble:
            self._say(drill_page.unseen(self._record, self._style))
        if self._seen is not None and not self._reported:
            self._say(drill_page.agent("its report never had a finding of this drill", self._style))
        if self._seen is not None and end.is_back and self._record.undo:
            self._say(drill_page.passing(self._passes(), self._style))
        is_good = end.is_back and self._seen is not None and self._reported and not trouble
        return repair_command.DONE if is_good else repair_command.FAILED

    def _end(self) -> tuple[DrillUndo, str]:
        """The undo of the watcher, and why it came to it. Where the watcher is gone, we undo it ourselves."""
        try:
            return self._running.undo()
        except WatcherGone as gone:
            end, why = drill_undo.undo(self._record), str(gone)
            drill_watcher.end(repair_command.directory(), self._record, end, why)
            return end, why

    def _passes(self) -> str:
        """Whether our checks say again what they said before, in words."""
        seen = self._seen
        until = clock.now() + PASS_SECONDS
        while seen is not None:
            failing = drill_notice.failing(self._watch.report().findings)
            if (seen.check, seen.subject.key) not in failing:
                return f"{seen.check} says of {seen.subject.name} what it said before"
            if clock.now() >= until:
                return f"{seen.check} still fails on {seen.subject.name}: nodeprep check"
            clock.sleep(LOOK_SECONDS)
        return ""

    def _say(self, lines: Iterable[str]) -> None:
        for line in lines:
            terminal.put(line)
