"""Another version or configuration judges anew: what only that changed does not close the gate yet (design 3.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nodeprep.agent_state import READY_STAGE, AgentState, Case, NodeState
from nodeprep.newer_python import StrEnum
from nodeprep.values import Value, replace

RULE_HOLD_SECONDS = 600.0  # seconds after another version or configuration came; design 3.5


class FormerJudgement(Value):
    """What the former configuration says of the node as it is: the checks that it judged, and those that fail by it."""

    checks: frozenset[str] = frozenset()
    fails: frozenset[str] = frozenset()


NO_JUDGEMENT = FormerJudgement()


class RuleChange(StrEnum):
    """What a node is judged by, and is another now."""

    VERSION = "version"
    CONFIGURATION = "configuration"
    BOTH = "version and configuration"

    @classmethod
    def of(cls, word: str) -> RuleChange:
        """As it is stored. VERSION for "" and for a word of a newer version."""
        return next((one for one in cls if one == word), cls.VERSION)

    @property
    def reason(self) -> str:
        """The reason of a condition that stays True although a verdict changed with it."""
        is_configuration = self is RuleChange.CONFIGURATION
        return "VerdictChangedByConfiguration" if is_configuration else "VerdictChangedByUpgrade"


def after_rule_change(agent_state: AgentState, version: str, configuration: str, now: float) -> AgentState:
    """The agent state as this version finds it under this configuration, which is a digest of all that judges.

    If another version or configuration wrote it, its passes are kept separately. What an earlier change made stays as
    it is: its hold is not renewed, and a profile that it closed still counts as open before.
    """
    change = _change(agent_state, version, configuration)
    if change is None:
        return agent_state
    known = replace(agent_state, version=version, configuration=configuration)
    if not agent_state.version or (change is RuleChange.CONFIGURATION and not agent_state.configuration):
        return known  # nobody judged before, or a version that did not say by which configuration
    held = {
        AgentState.passed_key(one.check, one.subject) for one in agent_state.cases if one.deferred_until is not None
    }
    kept = {key: value for key, value in agent_state.former_passed.items() if key in held}
    waits = is_recent(agent_state, now) or rule_disagreements(agent_state) or replaced_profiles(agent_state)
    lost = agent_state.former_gates if waits else ()
    is_next = is_recent(agent_state, now) and bool(agent_state.former_profile)
    return replace(
        known,
        former_passed={**kept, **agent_state.passed},
        former_gates=tuple(dict.fromkeys((*agent_state.gates, *lost))),
        former_profiles=tuple(one for one in _profiles(agent_state) if one not in _never_open(agent_state)),
        former_profile=agent_state.former_profile if is_next else agent_state.profile,
        former_waivers=agent_state.former_waivers if is_next else agent_state.waivers,
        rules_changed_at=now,
        rule_change=RuleChange.BOTH if _is_of_version(agent_state, now) else change,
        judged_anew=(),
        came_with_rules=tuple(one for one in agent_state.came_with_rules if one in agent_state.unproven_until),
    )


def _is_of_version(agent_state: AgentState, now: float) -> bool:
    """Whether another version came less than ten minutes ago, perhaps with a configuration before or after it."""
    return is_recent(agent_state, now) and agent_state.rule_change != RuleChange.CONFIGURATION


def _change(agent_state: AgentState, version: str, configuration: str) -> RuleChange | None:
    is_other_version = agent_state.version != version
    is_other_configuration = agent_state.configuration not in ("", configuration)
    if is_other_version:
        return RuleChange.BOTH if is_other_configuration else RuleChange.VERSION
    return None if agent_state.configuration == configuration else RuleChange.CONFIGURATION


def is_recent(agent_state: AgentState, now: float) -> bool:
    """Whether another version or configuration came less than ten minutes ago."""
    changed_at = agent_state.rules_changed_at
    return changed_at is not None and changed_at <= now < changed_at + RULE_HOLD_SECONDS


def replaced_profiles(agent_state: AgentState) -> tuple[str, ...]:
    """Profiles that were open before the last change and are replaced by others, of which one has not opened since."""
    if not _never_open(agent_state):
        return ()
    before = dict.fromkeys(name for name, stage in agent_state.former_gates if stage == READY_STAGE)
    return tuple(name for name in before if name not in _profiles(agent_state))


def settled(agent_state: AgentState, now: float, *, is_open: bool) -> AgentState:
    """The agent state once the hold is over, without the former configuration.

    If all is open then, it also forgets what was open before the last change.
    """
    if is_recent(agent_state, now):
        return agent_state
    if agent_state.former_profile or agent_state.former_waivers or agent_state.judged_anew:
        agent_state = replace(agent_state, former_profile={}, former_waivers=(), judged_anew=())
    if is_open and agent_state.former_gates:
        agent_state = replace(agent_state, former_gates=(), former_profiles=())
    return agent_state


def forgotten(agent_state: AgentState) -> AgentState:
    """The agent state as if its rules had never changed: the time of the change is one that cannot be."""
    return replace(
        agent_state,
        rules_changed_at=None,
        rule_change="",
        former_passed={},
        former_gates=(),
        former_profiles=(),
        former_profile={},
        former_waivers=(),
        judged_anew=(),
    )


def _profiles(agent_state: AgentState) -> tuple[str, ...]:
    """The names of the profiles of this node."""
    return tuple(str(part["names"][0]) for part in agent_state.parts if part.get("names"))


def _never_open(agent_state: AgentState) -> frozenset[str]:
    """Profiles that came with the last change and are closed."""
    if not agent_state.former_gates:
        return frozenset()
    is_open = {name for name, stage in agent_state.gates if stage == READY_STAGE}
    return frozenset(_profiles(agent_state)) - is_open - set(agent_state.former_profiles)


def deferred(agent_state: AgentState, before: Case | None, after: Case, former: FormerJudgement, now: float) -> Case:
    """The case after a failed look at `now`, with the time until which its conviction must not close the gate.

    `before` is the same case before that look, None for a new one. A hold begins with the first rules that made the
    verdict. It ends at once if the former rules find the fault too: then the node itself changed.

    A case that another version found on an open gate at another value is not held. Whether the node changed or the
    version sees wrong, nobody can tell: `deferred_by` keeps that, and a remedy waits for a human.
    """
    if before is not None and before.convicted and before.deferred_until is None:
        return after
    is_known = before is not None and before.deferred_until is not None and before.opened_at == after.opened_at
    known = before if is_known else None
    until, change = (known.deferred_until, known.deferred_by) if known else _new_hold(agent_state, after)
    is_late = until is not None and after.convicted_at is not None and after.convicted_at >= until
    is_own = until is not None and now < until and not _is_of_rules(agent_state, after, RuleChange.of(change), former)
    if until is None or is_late or is_own:
        same = before if before is not None and before.opened_at == after.opened_at else None
        doubt = change or (same.deferred_by if same is not None else _doubt(agent_state, after))
        return replace(after, deferred_until=None, deferred_by="" if doubt == RuleChange.CONFIGURATION else doubt)
    return replace(after, deferred_until=until, deferred_by=change)


def _new_hold(agent_state: AgentState, case: Case) -> tuple[float | None, str]:
    """Until when a case may be held that no earlier rules hold, and by what change.

    A hold keeps an open gate open. It opens no closed one: that node may have the same fault under another name.
    """
    changed_at, change = agent_state.rules_changed_at, agent_state.rule_change
    if changed_at is None or agent_state.state is not NodeState.READY:
        return None, ""
    if case.check in pending_gates(agent_state):
        return agent_state.unproven_until[case.check], change
    if not changed_at <= case.opened_at < changed_at + RULE_HOLD_SECONDS:
        return None, ""
    if change != RuleChange.VERSION and case.check in agent_state.judged_anew and not _is_same(agent_state, case):
        return None, ""  # the new configuration saw it pass: what is seen changed since
    return changed_at + RULE_HOLD_SECONDS, change


def _doubt(agent_state: AgentState, case: Case) -> str:
    """By which change nobody knows whether the node changed or the rules see wrong, "" for none.

    Only for a node that was open when the rules changed: with the first fault it closes, and the next is doubted too.
    In Bootstrap nothing was proven yet by any rules, or a human said that the node is to be judged anew.
    """
    changed_at, state = agent_state.rules_changed_at, agent_state.state
    was_open = any(stage == READY_STAGE for _, stage in agent_state.former_gates)
    if changed_at is None or not changed_at <= case.opened_at < changed_at + RULE_HOLD_SECONDS:
        return ""
    is_asked = state is NodeState.READY or (was_open and state is not NodeState.BOOTSTRAP)
    return agent_state.rule_change if is_asked else ""


def _is_of_rules(agent_state: AgentState, case: Case, change: RuleChange, former: FormerJudgement) -> bool:
    """Whether only the new rules find this fault, so that the node is as it was.

    The former configuration can be asked. Of the former version there are only the values that it passed. If neither
    says anything, a configuration may name the subject for the first time, and a version names none.
    """
    if case.check in pending_gates(agent_state):
        return True
    passed = agent_state.former_passed.get(AgentState.passed_key(case.check, case.subject))
    is_same = _is_same(agent_state, case)
    if change is RuleChange.VERSION or (change is RuleChange.BOTH and is_same):
        return is_same
    if case.check in former.checks:
        # Not by subject: the new configuration may name the same fault by another device than the former one.
        return case.check not in former.fails
    return is_same or not passed


def _is_same(agent_state: AgentState, case: Case) -> bool:
    """Whether the former rules passed this subject at the value that it has now."""
    return bool(case.observed) and case.observed == agent_state.former_passed.get(
        AgentState.passed_key(case.check, case.subject)
    )


def with_judged(agent_state: AgentState, checks: Iterable[str], now: float) -> AgentState:
    """The agent state after these checks could look at everything, while a change of the rules is recent."""
    new = set(checks) - set(agent_state.judged_anew)
    if not new or not is_recent(agent_state, now):
        return agent_state
    return replace(agent_state, judged_anew=(*agent_state.judged_anew, *sorted(new)))


def deferred_cases(agent_state: AgentState, now: float) -> tuple[Case, ...]:
    """Convictions that do not close the gate now."""
    return tuple(
        one for one in rule_disagreements(agent_state) if one.deferred_until is not None and now < one.deferred_until
    )


def rule_disagreements(agent_state: AgentState) -> tuple[Case, ...]:
    """Convictions that only the new rules see, deferred or not any more. While there is one, `/readyz` says no.

    A gate closes in the end, because the new rules may be right. Whether the rollout goes on is for a human to say.
    """
    return tuple(one for one in agent_state.cases if one.convicted and one.deferred_until is not None)


def with_pending_gates(agent_state: AgentState, gates: Iterable[str], now: float) -> AgentState:
    """The agent state after these gates came to an open profile.

    It stays open for a while although they have not passed. If version or configuration changed lately, they came with
    that, and a rollout waits for them.
    """
    new_gates = sorted(set(gates) - agent_state.unproven_until.keys())
    if not new_gates:
        return agent_state
    came_with_rules = is_recent(agent_state, now)
    agent_state = replace(
        agent_state,
        unproven_until={**agent_state.unproven_until, **dict.fromkeys(new_gates, now + RULE_HOLD_SECONDS)},
        came_with_rules=(*agent_state.came_with_rules, *(new_gates if came_with_rules else ())),
    )
    if not came_with_rules:
        return agent_state
    cases = (
        replace(one, deferred_until=now + RULE_HOLD_SECONDS, deferred_by=agent_state.rule_change)
        if one.check in new_gates
        else one
        for one in agent_state.cases
    )
    return replace(agent_state, cases=tuple(cases))


def pending_gates(agent_state: AgentState) -> frozenset[str]:
    """Gates that came with these rules to an open profile and have not passed yet."""
    return frozenset(agent_state.came_with_rules) & agent_state.unproven_until.keys()


def pending_until(agent_state: AgentState, blind: Collection[str], now: float) -> dict[str, float]:
    """`AgentState.unproven_until` after a round with these blind checks.

    A check that can look again has its whole time.
    """
    no_longer_blind = agent_state.blind.keys() - set(blind)
    return {
        gate: now + RULE_HOLD_SECONDS if gate in no_longer_blind else until
        for gate, until in agent_state.unproven_until.items()
    }
