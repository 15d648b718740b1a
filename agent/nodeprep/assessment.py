"""What is asked of a node: by which profile, with which numbers, what is waived; `check` and the agent ask alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from nodeprep import check_round, job_profile
from nodeprep.agent_state import AgentState
from nodeprep.config import assigned, profile_files, waiver_rules, wants
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import NamedProfile
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.expected import suited
from nodeprep.facts.expected.suited import INFINIBAND, ROCE
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import NO_PROFILE, Profile
from nodeprep.look import Look
from nodeprep.model import Check, Finding, Report, Severity, Shown, Skipped, Status, Unreadable, Verdict, raw
from nodeprep.values import Value, replace

UNCAPTURED = (
    "nothing says which devices belong here, so only a port unlike most of its kind can be told from a good one; "
    "on a good node, nodeprep profile capture writes down what belongs"
)


class ProfileSelection(Value):
    """The profile that applies and who chose it; what was looked for in vain where none does.

    `left_out` are gates of it that ask Kubernetes, where nobody chose it and nobody gave access. `parts` are the
    profiles that it is made of, and `by_hardware` whether nobody but the hardware asked for them. `untold` says why
    the configuration's word could not be had, so that this is the next best; `unseen` why the hardware, which was to
    choose, could not be looked at, so that this is nobody's choice.
    """

    profile: Profile
    by: str
    looked_for: str = ""
    left_out: tuple[str, ...] = ()
    parts: tuple[NamedProfile, ...] = ()
    by_hardware: bool = False
    untold: str = ""
    unseen: str = ""


class OperatorWishes(Value):
    """The operator's word. `profile` is None where the hardware is to choose, and `by` says who chose it.

    `auto`: the hardware is to, whatever the configuration says. `today` is the UTC date; `looked_for` is what the
    hardware was searched for in vain, where a recording says that no profile applied. `agent_state` is the memory of
    the agent on this node, None without.
    """

    profile: Profile | None
    by: str
    settings: Settings
    today: str
    looked_for: str = ""
    auto: bool = False
    agent_state: AgentState | None = None

    def named(self, name: str) -> Profile:
        """A built-in profile or a file's, with what the configuration says over it. Raises ConfigError."""
        return self.settings.over(profile_files.effective(name))

    def wants(self, profile: Profile) -> dict[str, object]:
        """Each check's numbers, by check id."""
        return wants.wants(profile)

    def waived(self, findings: tuple[Finding, ...], node: str) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """The findings with those that are waived marked so, and what is to be said of waivers that ran out."""
        return waiver_rules.apply_waivers(findings, self.settings.waivers, node, self.today)


class Question(Value):
    """What is asked of a node: the checks to run, those left out, and the operator's word.

    `insisted` are ids that the operator typed: such a check is not left out in silence. `seen_longer` gives findings of
    checks that compare looks from who has compared for longer than we can; what it is silent on we look at ourselves.
    """

    checks: tuple[Check, ...]
    deselected: tuple[Skipped, ...]
    profile_request: OperatorWishes
    insisted: tuple[str, ...] = ()
    seen_longer: Callable[[], tuple[Finding, ...]] = tuple

    def report(self, look: Look, before: Look | None, chosen: ProfileSelection) -> Report:
        """Judge a look, and say what it comes to."""
        numbers = self.profile_request.wants(chosen.profile)
        others = self.seen_longer()
        seen = {finding.check for finding in others}
        own = [check for check in self.checks if check.id not in seen]
        judged = check_round.unfolded(own, look, before, chosen.profile, numbers, insisted=frozenset(self.insisted))
        order = {check.id: number for number, check in enumerate(self.checks)}
        every = sorted((*judged.findings, *others), key=lambda one: order[one.check])
        findings = check_round.fold(every, {check.id: check.after for check in self.checks})
        return self.told(findings, judged.skipped, look.facts, chosen)

    def told(
        self,
        findings: tuple[Finding, ...],
        skipped: Iterable[Skipped],
        facts: Mapping[type, object],
        chosen: ProfileSelection,
    ) -> Report:
        """What folded findings come to: what is waived is marked so, and what the agent remembers stands beside it."""
        node = self.node(facts)
        remembered = latched(findings, self.profile_request.agent_state, self.checks)
        known, expired = self.profile_request.waived(remembered, node)
        return Report(
            node=node,
            boot_id=_text(facts.get(System), "boot_id"),
            profile=chosen.profile.name,
            chosen_by=chosen.by,
            gates=chosen.profile.gates,
            findings=known,
            skipped=(*skipped, *self.deselected),
            looked_for=chosen.looked_for,
            notes=(*expired, *notes(chosen)),
            agent=str(self.profile_request.agent_state.state) if self.profile_request.agent_state else "",
        )

    def node(self, facts: Mapping[type, object]) -> str:
        """What the node calls itself, "" where it shows no name."""
        return _text(facts.get(System), "name")

    def choose(self, look: Look, held: Iterable[str] = ()) -> ProfileSelection:
        """The operator's profile, else the one that the hardware of this look asks for.

        `held` are names that hardware once chose: a node that lost its NICs looks like one that never had any.
        """
        given = self.profile_request.profile
        if given is not None:
            return ProfileSelection(
                given,
                self.profile_request.by,
                self.profile_request.looked_for,
                parts=(NamedProfile(given, (given.name,)),),
            )
        if self.profile_request.auto:
            return self._by_hardware(look, held)
        choice = assigned.assigned(self.profile_request.settings, _labels(look))
        if choice.profiles:
            return ProfileSelection(merged(choice.profiles), choice.by, parts=choice.profiles)
        found = self._by_hardware(look, held)
        if not choice.untold:
            return found
        return replace(found, by=f"{choice.untold}; {found.by}", untold=choice.untold)

    def _by_hardware(self, look: Look, held: Iterable[str]) -> ProfileSelection:
        known = dict.fromkeys(held)
        rdma, pci = look.facts.get(Rdma), look.facts.get(Pci)
        if isinstance(rdma, Unreadable):
            return self._of_hardware(known, "as remembered", look) if known else self._unseen(rdma)
        found = suited.suited(look.get(Pci), look.get(Rdma))
        found = (suited.suited_to_network(look.get(Terway), look.get(Cni)) if found.nothing else None) or found
        if found.profile is None and not known:
            if isinstance(pci, Unreadable) and found.nothing:
                return self._unseen(pci)
            looked_for = found.because if found.nothing else ""
            return ProfileSelection(self.no_profile(), f"chosen by hardware: {found.because}", looked_for)
        if found.profile is not None:
            known.setdefault(found.profile)
        return self._of_hardware(known, found.because, look)

    def _unseen(self, why: Unreadable) -> ProfileSelection:
        by = f"the hardware could not be looked at: {why}"
        return ProfileSelection(self.no_profile(), by, unseen=by)

    def _of_hardware(self, names: Iterable[str], because: str, look: Look) -> ProfileSelection:
        parts = []
        missing: dict[str, None] = {}
        for name in names:
            profile = self.profile_request.named(name)
            left_out = self.unanswerable(profile, look)
            missing |= dict.fromkeys(left_out)
            profile = replace(profile, gates=tuple(gate for gate in profile.gates if gate not in left_out))
            if profile.expect.at_least:
                counted = replace(profile.expect.at_least, suggested=True)
                profile = replace(profile, expect=replace(profile.expect, at_least=counted))
            parts.append(NamedProfile(profile, profile_files.named(name).names))
        without = f", without {len(missing)} gates that ask Kubernetes" if missing else ""
        by = f"chosen by hardware: {because}{without}"
        return ProfileSelection(merged(parts), by, left_out=tuple(missing), parts=tuple(parts), by_hardware=True)

    def unanswerable(self, profile: Profile, look: Look) -> tuple[str, ...]:
        """Gates that ask Kubernetes, where nobody gave access: a profile that nobody asked for does not close them."""
        cluster = look.facts.get(Cluster)
        if not (isinstance(cluster, Unreadable) and cluster.not_asked):
            return ()
        asking = {check.id for check in self.checks if Cluster in check.needs}
        return tuple(gate for gate in profile.gates if gate in asking)

    def no_profile(self) -> Profile:
        """Nothing is demanded, but the configuration's numbers and exclusions hold."""
        return self.profile_request.settings.over(NO_PROFILE)

    def excluded(self) -> tuple[str, ...]:
        """Paths not to read before a profile is chosen: whatever any that may be chosen excludes."""
        given = self.profile_request.profile
        possible = [self.profile_request.named(name) for name in (ROCE, INFINIBAND)] if given is None else [given]
        part = self.profile_request.settings.agent_part
        possible += [one.profile for rule in (part.assign if part else ()) for one in rule.profiles]
        return tuple(dict.fromkeys(path for profile in possible for path in profile.exclude))


