"""Thousands of random histories of a node: none may open a gate without its passes.

    python tests/histories.py [--count N] [--seed S]

A history is a list of events: looks at checks, fresh or stale, with any result; restarts with the state file kept,
lost, damaged or replaced by an older copy; boots, clock steps, upgrades, resets, and changes of mode and profile. It is
played through `state_at_start` and `reconcile`. Beside them a plain model, which shares no code with them, computes
what may be believed. Prints how many were played and what happened in them. Exits 1 with the shortest form of the first
violation.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from nodeprep.agent_state import AgentState, NodeState, RepairAttempt
from nodeprep.decide import attempt_steps, fault_confirmation, gate_readiness, reconciliation, rule_change
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.desired import Desired
from nodeprep.decide.gate_readiness import AssignedProfile, Mode
from nodeprep.decide.reconciliation import AgentPolicy, Observed
from nodeprep.model import Confirmation, Remedy, Stage, Status
from nodeprep.values import Struct, field, replace
from tests.agent_state_values import attempt, check, checks, finding

K = TypeVar("K")
Key = tuple[str, int]  # a check and a port: a column of a look
Event = tuple[str, float, str, str]  # the kind, a number for it, results by column, freshness by check

STATE, BOOKS, SOFT, KLOG = "port.state", "eni.addresses", "counter.transport", "klog.nic"
ALL = checks(
    check(STATE),
    check(BOOKS, confirmation=Confirmation.RECORDS, stage=Stage.NODE),
    check(SOFT, confirmation=Confirmation.SLOW, after=(STATE,)),
    check(KLOG, confirmation=Confirmation.LATCHED),
)
RESULTS = {"o": Status.OK, "w": Status.WARN, "f": Status.FAIL, "u": Status.UNKNOWN, "a": Status.ABSENT}
LINK_UP = Remedy("link_up", {"interface": "eth2"})
MODES = tuple(Mode)


class World:
    """The checks of one history, their possible results, and the profiles that name them. The first has two ports."""

    def __init__(self, first: str, second: str) -> None:
        self.ids = (first, second)
        self.columns: tuple[Key, ...] = ((first, 1), (first, 2), (second, 1))
        self.said = {
            (column, letter): finding(
                check_id,
                status,
                port=port,
                observed="same",
                remedy=LINK_UP if check_id == STATE and status is Status.FAIL else None,
            )
            for column, (check_id, port) in enumerate(self.columns)
            for letter, status in RESULTS.items()
        }
        self.profiles: tuple[tuple[AssignedProfile, ...], ...] = (
            (AssignedProfile("rdma-roce", self.ids, gating=True, rdma=True),),
            (
                AssignedProfile("rdma-roce", (first,), gating=True, rdma=True),
                AssignedProfile("tcp", (second,), gating=False, rdma=False),
            ),
            (AssignedProfile("rdma", self.ids, gating=False, rdma=True),),
            (AssignedProfile("rdma-roce", self.ids, gating=True, rdma=True, refusal="no baseline"),),
            (
                AssignedProfile("rdma-roce", self.ids, gating=True, rdma=True),
                AssignedProfile("rdma", (first,), gating=False, rdma=True, refusal="no baseline"),
            ),
            (),
        )
        known = {one: ALL[one] for one in self.ids}
        self.rules = {
            (mode, at): AgentPolicy(known, some, mode) for mode in MODES for at, some in enumerate(self.profiles)
        }


WORLDS = (World(STATE, BOOKS), World(STATE, SOFT), World(BOOKS, SOFT), World(STATE, KLOG))
INTOLERANT = finding("plugin.tolerates-gate", Status.FAIL)
TOLERANT = finding("plugin.tolerates-gate", Status.OK)
# Of a check that no history has: how a remedy and looks at its own case go together, test_repair_lives.py plays.
REPAIRS: tuple[RepairAttempt | None, ...] = (
    None,
    *(attempt(step, check="module.core", disturbs=()) for step in ("ledger", "asked", "running", "validating", "odd")),
)
ALL_WELL, ALL_FRESH = "ooo", "ff"

# Design 3.2, in numbers of this model's own.
IN_A_ROW = {STATE: (2, 0.5), BOOKS: (2, 15.0), KLOG: (1, 0.0)}
SPAN, PASSES, WINDOW, TURNS, SPARED = 30.0, 3, 1800.0, 3, 600.0
EPSILON = 1e-6


class Violation(Exception):
    """Something happened that must never happen."""


def need(holds: object, what: str) -> None:
    if not holds:
        raise Violation(what)


class Row(Struct):
    """Looks in a row with the same result: how many, when the first of them began and ended."""

    count: int = 0
    began: float = 0.0
    ended: float = 0.0

    def longer(self, began: float, ended: float) -> None:
        if not self.count:
            self.began, self.ended = began, ended
        self.count += 1


class Truth(Struct):
    """What may be believed, computed simply from the looks of this boot that the agent state has."""

    clean: defaultdict[str, Row] = field(default_factory=lambda: defaultdict(Row))
    proven: set[str] = field(default_factory=set)
    last: dict[Key, str] = field(default_factory=dict)
    fails: defaultdict[Key, Row] = field(default_factory=lambda: defaultdict(Row))
    passes: defaultdict[Key, Row] = field(default_factory=lambda: defaultdict(Row))
    recent: dict[Key, tuple[bool, ...]] = field(default_factory=dict)
    released: dict[Key, tuple[float, ...]] = field(default_factory=dict)
    convicted: frozenset[Key] = frozenset()
    latched: frozenset[Key] = frozenset()
    rules_changed_at: float = -1e9

    def copied(self) -> Truth:
        def rows(of: Mapping[K, Row]) -> defaultdict[K, Row]:
            return defaultdict(Row, {key: replace(row) for key, row in of.items()})

        return replace(
            self,
            clean=rows(self.clean),
            proven=set(self.proven),
            last=dict(self.last),
            fails=rows(self.fails),
            passes=rows(self.passes),
            recent=dict(self.recent),
            released=dict(self.released),
        )

    def look(self, check_id: str, said: dict[Key, str], began: float, ended: float) -> None:
        self.last.update(said)
        row = self.clean[check_id]
        if not {"f", "u"}.isdisjoint(said.values()):
            self.clean[check_id] = Row()
        else:
            row.longer(began, ended)
            if row.count >= PASSES and ended - row.began >= SPAN - EPSILON:
                self.proven.add(check_id)
        for key, letter in said.items():
            self._judge(key, letter, began, ended)

    def _judge(self, key: Key, letter: str, began: float, ended: float) -> None:
        if letter == "u":
            self.passes[key] = Row()
            return
        failed = letter == "f"
        self.recent[key] = (*self.recent.get(key, ()), failed)[-5:]
        (self.fails if failed else self.passes)[key].longer(began, ended)
        (self.passes if failed else self.fails)[key] = Row()

    def may_convict(self, key: Key, ended: float) -> bool:
        """Whether this failed look may convict."""
        if key[0] == SOFT:
            return sum(self.recent.get(key, ())) >= 3
        count, apart = IN_A_ROW[key[0]]
        row = self.fails[key]
        return row.count >= count and ended - row.began >= apart - EPSILON

    def must_convict(self, key: Key, began: float) -> bool:
        row = self.fails[key]
        count, apart = (3, 60.0) if key[0] == SOFT else IN_A_ROW[key[0]]
        return row.count >= count and began - row.ended >= apart + EPSILON

    def may_release(self, key: Key, ended: float) -> bool:
        row = self.passes[key]
        return row.count >= PASSES and ended - row.began >= SPAN - EPSILON


class Node(Struct):
    """A node, the agent state, and the truth."""

    world: World
    now: float = 50.0
    boot: int = 1
    uid: int = 1
    mode: Mode = Mode.GATE
    profile: int = 0
    tolerant: bool = True
    agent_state: AgentState = field(default_factory=AgentState)
    truth: Truth = field(default_factory=Truth)
    older: tuple[AgentState, Truth, int, int] | None = None
    standing: str = "aaa"
    met: set[str] = field(default_factory=set)


def play(world: World, events: list[Event]) -> set[str]:
    """Play a history. Returns what happened in it. Raises Violation."""
    node = Node(world)
    _start(node, None, Truth())
    for what, number, results, fresh in events:
        _happen(node, what, number, results, fresh)
    return node.met


def _happen(node: Node, what: str, number: float, results: str, fresh: str) -> None:
    if what == "look":
        _look(node, number, results, fresh)
    elif what in UNHEARD:
        _alter(node, what, number)
    else:
        _restart(node, what, number)
        _think(node, frozenset(), node.now, node.now)


def _alter(node: Node, what: str, number: float) -> None:
    """Make a change that the agent notices with its next look."""
    if what == "step":
        node.now += number
    elif what == "mode":
        node.mode = MODES[int(number) % len(MODES)]
    elif what == "profile":
        node.profile = int(number) % len(node.world.profiles)
    elif what == "repair":
        given = REPAIRS[int(number) % len(REPAIRS)]
        own = given and replace(given, boot_id=node.agent_state.boot_id, step_since=node.now, heard_at=node.now)
        node.agent_state = replace(node.agent_state, attempt=own)
    elif what == "tolerant":
        node.tolerant = not node.tolerant
    elif what == "copy":
        node.older = (node.agent_state, node.truth.copied(), node.boot, node.uid)


def _restart(node: Node, what: str, number: float) -> None:
    if what == "kept":
        _start(node, node.agent_state, node.truth)
    elif what == "upgrade":
        _start(node, node.agent_state, node.truth, version=f"{number}")
    elif what == "reset":
        node.agent_state, node.truth = (
            fault_confirmation.reset(node.agent_state, node.now),
            Truth(rules_changed_at=node.truth.rules_changed_at),
        )
    elif what == "older" and node.older is not None:
        agent_state, truth, boot, uid = node.older
        same = (boot, uid) == (node.boot, node.uid)
        other = _of_another_node(truth) if boot == node.boot else Truth()
        _start(node, agent_state, truth.copied() if same else other, closed=not same)
    elif what == "damaged":
        _start(node, _damaged(node.agent_state, int(number), node.now), Truth(), closed=True)
    elif what == "boot":
        node.boot += 1
        node.now = 20.0 if number % 2 else node.now  # the state file's times may lie before or after the new clock's
        _start(node, node.agent_state, Truth(), closed=True)
    elif what == "node":
        node.uid += 1
        _start(node, node.agent_state, _of_another_node(node.truth), closed=True)
    else:
        _start(node, None, Truth(), closed=True)


def _of_another_node(truth: Truth) -> Truth:
    """Of another Node object in the same boot nothing is proven, and what was latched is."""
    return Truth(convicted=truth.latched, latched=truth.latched)


def _damaged(agent_state: AgentState, number: int, now: float) -> AgentState:
    later = now + 1000.0
    return (
        replace(agent_state, at=later),
        replace(agent_state, since=later),
        replace(agent_state, rules_changed_at=later),
        replace(agent_state, boot_id=""),
    )[number % 4]


def _start(
    node: Node, agent_state: AgentState | None, truth: Truth, *, closed: bool = False, version: str = "1"
) -> None:
    began = gate_readiness.state_at_start(agent_state, f"boot-{node.boot}", f"uid-{node.uid}", node.now)
    if closed or agent_state is None:
        need(began.state is NodeState.BOOTSTRAP, f"a start without a memory of this boot begins in {began.state}")
    if began.version and began.version != version:
        truth.rules_changed_at = node.now
    node.agent_state, node.truth = rule_change.after_rule_change(began, version, "", node.now), truth


def _look(node: Node, pause: float, results: str, fresh: str) -> None:
    began, ended = node.now + pause, node.now + pause + 0.1
    node.now = ended
    looked = frozenset(one for one, letter in zip(node.world.ids, fresh, strict=True) if letter == "f")
    # A check without a fresh look has any drawn finding. It must not matter.
    node.standing = results
    for one in looked:
        said = {key: letter for key, letter in zip(node.world.columns, results, strict=True) if key[0] == one}
        node.truth.look(one, said, began, ended)
    _think(node, looked, began, ended)


def _think(node: Node, looked: frozenset[str], began: float, ended: float) -> None:
    findings = [node.world.said[pair] for pair in enumerate(node.standing)]
    findings.append(TOLERANT if node.tolerant else INTOLERANT)
    heard = Observed(tuple(findings), dict.fromkeys(looked, CheckObservation(began, ended)), full_round=True)
    before = node.agent_state.state
    node.agent_state, told = reconciliation.reconcile(
        node.agent_state, heard, node.world.rules[node.mode, node.profile], node.now
    )
    _believed(node, looked, began, ended)
    _opened(node, told, before)
    _tainted(node, told)


def _believed(node: Node, looked: frozenset[str], began: float, ended: float) -> None:
    """The looks justify each conviction, release and freed latch. None that they demand is missing."""
    truth = node.truth
    convicted = frozenset((case.check, case.port or 0) for case in node.agent_state.cases if case.convicted)
    latched = frozenset((case.check, case.port or 0) for case in node.agent_state.cases if case.latched)
    for key in convicted - truth.convicted:
        need(key[0] in looked and truth.last[key] == "f", f"{key} convicted by a look that did not fail")
        need(truth.may_convict(key, ended), f"{key} convicted too soon")
        node.met.add("convicted")
    for key in truth.convicted - convicted:
        need(key not in truth.latched, f"{key} was latched and is free")
        need(key[0] in looked and truth.last[key] not in "fu", f"{key} released by a look that did not pass")
        need(truth.may_release(key, ended), f"{key} released too soon")
        times = tuple(one for one in truth.released.get(key, ()) if ended - one < WINDOW - 1)
        truth.released[key] = (*times, ended)
        need(len(truth.released[key]) < TURNS, f"{key} released {TURNS} times within {WINDOW:g} s")
        node.met.add("released")
    need(truth.latched <= latched, f"a latch is gone: {truth.latched - latched}")
    for key in node.world.columns:
        if key[0] in looked and truth.last[key] == "f" and truth.must_convict(key, began):
            need(key in convicted, f"{key} failed long enough and is not convicted")
    if latched - truth.latched:
        node.met.add("latched")
    truth.convicted, truth.latched = convicted, latched


def _opened(node: Node, told: Desired, before: NodeState) -> None:
    """No profile is ready without its passes, and no label says so."""
    truth = node.truth
    profiles = {one.name: one for one in node.world.profiles[node.profile]}
    ready = [profiles[one.name] for one in told.profiles if one.ready]
    deferred = node.now - truth.rules_changed_at < SPARED
    for one in ready:
        need(not one.refusal, f"{one.name} is refused and ready")
        need(truth.proven.issuperset(one.gates), f"{one.name} is ready without {set(one.gates) - truth.proven}")
        bad = {key for key in truth.convicted if key[0] in one.gates}
        need(deferred or not bad, f"{one.name} is ready with {bad} convicted")
    need(("feature.node.kubernetes.io/network-rdma.capable" in told.labels) == any(one.rdma for one in ready), "label")
    for one in profiles.values():
        label = told.labels.get(f"nodeprep.io/profile.{one.name}")
        need((label == "ready") == (one in ready), f"the label of {one.name} is {label}")
    if told.state is NodeState.READY and before is NodeState.BOOTSTRAP:
        gates = {gate for one in profiles.values() if one.gating for gate in one.gates}
        failing = [key for key, result in truth.last.items() if key[0] in gates and result == "f"]
        need(deferred or not failing, f"ready at a moment at which {failing} fails")
    gating = [one for one in ready if one.gating]
    need(not gating or told.state is NodeState.READY, f"open in state {told.state}")
    if gating and before is not NodeState.READY:
        now = {truth.last[key] for key in node.world.columns if key[0] in gating[0].gates}
        need("f" not in now or deferred, "opened at a moment at which a gate fails")
        need(
            "u" not in now or before is not NodeState.BOOTSTRAP,
            "opened for the first time while a gate cannot be looked at",
        )
        node.met.add("opened")


def _tainted(node: Node, told: Desired) -> None:
    """The taint stands exactly while a gating profile is closed, in the modes that set it."""
    closed = any(one.gating and not one.ready for one in told.profiles)
    runs = attempt_steps.is_running(node.agent_state)  # then no mode and no plugin takes it away
    wanted = (closed and node.tolerant and node.mode is not Mode.OBSERVE) or runs
    need(bool(told.taints) == wanted, f"mode {node.mode}, gate {'closed' if closed else 'open'}, taints {told.taints}")
    if told.taints:
        node.met.add("tainted")


UNHEARD = frozenset({"step", "mode", "profile", "repair", "tolerant", "copy"})
PAUSES = (0.1, 0.6, 5.0, 10.0, 16.0, 16.0, 31.0)
LETTERS = "oooooowaffffuuu"
OTHERS = (
    *("kept", "kept", "older", "copy", "lost", "damaged", "boot", "node", "step", "mode", "mode", "profile"),
    *("reset", "upgrade", "repair", "tolerant"),
)
STEPS = (1.0, 90.0, 700.0, 4000.0)
FAULTS = ("foo", "off", "oof")
LATE = ("oof", ALL_WELL, ALL_WELL, "uoo", ALL_WELL)  # the last gate passes while another cannot be looked at
AT_ONCE = 1000  # histories that one process plays before it takes the next


def drawn(seed: int) -> tuple[World, list[Event]]:
    """A random history. Most start with looks that open the gate, because few would open it otherwise."""
    rng = random.Random(seed)
    pick = rng.random
    world = WORLDS[int(pick() * len(WORLDS))]
    events: list[Event] = []
    if pick() < 0.6:
        events += _looks(*([ALL_WELL] * 3 if pick() < 0.85 else LATE))
    for _ in range(1 + int(pick() * 4)):
        dice = pick()
        if dice < 0.15:
            events.append(("look", PAUSES[int(pick() * len(PAUSES))], ALL_WELL, ALL_FRESH))
        elif dice < 0.5:
            events.append(_drawn_look(rng))
        elif dice < 0.65:  # a fault that comes or goes, looked at until it is believed
            events += _looks(*[ALL_WELL if pick() < 0.5 else FAULTS[int(pick() * len(FAULTS))]] * 3)
        elif dice < 0.655:  # it comes and goes
            events += _looks(*[*[FAULTS[int(pick() * 2)]] * 2, *[ALL_WELL] * 3] * 3)
        else:
            what = OTHERS[int(pick() * len(OTHERS))]
            number = STEPS[int(pick() * len(STEPS))] if what == "step" else float(int(pick() * 20))
            events.append((what, number, "", ""))
    return world, events


def _looks(*results: str) -> list[Event]:
    return [("look", 16.0, one, ALL_FRESH) for one in results]


def _drawn_look(rng: random.Random) -> Event:
    pick = rng.random
    results = "".join([LETTERS[int(pick() * len(LETTERS))] for _ in ALL_WELL])
    fresh = ALL_FRESH if pick() < 0.6 else "".join(["f" if pick() < 0.6 else "s" for _ in ALL_FRESH])
    return "look", PAUSES[int(pick() * len(PAUSES))], results, fresh


def violation(world: World, events: list[Event]) -> str:
    """The violation of a history, "" if none."""
    try:
        play(world, events)
    except Violation as broke:
        return str(broke)
    return ""


def shortest(world: World, events: list[Event]) -> list[Event]:
    """The shortest part of a history with a violation: without any one of its events there is none."""
    shorter = next((one for one in _without_one(events) if violation(world, one)), None)
    return events if shorter is None else shortest(world, shorter)


def _without_one(events: list[Event]) -> Iterator[list[Event]]:
    for number in range(len(events)):
        yield events[:number] + events[number + 1 :]


def survey(count: int, seed: int) -> tuple[Counter[str], str]:
    """Play so many histories: counts of what happened in them, and the first violation, "" if none."""
    met: Counter[str] = Counter()
    for number in range(seed, seed + count):
        world, events = drawn(number)
        try:
            met.update(play(world, events))
        except Violation:
            events = shortest(world, events)
            told = "".join(f"\n    {event}" for event in events)
            return met, f"history {number}, checks {world.ids}: {violation(world, events)}{told}"
        met["played"] += 1
    return met, ""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="play drawn histories of a node against the agent's mind")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="the first history; a violation names its own")
    given = parser.parse_args(argv)
    start = time.monotonic()
    seeds = range(given.seed, given.seed + given.count, AT_ONCE)
    counts = (min(AT_ONCE, given.seed + given.count - seed) for seed in seeds)
    met: Counter[str] = Counter()
    broken: list[str] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for some, violated in pool.map(survey, counts, seeds):
            met += some
            broken += [violated] if violated else []
    for one in broken:
        print(f"VIOLATION in {one}")
    words = ", ".join(f"{met[what]:,} {what}" for what in ("opened", "tainted", "convicted", "released", "latched"))
    took = time.monotonic() - start
    print(f"{met['played']:,} histories in {took:.0f} s: {words}; {len(broken)} violations")
    return 1 if broken or not met["opened"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
