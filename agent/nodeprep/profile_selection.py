"""Which profiles are in force on a node, who chose them, and why; for `check` and for the agent.

The first of these that names profiles decides:

1. `--profile NAME` (`by_option`)
2. for `check` without `--config`: the agent of the node (`by_agent`)
   for `check --snapshot`: the recording, unless `--config` has a `default`
3. the first rule of `assign` that matches the node's labels, else `default` (`by_configuration`)
4. the hardware (`_by_hardware`)

`cli.check.assessments` decides by 1 and 2, and `select` by 3 and 4. `--profile auto` leaves out 2 and 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from nodeprep import __version__, job_profile
from nodeprep.agent_state import AgentState, NodeState
from nodeprep.checks import CHECKS, IDS
from nodeprep.config import profile_files
from nodeprep.config.configuration import Settings
from nodeprep.config.profile_files import BUILT_IN, NamedProfile
from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.expected import suited
from nodeprep.facts.expected.suited import INFINIBAND, ROCE
from nodeprep.facts.kubernetes.cluster import Cluster, KubeNode
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.cni import Cni
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import NO_PROFILE, Profile
from nodeprep.look import Look
from nodeprep.model import Unreadable, raw
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, replace

SELECTION_FACTS = frozenset({Pci, Rdma, Links, Terway, Cni, Cluster})  # `select` reads these and no other facts
FORGET = "nodeprep reset --inventory forgets it"
NO_STATE = AgentState()


class ProfileSelection(Value):
    """The profiles in force, who chose them, and why the choice may be undecided.

    `profile` demands all that `parts` demand. A recording has no `parts`, only `profile`. `by_hardware`: only the
    hardware asked for these profiles.

    `undecided` are reasons why nobody can tell which profiles are in force. While there is one, the node is not ready.
    `temporary`: labels or hardware could not be read, and may select other profiles once they can be. So the agent does
    not remember this selection.

    `missing_hardware` says which hardware was searched for and not found, if there is no profile for that reason.
    `omitted_gates` are gates that ask Kubernetes. They are left out if only the hardware asked for the profile and
    nobody gave access to Kubernetes.
    """

    profile: Profile
    chosen_by: str
    parts: tuple[NamedProfile, ...] = ()
    by_hardware: bool = False
    undecided: tuple[str, ...] = ()
    temporary: bool = False
    missing_hardware: str = ""
    omitted_gates: tuple[str, ...] = ()

    @property
    def is_guess(self) -> bool:
        """Whether the hardware chose because the operator's choice could not be read: its gates do not count."""
        return self.by_hardware and self.temporary


def by_option(name: str, settings: Settings) -> ProfileSelection:
    """The profile of `--profile`: a built-in one's name, or a file. Raises ConfigError."""
    return _of("chosen with --profile", [_over(settings, profile_files.named(name))])


def by_agent(agent_state: AgentState) -> ProfileSelection | None:
    """The profile that the agent of this node uses, None if it has none or one that this version cannot read."""
    if agent_state.profile.get("name", NO_PROFILE.name) == NO_PROFILE.name:
        return None
    try:
        known = job_profile.parse(agent_state.profile)
        profile = replace(known, want_by=agent_state.want_by, expect_by=agent_state.expect_by)
    except InvalidValueError:
        return None
    by = f"{agent_state.chosen_by}, according to the agent"
    return ProfileSelection(profile, by, remembered_profiles(agent_state), by_hardware=agent_state.by_hardware)


def by_configuration(settings: Settings, labels: Mapping[str, str] | None) -> ProfileSelection | None:
    """The profiles of the first rule that matches, else the default; None if the hardware is to choose.

    `labels` are the node's, None if they are not known. If a rule needs them then, the selection is undecided.
    """
    rules = settings.agent_part.assign if settings.agent_part else ()
    for index, rule in enumerate(rules):
        by = f"assign[{index}] of {settings.file}"
        if rule.match and labels is None:
            unknown = f"{by} goes by labels of the node, and they are not known yet"
            return ProfileSelection(settings.over(NO_PROFILE), unknown, undecided=(unknown,), temporary=True)
        if rule.applies(labels or {}):
            return _of(by, (_over(settings, one) for one in rule.profiles))
    default = settings.named()
    return None if default is None else _of(f"the default of {settings.file}", [_over(settings, default)])


