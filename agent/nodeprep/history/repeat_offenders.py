"""Devices that are convicted again and again: of each the hours in which it was, within some days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodeprep.history import fold_counts
from nodeprep.history.fold_counts import HOUR, OTHERS_CASE
from nodeprep.history.node_record import CONVICTED, FOLDED, NodeRecord
from nodeprep.values import Struct, Value, field

DAY_SECONDS = 86400.0
REPEAT_HOURS = 3  # different hours; one bad hour of flapping is one incident
REPEAT_DAYS = 14  # as long as an RMA or a cable takes
NOTE_LIMIT_BYTES = 512  # of the Node's annotation
KEPT_HOURS = 31 * 24  # of a case: more than a policy may ask for
CASES_LIMIT = 1000  # that are kept; a node has some hundred devices and checks


class RepeatPolicy(Value):
    """Who is a repeat offender: convicted in so many different hours within so many days."""

    repeat_hours: int = REPEAT_HOURS
    repeat_days: int = REPEAT_DAYS


SHIPPED_POLICY = RepeatPolicy()


class RepeatOffender(Value):
    """A device with a check that convicted it in `hours` different hours. `last` is wall time of the last such hour."""

    check: str
    place: str
    name: str
    hours: int
    last: float

    @property
    def device(self) -> str:
        """What a human calls it: its name, else its place; "node" for the node itself."""
        return self.name or self.place or "node"


class RepeatCounter(Struct):
    """The hours of each case, by check and place. Hours count from 1970, by wall time."""

    hours: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, record: NodeRecord) -> None:
        """Count a conviction, or those of an hour that is folded. Other records change nothing."""
        if record.event == CONVICTED:
            key = record.text("check"), record.text("place")
            self.names[key] = record.text("subject")
            self._add(key, record.time)
        elif record.event == FOLDED:
            names = fold_counts.names_of(record)
            for case, count in fold_counts.counts_of(record).items():
                if count.convicted and case != OTHERS_CASE:
                    check, place, *_ = [*case.split(" "), "", ""]
                    key = check, place if case.count(" ") > 1 else ""
                    self.names.setdefault(key, names.get(place, ""))
                    self._add(key, record.time, max(count.hours, 1))

    def _add(self, key: tuple[str, str], time: float, hours: int = 1) -> None:
        """Add hours from this wall time on. A day that is folded says how many, and not which."""
        if key not in self.hours and len(self.hours) >= CASES_LIMIT:
            return
        first, known = int(time // HOUR), self.hours.setdefault(key, set())
        known |= set(range(first, first + min(hours, 24)))
        newest = max(known)
        known -= {one for one in known if one <= newest - KEPT_HOURS}

    def offenders(self, now: float, policy: RepeatPolicy = SHIPPED_POLICY) -> tuple[RepeatOffender, ...]:
        """Who repeats, the worst first. `now` is wall time."""
        first, last = int((now - policy.repeat_days * DAY_SECONDS) // HOUR), int(now // HOUR)
        return tuple(sorted(self._found(first, last, policy), key=lambda one: (-one.hours, one.check, one.place)))

    def _found(self, first: int, last: int, policy: RepeatPolicy) -> Iterator[RepeatOffender]:
        for (check, place), hours in self.hours.items():
            within = [one for one in hours if first < one <= last]
            if len(within) >= policy.repeat_hours:
                name = self.names.get((check, place), "")
                yield RepeatOffender(check, place, name, len(within), max(within) * HOUR)


def note(offenders: Iterable[RepeatOffender], limit: int = NOTE_LIMIT_BYTES) -> str:
    """Who repeats, as one text of at most `limit` bytes: `port.state mlx5_5/1 in 4 hours; ...`. "" for nobody."""
    known = tuple(offenders)
    told: list[str] = []
    for index, one in enumerate(known):
        left = len(known) - index - 1
        more = f"; {left} more" if left else ""
        words = f"{one.check} {one.device} in {one.hours} hours"
        if len("; ".join([*told, words]).encode()) + len(more) > limit:
            return "; ".join([*told, f"{left + 1} more"])
        told.append(words)
    return "; ".join(told)


def counted(records: Iterable[NodeRecord]) -> RepeatCounter:
    """The hours of all these records."""
    counter = RepeatCounter()
    for one in records:
        counter.add(one)
    return counter
