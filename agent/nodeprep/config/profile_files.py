"""Profiles by name or file: the built-in ones, an operator's, and what they extend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from nodeprep import job_profile, typed_yaml
from nodeprep.checks import CHECKS
from nodeprep.config import built_in_profiles, config_file, wants
from nodeprep.config.document import ConfigError, Document
from nodeprep.job_profile import Expectation, Profile
from nodeprep.model import Check
from nodeprep.typed_yaml import InvalidValueError
from nodeprep.values import Value, field, replace

BUILT_IN = tuple(built_in_profiles.PROFILES)


class _Source(Value):
    """Where a profile comes from: `file` is None for a built-in one."""

    file: str | None
    document: Document
    profile: Profile


class NamedProfile(Value):
    """A profile with all that it extends, and its names: its own first, then those of the profiles that it extends.

    `stated` is what the operator's files expect, without what built-in profiles expect.
    """

    profile: Profile
    names: tuple[str, ...]
    stated: Expectation = field(default_factory=Expectation)

    def is_one_of(self, patterns: Iterable[str]) -> bool:
        """Whether one of its names matches one of these globs."""
        return any(fnmatchcase(name, pattern) for name in self.names for pattern in patterns)


def effective(asked: str, beside: str = ".", known: Mapping[str, Check] = CHECKS) -> Profile:
    """The profile of that name or file with all that it extends; the result extends nothing.

    `asked` is the name of a built-in profile, or a file relative to `beside`. Raises ConfigError.
    """
    return named(asked, beside, known).profile


def named(asked: str, beside: str = ".", known: Mapping[str, Check] = CHECKS) -> NamedProfile:
    """The same with the names of all profiles that it extends. Raises ConfigError."""
    lineage = _lineage(asked, beside, known)
    files = [source.profile for source in lineage if source.file is not None]
    names = tuple(dict.fromkeys(source.profile.name for source in lineage))
    stated = _whole(files).expect if files else Expectation()
    return NamedProfile(_whole([source.profile for source in lineage]), names, stated)


def _whole(lineage: list[Profile]) -> Profile:
    """A profile with all that it extends; the result extends nothing."""
    whole = lineage[-1]
    for profile in reversed(lineage[:-1]):
        whole = job_profile.extend(profile, whole)
    return replace(whole, extends=None)


def validate(file: str, known: Mapping[str, Check] = CHECKS) -> Profile:
    """The profile of a file, even if it has the name of a built-in profile. Raises ConfigError."""
    return effective(file if "/" in file else f"./{file}", "", known)


def _lineage(asked: str, beside: str, known: Mapping[str, Check]) -> list[_Source]:
    """The profile, what it extends, what that extends, and so on."""
    lineage = [_source(asked, beside, known)]
    while (parent := lineage[-1].profile.extends) is not None:
        child = lineage[-1]
        try:
            found = _source(parent, str(Path(child.file).parent) if child.file else ".", known)
        except NoSuchProfileError as error:
            raise child.document.error(("extends",), parent, error.wanted) from error
        seen = [source.document.source for source in lineage]
        if found.document.source in seen:
            way = " -> ".join((*seen, found.document.source))
            raise child.document.error(("extends",), parent, f"a profile that does not lead back here ({way})")
        lineage.append(found)
    for index, source in enumerate(lineage):
        if source.file is not None and source.profile.rests_on:
            gates = _whole([one.profile for one in lineage[index:]]).gates
            try:
                wants.check_rests_on(source.profile.rests_on, gates, known)
            except InvalidValueError as error:
                raise source.document.located(error) from error
    return lineage


class NoSuchProfileError(ConfigError):
    """Neither a built-in profile nor a file."""

    wanted = f"a file or one of {', '.join(BUILT_IN)}"

    def __init__(self, asked: str) -> None:
        super().__init__(f"{asked}: no such file" if _is_path(asked) else self._named(asked))

    def _named(self, asked: str) -> str:
        near = typed_yaml.similar(asked, BUILT_IN)
        return f"there is no profile {asked!r}; {f'{near}; ' if near else ''}wanted {self.wanted}"


def _is_path(asked: str) -> bool:
    """Whether a word can only mean a file."""
    return "/" in asked or asked.endswith((".yaml", ".yml", ".json"))


def _source(asked: str, beside: str, known: Mapping[str, Check]) -> _Source:
    if asked in BUILT_IN:
        return _built_in(asked)
    path = str(Path(beside) / asked)
    if not config_file.is_there(path):
        raise NoSuchProfileError(asked)
    document = config_file.load(path)
    document.require_kind("Profile")
    try:
        profile = job_profile.parse(document.value)
        wants.check_gates(profile, known)
        wants.wants(profile, known)
    except InvalidValueError as error:
        raise document.located(error) from error
    return _Source(path, document, profile)


@cache
def _built_in(name: str) -> _Source:
    """A built-in profile. It never changes, and the agent asks for it each time that the hardware changes."""
    document = Document(f"profile {name}", built_in_profiles.PROFILES[name])
    return _Source(None, document, job_profile.parse(document.value))
