"""Counts of an hour or a day, in place of the records that a history no longer keeps."""

from __future__ import annotations

from nodeprep.history.node_record import NodeRecord
from nodeprep.values import Value

HOUR, DAY = 3600.0, 86400.0


class Count(Value):
    """What became of one case within an hour or a day: convictions, and seconds for which they stood."""

    convicted: int = 0
    seconds: float = 0.0

    def __add__(self, more: Count) -> Count:
        return Count(self.convicted + more.convicted, round(self.seconds + more.seconds, 1))


def counts_of(record: NodeRecord) -> dict[str, Count]:
    """The counts of a folded record by `check place reason`."""
    found = {}
    cases = record.fields.get("cases")
    for case, one in cases.items() if isinstance(cases, dict) else ():
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, int | float) for part in one):
            found[str(case)] = Count(int(one[0]), float(one[1]))
    return found
