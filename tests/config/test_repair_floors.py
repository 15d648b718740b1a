"""No configuration shortens three waits of a repair: 30 s of a conviction, 10 s under the taint, 30 s of passes.

A node goes by a configuration here, from its start until it was repaired. All beside it is as quick as can be: it looks
twice a second, each answer comes at once, and so does the end of a play. So what it waits for, it waits for by itself.
Each key of the table has its least value once, all have it together, and hypothesis draws others.
"""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.agent_state import NodeState
from nodeprep.checks import CHECKS as ALL_CHECKS
from nodeprep.config import configuration, yaml_document
from nodeprep.config.agent_settings import CLASSES as CLASSES_BY_NAME
from nodeprep.config.agent_settings import AgentSettings
from nodeprep.config.document import ConfigError
from nodeprep.config.keys import KEYS
from nodeprep.decide import gate_readiness, reconciliation, repair_approach, repair_attempt, repair_choice
from nodeprep.decide.check_results import CheckObservation
from nodeprep.decide.gate_readiness import AssignedProfile
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
from nodeprep.decide.repair_attempt import AttemptAction, LedgerSaved, StatusAnswer
from nodeprep.decide.repair_choice import LastLook, RepairTerms
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairWaits
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.model import Confirmation, Finding, Remedy, Status
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Struct, replace
from tests.agent_state_values import BOOT, check, checks, finding
from tests.config_files import TODAY
from tests.repair_values import HEADERS, NOW, OWN, UID, WALL, clock, fleet, node

PORT, OTHER = "port.state", "module.core"
PROFILES = (AssignedProfile("rdma-roce", (PORT, OTHER), gating=True, rdma=True),)
LINK_UP, MEMLOCK = Remedy("link_up"), Remedy("memlock")  # of class S1, and S2
STEP_SECONDS = 0.5  # from look to look; exact in binary
LIMIT_SECONDS = 500.0  # from the fault to the end of a life
Span = tuple[float, float]


class Repair(Struct):
    """When what of one attempt was seen, in seconds.

    `given_back_at` is when its fault was believed no more or a gate stood open, and `passing_since` is the first of the
    passes in a row before. Each is None before.
    """

    convicted_at: float
    tainted_at: float
    list_began: float
    sent_at: float
    ended_at: float | None = None
    passing_since: float | None = None
    given_back_at: float | None = None


