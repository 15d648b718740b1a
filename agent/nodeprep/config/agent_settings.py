"""The agent's part of a configuration file: its mode, the rules of `assign`, and its numbers.

It is imported only if a file has such a key: `check` alone does not need the policies that this module imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from nodeprep import typed_yaml
from nodeprep.checks.plugin.tolerates_gate import CHECK as TOLERATES_GATE
from nodeprep.checks.plugin.tolerates_gate import Want as Tolerated
from nodeprep.config import assign_rules, keys
from nodeprep.config.assign_rules import AssignRule
from nodeprep.decide.confirmation_policy import ConfirmationPolicy
from nodeprep.decide.confirmation_policy import ConfirmationRule as DampingRule
from nodeprep.decide.desired import GatePolicy
from nodeprep.decide.gate_readiness import Mode, ReadinessPolicy
from nodeprep.decide.remedy_header import SafetyClass
from nodeprep.decide.repair_policy import PlayDeadlines, RepairPolicy
from nodeprep.facts import ALL as FACTS
from nodeprep.history.repeat_offenders import SHIPPED_POLICY, RepeatPolicy
from nodeprep.model import Check, Confirmation, Fact
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, field, field_names, replace

CLASSES = {
    "fast": Confirmation.FAST,
    "records": Confirmation.RECORDS,
    "slow": Confirmation.SLOW,
}  # a latch has no numbers
PERIOD_SECONDS = typed_yaml.seconds(0.5, 3600.0)


class MetricsSettings(Value):
    """Where the pages are served; port 0 serves none. 9842: design 6. By default only this host can read them."""

    bind: str = "127.0.0.1"
    port: int = 9842


class AgentSettings(Value):
    """The agent's part of a file. `every` has polling periods in seconds, where they differ from the facts' own."""

    mode: Mode = Mode.OBSERVE
    assign: tuple[AssignRule, ...] = ()
    gate: GatePolicy = field(default_factory=GatePolicy)
    confirmation: ConfirmationPolicy = field(default_factory=ConfirmationPolicy)
    readiness: ReadinessPolicy = field(default_factory=ReadinessPolicy)
    repair: RepairPolicy = field(default_factory=RepairPolicy)
    every: Mapping[str, float] = field(default_factory=dict)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    history: RepeatPolicy = SHIPPED_POLICY

    @property
    def wanted_of_plugins(self) -> Mapping[str, Mapping[str, str]]:
        """The taints that plugin.tolerates-gate asks for, if they differ from its defaults.

        They become numbers of the profile. So a snapshot, and a `check` beside the agent, judge by the names in force.
        """
        names = {name: getattr(self.gate, name) for name in field_names(Tolerated)}
        if Tolerated(**names) == Tolerated():
            return {}
        return {TOLERATES_GATE.id: {name.replace("_", "-"): value for name, value in names.items()}}

    def periods(self, facts: Iterable[Fact]) -> dict[type, float]:
        """The polling periods that the file gives to facts, in seconds by kind."""
        return {fact.kind: self.every[fact_name(fact)] for fact in facts if fact_name(fact) in self.every}


def fact_name(fact: Fact) -> str:
    """The name of a fact in a configuration file: its module's name, such as kernel-log."""
    return fact.kind.__module__.rpartition(".")[2].replace("_", "-")


def read_agent(given: Mapping[str, Any], beside: str, checks: Mapping[str, Check]) -> AgentSettings:
    """The agent's settings from the keys of a file, by field name. `beside` is the directory of files that it names.

    Raises InvalidValueError, ConfigError.
    """
    confirmation = _confirmation(given.get("confirmation"))
    return AgentSettings(
        mode=Mode(given.get("mode", Mode.OBSERVE)),
        assign=assign_rules.read_rules(given.get("assign", ()), ("assign",), beside, checks),
        gate=_gate(given.get("gate")),
        confirmation=confirmation,
        readiness=_readiness(given.get("readiness"), confirmation),
        repair=_repair(given.get("repair")),
        every=_every(given.get("every", {})),
        metrics=MetricsSettings(**_section(given.get("metrics"), "metrics")),
        history=RepeatPolicy(**_section(given.get("history"), "history")),
    )


