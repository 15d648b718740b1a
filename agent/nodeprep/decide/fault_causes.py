"""What explains what: by the `after` of checks, and by where their subjects lie."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.model import NODE, SEVERAL, Subject


def ancestors(check: str, after: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Every check whose failure explains this one's, directly or through others."""
    found: set[str] = set()
    rest = list(after.get(check, ()))
    while rest:
        one = rest.pop()
        if one not in found and one in after:
            found.add(one)
            rest += after[one]
    return found


def explains(there: Subject, here: Subject) -> bool:
    """Whether a fault of the one can be why the other fails.

    They are about the same device or port, or one is about the whole node. Ports of one device explain no others.
    """
    if there.place == NODE.place or here.place in (NODE.place, SEVERAL.place):
        return True
    ports = {there.port, here.port}
    return there.place == here.place and (None in ports or len(ports) == 1)
