"""Judges a node by the profiles in force: findings, the operator's waivers, and the agent's latched faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from nodeprep import check_round, profile_selection
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.config import waiver_rules, wants
from nodeprep.config.configuration import Settings
from nodeprep.facts.machine.system import System
from nodeprep.look import Look
from nodeprep.model import Finding, Report, Severity, Shown, Skipped, Status, Verdict, raw
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import Value

UNCAPTURED = (
    "nothing says which devices belong here, so only a port unlike most of its kind can be told from a good one; "
    "on a good node, nodeprep profile capture writes down what belongs"
)


class Assessment(Value):
    """How a node is judged; `check` and the agent judge alike.

    `checks` are ids of those that run, and `deselected` those that the operator left out. `today` is the UTC date, by
    which waivers end. `selection` has the profiles in force if an option, a recording or the agent named them; None:
    `profile_selection.select` selects them. `agent_state` is what the agent of this node remembers, None without an
    agent. `requested` are check ids that the operator typed: such a check is never skipped without a finding.
    `agent_findings` gives the agent's findings of checks that compare two looks, because the agent compares over a
    longer time. Checks of which it gives no finding run here. `names_elsewhere`: the report also names the checks of
    other platforms than the node's. Otherwise they are not imported.
    """

    checks: tuple[str, ...]
    deselected: tuple[Skipped, ...]
    settings: Settings
    today: str
    selection: ProfileSelection | None = None
    agent_state: AgentState | None = None
    requested: tuple[str, ...] = ()
    agent_findings: Callable[[], tuple[Finding, ...]] = tuple
    names_elsewhere: bool = True

    def select(self, look: Look) -> ProfileSelection:
        """The profiles in force, without the agent's memory."""
        return self.selection or profile_selection.select(self.settings, look, checks=self.checks)

    def excluded_paths(self) -> tuple[str, ...]:
        """Globs of paths not to read before the profiles are selected."""
        return profile_selection.excluded_paths(self.settings, self.selection)

    def report(self, look: Look, before: Look | None, selection: ProfileSelection) -> Report:
        """The report on a look. `before` is the look before it, if rates are compared."""
        numbers = wants.wants(selection.profile)
        others = self.agent_findings()
        known = {finding.check for finding in others}
        checks = [CHECKS[one] for one in self._to_run(look, selection)]
        own = [check for check in checks if check.id not in known]
        judged = check_round.unfolded(own, look, before, selection.profile, numbers, insisted=frozenset(self.requested))
        order = {check_id: number for number, check_id in enumerate(self.checks)}
        every = sorted((*judged.findings, *others), key=lambda one: order[one.check])
        findings = check_round.fold(every, {check.id: check.after for check in checks})
        return self.report_of(findings, judged.skipped, look.facts, selection)

    def _to_run(self, look: Look, selection: ProfileSelection) -> tuple[str, ...]:
        """All; without those of another platform if they are not named and nobody demands one of them."""
        others = check_round.elsewhere(self.checks, look)
        if self.names_elsewhere or not others.isdisjoint((*self.requested, *selection.profile.gates)):
            return self.checks
        return tuple(one for one in self.checks if one not in others)

    def report_of(
        self,
        findings: tuple[Finding, ...],
        skipped: Iterable[Skipped],
        facts: Mapping[type, object],
        selection: ProfileSelection,
    ) -> Report:
        """The report on folded findings, with latched faults added and waived findings marked."""
        known, expired = self.waived(latched(findings, self.agent_state, self.checks), facts)
        return Report(
            node=_text(facts.get(System), "name"),
            boot_id=_text(facts.get(System), "boot_id"),
            profile=selection.profile.name,
            chosen_by=selection.chosen_by,
            gates=selection.profile.gates,
            findings=known,
            skipped=(*skipped, *self.deselected),
            missing_hardware=selection.missing_hardware,
            notes=(*expired, *notes(selection)),
            agent=str(self.agent_state.state) if self.agent_state else "",
        )

    def waived(
        self, findings: tuple[Finding, ...], facts: Mapping[type, object]
    ) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """The findings, with `waived` where a waiver excuses them or their cause, and notes on expired waivers."""
        name = _text(facts.get(System), "name")
        marked, expired = waiver_rules.apply_waivers(findings, self.settings.waivers, name, self.today)
        if any(finding.waived for finding in marked):
            marked = check_round.fold(marked, {check.id: check.after for check in self.checks})
        return marked, expired


def latched(
    findings: tuple[Finding, ...], agent_state: AgentState | None, checks: Iterable[str]
) -> tuple[Finding, ...]:
    """The findings, and a failure for each latched case of the agent that is not seen to fail now."""
    cases = {(one.check, one.subject): one for one in (agent_state.cases if agent_state else ()) if one.latched}
    if not cases:
        return findings
    failing = {(one.check, one.subject) for one in findings if one.status is Status.FAIL}
    known = frozenset(checks)
    added = []
    for (check, subject), case in cases.items():
        if check in known and (check, subject) not in failing:
            message = f"{case.message} [not seen now; latched: {case.latched}; nodeprep reset clears it]"
            verdict = Verdict(subject, Status.FAIL, case.reason, message, case.remedy, case.observed)
            added.append(Finding(check, Severity.GATE, verdict, fix=CHECKS[check].fix_of(verdict)))
    replaced = {(one.check, one.subject) for one in added}
    return (*(one for one in findings if (one.check, one.subject) not in replaced), *added)


def notes(selection: ProfileSelection) -> Iterator[str]:
    """Notes on the profile, for the report."""
    if selection.omitted_gates:
        count = len(selection.omitted_gates)
        yield f"{count} gates of {selection.profile.name} ask Kubernetes: --kubeconfig FILE --node NAME"
    expect = selection.profile.expect
    if expect.at_least is not None and expect.at_least.count <= 1 and not (expect.devices or expect.ports):
        yield UNCAPTURED


def _text(thing: object, name: str) -> str:
    value = raw(thing)[name] if isinstance(thing, Shown) else ""
    return value if isinstance(value, str) else ""