class Life:
    """A node whose port fails from `broken_at` to the first play, and after each play within the spans of `failing`."""

    def __init__(self, own: AgentSettings, waits: RepairWaits, failing: tuple[Span, ...], kind: Confirmation) -> None:
        self.own, self.waits, self.failing = own, waits, failing
        self.remedy = LINK_UP
        self.known = checks(check(PORT, confirmation=kind), check(OTHER))
        self.now = NOW
        self.memory = replace(gate_readiness.state_at_start(None, BOOT, UID, NOW), was_ready=False)
        self.broken_at: float | None = None
        self.taints: tuple[tuple[str, str], ...] = ()
        self.approach: RepairApproach | None = None
        self.tainted_at = self.list_began = 0.0
        self.repairs: list[Repair] = []

    def live(self, *, is_new: bool) -> list[Repair]:
        """The attempts of its whole life. Where it `is_new`, it was never Ready before its fault."""
        while not is_new and self.memory.state is not NodeState.READY and self.now < NOW + LIMIT_SECONDS:
            self._step()
        self.broken_at = self.now
        while self.now < self.broken_at + LIMIT_SECONDS and not self._is_over:
            self._step()
        return self.repairs

    @property
    def _is_over(self) -> bool:
        return any(one.given_back_at is not None for one in self.repairs)

    def _step(self) -> None:
        self.now += STEP_SECONDS
        self._look()
        before: object = None
        while before != (self.memory, self.approach):
            before = self.memory, self.approach
            if self.memory.attempt is None:
                self._go_on()
            else:
                self._attend()

    def _look(self) -> None:
        rules = AgentPolicy(
            self.known,
            PROFILES,
            self.own.mode,
            self.own.gate,
            self.own.confirmation,
            self.own.readiness,
            self.own.repair,
            self.waits,
        )
        found = (self._finding(), finding(OTHER, Status.OK))
        failing = [one.subject for one in found if one.status is Status.FAIL]
        self.last_look = LastLook({Rdma: self.now}, frozenset(failing))
        seen = CheckObservation(self.now, self.now)
        fresh = dict.fromkeys(self.known, seen)
        observed = Observed(found, fresh, full_round=True, wall=WALL + self.now - NOW)
        self.memory, told = reconciliation.reconcile(self.memory, observed, rules, self.now)
        self.taints = tuple((one.key, one.effect) for one in told.taints)
        self._note(found[0])

    def _finding(self) -> Finding:
        since = None if not self.repairs else self.repairs[-1].ended_at
        fails = self.broken_at is not None
        if since is not None:
            fails = any(begin <= self.now - since < end for begin, end in self.failing)
        return finding(PORT, Status.FAIL if fails else Status.OK, remedy=self.remedy if fails else None)

    def _note(self, found: Finding) -> None:
        """What the last look shows of the last attempt."""
        last = self.repairs[-1] if self.repairs else None
        if last is None or last.ended_at is None or last.given_back_at is not None:
            return
        if found.verdict.status is Status.FAIL:
            last.passing_since = None
        elif last.passing_since is None:
            last.passing_since = self.now
        case = self.memory.case(PORT, found.subject)
        if case is None or not case.convicted or self.memory.gates or self.memory.state is NodeState.READY:
            last.given_back_at = self.now

    def _go_on(self) -> None:
        """One step of an approach, or its beginning."""
        choice = repair_choice.choose(self.memory, self._terms)
        if self.approach is None:
            if choice.candidate is not None:
                attempt_id = f"{len(self.repairs) + 1:032x}"
                self.approach = repair_approach.begun(attempt_id, choice.candidate, self.now)
            return
        self.approach = repair_approach.went_on(self.approach, choice, self._terms).approach
        if self.approach is None:
            return
        action, at = repair_approach.action(self.approach, self._terms)
        if action is ApproachAction.WRITE_LEDGER:
            begun = repair_attempt.begun(self.memory, self.approach, choice, self._terms)
            self.memory, self.approach = self.memory if begun is None else begun, None
        elif at <= self.now and action is not ApproachAction.WAIT:
            report = self._answer(action)
            self.approach = repair_approach.after(self.approach, report, self.memory, self._terms, OWN).approach

    def _answer(self, action: ApproachAction) -> ApproachReport:
        if action is ApproachAction.READ_NODE:
            if self.taints:
                self.tainted_at = self.now
            return NodeRead(self.now, self._node)
        if action is ApproachAction.READ_NODE_AND_PODS:
            self.list_began = self.now
            return PodsRead(self.now, self._node, ())
        if action is ApproachAction.TELL_AND_LIST_FLEET:
            return FleetRead(self.now, True, fleet())
        assert self.approach is not None
        return SlotAnswer(self.now, self.approach.slot.name, is_taken=True)

    def _attend(self) -> None:
        """What is due about the attempt. The remediator runs it at once."""
        result = repair_attempt.due(self.memory, self._terms)
        self.memory = result.state
        attempt = self.memory.attempt
        assert attempt is not None
        if result.action is AttemptAction.SAVE:
            saved = repair_attempt.after(self.memory, LedgerSaved(attempt.id), self._terms)
            assert saved.action is AttemptAction.SEND_RUN
            self.memory = saved.state
            case = self.memory.case(PORT, attempt.subject)
            assert case is not None
            assert case.convicted_at is not None
            self.repairs.append(Repair(case.convicted_at, self.tainted_at, self.list_began, self.now))
        elif result.action is AttemptAction.ASK_STATUS:
            self.repairs[-1].ended_at = self.now
            self.memory = repair_attempt.after(self.memory, StatusAnswer(attempt.id, "done", "done"), self._terms).state

    @property
    def _node(self) -> Any:
        return node(taints=self.taints)

    @property
    def _terms(self) -> RepairTerms:
        return RepairTerms(
            checks=self.known,
            gates=(PORT, OTHER),
            headers=HEADERS,
            clock=clock(self.now, WALL + self.now - NOW),
            mode=self.own.mode,
            gate=self.own.gate,
            policy=self.own.repair,
            waits=self.waits,
            remedy_after=self.own.readiness.remedy_after,
            node=self._node,
            last_look=self.last_look,
        )


