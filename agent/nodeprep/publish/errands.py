"""What the publisher does beside writing the Node: the Lease, the test of the fence, Events. Each fails on its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import inf
from random import Random
from typing import Any

from nodeprep.doors import clock
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_write import JSON, MERGE, Outcome
from nodeprep.publish import event, lease
from nodeprep.publish.node import Seen
from nodeprep.publish.pace import FUTILE, Backoff, later
from nodeprep.publish.writing import UNPROCESSABLE, Ask, back_off, denial, denied_by, is_lost, mend, path

# Seconds between two dry runs of a fence that holds, each of one policy by turns; what comes later by WAVER at most. So
# a policy is tried within two minutes (design 3.5), the time of the request included.
TEST, WAVER = 57.5, 0.025
AGAIN = 1.0  # seconds from a dry run that tells nothing to its second try: a connection that broke is another one then
# And where none was found: a policy that is applied with the agent takes the API server some seconds to enforce, so
# both are tried again soon, then at each doubling, at last every two minutes: that is one dry run a minute, too.
FIRST, LAST = 15.0, 120.0
ALIVE = 5.0  # seconds until a Lease that was due is thought of again, where the checks did not run
HELD = 16  # Events that wait for the server; older ones go
DRY = "?dryRun=All"
# Neither is ours, so a fence denies both: the label on the own Node, and the Lease in the own namespace.
FOREIGN, FOREIGN_LEASE = "fence-test.example.com/nodeprep", "fence-test.example.com"
LABELS, OWN_LEASE = "nodeprep:labels", "nodeprep:own-lease"  # the rules that must deny them (publish/fence.py)
DEAD = "others will take this agent for dead"

Due = tuple[float, Callable[[], None]]


@dataclass(slots=True)
class Errands:
    """Of one node. `connected` gives a way to ask; `every` are the seconds between two renewals of the Lease.

    `is_alive`: the checks run, without which no Lease says so. `events` wait to be sent, the oldest first. `trouble` is
    why the Lease is not renewed, "" while it is; `denied`, what a policy said to it, after which it is not asked for
    before `believe_anew`; `fenced`, whether the cluster keeps this agent from what is not its own, None until both
    policies were tested.
    """

    access: Access
    every: float
    chance: Random
    connected: Callable[[], AbstractContextManager[Ask]]
    is_alive: Callable[[], bool]
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=HELD))
    trouble: str = ""
    denied: str = ""
    fenced: bool | None = None
    fence_at: float = -inf
    _lease_at: float = -inf
    _owner: str = ""  # the uid of the Node that the Lease was last renewed for: with another Node it is gone
    _asleep_until: float = -inf  # the checks did not run
    _beliefs: int = 0  # how often what was denied was to be tried anew
    _unfenced: int = 0  # tests in a row that found no fence
    _holds: dict[str, bool] = field(default_factory=dict)  # by the rule that must deny: whether it did when last tried
    _turn: str = LABELS  # whose turn it is
    _tries_both: bool = True
    _again: bool = False  # whether the last dry runs told nothing, and come once more
    _lease: Backoff = field(init=False)
    _event: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._lease, self._event = Backoff(self.chance), Backoff(self.chance)

    def due(self, seen: Seen, earliest: float, *, with_events: bool) -> list[Due]:
        """What is to be done when, none but the Lease before `earliest`. `seen` is the Node that it is about."""
        due: list[Due] = [(max(self.fence_at, earliest), self.test_fence)]
        if not self.denied:
            at = self._lease_at if seen.uid == self._owner else -inf
            due.insert(0, (max(at, self._asleep_until, self._lease.not_before), partial(self.renew, seen)))
        if self.events and with_events:
            due.append((max(self._event.not_before, earliest), self.post))
        return due

    def believe_anew(self) -> None:
        """What was denied may be allowed now, and what was allowed denied. Any thread may say so."""
        self._beliefs += 1
        self.denied = ""
        self.fence_at, self._unfenced, self._tries_both = -inf, 0, True

    def rest(self, now: float) -> None:
        """Something is broken here: nothing is tried for a while."""
        self._lease.failed(now, FUTILE)
        self._event.failed(now, FUTILE)
        self.fence_at = max(self.fence_at, now + FUTILE)

    def renew(self, seen: Seen) -> None:
        """Renew the Lease if the checks ran and the fence does not deny it; other people's policies may be mended."""
        if self.denied:
            return
        if not self.is_alive():
            self._asleep_until = clock.now() + ALIVE
            return
        namespace, now, beliefs = self.access.namespace, datetime.fromtimestamp(clock.wall(), UTC), self._beliefs
        with self.connected() as ask:
            answer = ask("PATCH", lease.path(namespace, seen.name), lease.renewal(seen.name, seen.uid, now), MERGE)
            if answer.status == 404:
                answer = ask("POST", lease.path(namespace), lease.created(namespace, seen.name, seen.uid, now), JSON)
        self.trouble = ""
        if denied_by(answer):
            self._lease_at = -inf  # at once, when it may be tried again
            self._lease.succeeded()
            if beliefs != self._beliefs:
                return  # it was to be tried anew meanwhile
            self.denied = said = f"{denial(answer)}; {DEAD}"
            self.events.append(event.event(seen, event.Happening("WriteDenied", mend(said), True), now))
            return
        if not answer.done:
            self.trouble = f"{denial(answer) if answer.status == UNPROCESSABLE else answer.message}; {DEAD}"
            self._lease_at = clock.now()
            back_off(self._lease, answer, self._lease_at)
            return
        self._lease.succeeded()
        self._owner, self._lease_at = seen.uid, clock.now() + later(self.every, self.chance)

    def test_fence(self) -> None:
        """Whether the cluster keeps this agent from what is not its own: each policy denies, by the rule meant for it.

        Where one lets it through there is no fence, whatever the other does; any other answer tells nothing, and is
        asked for once more. A fence that holds is tried by one dry run, of one policy and then of the other; else both
        are tried.
        """
        rules = (LABELS, OWN_LEASE) if self._tries_both or not self.fenced else (self._turn,)
        self._tries_both, beliefs = False, self._beliefs
        with self.connected() as ask:
            answers = {rule: self._dry_run(ask, rule) for rule in rules}
        told = [rule for rule, answer in answers.items() if answer.done or denied_by(answer) == rule]
        self._holds.update({rule: not answers[rule].done for rule in told})
        if len(self._holds) == 2 or not all(self._holds.values()):
            self.fenced = all(self._holds.values())
        if beliefs != self._beliefs:
            return  # it is to be tested at once
        asked_for = max(answer.retry_after for answer in answers.values())
        self.fence_at = clock.now() + max(self._until_next(rules, told) * self._wavering(), asked_for)

    def _until_next(self, tried: Sequence[str], told: Sequence[str]) -> float:
        """Seconds to the next test; notes what is tried then."""
        self._again = bool(self.fenced) and len(told) < len(tried) and not self._again
        if self._again:
            self._tries_both = len(tried) == 2
            return AGAIN
        self._turn = OWN_LEASE if tried[-1] == LABELS else LABELS
        self._unfenced = 0 if self.fenced else self._unfenced + 1
        return TEST if self.fenced else min(LAST, FIRST * 2.0 ** min(self._unfenced - 1, 10))

    def _wavering(self) -> float:
        return self.chance.uniform(1.0, 1.0 + WAVER)

    def _dry_run(self, ask: Ask, rule: str) -> Outcome:
        """Ask for what the rule must deny, and the other policy does not know."""
        if rule == LABELS:
            labelled = {"metadata": {"labels": {FOREIGN: "denied"}}}
            return ask("PATCH", f"{path(self.access.node)}{DRY}", labelled, MERGE)
        namespace = self.access.namespace
        return ask("POST", f"{lease.path(namespace)}{DRY}", lease.foreign(namespace, FOREIGN_LEASE), JSON)

    def post(self) -> None:
        """Send an Event. What is there already was sent before; what may not be written is worth nothing more."""
        with self.connected() as ask:
            answer = ask("POST", event.PATH, self.events[0], JSON)
        if is_lost(answer):
            self._event.failed(clock.now(), answer.retry_after)
            return
        self._event.succeeded()
        self.events.popleft()
