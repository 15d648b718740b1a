"""Numbers that operators set for single checks, read by the Want that each check declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeprep import typed_yaml
from nodeprep.checks import CHECKS, IDS
from nodeprep.job_profile import Profile
from nodeprep.model import Check
from nodeprep.typed_yaml import InvalidValueError, Keys


def wants(profile: Profile, known: Mapping[str, Check] = CHECKS) -> dict[str, object]:
    """The Want of each check for which the profile has numbers, by check id. Raises InvalidValueError."""
    return {check: want(known, check, numbers, ("want", check)) for check, numbers in profile.want.items()}


def want(known: Mapping[str, Check], wanted: str, numbers: Mapping[str, Any], here: Keys) -> object:
    """One check's Want; a number that is not stated keeps its default. Raises InvalidValueError."""
    if wanted not in known:
        raise InvalidValueError(here, wanted, a_check(wanted, known))
    kind = known[wanted].want
    if kind is None:
        raise InvalidValueError(here, dict(numbers), f"nothing: {wanted} has no numbers to set")
    return typed_yaml.value_of(kind).read(numbers, here)


def check_gates(profile: Profile, known: Iterable[str] = IDS) -> None:
    """Raise InvalidValueError for a gate that is not the id of a check."""
    ids = tuple(known)
    for index, gate in enumerate(profile.gates):
        if gate not in ids:
            raise InvalidValueError(("gates", index), gate, a_check(gate, ids))


def check_rests_on(stated: Iterable[str], gates: Iterable[str], known: Iterable[str] = IDS) -> None:
    """Raise InvalidValueError for one of `rests-on` that is not among the gates of the whole profile."""
    ids, own = tuple(known), tuple(gates)
    for index, gate in enumerate(stated):
        if gate not in ids:
            raise InvalidValueError(("rests-on", index), gate, a_check(gate, ids))
        if gate not in own:
            raise InvalidValueError(("rests-on", index), gate, typed_yaml.nearest(gate, own, "a gate of this profile"))


def a_check(found: str, ids: Iterable[str]) -> str:
    return typed_yaml.nearest(found, ids, "the id of a check") + " (nodeprep list)"
