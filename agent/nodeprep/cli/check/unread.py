"""Why something could not be read, and what an operator does about it."""

from __future__ import annotations

import errno

from nodeprep.model import Unreadable, Why


def unread(blind: Unreadable) -> str:
    """Why it could not be read, with the kernel's name of the error."""
    code = errno.errorcode.get(blind.errno, str(blind.errno)) if blind.errno else ""
    words = ", ".join(filter(None, (code, blind.detail)))
    return f"{blind.kind}" + (f" ({words})" if words else "")


def cure(blind: Unreadable) -> str:
    """What lets it be read, "" if only the reason can tell."""
    if blind.kind is Why.MISSING and blind.path.startswith("Node "):
        return "kubectl get nodes lists the names; give one with --node"
    # A server that refuses does so for every user of this machine.
    refused_here = "://" not in blind.path and not blind.detail.startswith("HTTP ")
    return "run it as root" if blind.kind is Why.DENIED and refused_here else ""
