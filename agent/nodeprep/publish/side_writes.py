"""What the publisher writes beside the Node: the Lease, dry runs of the admission policy, Events. Each fails alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from math import inf
from random import Random
from typing import Any

from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import JSON, MERGE, WriteOutcome
from nodeprep.publish import agent_lease, node_events, node_patches, node_writing, pace
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.node_writing import UNPROCESSABLE, WriteRequest
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, Backoff

# Seconds between two dry runs of an admission policy that holds, each of one policy by turns; what comes later by WAVER
# at most. So a policy is tried within two minutes (design 3.5), the time of the request included.
TEST, WAVER = 57.5, 0.025
DRY_RUN_RETRY_SECONDS = (
    1.0  # seconds from a dry run that tells nothing to its second try: a connection that broke is another one then
)
# And where none was found: a policy that is applied with the agent takes the API server some seconds to enforce, so
# both are tried again soon, then at each doubling, at last every two minutes: that is one dry run a minute, too.
FIRST, LAST = 15.0, 120.0
ALIVE_RECHECK_SECONDS = 5.0  # seconds until a Lease that was due is thought of again, where the checks did not run
EVENTS_LIMIT = 16  # Events that wait for the server; older ones go
DRY = "?dryRun=All"
# Neither is ours, so an admission policy denies both: the label on the own Node, and the Lease in the own namespace.
FOREIGN, FOREIGN_LEASE = "fence-test.example.com/nodeprep", "fence-test.example.com"
LABELS, OWN_LEASE = (
    "nodeprep:labels",
    "nodeprep:own-lease",
)  # the rules that must deny them (publish/admission_policy.py)
DEAD_AGENT_CONSEQUENCE = "others will take this agent for dead"

Due = tuple[float, Callable[[], None]]


class SideWrites:
    """Of one node. `connected` gives a way to ask; `every` are the seconds between two renewals of the Lease.

    `is_alive`: the checks run, without which no Lease says so. `events` wait to be sent, the oldest first. `trouble` is
    why the Lease is not renewed, "" while it is; `denied`, what a policy said to it, after which it is not asked for
    before `believe_anew`; `policy_enforced`, whether the cluster keeps this agent from what is not its own, None until
    both policies were tested.
    """

    def __init__(
        self,
        access: ApiAccess,
        every: float,
        chance: Random,
        connected: Callable[[], AbstractContextManager[WriteRequest]],
        is_alive: Callable[[], bool],
    ) -> None:
        self.access = access
        self.every = every
        self.chance = chance
        self.connected = connected
        self.is_alive = is_alive
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_LIMIT)
        self.trouble = ""
        self.denied = ""
        self.policy_enforced: bool | None = None
        self.dry_run_at = -inf
        self._lease_at = -inf
        self._owner = ""  # the uid of the Node that the Lease was last renewed for: with another Node it is gone
        self._asleep_until = -inf  # the checks did not run
        self._beliefs = 0  # how often what was denied was to be tried anew
        self._not_enforced = 0  # tests in a row that found no admission policy
        self._holds: dict[str, bool] = {}  # by the rule that must deny: whether it did when last tried
        self._turn = LABELS  # whose turn it is
        self._tries_both = True
        self._again = False  # whether the last dry runs told nothing, and come once more
        self._lease, self._event = Backoff(chance), Backoff(chance)

    def due(self, seen: WrittenNode, earliest: float, *, with_events: bool) -> list[Due]:
        """What is to be done when, none but the Lease before `earliest`. `seen` is the Node that it is about."""
        due: list[Due] = [(max(self.dry_run_at, earliest), self.test_admission_policy)]
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
        self.dry_run_at, self._not_enforced, self._tries_both = -inf, 0, True

    def rest(self, now: float) -> None:
        """Something is broken here: nothing is tried for a while."""
        self._lease.failed(now, FUTILE_RETRY_SECONDS)
        self._event.failed(now, FUTILE_RETRY_SECONDS)
        self.dry_run_at = max(self.dry_run_at, now + FUTILE_RETRY_SECONDS)

    def renew(self, seen: WrittenNode) -> None:
        """Renew the Lease if the checks ran and our policy does not deny it; others' policies may be mended."""
        if self.denied:
            return
        if not self.is_alive():
            self._asleep_until = clock.now() + ALIVE_RECHECK_SECONDS
            return
        namespace, now, beliefs = self.access.namespace, datetime.fromtimestamp(clock.wall(), UTC), self._beliefs
        with self.connected() as ask:
            answer = ask(
                "PATCH", agent_lease.path(namespace, seen.name), agent_lease.renewal(seen.name, seen.uid, now), MERGE
            )
            if answer.status == 404:
                answer = ask(
                    "POST", agent_lease.path(namespace), agent_lease.created(namespace, seen.name, seen.uid, now), JSON
                )
        self.trouble = ""
        if node_writing.denied_by(answer):
            self._lease_at = -inf  # at once, when it may be tried again
            self._lease.succeeded()
            if beliefs != self._beliefs:
                return  # it was to be tried anew meanwhile
            self.denied = said = f"{node_writing.denial(answer)}; {DEAD_AGENT_CONSEQUENCE}"
            self.events.append(
                node_events.event(seen, node_events.NodeEvent("WriteDenied", node_writing.mend(said), True), now)
            )
            return
        if not answer.done:
            why = node_writing.denial(answer) if answer.status == UNPROCESSABLE else answer.message
            self.trouble = f"{why}; {DEAD_AGENT_CONSEQUENCE}"
            self._lease_at = clock.now()
            node_writing.back_off(self._lease, answer, self._lease_at)
            return
        self._lease.succeeded()
        self._owner, self._lease_at = seen.uid, clock.now() + pace.later(self.every, self.chance)

    def test_admission_policy(self) -> None:
        """Whether the cluster keeps this agent from what is not its own: each policy denies, by the rule meant for it.

        Where one lets it through there is no admission policy, whatever the other does; any other answer tells nothing,
        and is asked for once more. An admission policy that holds is tried by one dry run, of one policy and then of
        the other; else both are tried.
        """
        rules = (LABELS, OWN_LEASE) if self._tries_both or not self.policy_enforced else (self._turn,)
        self._tries_both, beliefs = False, self._beliefs
        with self.connected() as ask:
            answers = {rule: self._dry_run(ask, rule) for rule in rules}
        told = [rule for rule, answer in answers.items() if answer.done or node_writing.denied_by(answer) == rule]
        self._holds.update({rule: not answers[rule].done for rule in told})
        if len(self._holds) == 2 or not all(self._holds.values()):
            self.policy_enforced = all(self._holds.values())
        if beliefs != self._beliefs:
            return  # it is to be tested at once
        asked_for = max(answer.retry_after for answer in answers.values())
        self.dry_run_at = clock.now() + max(self._until_next(rules, told) * self._wavering(), asked_for)

    def _until_next(self, tried: Sequence[str], told: Sequence[str]) -> float:
        """Seconds to the next test; notes what is tried then."""
        self._again = bool(self.policy_enforced) and len(told) < len(tried) and not self._again
        if self._again:
            self._tries_both = len(tried) == 2
            return DRY_RUN_RETRY_SECONDS
        self._turn = OWN_LEASE if tried[-1] == LABELS else LABELS
        self._not_enforced = 0 if self.policy_enforced else self._not_enforced + 1
        return TEST if self.policy_enforced else min(LAST, FIRST * 2.0 ** min(self._not_enforced - 1, 10))

    def _wavering(self) -> float:
        return self.chance.uniform(1.0, 1.0 + WAVER)

    def _dry_run(self, ask: WriteRequest, rule: str) -> WriteOutcome:
        """Ask for what the rule must deny, and the other policy does not know."""
        if rule == LABELS:
            labelled = node_patches.of_node(labels={FOREIGN: "denied"})
            return ask("PATCH", f"{node_writing.path(self.access.node)}{DRY}", labelled, MERGE)
        namespace = self.access.namespace
        return ask("POST", f"{agent_lease.path(namespace)}{DRY}", agent_lease.foreign(namespace, FOREIGN_LEASE), JSON)

    def post(self) -> None:
        """Send an Event. What is there already was sent before; what may not be written is worth nothing more."""
        with self.connected() as ask:
            answer = ask("POST", node_events.PATH, self.events[0], JSON)
        if node_writing.is_lost(answer):
            self._event.failed(clock.now(), answer.retry_after)
            return
        self._event.succeeded()
        self.events.popleft()