def select(
    settings: Settings, look: Look, agent_state: AgentState = NO_STATE, checks: Iterable[str] = IDS
) -> ProfileSelection:
    """The profiles that configuration, hardware and the agent's memory select.

    If the labels are not known, the profiles that the configuration last named stay in force. If none are remembered,
    the hardware's are judged, and no gate opens. Profiles that the hardware ever chose stay in force: a node that lost
    its NICs looks like a node that never had any. If the hardware cannot be read, no gate opens, and a node that is
    ready stays so. `checks` are ids of those that run.
    """
    configured = by_configuration(settings, _labels(look))
    if configured is None:
        return _by_hardware_and_memory(settings, look, agent_state, checks)
    if not configured.undecided:
        return configured
    remembered = () if agent_state.by_hardware else remembered_profiles(agent_state)
    if remembered:
        return replace(_of(f"{configured.chosen_by}; as remembered", remembered), temporary=True)
    guess = _by_hardware(settings, look, agent_state, checks)
    by = f"{configured.chosen_by}; {guess.chosen_by}"
    return replace(guess, chosen_by=by, undecided=configured.undecided, temporary=True)


def before_looking(settings: Settings, agent_state: AgentState) -> ProfileSelection | None:
    """The profiles before the first look: the remembered ones, else the default, else those that hardware ever chose.

    None if nothing names one. Rules of `assign` need labels, which are not known yet.
    """
    parts, by_hardware = remembered_profiles(agent_state), agent_state.by_hardware
    if not parts:
        default = None if settings.agent.assign else settings.named()
        by_hardware = default is None
        parts = (default,) if default else tuple(map(profile_files.named, _built_in(agent_state)))
    return replace(_of(agent_state.chosen_by, parts), by_hardware=by_hardware) if parts else None


def excluded_paths(settings: Settings, selection: ProfileSelection | None = None) -> tuple[str, ...]:
    """Globs of paths not to read: those of `selection`; without one, those of all profiles that may be selected."""
    if selection is not None:
        return tuple(dict.fromkeys(selection.profile.exclude))
    rules = settings.agent_part.assign if settings.agent_part else ()
    possible = [_named(name, settings) for name in (ROCE, INFINIBAND)]
    possible += [one.profile for rule in rules for one in rule.profiles]
    return tuple(dict.fromkeys(path for profile in possible for path in profile.exclude))


def remembered_profiles(agent_state: AgentState) -> tuple[NamedProfile, ...]:
    """The profiles that were in force when the agent state was saved; none if they cannot be read."""
    try:
        return tuple(
            NamedProfile(
                replace(
                    job_profile.parse(part["profile"]),
                    want_by=part.get("want_by", {}),
                    expect_by=part.get("expect_by", ""),
                ),
                tuple(part["names"]),
            )
            for part in agent_state.parts
        )
    except (InvalidValueError, KeyError, TypeError):
        return ()


def baseline(agent_state: AgentState) -> Profile | None:
    """The devices and ports that the node had when it was first ready; None if they are not known."""
    try:
        return None if agent_state.baseline is None else job_profile.parse(agent_state.baseline)
    except InvalidValueError:
        return None


def merged(parts: Iterable[NamedProfile]) -> Profile:
    """One profile that demands what each of them does; of two that speak of the same thing, the first counts."""
    profiles = [part.profile for part in parts]
    whole = reduce(job_profile.extend, profiles)
    rests_on = tuple(dict.fromkeys(gate for profile in profiles for gate in profile.rests_on))
    if len(profiles) > 1:
        by = {check: job_profile.stated_by(whole, check) for check in whole.want}
        whole = replace(whole, name="+".join(profile.name for profile in profiles), want_by=by)
    return replace(whole, extends=None, rests_on=rests_on)


def _of(by: str, profiles: Iterable[NamedProfile]) -> ProfileSelection:
    parts = tuple(profiles)
    return ProfileSelection(merged(parts), by, parts)


def _named(name: str, settings: Settings) -> Profile:
    return settings.over(profile_files.effective(name))


def _over(settings: Settings, one: NamedProfile) -> NamedProfile:
    return replace(one, profile=settings.over(one.profile))


