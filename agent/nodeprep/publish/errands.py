"""What the publisher does beside writing the Node: the Lease, the test of the fence, Events. Each fails on its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import inf
from random import Random
from typing import Any

from nodeprep.doors import clock
from nodeprep.doors.kube import Access
from nodeprep.doors.kube_write import JSON, MERGE
from nodeprep.publish import event, lease
from nodeprep.publish.node import Seen
from nodeprep.publish.pace import Backoff
from nodeprep.publish.writing import RULE, UNPROCESSABLE, Ask, is_lost, path

TEST, SOON = 3600.0, 600.0  # seconds between two tests of a fence (design 3.5), and where there is none yet
ALIVE = 5.0  # seconds until a Lease that was due is thought of again, where the checks did not run
FUTILE = 30.0  # seconds until something is asked again that no haste makes succeed: a right, a Node that is not there
LATE = 1.3  # minutes after which the Lease is renewed on its own, the minute's look not having done it
HELD = 16  # Events that wait for the server; older ones go
FOREIGN = "fence-test.example.com/nodeprep"  # a label that is not ours: writing it must be denied

Due = tuple[float, Callable[[], None]]


@dataclass(slots=True)
class Errands:
    """Of one node. `connected` gives a way to ask; `minute` are the seconds between two renewals of the Lease.

    `is_alive`: the checks run, without which no Lease says so. `events` wait to be sent, the oldest first. `trouble` is
    why the Lease is not renewed, "" while it is; `fenced`, whether the cluster keeps this agent from what is not its
    own, None until that was tested.
    """

    access: Access
    minute: float
    chance: Random
    connected: Callable[[], AbstractContextManager[Ask]]
    is_alive: Callable[[], bool]
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=HELD))
    trouble: str = ""
    fenced: bool | None = None
    fence_at: float = -inf
    _lease_at: float = -inf
    _lease: Backoff = field(init=False)
    _event: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._lease, self._event = Backoff(self.chance), Backoff(self.chance)

    def due(self, seen: Seen, earliest: float, *, with_events: bool) -> list[Due]:
        """What is to be done when, none but the Lease before `earliest`. `seen` is the Node that it is about."""
        due: list[Due] = [
            (max(self._lease_at, self._lease.not_before), partial(self.renew, seen)),
            (max(self.fence_at, earliest), self.test_fence),
        ]
        if self.events and with_events:
            due.append((max(self._event.not_before, earliest), self.post))
        return due

    def rest(self, now: float) -> None:
        """Something is broken here: nothing is tried for a while."""
        self._lease.failed(now, FUTILE)
        self._event.failed(now, FUTILE)
        self.fence_at = max(self.fence_at, now + FUTILE)

    def renew(self, seen: Seen) -> None:
        """Say that the checks ran, where the minute's look did not."""
        if not self.is_alive():
            self._lease_at = clock.now() + ALIVE
            return
        with self.connected() as ask:
            self.say_alive(ask, seen)

    def say_alive(self, ask: Ask, seen: Seen) -> None:
        """Renew the Lease if the checks ran."""
        if not self.is_alive():
            return
        namespace, now = self.access.namespace, datetime.fromtimestamp(clock.wall(), UTC)
        answer = ask("PATCH", lease.path(namespace, seen.name), lease.renewal(seen.name, seen.uid, now), MERGE)
        if answer.status == 404:
            answer = ask("POST", lease.path(namespace), lease.created(namespace, seen.name, seen.uid, now), JSON)
        if answer.done:
            self.trouble = ""
            self._lease.succeeded()
            self._lease_at = clock.now() + LATE * self.minute
            return
        self.trouble = f"{answer.message}; others will take this agent for dead"
        self._lease_at = clock.now()
        self._lease.failed(clock.now(), answer.retry_after if is_lost(answer) else FUTILE)

    def test_fence(self) -> None:
        """Whether the cluster keeps this agent from what is not its own: a foreign label must be denied."""
        foreign = {"metadata": {"labels": {FOREIGN: "denied"}}}
        with self.connected() as ask:
            answer = ask("PATCH", f"{path(self.access.node)}?dryRun=All", foreign, MERGE)
        if answer.done:
            self.fenced = False
        elif answer.status == UNPROCESSABLE and RULE.search(answer.said):
            self.fenced = True
        self.fence_at = clock.now() + (TEST if self.fenced else SOON) * self.chance.uniform(0.9, 1.1)

    def post(self) -> None:
        """Send an Event. What is there already was sent before; what may not be written is worth nothing more."""
        with self.connected() as ask:
            answer = ask("POST", event.PATH, self.events[0], JSON)
        if is_lost(answer):
            self._event.failed(clock.now(), answer.retry_after)
            return
        self._event.succeeded()
        self.events.popleft()