def _gate(value: object) -> GatePolicy:
    gate = GatePolicy(**_section(value, "gate"))
    if gate.unhealthy_taint == gate.bootstrap_taint:
        wanted = "another name than gate.bootstrap-taint has"
        raise InvalidValueError(("gate", "unhealthy-taint"), gate.unhealthy_taint, wanted)
    return gate


def _confirmation(value: object) -> ConfirmationPolicy:
    stated = _section(value, "confirmation")
    rules = dict(ConfirmationPolicy().rules)
    for name, kind in CLASSES.items():
        rules[kind] = _rule(stated.pop(name, None), name, rules[kind])
    return ConfirmationPolicy(rules=rules, **stated)


def _rule(value: object, name: str, default: DampingRule) -> DampingRule:
    """The numbers of a class, compared with each other: a rule that no fault can fulfil would hide every fault."""
    here = ("confirmation", name)
    rule = replace(default, **keys.section({} if value is None else value, here, f"confirmation.{name}"))
    if rule.fails > rule.of:
        raise InvalidValueError((*here, "fails"), rule.fails, f"at most {rule.of}, as many as confirmation.{name}.of")
    if rule.fails == 1 and rule.span > 0:
        wanted = f"0, for one failure (confirmation.{name}.fails) takes no time"
        raise InvalidValueError((*here, "span"), rule.span, wanted)
    return rule


def _readiness(value: object, confirmation: ConfirmationPolicy) -> ReadinessPolicy:
    policy = ReadinessPolicy(**_section(value, "readiness"))
    for key, limit in (("bootstrap-limit", policy.bootstrap_limit), ("validation-limit", policy.validation_limit)):
        if limit < confirmation.pass_span:
            wanted = f"at least {confirmation.pass_span:g}, as long as the passes take (confirmation.pass-span)"
            raise InvalidValueError(("readiness", key), limit, wanted)
    return policy


def _repair(value: object) -> RepairPolicy:
    stated = _section(value, "repair")
    deadline = keys.section(stated.pop("deadline", {}), ("repair", "deadline"), "repair.deadline")
    stated |= {name: SafetyClass(stated[name]) for name in ("max_class", "bootstrap_max_class") if name in stated}
    _hold_back_off(stated.get("back_off", RepairPolicy().back_off))
    return RepairPolicy(**stated, deadline=PlayDeadlines(**deadline))


def _hold_back_off(waits: tuple[float, ...]) -> None:
    """Raise InvalidValueError for none, for too many, and for one that is less than the one before."""
    here: Keys = ("repair", "back-off")
    if not 1 <= len(waits) <= keys.BACK_OFFS_LIMIT:
        raise InvalidValueError(here, len(waits), f"1 to {keys.BACK_OFFS_LIMIT} numbers of seconds")
    for index, (before, wait) in enumerate(pairwise(waits), 1):
        if wait < before:
            raise InvalidValueError((*here, index), wait, f"at least {before:g}, as long as the one before")


def _every(periods: Mapping[str, object]) -> dict[str, float]:
    facts = {fact_name(fact): fact for fact in FACTS}
    found: dict[str, float] = {}
    for name, given in periods.items():
        here: Keys = ("every", name)
        if name not in facts:
            raise InvalidValueError(here, name, typed_yaml.nearest(name, facts, "a fact"))
        found[name] = PERIOD_SECONDS.read(given, here)
        if found[name] < facts[name].rest:
            wanted = f"at least {facts[name].rest:g}: others serve {name} to the whole fleet"
            raise InvalidValueError(here, given, wanted)
    return found


def _section(value: object, name: str) -> dict[str, Any]:
    return keys.section({} if value is None else value, (name,), name)
