"""Which profiles a node has by its labels: the rules of `assign`, with every profile that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from nodeprep import job_profile
from nodeprep.config import keys, profile_files
from nodeprep.config.kinds import QUALIFIED
from nodeprep.config.profile_files import NamedProfile, NoSuchProfileError
from nodeprep.job_profile import Expectation, Keys, Profile, ProfileError
from nodeprep.model import Check


@dataclass(frozen=True, slots=True)
class AssignRule:
    """Nodes whose labels all match have these profiles; without `match` every node has them.

    `use` and `expect` are as they were written; `profiles` are those of `use`, with the devices and ports of `expect`.
    """

    match: Mapping[str, str]
    use: tuple[str, ...]
    expect: str
    profiles: tuple[NamedProfile, ...]

    def applies(self, labels: Mapping[str, str]) -> bool:
        """A label that the node does not have matches nothing, not even `*`."""
        return all(name in labels and fnmatchcase(labels[name], pattern) for name, pattern in self.match.items())


def read_rules(value: object, here: Keys, beside: str, checks: Iterable[Check]) -> tuple[AssignRule, ...]:
    """Read `assign`. Raises ProfileError, and ConfigError for what is wrong within a profile's own file."""
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise ProfileError(here, value, "a list of rules")
    shelf = _Shelf(beside, tuple(checks))
    return tuple(_rule(one, (*here, index), shelf) for index, one in enumerate(value))


class _Shelf:
    """Profiles by name or file, each read once however many rules name it."""

    def __init__(self, beside: str, checks: tuple[Check, ...]) -> None:
        self.beside = beside
        self.checks = checks
        self.known: dict[str, NamedProfile] = {}

    def take(self, asked: str, here: Keys) -> NamedProfile:
        try:
            self.known[asked] = self.known.get(asked) or profile_files.named(asked, self.beside, self.checks)
        except NoSuchProfileError as error:
            raise ProfileError(here, asked, error.wanted) from error
        return self.known[asked]


def _rule(value: object, here: Keys, shelf: _Shelf) -> AssignRule:
    given = job_profile.as_mapping(value, here)
    keys.only_known(given, here, "assign[]")
    use = job_profile.as_texts(given.get("use") or (), (*here, "use"))
    if not use:
        raise ProfileError((*here, "use"), given.get("use"), "one profile or more")
    expect = job_profile.as_text(given.get("expect") or "", (*here, "expect"))
    profiles = [shelf.take(asked, (*here, "use", index)) for index, asked in enumerate(use)]
    names = [one.profile.name for one in profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ProfileError((*here, "use", index), use[index], f"each profile once (its name is {name})")
    if expect:
        inventory = _inventory(expect, (*here, "expect"), shelf)
        profiles = [_expecting(inventory, one) for one in profiles]
    return AssignRule(_match(given, here), use, expect, tuple(profiles))


def _match(given: Mapping[str, Any], here: Keys) -> dict[str, str]:
    if "match" not in given:
        return {}
    here = (*here, "match")
    labels = job_profile.as_mapping(given["match"], here)
    if not labels:  # meant for some nodes, and half written: it would hold for all
        raise ProfileError(here, given["match"], "a label with a glob, or no match at all for every node")
    return {
        QUALIFIED.read(name, (*here, name)): job_profile.as_text(glob, (*here, name)) for name, glob in labels.items()
    }


def _inventory(asked: str, here: Keys, shelf: _Shelf) -> Expectation:
    stated = shelf.take(asked, here).stated
    if not (stated.devices or stated.ports or stated.at_least):
        raise ProfileError(here, asked, "a file that states devices or ports (nodeprep profile capture)")
    return stated


def _expecting(inventory: Expectation, one: NamedProfile) -> NamedProfile:
    """The profile with this inventory over its own."""
    return replace(one, profile=job_profile.extend(Profile(one.profile.name, expect=inventory), one.profile))
