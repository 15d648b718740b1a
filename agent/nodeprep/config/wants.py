"""Numbers that operators state for single checks, held against the Want dataclass that each check declares."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nodeprep import job_profile
from nodeprep.checks import ALL
from nodeprep.job_profile import Keys, Profile, ProfileError
from nodeprep.model import Check

Reader = Callable[[object, Keys], Any]


def wants(profile: Profile, known: Iterable[Check] = ALL) -> dict[str, object]:
    """Each check's Want with what the profile states, by check id. Raises ProfileError."""
    return {check: want(known, check, numbers, ("want", check)) for check, numbers in profile.want.items()}


def want(known: Iterable[Check], wanted: str, numbers: Mapping[str, Any], here: Keys) -> object:
    """One check's Want; what is not stated keeps the default that stands beside its rule. Raises ProfileError."""
    by_id = {check.id: check for check in known}
    if wanted not in by_id:
        raise ProfileError(here, wanted, a_check(wanted, by_id))
    kind = by_id[wanted].want
    if kind is None:
        raise ProfileError(here, dict(numbers), f"nothing: {wanted} has no numbers to set")
    hints = get_type_hints(kind)
    names = {one.name.replace("_", "-"): one.name for one in fields(kind)}
    values = {}
    for key, value in numbers.items():
        if key not in names:
            raise ProfileError((*here, key), key, nearest(key, names, "one of"))
        values[names[key]] = reader(hints[names[key]])(value, (*here, key))
    try:
        return kind(**values)
    except ValueError as error:  # a Want may hold its numbers against each other
        raise ProfileError(here, dict(numbers), str(error)) from error


def check_gates(profile: Profile, known: Iterable[Check] = ALL) -> None:
    """Raise ProfileError for a gate that is no check."""
    ids = [check.id for check in known]
    for index, gate in enumerate(profile.gates):
        if gate not in ids:
            raise ProfileError(("gates", index), gate, a_check(gate, ids))


def a_check(found: str, ids: Iterable[str]) -> str:
    return nearest(found, ids, "the id of a check") + " (nodeprep list)"


def nearest(found: str, names: Iterable[str], what: str) -> str:
    """What was wanted, with the known name that was probably meant, else with all if they are few."""
    from difflib import get_close_matches  # noqa: PLC0415 - 6 ms that only an error costs

    known = list(names)
    near = get_close_matches(found, known, n=1)
    if near:
        return f"{what} such as {near[0]!r}" if len(known) > 8 else f"{near[0]!r}"
    return what if len(known) > 8 else f"{what} {', '.join(known)}"


def reader(annotation: Any) -> Reader:
    """What reads a value of this type. Raises TypeError for a type that no operator could write in YAML."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in SCALARS:
        return SCALARS[annotation]
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
        return _optional(reader(args[0]))
    if origin is Literal:
        return _word(args)
    if origin is tuple and args[1:] == (Ellipsis,):
        return _list(reader(args[0]))
    if origin is Mapping and args[0] in KEYS:
        return _table(KEYS[args[0]], reader(args[1]))
    raise TypeError(f"no operator can write {annotation} in YAML")


def _integer(value: object, here: Keys) -> int:
    if type(value) is not int:
        raise ProfileError(here, value, "a whole number")
    return value


def _number(value: object, here: Keys) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ProfileError(here, value, "a number")
    return float(value)


def _truth(value: object, here: Keys) -> bool:
    if not isinstance(value, bool):
        raise ProfileError(here, value, "true or false")
    return value


def _word(allowed: tuple[object, ...]) -> Reader:
    def one(value: object, here: Keys) -> object:
        if value not in allowed:
            raise ProfileError(here, value, "one of " + ", ".join(map(str, allowed)))
        return value

    return one


def _optional(read: Reader) -> Reader:
    return lambda value, here: None if value is None else read(value, here)


def _list(read: Reader) -> Reader:
    def several(value: object, here: Keys) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise ProfileError(here, value, "a list")
        return tuple(read(one, (*here, index)) for index, one in enumerate(value))

    return several


def _table(read_key: Reader, read: Reader) -> Reader:
    def several(value: object, here: Keys) -> dict[object, object]:
        return {
            read_key(key, (*here, key)): read(one, (*here, key))
            for key, one in job_profile.as_mapping(value, here).items()
        }

    return several


def _integer_key(key: object, here: Keys) -> int:
    """YAML's keys arrive as text."""
    if not (isinstance(key, str) and key.isascii() and key.isdecimal()):
        raise ProfileError(here, key, "a whole number")
    return int(key)


KEYS: Mapping[Any, Reader] = {str: job_profile.as_text, int: _integer_key}
SCALARS: Mapping[Any, Reader] = {int: _integer, float: _number, bool: _truth, str: job_profile.as_text}
