"""`nodeprep profile`: capture a good node's profile, show a whole profile, validate files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from nodeprep import check_round, job_profile
from nodeprep.cli import place, terminal, usage
from nodeprep.cli.place import NodePlace
from nodeprep.cli.usage import UsageError
from nodeprep.config import profile_files, yaml_document
from nodeprep.config.document import ConfigError
from nodeprep.config.profile_files import BUILT_IN
from nodeprep.doors import clock
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.machine import modules, pci, system
from nodeprep.facts.network import links
from nodeprep.facts.rdma import devnodes, rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import raw
from nodeprep.observer import Observer
from nodeprep.values import replace

LOOKED_AT = (rdma.FACT, pci.FACT, links.FACT, devnodes.FACT, modules.FACT)
NOTES_LIMIT = 5


def capture(root: str | None, output: str | None, name: str | None) -> int:
    """Write the profile of this node, or of a copy of one, to a file or stdout. Raises UsageError."""
    at = place.place(root, None)
    look = Observer(at.host()).look((*LOOKED_AT, system.FACT))
    profile = _profile(look, at, name)
    text = yaml_document.dump(job_profile.mapping(profile))
    write(text, output)
    expect = profile.expect
    required = sum(port.required for port in expect.ports.values())
    terminal.complain(
        f"captured {len(expect.devices)} RDMA devices and {len(expect.ports)} ports, {required} of them required, "
        f"from {at.where}; extends {profile.extends}"
    )
    idle = [place for place, port in expect.ports.items() if not port.required]
    if idle:
        terminal.complain(
            f"not required, because they carry nothing now or a bond works without them: {', '.join(idle)}; "
            "if a job needs one of them, mend it and capture again"
        )
    for note in _unread(look):
        terminal.complain(note)
    return 0


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


def write(text: str, output: str | None) -> None:
    """To a file, or to stdout if no file is named. Raises UsageError."""
    if output is None:
        if sys.stdout is None:
            raise UsageError("stdout is closed; -o FILE names a file")
        terminal.put(text.rstrip("\n"))
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {output!r}: {getattr(error, 'strerror', error)}") from error


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
    )
    if profile is None:
        raise UsageError(f"nothing to capture in {at.root}: looked for RDMA devices in {rdma.CLASS}")
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
