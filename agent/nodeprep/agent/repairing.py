"""Repairs of this node: the loop's thread decides, a call beside it asks, and what it answers is decided about.

What is decided stands in decide/: `repair_choice` says which remedy, `repair_approach` the steps before anything acts,
`repair_attempt` those of the attempt. Nothing here decides but in which order questions are asked: the attempt first,
then what this node holds of the fleet's, then the approach.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from random import Random
from uuid import uuid4

from nodeprep.agent.reconciler import Reconciler
from nodeprep.agent.serial_executor import CallBroke, SerialExecutor
from nodeprep.agent_state import AgentState, RepairAttempt
from nodeprep.config import remedy_files
from nodeprep.decide import (
    active_faults,
    attempt_steps,
    fleet_notes,
    repair_approach,
    repair_attempt,
    repair_budget,
    repair_choice,
    repair_gate,
    repair_refusal,
    repair_slots,
)
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.gate_readiness import Mode
from nodeprep.decide.remedy_header import RemedyHeader
from nodeprep.decide.repair_approach import (
    ApproachAction,
    ApproachOutcome,
    ApproachReport,
    FleetRead,
    NodeRead,
    PodsRead,
    RepairApproach,
    SlotAnswer,
)
from nodeprep.decide.repair_attempt import AttemptAction, LedgerSaved, RunAnswer, StatusAnswer
from nodeprep.decide.repair_choice import CandidateKey, LastLook, RepairChoice, RepairTerms
from nodeprep.decide.repair_refusal import Suppression, SuppressionReason
from nodeprep.doors import clock
from nodeprep.publish import log_lines
from nodeprep.publish.log_lines import LogEntry
from nodeprep.publish.publisher import Publisher
from nodeprep.publish.repair_requests import RepairRequests, SlotKept, SlotReturned
from nodeprep.publish.repair_status import RepairStatus
from nodeprep.repair import remediator_client
from nodeprep.repair.remediator_client import NoRemediator, RemediatorClient
from nodeprep.values import Value, replace

LOGGER = logging.getLogger("nodeprep")
GREETING_SECONDS = 30.0  # seconds for which an answer of the remediator, or its silence, counts
TRY_AGAIN_SECONDS = 10.0  # seconds until a Lease is asked for again that could not be read or written


class Greeting(Value):
    """Whether a remediator of our version answers: "" or why not."""

    trouble: str


class Repairing:
    """The repairs of one agent. Only the loop's thread calls it.

    `requests` ask the API server, None without access to one: then no gate is ever confirmed and nothing runs.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        requests: RepairRequests | None,
        remediator: RemediatorClient,
        wake: Callable[[], None],
        *,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self._reconciler, self._requests, self._remediator, self._new_id = reconciler, requests, remediator, new_id
        self._calls = SerialExecutor(wake)
        self._approach: RepairApproach | None = None
        self._read: RepairNode | None = None  # the Node, by our own last read of this approach
        self._stopped: dict[CandidateKey, Suppression] = {}
        self._times: dict[CandidateKey, tuple[SuppressionReason, int]] = {}  # how often in a row, for the same reason
        self._share = Random(requests.access.node if requests is not None else "").random()  # noqa: S311 - spreads a fleet
        self._trying: dict[str, float] = {}
        self._greeted_at, self._silent = -inf, ""
        self._asked_at = self._lease_at = -inf  # when the status was asked for, and a Lease
        self._broke, self._broke_at = "", -inf
        self._shown: dict[tuple[str, str], Suppression] = {}
        self._counts: Counter[str] = Counter()
        self.due_at = inf  # when there is something to do that nobody announces (CLOCK_BOOTTIME seconds)

    def turn(self, node: RepairNode | None) -> bool:
        """Go on. `node` is the Node as the publisher last read it. Whether the agent state or what is told changed."""
        before, told = self._state, self._reconciler.repair
        terms = self._terms(node)
        for report in self._calls.reports():
            self._hear(report, terms)
            terms = self._terms(node)
        choice = repair_choice.choose(self._state, terms)
        wanted = {repair_choice.key_of(*one) for one in repair_choice.wanted(self._state, terms)}
        self._stopped = {key: one for key, one in self._stopped.items() if key in wanted}
        self._times = {key: one for key, one in self._times.items() if key in wanted}
        if self._state.attempt is not None:
            self._attend(terms)
        else:
            self._go_on(choice, terms)
        self._say(terms)
        if not self._calls.busy and (call := self._next_call(choice, terms)) is not None:
            self._calls.submit(call)
        self._reconciler.repair = self._status(choice, terms)
        self._reconciler.before_repair = repair_approach.wanted_facts(self._approach, terms)
        self.due_at = self._due_at(terms)
        return self._state is not before or self._reconciler.repair != told

    # What is known.

    @property
    def _state(self) -> AgentState:
        return self._reconciler.agent_state

    @property
    def _limit(self) -> float:
        """`readiness.validation-limit` in seconds."""
        return self._reconciler.settings.agent.readiness.validation_limit

    def _set(self, state: AgentState) -> None:
        """The agent state is another one. What must not be lost is saved before anybody is told."""
        reconciler, before = self._reconciler, self._state
        if state is before:
            return
        reconciler.agent_state = state
        attempt = state.attempt
        if attempt is not None and attempt_steps.is_validating(state) and not attempt_steps.is_validating(before):
            # Counters of a device that was just bound anew begin at 0, and links that a play took down are no flaps.
            reconciler.latest.forget_rates(clock.now(), (attempt.check, *attempt.disturbs))
        reconciler.state_writer.keep(state, clock.now())

    def _terms(self, node: RepairNode | None) -> RepairTerms:
        reconciler = self._reconciler
        own = reconciler.settings.agent
        seen, now = self._read if self._read is not None else node, clock.now()
        return RepairTerms(
            checks=reconciler.checks,
            gates=reconciler.gates(),
            headers=self._headers(own.mode),
            clock=reconciler.budget_clock(),
            mode=own.mode,
            gate=own.gate,
            policy=reconciler.waits.shorten(own.repair),
            waits=reconciler.waits,
            remedy_after=own.readiness.remedy_after,
            node=seen,
            families=reconciler.driver_owners({} if seen is None else seen.labels),
            drill=reconciler.drill,
            stopped=self._stopped,
            memory=reconciler.memory_trouble,
            remediator=self._silent or (self._broke if now < self._broke_at + GREETING_SECONDS else ""),
            taint=self._taint_hindrance(own.gate),
            last_look=self._last_look(),
            approached=None if self._approach is None else self._approach.candidate.key,
        )

    def _last_look(self) -> LastLook:
        """At the fault that is approached. Of others nobody asks."""
        latest, approach = self._reconciler.latest, self._approach
        return LastLook() if approach is None else latest.last_look(approach.candidate.case.check)

    def _taint_hindrance(self, gate: GatePolicy) -> str:
        status = self._reconciler.status
        if status is None:
            return ""
        return status.desired.taint_hindrance or repair_gate.ungated(status.desired.profiles, gate)

    def _headers(self, mode: Mode) -> Mapping[str, RemedyHeader]:
        """Reading them costs; only mode repair asks for them."""
        return remedy_files.headers() if mode is Mode.REPAIR else {}

    # What calls came to.

    def _hear(self, report: object, terms: RepairTerms) -> None:
        match report:
            case NodeRead() | PodsRead() | FleetRead() | SlotAnswer():
                self._hear_approach(report, terms)
            case RunAnswer() | StatusAnswer():
                self._set(repair_attempt.after(self._state, report, terms).state)
            case SlotKept(is_kept=True):
                self._set(repair_attempt.with_renewed_slot(self._state, report.began))
            case SlotKept():
                lost = LogEntry("slot-trouble", {"slot": report.name, "message": report.failure}, warning=True)
                log_lines.tell([lost], LOGGER)
            case SlotReturned(is_returned=True):
                self._set(replace(self._state, slot="") if self._state.slot == report.name else self._state)
            case Greeting():
                self._silent, self._greeted_at = report.trouble, terms.clock.now
        if isinstance(report, CallBroke):
            self._broke, self._broke_at = f"a fault of nodeprep's own: {report.why}", terms.clock.now

    def _hear_approach(self, report: ApproachReport, terms: RepairTerms) -> None:
        if isinstance(report, NodeRead | PodsRead) and report.node is not None:
            self._read = report.node
        if self._approach is not None and self._requests is not None:
            node = self._requests.access.node
            self._accept(repair_approach.after(self._approach, report, self._state, terms, node))

    def _accept(self, outcome: ApproachOutcome) -> None:
        """The approach as it is now. Where it is given up, others have their turn, and its slot is given back."""
        if outcome.suppressed is not None and self._approach is not None:
            self._stop(self._approach.candidate.key, outcome.suppressed)
        self._approach = outcome.approach
        if self._approach is None:
            self._read = None
        if outcome.give_back:
            self._set(replace(self._state, slot=outcome.give_back))
        if outcome.held:
            self._set(replace(self._state, held={**self._state.held, **outcome.held}))

    def _stop(self, key: CandidateKey, why: Suppression) -> None:
        """Others have their turn, for longer each time: who waits asks the API server for pods and Leases."""
        last = self._times.get(key)
        times = last[1] + 1 if last is not None and last[0] is why.reason else 1
        self._times[key] = why.reason, times
        wait = self._reconciler.waits.retry * repair_refusal.waits(why.reason, times, self._share)
        self._stopped[key] = replace(why, until=clock.now() + wait)

    # What is to be done.

    def _go_on(self, choice: RepairChoice, terms: RepairTerms) -> None:
        """Begin an approach, or go on with it as time goes by."""
        candidate = choice.candidate
        if self._approach is None:
            if candidate is not None and self._requests is not None and self._is_greeted(terms):
                self._stopped.pop(candidate.key, None)
                self._approach = repair_approach.begun(self._new_id(), candidate, terms.clock.now)
            return
        outcome = repair_approach.went_on(self._approach, choice, terms)
        self._accept(outcome)
        approach = outcome.approach
        if approach is not None and repair_approach.is_ready(approach, terms) and not self._calls.busy:
            self._begin(approach, choice, terms)

    def _begin(self, approach: RepairApproach, choice: RepairChoice, terms: RepairTerms) -> None:
        """Write the attempt into the ledger. The question to run leaves here, once, where it is saved."""
        state = repair_attempt.begun(self._state, approach, choice, terms)
        self._approach, self._read = None, None
        if state is None or state.attempt is None:
            self._set(replace(self._state, slot=approach.slot.name))
            return
        reconciler = self._reconciler
        reconciler.agent_state = state
        reconciler.state_writer.save(state, terms.clock.now)
        saved = LedgerSaved(state.attempt.id, reconciler.state_writer.trouble)
        result = repair_attempt.after(state, saved, terms)
        self._set(result.state)
        if result.action is AttemptAction.SEND_RUN and result.state.attempt is not None:
            self._asked_at = terms.clock.now
            begin_by = terms.clock.now + terms.waits.unknown
            self._calls.submit(partial(self._remediator.begin, result.state.attempt, begin_by))

    def _attend(self, terms: RepairTerms) -> None:
        """The attempt as time goes by."""
        self._approach, self._read = None, None
        self._set(repair_attempt.due(self._state, terms).state)

    def _next_call(self, choice: RepairChoice, terms: RepairTerms) -> Callable[[], object] | None:
        """The next question, the most important first."""
        return self._of_attempt(terms) or self._of_fleet(terms) or self._of_approach(choice, terms)

    def _of_attempt(self, terms: RepairTerms) -> Callable[[], object] | None:
        attempt, now = self._state.attempt, terms.clock.now
        if attempt is None:
            return None
        if (
            self._requests is not None
            and self._may_ask_lease(now)
            and repair_attempt.renews_slot(attempt, now, self._limit)
        ):
            self._lease_at = now
            return partial(self._requests.keep, attempt.slot, repair_slots.duration(attempt.deadline))
        asks = repair_attempt.due(self._state, terms).action is AttemptAction.ASK_STATUS
        if not asks or now < self._asked_at + repair_attempt.STATUS_PERIOD_SECONDS:
            return None
        self._asked_at = now
        return partial(self._remediator.status, attempt.id)

    def _of_fleet(self, terms: RepairTerms) -> Callable[[], object] | None:
        """A slot that is needed no more, and a note that others are to read soon."""
        now, requests = terms.clock.now, self._requests
        if requests is None or not self._may_ask_lease(now):
            return None
        slot = repair_attempt.slot_to_give_back(self._state)
        if slot and (self._approach is None or self._approach.slot.name != slot):
            self._lease_at = now
            return partial(requests.give_back, slot)
        if _says_other(requests.note.told, requests.note.text):
            self._lease_at = now
            return requests.tell
        return None

    def _of_approach(self, choice: RepairChoice, terms: RepairTerms) -> Callable[[], object] | None:
        requests, approach = self._requests, self._approach
        if requests is None or self._state.attempt is not None:
            return None
        if approach is None:
            wants = choice.candidate is not None or bool(self._silent and choice.suppressed)
            return self._greet if wants and not self._is_greeted(terms) else None
        action, at = repair_approach.action(approach, terms)
        if at > terms.clock.now:
            return None
        match action:
            case ApproachAction.READ_NODE:
                return requests.node
            case ApproachAction.READ_NODE_AND_PODS:
                return requests.node_and_pods
            case ApproachAction.TELL_AND_LIST_FLEET:
                return requests.fleet
            case ApproachAction.TAKE_SLOT:
                seconds = repair_slots.duration(repair_approach.deadline(approach, terms))
                return partial(requests.take, approach.slot, seconds)
        return None

    def _due_at(self, terms: RepairTerms) -> float:
        if self._calls.busy:
            return inf  # its end wakes the loop
        if attempt_steps.is_running(self._state):
            return self._asked_at + repair_attempt.STATUS_PERIOD_SECONDS
        if self._approach is None or self._state.attempt is not None:
            return inf
        return repair_approach.action(self._approach, terms)[1]

    def _greet(self) -> Greeting:
        try:
            self._remediator.require()
        except NoRemediator as none:
            return Greeting(str(none))
        return Greeting("")

    def _is_greeted(self, terms: RepairTerms) -> bool:
        return terms.clock.now - self._greeted_at < GREETING_SECONDS

    def _may_ask_lease(self, now: float) -> bool:
        return now >= self._lease_at + TRY_AGAIN_SECONDS

    # What others hear.

    def _say(self, terms: RepairTerms) -> None:
        """The note for other agents. Only who repairs has anything to say."""
        if self._requests is None:
            return
        state, attempt, approach = self._state, self._state.attempt, self._approach
        if attempt is not None:
            self._trying = {attempt.remedy: fleet_notes.UNDER_WAY}
        elif approach is not None and approach.pods_at is not None:
            remedy = approach.candidate.remedy.playbook
            self._trying = {remedy: self._trying.get(remedy, terms.clock.wall)}
        else:
            self._trying = {}
        if terms.mode is not Mode.REPAIR and attempt is None:
            self._requests.note.text = ""
            return
        convicted = active_faults.convictions(state, terms.gates, terms.clock.now)
        faults = active_faults.roots(convicted, terms.checks, terms.drill)
        said = fleet_notes.note(state, faults, repair_slots.is_serving(state), self._trying, terms.clock)
        self._requests.note.text = fleet_notes.text(said)

    def _status(self, choice: RepairChoice, terms: RepairTerms) -> RepairStatus:
        approach, attempt = self._approach, self._state.attempt
        shown = {(one.check, one.remedy): one for one in reversed(choice.suppressed)}  # the first of several counts
        if approach is not None:
            key = approach.candidate.case.check, approach.candidate.remedy.playbook
            known = self._shown.get(key)
            if known is not None:  # until it comes further than the last time
                shown[key] = known
        for key, one in shown.items():
            if key not in self._shown or self._shown[key].reason is not one.reason:
                self._counts[one.reason] += 1
        self._shown = shown
        remedy, check, step = _on_its_way(approach, attempt)
        return RepairStatus(
            remedy=remedy,
            check=check,
            step=step,
            is_retry=(check, remedy) in shown,
            suppressions=tuple(shown.values()),
            suppressed=dict(self._counts),
            tries_left=self._tries_left(terms),
        )

    def _tries_left(self, terms: RepairTerms) -> Mapping[tuple[str, str], int]:
        """Of several faults of one check, the fewest."""
        found: dict[tuple[str, str], int] = {}
        for case, remedy in repair_choice.wanted(self._state, terms) if terms.mode is Mode.REPAIR else ():
            budget = repair_budget.budget(self._state, case, terms.policy, terms.clock)
            left, key = 0 if budget.spent else terms.policy.tries - budget.tries, (case.check, remedy.playbook)
            found[key] = min(left, found.get(key, left))
        return found


def of(reconciler: Reconciler, publisher: Publisher | None, wake: Callable[[], None]) -> Repairing:
    """The repairs of an agent, by the remediator of this node; beside a publisher, both write the same note."""
    requests = None if publisher is None else RepairRequests(publisher.access, publisher.note)
    return Repairing(reconciler, requests, RemediatorClient(remediator_client.socket_path()), wake)


def _on_its_way(approach: RepairApproach | None, attempt: RepairAttempt | None) -> tuple[str, str, str]:
    if attempt is not None:
        return attempt.remedy, attempt.check, attempt_steps.step_of(attempt).value
    if approach is not None:
        return approach.candidate.remedy.playbook, approach.candidate.case.check, approach.step.value
    return "", "", ""


def _says_other(told: str, text: str) -> bool:
    """Whether a note names other faults or remedies than the one that is there. Its times alone can wait."""
    before, now = fleet_notes.parsed(told or None), fleet_notes.parsed(text or None)
    return any(set(getattr(before, part)) != set(getattr(now, part)) for part in fleet_notes.PARTS)
