"""What the node shows now, judged by the configuration that held before: what fails under both is the node's own."""

from __future__ import annotations

from collections.abc import Iterable

from nodeprep import check_round, job_profile
from nodeprep.agent.latest_facts import LatestFacts
from nodeprep.agent_state import AgentState
from nodeprep.assessment import Assessment
from nodeprep.checks import CHECKS
from nodeprep.config import wants
from nodeprep.config.waiver_rules import Waiver
from nodeprep.decide import rule_change
from nodeprep.decide.rule_change import NO_JUDGEMENT, FormerJudgement, RuleChange
from nodeprep.look import Look
from nodeprep.model import Finding, Status
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import replace


def judgement(
    agent_state: AgentState, latest: LatestFacts, findings: Iterable[Finding], assessment: Assessment, now: float
) -> FormerJudgement:
    """What the checks that fail now say by the former configuration, while a hold may rest on it.

    Rates are not judged: they compare two looks. Nor is anything if the former configuration did not read a path that
    the new one reads, because the facts are not those that it would have seen.
    """
    if not (agent_state.former_profile and rule_change.is_recent(agent_state, now)):
        return NO_JUDGEMENT
    if {agent_state.rule_change, *(one.deferred_by for one in agent_state.cases)} <= {"", RuleChange.VERSION}:
        return NO_JUDGEMENT  # the version before cannot be asked, so nobody would read it
    failing = {one.check for one in findings if one.status is Status.FAIL and one.waived is None}
    checks = [CHECKS[one] for one in sorted(failing) if one in CHECKS and not CHECKS[one].rates]
    try:
        profile = job_profile.parse(agent_state.former_profile)
        numbers = wants.wants(profile)
        waivers = tuple(Waiver(**one) for one in agent_state.former_waivers)
        now_excluded = job_profile.parse(agent_state.profile).exclude if agent_state.profile else ()
    except (InvalidValueError, TypeError):
        return NO_JUDGEMENT  # another version wrote it
    if not checks or set(profile.exclude) - set(now_excluded):
        return NO_JUDGEMENT
    former = replace(assessment, settings=replace(assessment.settings, waivers=waivers))
    profile = former.in_force(profile, latest.facts)
    look = Look(0.0, live=True, facts=latest.facts)
    judged = check_round.unfolded(checks, look, look, profile, numbers)
    found, _ = former.waived(judged.findings, latest.facts)
    fails = {one.check for one in found if one.status is Status.FAIL and one.waived is None}
    return FormerJudgement(frozenset(check.id for check in checks), frozenset(fails))
