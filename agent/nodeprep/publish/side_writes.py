"""What the publisher writes beside the Node: Lease, dry runs of the admission policy, Events. Each may fail alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from math import inf
from random import Random
from typing import Any

from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess
from nodeprep.doors.kube.writer import JSON, MERGE, WriteOutcome
from nodeprep.newer_python import UTC
from nodeprep.publish import agent_lease, node_events, node_patches, node_writing, pace
from nodeprep.publish.fleet_note import FleetNote
from nodeprep.publish.node_object import WrittenNode
from nodeprep.publish.node_writing import UNPROCESSABLE, WriteRequest
from nodeprep.publish.pace import FUTILE_RETRY_SECONDS, Backoff

# Seconds between two dry runs of an admission policy that is enforced; they try the two policies in turn. Each comes
# later by a share of DRY_RUN_SPREAD at most. So each policy is tried within two minutes (design 3.5), including the
# time of the request.
DRY_RUN_SECONDS, DRY_RUN_SPREAD = 57.5, 0.025
DRY_RUN_RETRY_SECONDS = 1.0  # seconds from a dry run that tells nothing to its second try, on a new connection
# Seconds to the next test if no policy was found. The API server takes some seconds to enforce a policy that is applied
# together with the agent. So both are tried soon, then after twice the time, and at last every two minutes. That is one
# dry run a minute, too.
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 15.0, 120.0
ALIVE_RECHECK_SECONDS = 5.0  # seconds until a due Lease is tried again if the checks did not run
EVENTS_LIMIT = 16  # Events that wait for the server; the oldest are dropped
DRY_RUN_QUERY = "?dryRun=All"
# Neither is ours, so the admission policy denies both: a label on the own Node, and a Lease in the own namespace.
FOREIGN_LABEL, FOREIGN_LEASE = "policy-test.example.com/nodeprep", "policy-test.example.com"
LABELS, OWN_LEASE = (
    "nodeprep:labels",
    "nodeprep:own-lease",
)  # the rules that must deny them (publish/admission_policy.py)
DEAD_AGENT_CONSEQUENCE = "others will take this agent for dead"

Due = tuple[float, Callable[[], None]]


class SideWrites:
    """For one node. `connected` opens a connection. `lease_period` is the seconds between two renewals of the Lease.

    `is_alive`: the checks run; otherwise the Lease is not renewed. `events` wait to be sent, the oldest first.
    `trouble` is why the Lease is not renewed, "" if it is. `denied` is what a policy said about the Lease; it is not
    tried again before `forget_denials`. `policy_enforced`: whether the cluster keeps this agent from what is not its
    own, None until both policies were tested.
    """

    def __init__(
        self,
        access: ApiAccess,
        lease_period: float,
        rng: Random,
        connected: Callable[[], AbstractContextManager[WriteRequest]],
        is_alive: Callable[[], bool],
    ) -> None:
        self.access = access
        self.lease_period = lease_period
        self.rng = rng
        self.connected = connected
        self.is_alive = is_alive
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_LIMIT)
        self.trouble = ""
        self.denied = ""
        self.policy_enforced: bool | None = None
        self.dry_run_at = -inf
        self.note = FleetNote()
        self._lease_at = -inf
        self._owner = ""  # the uid of the Node that the Lease was last renewed for; another Node has no Lease yet
        self._lease_paused_until = -inf  # the checks did not run
        self._generation = 0  # how often denials were forgotten
        self._not_enforced = 0  # tests in a row that found no admission policy
        self._enforced: dict[str, bool] = {}  # by rule: whether it denied the last dry run
        self._next_rule = LABELS  # the rule of the next dry run
        self._tries_both = True
        self._repeats_dry_run = False  # whether the last dry runs told nothing and are repeated
        self._lease, self._event = Backoff(rng), Backoff(rng)

    def due(self, seen: WrittenNode, earliest: float, *, with_events: bool) -> list[Due]:
        """What is to be done when. Nothing but the Lease is done before `earliest`. `seen` is the Node."""
        due: list[Due] = [(max(self.dry_run_at, earliest), self.test_admission_policy)]
        if not self.denied:
            at = self._lease_at if seen.uid == self._owner else -inf
            due.insert(0, (max(at, self._lease_paused_until, self._lease.not_before), partial(self.renew, seen)))
        if self.events and with_events:
            due.append((max(self._event.not_before, earliest), self.post_event))
        return due

    def forget_denials(self) -> None:
        """What was denied may be allowed now, and what was allowed may be denied. Any thread may call it."""
        self._generation += 1
        self.denied = ""
        self.dry_run_at, self._not_enforced, self._tries_both = -inf, 0, True

    def pause(self, now: float) -> None:
        """Something is broken here: nothing is tried for a while."""
        self._lease.failed(now, FUTILE_RETRY_SECONDS)
        self._event.failed(now, FUTILE_RETRY_SECONDS)
        self.dry_run_at = max(self.dry_run_at, now + FUTILE_RETRY_SECONDS)

    def renew(self, seen: WrittenNode) -> None:
        """Renew the Lease if the checks ran and our policy does not deny it. Others' policies may be mended."""
        if self.denied:
            return
        if not self.is_alive():
            self._lease_paused_until = clock.now() + ALIVE_RECHECK_SECONDS
            return
        now, generation = datetime.fromtimestamp(clock.wall(), UTC), self._generation
        with self.note.held() as note, self.connected() as ask:
            answer = self._renewed(ask, seen, now, note)
            self.note.told = note if answer.done else self.note.told
        self.trouble = ""
        if node_writing.denied_by(answer):
            self._lease_at = -inf  # so that it is renewed at once when it may be tried again
            self._lease.succeeded()
            if generation != self._generation:
                return  # denials were forgotten meanwhile
            self.denied = said = f"{node_writing.denial(answer)}; {DEAD_AGENT_CONSEQUENCE}"
            self.events.append(
                node_events.event(seen, node_events.NodeEvent("WriteDenied", node_writing.with_fix(said), True), now)
            )
            return
        if not answer.done:
            why = node_writing.denial(answer) if answer.status == UNPROCESSABLE else answer.message
            self.trouble = f"{why}; {DEAD_AGENT_CONSEQUENCE}"
            self._lease_at = clock.now()
            node_writing.back_off(self._lease, answer, self._lease_at)
            return
        self._lease.succeeded()
        self._owner, self._lease_at = seen.uid, clock.now() + pace.spread(self.lease_period, self.rng)

    def _renewed(self, ask: WriteRequest, seen: WrittenNode, now: datetime, note: str) -> WriteOutcome:
        """The answer to the renewal. A Lease that is not there is made."""
        namespace = self.access.namespace
        renewal = agent_lease.renewal(seen.name, seen.uid, now, note)
        answer = ask("PATCH", agent_lease.path(namespace, seen.name), renewal, MERGE)
        if answer.status != 404:
            return answer
        made = agent_lease.new_lease(namespace, seen.name, seen.uid, now, note)
        return ask("POST", agent_lease.path(namespace), made, JSON)

    def test_admission_policy(self) -> None:
        """Whether the cluster keeps this agent from what is not its own: each policy denies, by its own rule.

        If one policy allows the write, there is no admission policy, whatever the other does. Any other answer tells
        nothing, and the dry run is repeated once. If the admission policy is enforced, one dry run tries the two
        policies in turn. Otherwise both are tried.
        """
        rules = (LABELS, OWN_LEASE) if self._tries_both or not self.policy_enforced else (self._next_rule,)
        self._tries_both, generation = False, self._generation
        with self.connected() as ask:
            outcomes = {rule: self._dry_run(ask, rule) for rule in rules}
        conclusive = [
            rule for rule, answer in outcomes.items() if answer.done or node_writing.denied_by(answer) == rule
        ]
        self._enforced.update({rule: not outcomes[rule].done for rule in conclusive})
        if len(self._enforced) == 2 or not all(self._enforced.values()):
            self.policy_enforced = all(self._enforced.values())
        if generation != self._generation:
            return  # denials were forgotten meanwhile: test at once
        asked_for = max(answer.retry_after for answer in outcomes.values())
        self.dry_run_at = clock.now() + max(self._until_next(rules, conclusive) * self._spread(), asked_for)

    def _until_next(self, tried: Sequence[str], conclusive: Sequence[str]) -> float:
        """Seconds to the next test. Notes what is tried then."""
        self._repeats_dry_run = (
            bool(self.policy_enforced) and len(conclusive) < len(tried) and not self._repeats_dry_run
        )
        if self._repeats_dry_run:
            self._tries_both = len(tried) == 2
            return DRY_RUN_RETRY_SECONDS
        self._next_rule = OWN_LEASE if tried[-1] == LABELS else LABELS
        self._not_enforced = 0 if self.policy_enforced else self._not_enforced + 1
        return (
            DRY_RUN_SECONDS
            if self.policy_enforced
            else min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(self._not_enforced - 1, 10))
        )

    def _spread(self) -> float:
        return self.rng.uniform(1.0, 1.0 + DRY_RUN_SPREAD)

    def _dry_run(self, ask: WriteRequest, rule: str) -> WriteOutcome:
        """Ask for what this rule must deny, and what the other policy does not know."""
        if rule == LABELS:
            labelled = node_patches.of_node(labels={FOREIGN_LABEL: "denied"})
            return ask("PATCH", f"{node_writing.path(self.access.node)}{DRY_RUN_QUERY}", labelled, MERGE)
        namespace = self.access.namespace
        return ask(
            "POST",
            f"{agent_lease.path(namespace)}{DRY_RUN_QUERY}",
            agent_lease.foreign_lease(namespace, FOREIGN_LEASE),
            JSON,
        )

    def post_event(self) -> None:
        """Send an Event. One that exists was sent before. One that may not be written is dropped."""
        with self.connected() as ask:
            answer = ask("POST", node_events.PATH, self.events[0], JSON)
        if node_writing.is_lost(answer):
            self._event.failed(clock.now(), answer.retry_after)
            return
        self._event.succeeded()
        self.events.popleft()
