"""From a look to a report: the profile that applies, the checks' verdicts, what is waived, and what was not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nodeprep.cli.sight import Sight
from nodeprep.cli.wishes import Wishes
from nodeprep.facts.cluster import Cluster
from nodeprep.facts.cni import Cni
from nodeprep.facts.pci import Pci
from nodeprep.facts.rdma import Rdma
from nodeprep.facts.suited import INFINIBAND, ROCE, suited, suited_to_network
from nodeprep.facts.system import System
from nodeprep.facts.terway import Terway
from nodeprep.look import Look
from nodeprep.model import Check, Report, Shown, Skipped, Unreadable, raw
from nodeprep.profile import NO_PROFILE, Profile
from nodeprep.round import judge

UNCAPTURED = (
    "nothing says which devices belong here, so only a port unlike most of its kind can be told from a good one; "
    "on a good node, nodeprep profile capture writes down what belongs"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The profile that applies and who chose it; what was looked for in vain where none does.

    `left_out` are gates of it that ask Kubernetes, where nobody chose it and nobody gave access.
    """

    profile: Profile
    by: str
    looked_for: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a node: the checks to run, those left out, and the operator's word.

    `insisted` are ids that the operator typed: such a check is not left out in silence.
    """

    checks: tuple[Check, ...]
    deselected: tuple[Skipped, ...]
    wishes: Wishes
    insisted: tuple[str, ...] = ()

    def report(self, look: Look, before: Look | None, chosen: Chosen) -> Report:
        numbers = self.wishes.wants(chosen.profile)
        judged = judge(self.checks, look, before, chosen.profile, numbers, insisted=frozenset(self.insisted))
        system = look.facts.get(System)
        node = _text(system, "name")
        findings, expired = self.wishes.waived(judged.findings, node)
        return Report(
            node=node,
            boot_id=_text(system, "boot_id"),
            profile=chosen.profile.name,
            chosen_by=chosen.by,
            gates=chosen.profile.gates,
            findings=findings,
            skipped=(*judged.skipped, *self.deselected),
            looked_for=chosen.looked_for,
            notes=(*expired, *notes(chosen)),
        )

    def choose(self, look: Look) -> Chosen:
        """The operator's profile, else the one that the hardware of this look asks for."""
        given = self.wishes.profile
        if given is not None:
            return Chosen(given, self.wishes.by, self.wishes.looked_for)
        rdma = look.facts.get(Rdma)
        if isinstance(rdma, Unreadable):
            return Chosen(self.no_profile(), f"the hardware could not be looked at: {rdma}")
        found = suited(look.get(Pci), look.get(Rdma))
        found = (suited_to_network(look.get(Terway), look.get(Cni)) if found.nothing else None) or found
        if found.profile is None:
            looked_for = found.because if found.nothing else ""
            return Chosen(self.no_profile(), f"chosen by hardware: {found.because}", looked_for)
        profile = self.wishes.named(found.profile)
        left_out = self.unanswerable(profile, look)
        profile = replace(profile, gates=tuple(gate for gate in profile.gates if gate not in left_out))
        if profile.expect.at_least:
            counted = replace(profile.expect.at_least, suggested=True)
            profile = replace(profile, expect=replace(profile.expect, at_least=counted))
        return Chosen(profile, f"chosen by hardware: {found.because}", left_out=left_out)

    def unanswerable(self, profile: Profile, look: Look) -> tuple[str, ...]:
        """Gates that ask Kubernetes, where nobody gave access: a profile that nobody asked for does not close them."""
        cluster = look.facts.get(Cluster)
        if not (isinstance(cluster, Unreadable) and cluster.not_asked):
            return ()
        asking = {check.id for check in self.checks if Cluster in check.needs}
        return tuple(gate for gate in profile.gates if gate in asking)

    def no_profile(self) -> Profile:
        """Nothing is demanded, but the configuration's numbers and exclusions hold."""
        return self.wishes.settings.over(NO_PROFILE)

    def excluded(self) -> tuple[str, ...]:
        """Paths not to read before a profile is chosen: whatever any that may be chosen excludes."""
        given = self.wishes.profile
        possible = [self.wishes.named(name) for name in (ROCE, INFINIBAND)] if given is None else [given]
        return tuple(dict.fromkeys(path for profile in possible for path in profile.exclude))


@dataclass(slots=True)
class Watch:
    """Judges one node again and again.

    A profile once chosen by hardware is held: a node that lost its NICs looks like one that never had any.
    """

    question: Question
    sight_of: Callable[[tuple[str, ...]], Sight]
    sight: Sight | None = None
    excluded: tuple[str, ...] = ()
    chosen: Chosen | None = None

    def report(self) -> Report:
        return self.question.report(*self.observe())

    def observe(self) -> tuple[Look, Look | None, Chosen]:
        """The look, the one before it if rates are asked, and the profile that holds."""
        if self.sight is None:
            self.excluded = self.question.excluded()
            self.sight = self.sight_of(self.excluded)
        look, before = self.sight.look()
        chosen = self.chosen or self.question.choose(look)
        if set(chosen.profile.exclude) != set(self.excluded):
            self.excluded = chosen.profile.exclude
            self.sight = self.sight_of(self.excluded)
            look, before = self.sight.look()
        self.chosen = None if chosen.profile.name == NO_PROFILE.name else chosen
        return look, before, chosen


def notes(chosen: Chosen) -> Iterator[str]:
    """What a reader of the report must know of the profile."""
    if chosen.left_out:
        yield f"{len(chosen.left_out)} gates of {chosen.profile.name} ask Kubernetes: --kubeconfig FILE --node NAME"
    expect = chosen.profile.expect
    if expect.at_least is not None and expect.at_least.count <= 1 and not (expect.devices or expect.ports):
        yield UNCAPTURED


def _text(thing: object, name: str) -> str:
    value = raw(thing)[name] if isinstance(thing, Shown) else ""
    return value if isinstance(value, str) else ""
