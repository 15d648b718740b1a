"""`nodeprep profile`: capture a good node's profile, show a whole profile, validate files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nodeprep import check_round, facts, job_profile
from nodeprep.assessment import Assessment
from nodeprep.checks import IDS
from nodeprep.cli import page_layout, place, terminal, usage
from nodeprep.cli.check import agent_knowledge, assessments, json_report
from nodeprep.cli.check.choices import ListFormat
from nodeprep.cli.check.look_pair import LookPair
from nodeprep.cli.check.node_watch import NodeWatch
from nodeprep.cli.files import capture_judgement, output_file
from nodeprep.cli.files.capture_judgement import CaptureJudgement
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.config import profile_files, yaml_document
from nodeprep.config.configuration import AUTO, Settings
from nodeprep.config.document import ConfigError
from nodeprep.config.profile_files import BUILT_IN
from nodeprep.doors import clock
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.facts.machine import modules, pci, system
from nodeprep.facts.network import links
from nodeprep.facts.rdma import devnodes, rdma
from nodeprep.facts.rdma.rdma import Port
from nodeprep.job_profile import PortWant, Profile
from nodeprep.look import Look
from nodeprep.model import Report, raw
from nodeprep.observer import Observer
from nodeprep.values import replace

LOOKED_AT = (rdma.FACT, pci.FACT, links.FACT, devnodes.FACT, modules.FACT)
NOTES_LIMIT = 5
SETTLE_SECONDS = 1.0  # between the two looks at a live node, as `check` does by default


def list_all(output: ListFormat) -> int:
    """Print the built-in profiles."""
    known = [profile_files.effective(name) for name in BUILT_IN]
    if output is ListFormat.JSON:
        listed = [{"name": one.name, "description": one.description, "gates": list(one.gates)} for one in known]
        terminal.put(json_report.text(listed))
        return 0
    rows = [(one.name, str(len(one.gates)), " ".join(one.description.split())) for one in known]
    terminal.put("\n".join(page_layout.columns([("PROFILE", "GATES", "FOR"), *rows], terminal.whole_width())))
    return 0


def capture(
    root: str | None, output: str | None, name: str | None, accept: Iterable[str] = (), *, force: bool = False
) -> int:
    """Write the profile of this node, or of a copy of one, to a file or stdout; 1 if it is no model for others.

    `force` replaces a file that is there. Raises UsageError.
    """
    accepted = capture_judgement.acceptances(accept)
    output_file.refuse_existing(output, force=force)
    at = place.place(root, None)
    look, report, rails = _judged(at)
    profile = _profile(look, at, name)
    judgement = capture_judgement.judge(report.findings, accepted, rails)
    if judgement.refused:
        _refuse(judgement, at)
        return 1
    if judgement.accepted:
        names = (f"{capture_judgement.name(one)} ({one.verdict.reason})" for one in judgement.accepted)
        taken = "; ".join(sorted(names))
        profile = replace(profile, description=f"{profile.description}; accepted: {taken}")
    output_file.write(yaml_document.dump(job_profile.mapping(profile)), output, force=force)
    _tell(profile, look, at)
    if judgement.listed:
        terminal.complain("seen on this node, and no part of the profile:")
        _table(capture_judgement.rows(judgement.listed))
    for note in _unread(look):
        terminal.complain(note)
    return 0


def _judged(at: NodePlace) -> tuple[Look, Report, frozenset[str]]:
    """A look at the node, its report by the profile that its hardware chooses, and the places of its rails."""
    known = agent_knowledge.agent_knowledge(at)
    assessment = replace(_by_hardware(), agent_state=known.agent_state, names_elsewhere=False)

    def looks(excluded: tuple[str, ...]) -> LookPair:
        host = at.host(excluded, assessment.settings.metadata_url)
        return LookPair(Observer(host), facts.ALL, SETTLE_SECONDS if at.live else 0.0)

    look, before, selection = NodeWatch(assessment, looks).observe()
    return look, assessment.report(look, before, selection), capture_judgement.rails(look, selection)


def _by_hardware() -> Assessment:
    """By the profile that the hardware chooses, with the numbers of the configuration.

    A configuration that cannot be read is said and left out: it may name the very file that is to be captured.
    """
    try:
        return assessments.of_node(AUTO, None, clock.today())
    except UsageError as error:
        terminal.complain(f"judged without the configuration: {error}")
        return Assessment(IDS, (), Settings(), clock.today())


def _refuse(judgement: CaptureJudgement, at: NodePlace) -> None:
    count = "1 finding stands" if len(judgement.refused) == 1 else f"{len(judgement.refused)} findings stand"
    terminal.complain(f"not captured: {count} against {at.where} as the model for other nodes:")
    _table(capture_judgement.rows(judgement.refused))
    terminal.complain("mend it and capture again; --accept CHECK@DEVICE, as written here, takes one as it is")


def _tell(profile: Profile, look: Look, at: NodePlace) -> None:
    """Say on stderr what was captured, and what is not required."""
    expect = profile.expect
    required = sum(port.required for port in expect.ports.values())
    bonds = f", {len(expect.bonds)} bond{'' if len(expect.bonds) == 1 else 's'}" if expect.bonds else ""
    gpus = f", {len(expect.gpus)} GPU{'' if len(expect.gpus) == 1 else 's'}" if expect.gpus else ""
    terminal.complain(
        f"captured {len(expect.devices)} RDMA devices and {len(expect.ports)} ports, {required} of them required"
        f"{bonds}{gpus}, from {at.where}; extends {profile.extends}"
    )
    idle = [(key, port) for key, port in expect.ports.items() if not port.required]
    if idle:
        seen = look.get(rdma.Rdma)
        ports = {port.subject.key: port for port in (seen.ports if seen else ())}
        terminal.complain("not required; if a job needs one of them, mend it and capture again:")
        _table([("PORT", "NAME", "STATE", "WHY"), *(_idle_row(key, want, ports[key]) for key, want in idle)])


def _idle_row(key: str, want: PortWant, port: Port) -> tuple[str, ...]:
    state = raw(port)["state"]
    why = "its bond works without it, and may not lose it" if want.bonded else "it carries nothing now"
    return key, port.name, state if isinstance(state, str) else "not readable", why


def _table(rows: list[tuple[str, ...]]) -> None:
    for line in page_layout.columns(rows):
        terminal.complain(f"  {line}")


def show(asked: str) -> int:
    """Print a profile with everything that it inherits. Raises UsageError."""
    with usage.usage():
        terminal.put(yaml_document.dump(job_profile.mapping(profile_files.effective(asked))).rstrip("\n"))
    return 0


def check_files(files: Iterable[str]) -> int:
    """Say whether each file, or each built-in profile by name, is a valid profile; 2 if one is not."""
    code = 0
    for file in files:
        try:
            profile = (
                profile_files.effective(file)
                if file in BUILT_IN and not Path(file).exists()
                else profile_files.validate(file)
            )
        except ConfigError as error:
            terminal.complain(str(error))
            code = 2
            continue
        expect = profile.expect
        ports = f"at least {expect.at_least.count} ports" if expect.at_least else f"{len(expect.ports)} ports"
        terminal.put(
            f"{file}: profile {profile.name}, {len(profile.gates)} gates, {len(expect.devices)} devices, {ports}"
        )
    return code


def _profile(look: Look, at: NodePlace, name: str | None) -> Profile:
    seen = look.facts[rdma.Rdma]
    if not isinstance(seen, rdma.Rdma):
        raise UsageError(f"nothing to capture in {at.root}: could not look at {seen}")
    node = look.get(system.System)
    called = raw(node)["name"] if node else ""
    called = called if isinstance(called, str) and called.isprintable() else ""
    profile = profile_capture.capture(
        name or called or "captured",
        seen,
        pci=look.get(pci.Pci),
        links=look.get(links.Links),
        devnodes=look.get(devnodes.DevNodes),
        modules=look.get(modules.Modules),
        cluster=look.get(Cluster),
    )
    if profile is None:
        raise UsageError(f"nothing to capture in {at.root}: looked for RDMA devices in {rdma.CLASS} and for GPUs")
    return replace(profile, description=f"as {called or at.root} was on {clock.today()}")


def _unread(look: Look) -> list[str]:
    """What the profile lacks because it could not be read. Parts that a copy does not have are not counted."""
    blinds = [
        blind
        for fact in LOOKED_AT
        for blind in check_round.unreadables(look.facts[fact.kind])
        if not blind.not_recorded
    ]
    notes = [f"left out, could not be read: {blind}" for blind in blinds[:NOTES_LIMIT]]
    rest = len(blinds) - len(notes)
    return [*notes, f"and {rest} more"] if rest else notes
