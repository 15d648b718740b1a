"""The rules of `assign`, which give profiles to nodes by labels, with every profile that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from nodeprep import job_profile, typed_yaml
from nodeprep.config import keys, profile_files
from nodeprep.config.profile_files import NamedProfile, NoSuchProfileError
from nodeprep.job_profile import Expectation, Profile
from nodeprep.model import Check
from nodeprep.typed_yaml import InvalidValueError, Keys
from nodeprep.values import Value, replace


class AssignRule(Value):
    """Gives profiles to nodes whose labels match all patterns of `match`; without `match`, to every node.

    `use` and `expect` are as in the file. `profiles` are those of `use`, with the devices and ports of `expect`.
    """

    match: Mapping[str, str]
    use: tuple[str, ...]
    expect: str
    profiles: tuple[NamedProfile, ...]

    def applies(self, labels: Mapping[str, str]) -> bool:
        """Whether the rule is for a node with these labels. A missing label does not match, not even `*`."""
        return all(name in labels and fnmatchcase(labels[name], pattern) for name, pattern in self.match.items())


def read_rules(rules: Iterable[object], here: Keys, beside: str, checks: Mapping[str, Check]) -> tuple[AssignRule, ...]:
    """Read `assign`. Raises InvalidValueError, and ConfigError for an error in a profile's own file."""
    shelf = _Shelf(beside, checks)
    return tuple(_rule(one, (*here, index), shelf) for index, one in enumerate(rules))


class _Shelf:
    """Profiles by name or file. Each is read once, even if several rules name it."""

    def __init__(self, beside: str, checks: Mapping[str, Check]) -> None:
        self.beside = beside
        self.checks = checks
        self.known: dict[str, NamedProfile] = {}

    def take(self, asked: str, here: Keys) -> NamedProfile:
        try:
            self.known[asked] = self.known.get(asked) or profile_files.named(asked, self.beside, self.checks)
        except NoSuchProfileError as error:
            near = typed_yaml.similar(asked, profile_files.BUILT_IN)
            raise InvalidValueError(here, asked, f"{error.wanted}{f' ({near})' if near else ''}") from error
        return self.known[asked]


def _rule(value: object, here: Keys, shelf: _Shelf) -> AssignRule:
    stated = keys.section(value, here, "assign[]")
    use, expect = stated["use"], stated.get("expect", "")
    profiles = [shelf.take(asked, (*here, "use", index)) for index, asked in enumerate(use)]
    names = [one.profile.name for one in profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidValueError((*here, "use", index), use[index], f"each profile once (its name is {name})")
    if expect:
        inventory = _inventory(expect, (*here, "expect"), shelf)
        entry = f"{expect}, {typed_yaml.dotted((*here, 'expect'))}"
        profiles = [_expecting(inventory, entry, one) for one in profiles]
    return AssignRule(stated.get("match", {}), use, expect, tuple(profiles))


def _inventory(asked: str, here: Keys, shelf: _Shelf) -> Expectation:
    stated = shelf.take(asked, here).stated
    if not (stated.devices or stated.ports or stated.at_least):
        raise InvalidValueError(here, asked, "a file that states devices or ports (nodeprep profile capture)")
    return stated


def _expecting(inventory: Expectation, by: str, one: NamedProfile) -> NamedProfile:
    """The profile with this inventory in place of its own."""
    own = Profile(one.profile.name, expect=inventory, expect_by=by)
    return replace(one, profile=job_profile.extend(own, one.profile))