def _labels(look: Look) -> Mapping[str, str] | None:
    """The node's labels, None if Kubernetes does not tell them."""
    cluster = look.get(Cluster)
    node = raw(cluster)["node"] if cluster is not None else None
    return raw(node)["labels"] if isinstance(node, KubeNode) else None


def _built_in(agent_state: AgentState) -> tuple[str, ...]:
    """The profiles that the hardware ever chose, as far as this version has them."""
    return tuple(name for name in agent_state.hardware_profiles if name in BUILT_IN)


def _by_hardware_and_memory(
    settings: Settings, look: Look, agent_state: AgentState, checks: Iterable[str]
) -> ProfileSelection:
    """The hardware's selection, with profiles that only another version of nodeprep has, and with the baseline."""
    selection = _by_hardware(settings, look, agent_state, checks)
    undecided = [] if agent_state.state is NodeState.READY else [*selection.undecided]
    remembered = {part.profile.name: part for part in reversed(remembered_profiles(agent_state))}
    parts = selection.parts
    for name in agent_state.hardware_profiles:
        if name in remembered and name not in BUILT_IN:
            parts = (*parts, remembered[name])
        elif name not in BUILT_IN:
            undecided.append(f"hardware once chose {name}, which nodeprep {__version__} does not know; {FORGET}")
    if parts != selection.parts:
        selection = replace(selection, profile=merged(parts), parts=parts)
    return _with_baseline(replace(selection, undecided=tuple(undecided)), baseline(agent_state))


def _with_baseline(selection: ProfileSelection, known: Profile | None) -> ProfileSelection:
    if known is None or not selection.by_hardware:
        return selection
    by = f"{selection.chosen_by}; devices as when it was first ready"
    return replace(selection, profile=replace(selection.profile, expect=known.expect), chosen_by=by)


def _by_hardware(settings: Settings, look: Look, agent_state: AgentState, checks: Iterable[str]) -> ProfileSelection:
    """The profiles of the hardware of this look, and those that it ever chose."""
    names = dict.fromkeys(_built_in(agent_state))
    rdma, pci = look.facts.get(Rdma), look.facts.get(Pci)
    if isinstance(rdma, Unreadable):
        return _of_hardware(names, "as remembered", settings, look, checks) if names else _unread(rdma, settings)
    found = suited.suited(look.get(Pci), look.get(Rdma), look.get(Links))
    found = (suited.suited_to_network(look.get(Terway), look.get(Cni)) if found.nothing else None) or found
    if found.profile is None and not names:
        if isinstance(pci, Unreadable) and found.nothing:
            return _unread(pci, settings)
        missing = found.because if found.nothing else ""
        by = f"chosen by hardware: {found.because}"
        return ProfileSelection(settings.over(NO_PROFILE), by, missing_hardware=missing)
    if found.profile is not None:
        names.setdefault(found.profile)
    return _of_hardware(names, found.because, settings, look, checks)


def _unread(why: Unreadable, settings: Settings) -> ProfileSelection:
    by = f"the hardware could not be looked at: {why}"
    return ProfileSelection(settings.over(NO_PROFILE), by, undecided=(by,), temporary=True)


def _of_hardware(
    names: Iterable[str], because: str, settings: Settings, look: Look, checks: Iterable[str]
) -> ProfileSelection:
    parts = []
    omitted: dict[str, None] = {}
    known = frozenset(checks)
    for name in names:
        profile = _named(name, settings)
        asking = [gate for gate in profile.gates if gate in known and _is_unanswerable(gate, look)]
        omitted |= dict.fromkeys(asking)
        profile = replace(profile, gates=tuple(gate for gate in profile.gates if gate not in asking))
        if profile.expect.at_least:
            counted = replace(profile.expect.at_least, suggested=True)
            profile = replace(profile, expect=replace(profile.expect, at_least=counted))
        parts.append(NamedProfile(profile, profile_files.named(name).names))
    without = f", without {len(omitted)} gates that ask Kubernetes" if omitted else ""
    selection = _of(f"chosen by hardware: {because}{without}", parts)
    return replace(selection, by_hardware=True, omitted_gates=tuple(omitted))


def _is_unanswerable(gate: str, look: Look) -> bool:
    """Whether a gate asks Kubernetes, and nobody gave access: only an operator may demand it then."""
    cluster = look.facts.get(Cluster)
    return isinstance(cluster, Unreadable) and cluster.not_asked and Cluster in CHECKS[gate].needs
