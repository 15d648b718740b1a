"""Holds the growth of a port's counters between two looks against limits: what two questions of this family share."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma import transitions
from nodeprep.facts.rdma.counters import Counters
from nodeprep.facts.rdma.rdma import Port, Rdma
from nodeprep.model import CannotLook, Seen, Status, Unreadable, Verdict
from nodeprep.values import Value

EVENTS = 2  # one event in a short window is no rate, whatever the arithmetic makes of it
SPANS = {None: "at once", 1.0: "a second", 60.0: "a minute"}


class Limit(Value):
    """More than `most` events in `per` seconds is too much; where `per` is None, more than `most` between two looks.

    `source` says who says so. `key` is the number of the Want that `most` comes from, "" for none. A limit that
    convicts (FAIL) needs another source than us.
    """

    counter: str
    most: float
    per: float | None
    status: Status
    reason: str
    source: str
    key: str = ""

    def broken_by(self, events: int, seconds: float) -> bool:
        if self.per is None:
            return events > self.most
        return events >= EVENTS and events * self.per > self.most * seconds

    def words(self, events: int, seen: Seen) -> str:
        by = f" wanted {seen.wanted_by(self.key)}" if self.key else ""
        allowed = f"at most {self.most:g} {SPANS[self.per]}{by}" if self.most else "none is right"
        return f"{self.counter} +{events} in {seen.seconds:.0f} s, {allowed}"


def weigh(seen: Seen, limits: tuple[Limit, ...], exclude: tuple[str, ...]) -> Iterator[Verdict]:
    """One verdict for each port that has any of these counters in both looks; the gravest limits come first."""
    counted = [limit for limit in limits if limit.counter not in exclude]
    if seen.before is not None:
        before = seen.before
        yield from seen.each(seen[Rdma].ports, lambda port: verdict(port, before, seen, counted))


def verdict(port: Port, before: Seen, seen: Seen, limits: list[Limit]) -> Verdict | None:
    now, then = seen[Counters].of(port), before[Counters].of(port)
    if now is None or then is None:
        return None
    names = {limit.counter for limit in limits}
    grown = {name: events for name, events in now.since(then).items() if name in names}
    stuck, unread = sorted(names & set(then.saturated)), [blind for blind in now.unread if is_one_of(blind, names)]
    wanted_by = seen[Expected].of_use(port)
    if not grown and not stuck:
        if unread and wanted_by is not None:
            raise CannotLook(unread[0])
        return None
    broken = [limit for limit in limits if limit.broken_by(grown.get(limit.counter, 0), seen.seconds)]
    where = port.where
    if not broken:
        return quiet(port, f"{where}: no counter grew too fast in {seen.seconds:.0f} s", stuck, unread)
    gravest = {limit.counter: limit for limit in reversed(broken)}
    told = "; ".join(limit.words(grown[limit.counter], seen) for limit in broken if gravest[limit.counter] is limit)
    if wanted_by is None:
        return Verdict(port.subject, Status.OK, "NotNeeded", f"{where}: {told}; nothing asks for this port")
    unsettled = transitions.unsettled(port, seen, before)
    if unsettled:
        message = f"{where}: {told}; {unsettled}, which moves counters without a fault"
        return Verdict(port.subject, Status.OK, "Unsettled", message)
    worst = broken[0]
    look = f"cat /sys/class/infiniband/{port.device}/ports/*/*counters/*"
    message = f"{where}: {told}; the port is wanted by {wanted_by}; {look}"
    return Verdict(port.subject, worst.status, worst.reason, message, observed=f"+{grown[worst.counter]}")


def is_one_of(blind: Unreadable, names: set[str]) -> bool:
    """Whether it stands for one of these counters, or for a whole directory of them."""
    return blind.path.rpartition("/")[2] in names | {"counters", "hw_counters"}


def quiet(port: Port, message: str, stuck: list[str], unread: list[Unreadable]) -> Verdict:
    if unread:
        message += f"; could not look at {', '.join(blind.path.rpartition('/')[2] for blind in unread)}"
    if stuck:
        message += f"; {', '.join(stuck)} stopped at the highest value and count no further: perfquery -R resets them"
        return Verdict(port.subject, Status.OK, "Saturated", message)
    return Verdict(port.subject, Status.OK, "Quiet", message)