def lived(
    values: dict[str, Any],
    failing: tuple[Span, ...] = (),
    *,
    kind: Confirmation = Confirmation.FAST,
    is_new: bool = False,
    waits: RepairWaits = SHIPPED_WAITS,
) -> list[Repair]:
    """The attempts in the life of a node with these keys, by path. Raises ConfigError."""
    return Life(settings({"mode": "repair"} | values), waits, failing, kind).live(is_new=is_new)


def settings(values: dict[str, Any]) -> AgentSettings:
    """The agent's settings by a file with these keys, by path. Raises ConfigError."""
    top: dict[str, Any] = {"apiVersion": "nodeprep.io/v1", "kind": "Config"}
    for path, value in values.items():
        *names, last = path.split(".")
        inner = top
        for name in names:
            inner = inner.setdefault(name, {})
        inner[last] = value
    document = yaml_document.read(yaml_document.dump(top).encode(), "F")
    return configuration.parse_settings(document, TODAY, ALL_CHECKS).agent


def hold(repairs: list[Repair]) -> None:
    """The three waits of each attempt."""
    for one in repairs:
        assert one.sent_at - one.convicted_at >= 30.0
        assert one.list_began - one.convicted_at >= 30.0
        assert one.list_began - one.tainted_at >= 10.0
        assert one.tainted_at > 0.0
        if one.given_back_at is not None:
            assert one.passing_since is not None, "given back while it fails"
            assert one.given_back_at - one.passing_since >= 30.0


# What each key has at least, by path. Of a key that is no number: what asks for least, or one of its values.
LEAST: dict[str, Any] = {
    "default": "base",
    "want": {},
    "waivers": [],
    "exclude": [],
    "metadata-url": "http://127.0.0.1",
    "idle.ignore": [],
    "mode": "repair",
    "assign": [],
    "gate.profiles": ["rdma-roce"],
    "gate.allow-auto": True,
    "gate.effect": "NoSchedule",
    "gate.unhealthy-taint": "x",
    "gate.bootstrap-taint": "y",
    "gate.rdma-label": "z",
    "confirmation.fast.fails": 1,
    "confirmation.fast.of": 1,
    "confirmation.fast.apart": 0,
    "confirmation.fast.span": 0,
    "confirmation.records.fails": 1,
    "confirmation.records.of": 1,
    "confirmation.records.apart": 0,
    "confirmation.records.span": 0,
    "confirmation.slow.fails": 1,
    "confirmation.slow.of": 1,
    "confirmation.slow.apart": 0,
    "confirmation.slow.span": 0,
    "confirmation.passes": 1,
    "confirmation.pass-span": 0,
    "confirmation.pass-every": 0.5,
    "confirmation.flap-count": 1,
    "confirmation.flap-window": 1,
    "confirmation.blind-after": 1,
    "readiness.bootstrap-limit": 60,
    "readiness.human-passes": 30,
    "readiness.validation-limit": 30,
    "readiness.remedy-after": 0,
    "readiness.grace": 0,
    "repair.max-class": "S1",
    "repair.bootstrap-max-class": "S1",
    "repair.tries": 1,
    "repair.back-off": [60],
    "repair.slots": 1,
    "repair.bootstrap-slots": 1,
    "repair.deadline.safe": 30,
    "repair.deadline.idle": 30,
    "every": {},
    "metrics.bind": "127.0.0.1",
    "metrics.port": 0,
    "history.repeat-hours": 2,
    "history.repeat-days": 1,
}
# A number that is compared with another one needs that beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "confirmation.fast.of": {"confirmation.fast.fails": 1},
    "confirmation.records.of": {"confirmation.records.fails": 1},
    "confirmation.slow.of": {"confirmation.slow.fails": 1, "confirmation.slow.span": 0},
    "confirmation.slow.fails": {"confirmation.slow.span": 0},
}
# After a play it fails not at all, until shortly before 30 s are over, or again after it passed.
PATTERNS: list[tuple[Span, ...]] = [(), ((0.0, 29.0),), ((0.0, 10.0), (25.0, 29.5))]


def test_each_key_has_its_least_value_here() -> None:
    paths = {key.path for key in KEYS}
    assert set(LEAST) == {path for path in paths if "[]" not in path} - {"apiVersion", "kind"}
    numbers = {key.path: key for key in KEYS if isinstance(LEAST.get(key.path), int | float)}
    for path, key in numbers.items():
        if not isinstance(LEAST[path], bool):
            below = LEAST[path] - (1 if "whole number" in key.kind.says else 0.001)
            with pytest.raises(InvalidValueError):
                key.kind.read(below, ())


