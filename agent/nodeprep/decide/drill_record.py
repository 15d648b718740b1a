"""What is known of a drill that runs: its fault, the commands that undo it, and the state that is to come back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from nodeprep.values import Value, asdict, field_names


class HostCommand(Value):
    """A program of the host with its arguments. `text` is written to its standard input."""

    argv: tuple[str, ...]
    text: str = ""

    @property
    def words(self) -> str:
        """As a person types it."""
        typed = shlex.join(self.argv)
        return f"printf '%s\\n' {shlex.quote(self.text)} | {typed}" if self.text else typed


class DrillRecord(Value):
    """One drill. `id` is that of its lines in the history; `target` is what was typed, `device` what it is about.

    `process` and `started` are the number of the watcher and its start in clock ticks (proc_pid_stat(5), field 22): the
    number alone may be another's by now. `began` and `until` are CLOCK_BOOTTIME seconds of the boot `boot_id`. `parts`
    and `watched` say what of the state is looked at, `before` are its lines before the fault. `told` is the directory
    of the notice for the agent.
    """

    id: str
    name: str
    target: str
    device: str
    boot_id: str
    began: float
    until: float
    make: tuple[HostCommand, ...]
    undo: tuple[HostCommand, ...]
    told: str
    parts: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    process: int = 0
    started: str = ""

    @property
    def words(self) -> str:
        return f"{self.name} of {self.device}"

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The commands that undo it, as a person types them."""
        return tuple(one.words for one in self.undo)


def document(record: DrillRecord) -> dict[str, Any]:
    """The record as plain JSON."""
    return asdict(record)


def parsed(content: object) -> DrillRecord | None:
    """The record that JSON says; None if it says none. Fields of a newer version are left out."""
    if not isinstance(content, Mapping):
        return None
    known = {name: content[name] for name in field_names(DrillRecord) if name in content}
    try:
        for name in ("make", "undo"):
            known[name] = _commands(known[name])
        for name in ("parts", "watched", "before"):
            known[name] = _texts(known[name])
        for name in ("began", "until"):
            known[name] = float(known[name])
        known["process"] = int(known.get("process", 0))
        texts = ("id", "name", "target", "device", "boot_id", "told")
        return DrillRecord(**known) if all(isinstance(known[one], str) for one in texts) else None
    except (KeyError, TypeError, ValueError):
        return None


def _commands(given: object) -> tuple[HostCommand, ...]:
    if not isinstance(given, list):
        raise TypeError("no list of commands")
    return tuple(map(_command, given))


def _command(given: Mapping[str, Any]) -> HostCommand:
    argv = _texts(given["argv"])
    if not argv or not isinstance(given["text"], str):
        raise ValueError("no command")
    return HostCommand(argv, given["text"])


def _texts(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise TypeError("no list of texts")
    return tuple(given)
