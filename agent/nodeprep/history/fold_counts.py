"""Counts of an hour or a day, in place of the records that a history no longer keeps."""

from __future__ import annotations

import math

from nodeprep.history.node_record import NodeRecord
from nodeprep.values import Value

HOUR, DAY = 3600.0, 86400.0
OTHERS_CASE = "others"  # of cases that are beyond a limit, counted together


class Count(Value):
    """What became of one case within an hour or a day: convictions, seconds for which they stood, hours with one."""

    convicted: int = 0
    seconds: float = 0.0
    hours: int = 0

    def __add__(self, more: Count) -> Count:
        seconds = round(self.seconds + more.seconds, 1)
        return Count(self.convicted + more.convicted, seconds, self.hours + more.hours)


def counts_of(record: NodeRecord) -> dict[str, Count]:
    """The counts of a folded record by `check place reason`. What is no count is passed over."""
    found = {}
    cases = record.fields.get("cases")
    for case, one in cases.items() if isinstance(cases, dict) else ():
        parts = [number(part, -1.0) for part in one] if isinstance(one, list) else []
        if len(parts) == 3 and min(parts) >= 0:
            found[str(case)] = Count(int(parts[0]), parts[1], int(parts[2]))
    return found


def names_of(record: NodeRecord) -> dict[str, str]:
    """What the devices of a folded record were called, by their place."""
    names = record.fields.get("names")
    return {str(place): str(name) for place, name in names.items()} if isinstance(names, dict) else {}


def number(value: object, default: float) -> float:
    """A number of a file; the default for what is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else default
