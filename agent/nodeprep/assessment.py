"""Judges a node by the profiles in force: findings, the operator's waivers, and the agent's latched faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from nodeprep import check_round, profile_selection
from nodeprep.agent_state import AgentState
from nodeprep.checks import CHECKS
from nodeprep.config import waiver_rules, wants
from nodeprep.config.configuration import Settings
from nodeprep.facts.expected import unjudged
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import NO_PROFILE, Profile
from nodeprep.look import Look
from nodeprep.model import Basis, Finding, Report, Severity, Shown, Skipped, Status, Unreadable, Verdict, raw
from nodeprep.profile_selection import ProfileSelection
from nodeprep.values import Value, replace

METADATA_LISTS_ENIS = "eni.missing-link"  # holds the metadata's list of ENIs against the kernel's links
HIDDEN_NAMED = 4  # names of hidden devices in a note
UNCAPTURED = (
    "nothing says which devices belong here, so a port can only be held against the best of its kind; "
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
        profile = self.in_force(selection.profile, look.facts)
        judged = check_round.unfolded(own, look, before, profile, numbers, insisted=frozenset(self.requested))
        order = {check_id: number for number, check_id in enumerate(self.checks)}
        every = sorted((*judged.findings, *others), key=lambda one: order[one.check])
        findings = check_round.fold(every, {check.id: check.after for check in checks})
        left = len(self.checks) - len(checks)
        return self.report_of(findings, judged.skipped, look.facts, selection, is_copy=not look.live, elsewhere=left)

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
        *,
        is_copy: bool = False,
        elsewhere: int = 0,
        expected: Expected | Unreadable | None = None,
    ) -> Report:
        """The report on folded findings, with latched faults added and waived findings marked.

        `elsewhere` counts the checks of other platforms that were not imported. `expected` is the inventory that these
        facts were compared with; None: it is made here.
        """
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
            notes=(
                *expired,
                *hidden_devices(facts),
                *notes(selection),
                *unjudged_here(facts, self.in_force(selection.profile, facts), expected),
            ),
            agent=str(self.agent_state.state) if self.agent_state else "",
            basis=Basis(
                is_copy=is_copy,
                is_selection=bool(self.deselected or self.requested),
                is_named=not selection.by_hardware and selection.profile.name != NO_PROFILE.name,
                rests_on=selection.profile.needed_gates,
                nics=nics_seen(facts),
                baseline=baseline(selection.profile, known),
                checks=len(self.checks) + len(self.deselected),
                elsewhere=elsewhere,
                undecided=selection.undecided,
            ),
        )

    def in_force(self, profile: Profile, facts: Mapping[type, object]) -> Profile:
        """The profile with the devices of today's waivers on this node."""
        name = _text(facts.get(System), "name")
        return replace(profile, excused=waiver_rules.excused_devices(self.settings.waivers, name, self.today))

    def waived(
        self, findings: tuple[Finding, ...], facts: Mapping[type, object]
    ) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """The findings, with `waived` where a waiver excuses them or their cause, and notes on expired waivers."""
        name = _text(facts.get(System), "name")
        marked, expired = waiver_rules.apply_waivers(findings, self.settings.waivers, name, self.today)
        if any(finding.waived for finding in marked):
            marked = check_round.fold(marked, {one: CHECKS[one].after for one in self.checks})
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


def hidden_devices(facts: Mapping[type, object]) -> Iterator[str]:
    """A note for each list of devices of which `exclude` hides something."""
    for kind, what in ((Rdma, "RDMA devices"), (Pci, "PCI functions"), (Links, "interfaces")):
        fact = facts.get(kind)
        if isinstance(fact, Unreadable) and fact.is_excluded:
            yield f"exclude hides {fact.path}: nothing can be said of {what}"
        elif isinstance(fact, (Rdma, Pci, Links)) and fact.hidden:
            more = f" and {len(fact.hidden) - HIDDEN_NAMED} more" if len(fact.hidden) > HIDDEN_NAMED else ""
            yield f"exclude hides {what}: {', '.join(fact.hidden[:HIDDEN_NAMED])}{more}; nothing can be said of them"


def nics_seen(facts: Mapping[type, object]) -> int | None:
    """How many NICs a look shows: those of RDMA devices, else those on the PCI bus, else the links of NICs.

    None if it did not look at RDMA devices, or could not look and saw none.
    """
    rdma, pci, links = facts.get(Rdma), facts.get(Pci), facts.get(Links)
    if rdma is None:
        return None
    carriers = {one.place for one in rdma.devices if not one.virtual_function} if isinstance(rdma, Rdma) else set()
    listed = [one for one in pci.nics if not one.virtual_function] if isinstance(pci, Pci) else []
    physical = [one for one in links.links if one.physical] if isinstance(links, Links) else []
    found = len(carriers) or len(listed) or len(physical)
    blind = any(isinstance(fact, Unreadable) and not fact.not_recorded for fact in (rdma, pci))
    return None if blind and not found else found


def baseline(profile: Profile, findings: Iterable[Finding]) -> str:
    """Who knows which devices belong on this node, "" if nobody does."""
    expect = profile.expect
    if expect.devices or expect.ports or expect.gpus:
        return f"profile {profile.name}"
    if expect.at_least is not None and expect.at_least.count > 1:
        return f"at least {expect.at_least.count} ports in profile {profile.name}"
    listed = any(one.check == METADATA_LISTS_ENIS and one.status is Status.OK for one in findings)
    return "the ENIs in the metadata" if listed else ""


def unjudged_here(
    facts: Mapping[type, object], profile: Profile, expected: Expected | Unreadable | None
) -> Iterator[str]:
    """What nothing on this node can judge, in words."""
    look = Look(0.0, live=True, facts=facts)
    expected = check_round.expect(look, profile) if expected is None else expected
    if not isinstance(expected, Unreadable):
        yield from unjudged.told(expected, look.get(Pci), look.get(Links))


def _text(thing: object, name: str) -> str:
    value = raw(thing)[name] if isinstance(thing, Shown) else ""
    return value if isinstance(value, str) else ""
