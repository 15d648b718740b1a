"""Looks at one node for `check`: once, twice to measure rates, or repeatedly."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep import check_round, facts
from nodeprep.checks import CHECKS, IDS
from nodeprep.doors import clock
from nodeprep.facts.alibaba import terway
from nodeprep.facts.machine import pci, system
from nodeprep.facts.network import cni
from nodeprep.facts.rdma import rdma
from nodeprep.look import Look
from nodeprep.model import Fact, Unreadable
from nodeprep.observer import Observer
from nodeprep.values import Struct


class LookPair(Struct):
    """Gives looks, each with the look before it, to compute rates. A dead tree has no look before.

    `settle` is the time between the first two looks in seconds; 0: the first call takes one look.
    """

    observer: Observer
    facts: tuple[Fact, ...]
    settle: float
    last: Look | None = None

    def look(self) -> tuple[Look, Look | None]:
        now = self.observer.look(self.facts)
        if not self.observer.host.live:
            return now, None
        before = self.last
        if before is None and self.settle and _may_have_ports(now):
            clock.sleep(self.settle)
            before, now = now, self.observer.look(self.facts)
        self.last = now
        return now, before


def facts_for(ids: Iterable[str], *, to_select: bool) -> tuple[Fact, ...]:
    """The facts that these checks read, and the node's name; `to_select`: also those that select a profile."""
    asked = frozenset(ids)
    more = (system.FACT, pci.FACT, rdma.FACT, terway.FACT, cni.FACT) if to_select else (system.FACT,)
    if asked.issuperset(IDS):  # all checks read all facts: to know this, none is imported
        return tuple(dict.fromkeys((*more, *facts.ALL)))
    checks = [CHECKS[one] for one in asked]
    if any(check.rates for check in checks):
        more = (*more, rdma.FACT)
    return tuple(dict.fromkeys((*more, *check_round.needed(checks))))


def _may_have_ports(look: Look) -> bool:
    """Whether a second look is worth the wait: there are ports, or they could not be read and may answer then."""
    seen = look.facts.get(rdma.Rdma)
    return isinstance(seen, Unreadable) or bool(isinstance(seen, rdma.Rdma) and seen.ports)