def merged(parts: Iterable[NamedProfile]) -> Profile:
    """One profile that demands what each of them does; of two that speak of the same thing, the first counts."""
    profiles = [part.profile for part in parts]
    whole = reduce(job_profile.extend, profiles)
    return replace(whole, name="+".join(profile.name for profile in profiles), extends=None)


def with_baseline(chosen: ProfileSelection, baseline: Profile | None) -> ProfileSelection:
    """Hardware's choice with the devices and ports that the node had when it was first ready."""
    if baseline is None or not chosen.by_hardware:
        return chosen
    expects = replace(chosen.profile, expect=baseline.expect)
    return replace(chosen, profile=expects, by=f"{chosen.by}; devices as when it was first ready")


def latched(
    findings: tuple[Finding, ...], agent_state: AgentState | None, checks: Iterable[Check]
) -> tuple[Finding, ...]:
    """The findings, with what the agent holds against a subject until a human says otherwise."""
    held = {(one.check, one.subject): one for one in (agent_state.cases if agent_state else ()) if one.latched}
    if not held:
        return findings
    failing = {(one.check, one.subject) for one in findings if one.status is Status.FAIL}
    known = {check.id: check for check in checks}
    kept = []
    for (check, subject), case in held.items():
        if check in known and (check, subject) not in failing:
            message = f"{case.message} [not seen now; latched: {case.latched}; nodeprep reset clears it]"
            verdict = Verdict(subject, Status.FAIL, case.reason, message, case.remedy, case.observed)
            kept.append(Finding(check, Severity.GATE, verdict, fix=known[check].fix_of(verdict)))
    replaced = {(one.check, one.subject) for one in kept}
    return (*(one for one in findings if (one.check, one.subject) not in replaced), *kept)


def notes(chosen: ProfileSelection) -> Iterator[str]:
    """What a reader of the report must know of the profile."""
    if chosen.left_out:
        yield f"{len(chosen.left_out)} gates of {chosen.profile.name} ask Kubernetes: --kubeconfig FILE --node NAME"
    expect = chosen.profile.expect
    if expect.at_least is not None and expect.at_least.count <= 1 and not (expect.devices or expect.ports):
        yield UNCAPTURED


def _labels(look: Look) -> Mapping[str, str] | None:
    """The node's labels, None where Kubernetes does not tell them."""
    cluster = look.get(Cluster)
    node = raw(cluster)["node"] if cluster is not None else None
    return raw(node)["labels"] if isinstance(node, KubeNode) else None


def _text(thing: object, name: str) -> str:
    value = raw(thing)[name] if isinstance(thing, Shown) else ""
    return value if isinstance(value, str) else ""
