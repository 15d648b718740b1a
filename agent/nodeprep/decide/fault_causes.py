"""Which fault explains which: by the `after` of checks and by the place of their subjects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeprep.model import NODE, SEVERAL, Lack, Subject


def ancestors(check: str, after: Mapping[str, tuple[str, ...]], follows: tuple[str, ...] | None = None) -> set[str]:
    """Every check whose failure explains this one's, directly or through others.

    `follows` are those of its `after` that count for the one fault (`Verdict.follows`), None for all.
    """
    found: set[str] = set()
    rest = list(after.get(check, ()) if follows is None else follows)
    while rest:
        one = rest.pop()
        if one not in found and one in after:
            found.add(one)
            rest += after[one]
    return found


def explains(cause: Subject, effect: Subject) -> bool:
    """Whether a fault of `cause` can explain that `effect` fails.

    They are about the same device or port, or one is about the whole node. A port does not explain another port of its
    device.
    """
    if cause.place == NODE.place or effect.place in (NODE.place, SEVERAL.place):
        return True
    return is_same_place(cause, effect)


def explain_lack(places: Iterable[str], lack: Lack) -> set[str]:
    """Of the places of faults, those that explain that a count lacks things: all, if they are as many (ADR 0033).

    A fault of the whole node explains it alone. A place that is counted explains nothing.
    """
    known = set(places)
    others = known - {NODE.place, *lack.counted}
    return others | (known & {NODE.place}) if len(others) >= lack.count else known & {NODE.place}


def is_same_place(one: Subject, other: Subject) -> bool:
    """Whether they are about the same device or port, or a device and a port of it."""
    ports = {one.port, other.port}
    return one.place == other.place and (None in ports or len(ports) == 1)
