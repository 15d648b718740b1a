"""One record of a node's history: something that changed, when, and in which boot. One line of JSON each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from nodeprep.values import Value, field

NAME = "node-history.jsonl"  # in the directory of the agent state
MODE = 0o600
LINE_LIMIT_BYTES = 640  # bytes of a line with its end: 1,250 such lines are 0.8 MiB
LONG_LINE_LIMIT_BYTES = 16 << 10  # of a configuration with each of some hundred keys, of counts, and of what held
TEXT_LIMITS_CHARACTERS = (300, 120, 40)  # characters of a text; the next lower limit if the line is too long
BOOT_DIGITS = 8  # of a boot id: boots of one node are told from each other
HEAD = ("time", "at", "boot", "event")
FOLDED = "folded"  # counts of an hour or a day, in place of its records
BASE = "base"  # what held before the first record that is kept
LOST = "lost"  # records that could not be written
STARTED, STOPPED, CONFIGURATION = "started", "stopped", "configuration"
CONVICTED, STILL_CONVICTED, RELEASED = "convicted", "still-convicted", "released"
READY = "profile-ready"
KEPT_RECORDS = 1000  # so many of the newest are kept each (the number)
FOLDED_AT_RECORDS = 1250  # records at which the older ones are folded: not at each new one
SIZE_LIMIT_BYTES = 1 << 20
ROOM_BYTES = 64 << 10  # that stay free after folding, so that it is not done again at once


class NodeRecord(Value):
    """What changed. `time` is wall time in seconds since 1970, `at` CLOCK_BOOTTIME in seconds, `boot` of which boot.

    `event` is a word of the agent's log (docs/agent.md), or FOLDED, BASE or LOST. `fields` are its details, as JSON.
    """

    time: float
    at: float
    boot: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A detail as text; "" if there is none."""
        value = self.fields.get(name, "")
        return value if isinstance(value, str) else str(value)

    @property
    def case(self) -> str:
        """What a conviction is about: `check place`."""
        return f"{self.text('check')} {self.text('place')}".rstrip()


def is_single(text: bytes) -> bool:
    """Whether a line is one record, and neither counts of many nor what held before them."""
    return b'"event":"folded"' not in text and b'"event":"base"' not in text


def is_due(records: int, size: int) -> bool:
    """Whether a file of so many single records and bytes is to be folded."""
    return records >= FOLDED_AT_RECORDS or size > SIZE_LIMIT_BYTES - ROOM_BYTES


def line(record: NodeRecord, limit: int = LINE_LIMIT_BYTES) -> bytes:
    """A record as a line of ASCII with its end. Texts are cut so that it has at most `limit` bytes.

    A configuration names each key that is set, and has as many bytes as that takes.
    """
    limit = LONG_LINE_LIMIT_BYTES if record.event == CONFIGURATION else limit
    head = {"time": round(record.time, 2), "at": round(record.at, 2), "boot": record.boot, "event": record.event}
    text = ""
    for characters in (*TEXT_LIMITS_CHARACTERS, 0):
        fields = {name: _cut(value, characters) for name, value in record.fields.items() if name not in HEAD}
        text = json.dumps(head | (fields if characters else {}), separators=(",", ":")) + "\n"
        if len(text) <= limit:
            break
    return text.encode("ascii")


def record_of(text: bytes) -> NodeRecord | None:
    """The record of a line; None for what is none, such as half a line."""
    try:
        found = json.loads(text)
        time, at, boot, event = (found.pop(name) for name in HEAD)
        is_sound = isinstance(boot, str) and isinstance(event, str) and math.isfinite(time) and math.isfinite(at)
        return NodeRecord(float(time), float(at), boot, event, found) if is_sound else None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return None


def _cut(value: Any, characters: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[: max(characters - 3, 0)]}..."
    if isinstance(value, list | tuple):
        return [_cut(one, characters) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _cut(one, characters) for key, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float) else _cut(str(value), characters)
