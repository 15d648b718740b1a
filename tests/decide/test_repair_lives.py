"""Lives of a node in mode repair, drawn at random: kills at every point, a remediator that believes anything.

The remediator here refuses nothing: it runs whatever it is asked, so that each run that must not be is seen. A question
lies in its socket for up to nine seconds, also when the agent that sent it is dead. What the agent was shown is kept,
and each question to run is held against that by rules of this test's own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from nodeprep.agent_state import AgentState, NodeState
from nodeprep.decide import (
    gate_readiness,
    reconciliation,
    repair_approach,
    repair_attempt,
    repair_budget,
    repair_choice,
)
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.foreign_maintenance import RepairNode
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.decide.repair_approach import (
    ApproachAction,
    ApproachReport,
    FleetRead,
    NodeRead,
    PodsRead,
    RepairApproach,
    SlotAnswer,
)
from nodeprep.decide.repair_attempt import AttemptAction, LedgerSaved, RunAnswer, StatusAnswer
from nodeprep.decide.repair_choice import LastLook, RepairTerms
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Finding, Remedy, Status
from nodeprep.values import replace
from tests import cluster_values
from tests.agent_state_values import BOOT, check, checks, finding
from tests.repair_values import HEADERS, NOW, OWN, TAINT, UID, WALL, clock, fleet, node, slot

PORT, OTHER = "port.state", "module.core"
KNOWN = checks(check(PORT), check(OTHER))
RULES = AgentPolicy(KNOWN, (AssignedProfile("rdma-roce", (PORT, OTHER), gating=True, rdma=True),), Mode.REPAIR)
MEMLOCK = Remedy("memlock")  # S2: it asks for idle devices
TRAINS = cluster_values.pod(requests={"rdma/hca": 8})
IN_SOCKET_SECONDS = 9.0
Event = tuple[str, float]  # what happens, and a number for it
PLAY_SECONDS = 20.0


class World:
    """One node, its agent, its remediator and the API server. All that is not the agent is the truth."""

    def __init__(self) -> None:
        self.now = NOW
        self.last_look = LastLook()
        self.mode = Mode.REPAIR
        self.broken = {PORT: False, OTHER: False}
        self.mends = True
        self.taint_stays, self.trains, self.slot_holder = True, False, ""
        self.api_answers = self.disk_takes = self.remediator_lives = True
        self.tainted = False
        self.ids = 0
        # of the remediator: questions in its socket, what runs, how each ended, and how often each ran
        self.socket: list[tuple[float, str]] = []
        self.running: tuple[str, float] | None = None
        self.ended: dict[str, str] = {}
        self.runs: Counter[str] = Counter()
        # of the agent: its memory, what the disk has, its approach, what it was shown for which
        self.disk: AgentState | None = None
        self.approach: RepairApproach | None = None
        self.shown: dict[str, list[ApproachReport]] = {}
        self.to_send = ""
        self.convictions: dict[str, float] = {}
        self.memory = AgentState()
        self.start()
        self._settle()

    def start(self) -> None:
        self.memory = gate_readiness.state_at_start(self.disk, BOOT, UID, self.now)
        self.approach, self.to_send = None, ""

    def _settle(self) -> None:
        """Until the node is Ready."""
        for _ in range(4):
            self.pass_(16.0)
        assert self.memory.state is NodeState.READY

    # What happens beside the agent

    def happen(self, event: Event) -> None:
        """One event, and then all promises are held."""
        what, number = event
        HAPPENINGS[what](self, number)
        self.hold_promises()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.remediate()

    def second(self, *, saves: bool) -> None:
        self.advance(1.0)
        self.look(saves=saves)

    def kill_remediator(self) -> None:
        """All that it runs ends with it. What lies in its socket is lost."""
        if self.running is not None:
            self.ended[self.running[0]] = "interrupted"
        self.running, self.socket, self.remediator_lives = None, [], False

    def break_(self, which: str) -> None:
        self.broken[which] = True

    def take_taint_away(self, stays: float) -> None:
        self.taint_stays = bool(stays)
        self.tainted = self.tainted and self.taint_stays

    # The agent, as its wiring is to drive it: one thing at a time

    def pass_(self, seconds: float) -> None:
        """A round of the agent after so much time, and all that follows from it at once."""
        self.now += seconds
        self.remediate()
        self.look(saves=True)
        for _ in range(3):
            self.turn(saves=True)
        self.remediate()

    def look(self, *, saves: bool) -> None:
        found = (self._finding(PORT, Remedy("memlock")), self._finding(OTHER, Remedy("kernel_modules")))
        check = PORT if self.approach is None else self.approach.candidate.case.check
        failing = (one.subject for one in found if one.check == check and one.status is Status.FAIL)
        self.last_look = LastLook({Rdma: self.now}, frozenset(failing))
        fresh = dict.fromkeys(KNOWN, CheckObservation(self.now, self.now))
        observed = Observed(found, fresh, full_round=True, wall=self._wall)
        rules = replace(RULES, mode=self.mode)
        self.memory, told = reconciliation.reconcile(self.memory, observed, rules, self.now)
        self.tainted = bool(told.taints) and self.taint_stays
        if saves:
            self._save()
        for case in self.memory.cases:
            if case.convicted_at is not None:
                self.convictions[case.check] = case.convicted_at

    def _finding(self, which: str, remedy: Remedy) -> Finding:
        status = Status.FAIL if self.broken[which] else Status.OK
        return finding(which, status, remedy=remedy if self.broken[which] else None)

    def turn(self, *, saves: bool) -> None:
        if self.to_send:
            self._send()
        elif self.memory.attempt is not None:
            self._go_on()
        else:
            self._approach()
        if saves:
            self._save()

    def _approach(self) -> None:
        terms = self._terms
        choice = repair_choice.choose(self.memory, terms)
        if self.approach is None:
            if choice.candidate is not None:
                self.ids += 1
                self.approach = repair_approach.begun(f"{self.ids:032x}", choice.candidate, self.now)
            return
        self.approach = repair_approach.went_on(self.approach, choice, terms).approach
        if self.approach is None:
            return
        action, at = repair_approach.action(self.approach, terms)
        if action is ApproachAction.WRITE_LEDGER:
            begun = repair_attempt.begun(self.memory, self.approach, choice, terms)
            self.memory = self.memory if begun is None else begun
            self.approach = None
        elif at <= self.now and action is not ApproachAction.WAIT:
            report = self._answer(action)
            self.shown.setdefault(self.approach.id, []).append(report)
            self.approach = repair_approach.after(self.approach, report, self.memory, terms, OWN).approach

    def _answer(self, action: ApproachAction) -> ApproachReport:
        """What the API server says to the next question."""
        now, seen = self.now, self._node if self.api_answers else None
        if action is ApproachAction.READ_NODE:
            return NodeRead(now, seen)
        if action is ApproachAction.READ_NODE_AND_PODS:
            return PodsRead(now, seen, self._pods if self.api_answers else None)
        if action is ApproachAction.TELL_AND_LIST_FLEET:
            leases = fleet(slot(holder=self.slot_holder))
            return FleetRead(now, self.api_answers, leases if self.api_answers else None)
        return SlotAnswer(now, "nodeprep-slot-0", is_taken=self.api_answers and not self.slot_holder)

    def _go_on(self) -> None:
        result = repair_attempt.due(self.memory, self._terms)
        self.memory = result.state
        attempt = self.memory.attempt
        if attempt is None:
            return
        if result.action is AttemptAction.SAVE and attempt.step == "ledger":
            trouble = self._save()
            saved = repair_attempt.after(self.memory, LedgerSaved(attempt.id, trouble), self._terms)
            self.memory = saved.state
            if saved.action is AttemptAction.SEND_RUN:
                self.to_send = attempt.id
        elif result.action is AttemptAction.ASK_STATUS:
            self.memory = repair_attempt.after(self.memory, self._status(attempt.id), self._terms).state

    def _send(self) -> None:
        """The question leaves. A turn lies between this and the saving, in which a kill may come."""
        attempt_id, self.to_send = self.to_send, ""
        if not self.remediator_lives:
            self.memory = repair_attempt.after(self.memory, RunAnswer(attempt_id, sent=False), self._terms).state
            return
        self._hold(attempt_id)
        self.socket.append((self.now, attempt_id))

    def _status(self, attempt_id: str) -> StatusAnswer:
        if not self.remediator_lives:
            return StatusAnswer(attempt_id)
        if self.running is not None and self.running[0] == attempt_id:
            return StatusAnswer(attempt_id, "running")
        end = self.ended.get(attempt_id, "")
        return StatusAnswer(attempt_id, "done" if end else "unknown", end)

    def _save(self) -> str:
        if self.disk_takes:
            self.disk = self.memory
        return "" if self.disk_takes else "/var/lib/nodeprep: No space left on device"

    @property
    def _terms(self) -> RepairTerms:
        return RepairTerms(
            checks=KNOWN,
            gates=(PORT, OTHER),
            headers=HEADERS,
            clock=clock(self.now, self._wall),
            mode=self.mode,
            node=self._node,
            last_look=self.last_look,
            memory="" if self.disk_takes else "the disk is full",
        )

    @property
    def _wall(self) -> float:
        return WALL + self.now - NOW

    @property
    def _node(self) -> RepairNode:
        return node(taints=(TAINT,) if self.tainted else ())

    @property
    def _pods(self) -> tuple[Any, ...]:
        return (TRAINS,) if self.trains else ()

    # The remediator

    def remediate(self) -> None:
        if self.running is not None and self.now >= self.running[1]:
            attempt_id, _ = self.running
            self.running, self.ended[attempt_id] = None, "done"
            if self.mends:
                self.broken = dict.fromkeys(self.broken, False)
        while self.socket and self.running is None:
            sent, attempt_id = self.socket.pop(0)
            if self.now - sent <= IN_SOCKET_SECONDS:
                self.runs[attempt_id] += 1
                self.running = attempt_id, self.now + PLAY_SECONDS

    # What must hold

    def hold_promises(self) -> None:
        self.no_attempt_runs_twice()
        self.no_two_run_at_once()
        self.the_gate_is_closed_while_a_remedy_runs()
        self.the_gate_is_closed_until_the_case_was_judged()
        self.the_budget_holds()

    def _hold(self, attempt_id: str) -> None:
        """At the moment at which a question leaves: what was shown on its way allows it."""
        assert self.disk is not None
        assert self.disk.attempt is not None
        attempt = self.disk.attempt
        assert attempt.id == attempt_id, "the ledger has another attempt than the one that is asked for"
        reads = [one for one in self.shown[attempt_id] if isinstance(one, NodeRead) and _is_tainted(one.node)]
        lists = [one for one in self.shown[attempt_id] if isinstance(one, PodsRead) and _is_tainted(one.node)]
        last = lists[-1]
        assert any(last.began - one.began >= 10.0 for one in reads), "no ten seconds under the taint"
        assert last.pods == () or attempt.remedy == "kernel_modules", "a pod asks for the device"
        assert last.began - self.convictions[attempt.check] >= 30.0, "the conviction is too young"
        assert attempt.wall - WALL + NOW - last.began <= 30.0, "the list of pods is too old"
        slots = [one for one in self.shown[attempt_id] if isinstance(one, SlotAnswer)]
        assert slots[-1].is_taken, "no slot"
        assert slots[-1].began >= last.began

    def no_attempt_runs_twice(self) -> None:
        assert all(times <= 1 for times in self.runs.values()), self.runs

    def no_two_run_at_once(self) -> None:
        waiting = {attempt_id for sent, attempt_id in self.socket if self.now - sent <= IN_SOCKET_SECONDS}
        assert len(waiting | ({self.running[0]} if self.running else set())) <= 1

    def the_gate_is_closed_while_a_remedy_runs(self) -> None:
        if self.running is not None:
            assert self.memory.attempt is not None
            assert self.memory.state is not NodeState.READY

    def the_gate_is_closed_until_the_case_was_judged(self) -> None:
        assert self.memory.attempt is None or self.memory.state is not NodeState.READY

    def the_budget_holds(self) -> None:
        today = Counter(repair_budget.fault(one) for one in self.memory.attempts if one.outcome != "refused")
        assert all(times <= 3 for times in today.values()), today

    def end_well(self, *, mends: bool = True) -> None:
        """When all is well again, no attempt is left over, and the node is Ready or calls a human for a spent fault.

        Without `mends` the playbook goes on to lie: it ends well and changes nothing.
        """
        self.taint_stays = self.api_answers = self.disk_takes = self.remediator_lives = True
        self.mends = mends
        self.trains, self.slot_holder, self.mode = False, "", Mode.REPAIR
        for _ in range(120):
            self.pass_(16.0)
            self.the_budget_holds()
            if self.memory.state is NodeState.READY and self.approach is None:
                break
        assert self.memory.attempt is None
        if any(case.latched for case in self.memory.cases):  # it came and went three times
            assert self.memory.state is NodeState.AWAITING_HUMAN, self.memory.why
            return
        spent = [case for case in self.memory.cases if self.broken[case.check] and case.convicted]
        assert self.memory.state is (NodeState.AWAITING_HUMAN if spent else NodeState.READY), self.memory.why
        told = clock(self.now, self._wall)
        assert all(repair_budget.budget(self.memory, case, RULES.repair, told).spent for case in spent)


def _is_tainted(seen: RepairNode | None) -> bool:
    return seen is not None and TAINT in seen.taints


# What may happen, each with a number for it.
HAPPENINGS: dict[str, Callable[[World, float], object]] = {
    "turn": lambda world, saves: world.turn(saves=bool(saves)),
    "second": lambda world, saves: world.second(saves=bool(saves)),
    "pass": lambda world, seconds: world.pass_(seconds),
    "hear": lambda world, _: world.remediate(),
    "kill agent": lambda world, _: world.start(),
    "kill remediator": lambda world, _: world.kill_remediator(),
    "remediator": lambda world, _: setattr(world, "remediator_lives", True),
    "break": lambda world, other: world.break_(OTHER if other else PORT),
    "heal": lambda world, _: world.broken.update(dict.fromkeys(world.broken, False)),
    "mends": lambda world, mends: setattr(world, "mends", bool(mends)),
    "taint": lambda world, stays: world.take_taint_away(stays),
    "trains": lambda world, trains: setattr(world, "trains", bool(trains)),
    "slot": lambda world, taken: setattr(world, "slot_holder", "n2" if taken else ""),
    "api": lambda world, answers: setattr(world, "api_answers", bool(answers)),
    "disk": lambda world, takes: setattr(world, "disk_takes", bool(takes)),
    "mode": lambda world, number: setattr(world, "mode", (Mode.REPAIR, Mode.GATE, Mode.OBSERVE)[int(number)]),
}
# The agent works most of the time: a repair takes some forty of these.
COMMON: list[Event] = [*[("turn", 1.0)] * 14, *[("turn", 0.0)] * 4, *[("second", 1.0)] * 10, ("second", 0.0)]
COMMON += [("hear", 0.0)] * 4 + [("pass", 11.0)] * 4 + [("pass", 31.0), ("pass", 130.0)]
RARE: list[Event] = [("kill agent", 0.0), ("kill agent", 0.0), ("kill remediator", 0.0), *[("remediator", 0.0)] * 2]
RARE += [("break", 0.0), ("break", 0.0), ("break", 1.0), ("heal", 0.0), ("mends", 0.0), ("mends", 1.0)]
RARE += [("taint", 0.0), ("taint", 1.0), ("taint", 1.0), ("trains", 1.0), ("trains", 0.0), ("trains", 0.0)]
RARE += [("slot", 1.0), ("slot", 0.0), ("slot", 0.0), ("api", 0.0), ("api", 1.0), ("api", 1.0)]
RARE += [("disk", 0.0), ("disk", 1.0), ("disk", 1.0), ("mode", 0.0), ("mode", 0.0), ("mode", 1.0), ("mode", 2.0)]
LIVES = 400  # the rarest planted fault shows within some 200


def test_no_life_of_a_node_breaks_a_promise() -> None:
    """Each begins with a fault that is believed since a moment. A violation names the seed of its life."""
    ran: Counter[str] = Counter()
    for seed in range(LIVES):
        events, world = drawn(seed), World()
        try:
            for event in events:
                world.happen(event)
            world.end_well(mends=seed % 8 > 0)
        except AssertionError as broken:
            pytest.fail(f"life {seed}: {broken}\n{events}")
        ran.update(f"{end}" for end in world.ended.values())
        ran.update(one.outcome for one in world.memory.attempts)
        ran.update({"runs": sum(world.runs.values())})
    assert ran["runs"] > LIVES
    assert min(ran["released"], ran["unreleased"], ran["refused"], ran["interrupted"]) > 0, ran


def drawn(seed: int) -> list[Event]:
    rng = random.Random(seed)
    size = rng.randint(40, 120)
    return [("break", 0.0), ("pass", 1.0), ("pass", 1.0), ("pass", 25.0)] + [
        rng.choice(COMMON if rng.random() < 0.85 else RARE) for _ in range(size)
    ]


KILLS = ["approach", "ledger", "saved", "asked", "running", "validating"]


@pytest.mark.parametrize("where", KILLS)
@pytest.mark.parametrize("whom", ["agent", "remediator", "both"])
@pytest.mark.parametrize("saves", [True, False])
def test_a_kill_at_each_step_loses_nothing_and_doubles_nothing(where: str, whom: str, *, saves: bool) -> None:
    """Without `saves` the disk has nothing newer than what the ledger wrote before the question left."""
    world = World()
    world.broken[PORT] = True
    for _ in range(400):
        attempt = world.memory.attempt
        stands = ("approach" if world.approach else "") if attempt is None else attempt.step
        if (where == "saved" and world.to_send) or (where == stands and not world.to_send):
            break
        world.second(saves=saves)
        world.turn(saves=saves)
    else:
        pytest.fail(f"it never came to {where}")
    if whom != "agent":
        world.kill_remediator()
        world.remediator_lives = True
    if whom != "remediator":
        world.start()
    world.end_well()
    world.hold_promises()
    assert world.memory.state is NodeState.READY
    assert sum(world.runs.values()) <= 2
