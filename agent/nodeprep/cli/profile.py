"""`nodeprep profile`: capture a good node's profile, show what a profile comes to, validate files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nodeprep.cli.output import complain, put
from nodeprep.cli.place import Place, place
from nodeprep.cli.usage import UsageError, usage
from nodeprep.config.document import ConfigError, dump
from nodeprep.config.profiles import BUILT_IN, effective, validate
from nodeprep.doors import clock
from nodeprep.facts import devnodes, links, modules, pci, rdma, system
from nodeprep.facts.capture import capture as captured
from nodeprep.look import Eyes, Look
from nodeprep.model import raw
from nodeprep.profile import Profile, mapping
from nodeprep.round import unreadables

LOOKED_AT = (rdma.FACT, pci.FACT, links.FACT, devnodes.FACT, modules.FACT)
MOST_NOTES = 5


def capture(root: str | None, output: str | None, name: str | None) -> int:
    """Write the profile of this node, or of a copy of one, to a file or stdout. Raises UsageError."""
    at = place(root, None)
    look = Eyes(at.host()).look((*LOOKED_AT, system.FACT))
    profile = _profile(look, at, name)
    text = dump(mapping(profile))
    write(text, output)
    expect = profile.expect
    required = sum(port.required for port in expect.ports.values())
    complain(
        f"captured {len(expect.devices)} RDMA devices and {len(expect.ports)} ports, {required} of them required, "
        f"from {at.where}; extends {profile.extends}"
    )
    idle = [place for place, port in expect.ports.items() if not port.required]
    if idle:
        complain(
            f"not required, for they carry nothing now or a bond does without them: {', '.join(idle)}; "
            "if a job needs one of them, mend it and capture again"
        )
    for note in _unread(look):
        complain(note)
    return 0


def show(asked: str) -> int:
    """Print a profile with all that it extends. Raises UsageError."""
    with usage():
        put(dump(mapping(effective(asked))).rstrip("\n"))
    return 0


def check_files(files: Iterable[str]) -> int:
    """Say of each file, or profile of ours by name, whether it holds a sound profile; 2 if one does not."""
    code = 0
    for file in files:
        try:
            profile = effective(file) if file in BUILT_IN and not Path(file).exists() else validate(file)
        except ConfigError as error:
            complain(str(error))
            code = 2
            continue
        expect = profile.expect
        ports = f"at least {expect.at_least.count} ports" if expect.at_least else f"{len(expect.ports)} ports"
        put(f"{file}: profile {profile.name}, {len(profile.gates)} gates, {len(expect.devices)} devices, {ports}")
    return code


def write(text: str, output: str | None) -> None:
    """To a file, or to stdout where none is named. Raises UsageError."""
    if output is None:
        if sys.stdout is None:
            raise UsageError("stdout is closed; -o FILE names a file")
        put(text.rstrip("\n"))
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {output!r}: {getattr(error, 'strerror', error)}") from error


def _profile(look: Look, at: Place, name: str | None) -> Profile:
    seen = look.facts[rdma.Rdma]
    if not isinstance(seen, rdma.Rdma):
        raise UsageError(f"nothing to capture in {at.root}: could not look at {seen}")
    node = look.get(system.System)
    called = raw(node)["name"] if node else ""
    called = called if isinstance(called, str) and called.isprintable() else ""
    profile = captured(
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
    """What the profile lacks because it could not be read; what a copy never recorded is no loss."""
    blinds = [blind for fact in LOOKED_AT for blind in unreadables(look.facts[fact.kind]) if not blind.not_recorded]
    notes = [f"left out, could not be read: {blind}" for blind in blinds[:MOST_NOTES]]
    rest = len(blinds) - len(notes)
    return [*notes, f"and {rest} more"] if rest else notes