@pytest.mark.parametrize("path", LEAST)
@pytest.mark.parametrize("failing", PATTERNS, ids=range(len(PATTERNS)))
def test_no_key_shortens_a_wait(path: str, failing: tuple[Span, ...]) -> None:
    repairs = lived({path: LEAST[path]} | BESIDE.get(path, {}), failing)
    assert repairs, "nothing was repaired: the test shows nothing"
    hold(repairs)


@pytest.mark.parametrize("kind", CLASSES_BY_NAME.values(), ids=CLASSES_BY_NAME)
@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("failing", PATTERNS, ids=range(len(PATTERNS)))
def test_nor_do_all_keys_together(failing: tuple[Span, ...], kind: Confirmation, *, is_new: bool) -> None:
    repairs = lived(LEAST | {"confirmation.flap-count": 100}, failing, kind=kind, is_new=is_new)
    assert repairs[0].given_back_at is not None or failing
    hold(repairs)


def test_where_the_gate_does_not_close_nothing_runs() -> None:
    for values in ({"mode": "observe"}, {"mode": "gate"}, {"gate.effect": "PreferNoSchedule"}):
        assert lived(values) == []


def test_the_life_here_is_as_long_as_its_waits() -> None:
    """Else the floors would hold whatever the agent waits for."""
    brief = RepairWaits(conviction=2.0, settled=1.0, passes=3.0)
    (one,) = lived(LEAST | {"confirmation.flap-count": 100}, waits=brief)
    assert one.sent_at - one.convicted_at == 2.0
    assert one.list_began - one.tainted_at <= 2.0
    assert one.passing_since is not None
    assert one.given_back_at is not None
    assert one.given_back_at - one.passing_since == 3.0
    (one,) = lived(LEAST | {"confirmation.flap-count": 100})
    assert one.sent_at - one.convicted_at == 30.0
    assert one.given_back_at is not None
    assert one.passing_since is not None
    assert one.given_back_at - one.passing_since == 30.0


def number(least: float, most: float) -> st.SearchStrategy[float]:
    return st.just(least) | st.floats(least, most, allow_nan=False).map(lambda value: round(value, 3))


def whole(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """The numbers of a class that fit each other."""
    of = draw(whole(1, 5))
    fails = draw(whole(1, of))
    return {"of": of, "fails": fails, "apart": draw(number(0, 5)), "span": draw(number(0, 9)) if fails > 1 else 0}


# The upper ends are those of the table, or so low that a life is over in time.
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "gate.effect": st.sampled_from(["NoSchedule", "NoSchedule", "PreferNoSchedule"]),
    **{f"confirmation.{name}": rules() for name in CLASSES_BY_NAME},
    "confirmation.passes": whole(1, 20),
    "confirmation.pass-span": number(0, 50),
    "confirmation.pass-every": number(0.5, 600),
    "confirmation.flap-count": whole(1, 100),
    "confirmation.flap-window": number(1, 86400),
    "readiness.bootstrap-limit": number(60, 86400),
    "readiness.human-passes": number(30, 60),
    "readiness.validation-limit": number(30, 200),
    "readiness.remedy-after": number(0, 60),
    "readiness.grace": number(0, 3600),
    "repair.max-class": st.sampled_from(["S1", "S2"]),
    "repair.tries": whole(1, 10),
    "repair.back-off": st.lists(number(60, 100), min_size=1, max_size=5).map(sorted),
    "repair.slots": whole(1, 16),
    "repair.bootstrap-slots": whole(1, 64),
    "repair.deadline.safe": number(30, 600),
}
SPANS = st.lists(st.tuples(st.floats(0, 60), st.floats(0.5, 40)).map(lambda one: (one[0], one[0] + one[1])), max_size=2)


@hypothesis.settings(deadline=None, max_examples=30)
@given(
    st.fixed_dictionaries({}, optional=DRAWN),
    SPANS.map(tuple),
    st.sampled_from(list(CLASSES_BY_NAME.values())),
    st.booleans(),
)
def test_no_configuration_shortens_a_wait(
    values: dict[str, Any], failing: tuple[Span, ...], kind: Confirmation, is_new: bool
) -> None:
    try:
        repairs = lived(values, failing, kind=kind, is_new=is_new)
    except ConfigError:
        hypothesis.reject()
    hold(repairs)
