"""The files of remedies: where they lie, and the header of each.

A playbook is a list with one play, and `vars.remedy` of the play is the header. An act (acts/NAME.yml) is the header
alone. What else is in a playbook is Ansible's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import nodeprep
from nodeprep import typed_yaml
from nodeprep.config import yaml_document
from nodeprep.config.document import ConfigError, Document
from nodeprep.decide.remedy_header import Idle, Parameter, ParameterKind, RemedyHeader, Restarted, SafetyClass
from nodeprep.typed_yaml import InvalidValueError, Keys, Table

# In a wheel the playbooks lie in the package, in a checkout at its top (pyproject.toml, force-include).
PLACES = (Path(nodeprep.__file__).parent / "playbooks", Path(nodeprep.__file__).parents[2] / "playbooks")
ACTS = "acts"
IN_PLAYBOOK: Keys = (0, "vars", "remedy")

_WORDS = typed_yaml.list_of(typed_yaml.TEXT, "words")
PARAMETER_KEYS: Table = {
    "kind": ("kind", typed_yaml.not_empty(typed_yaml.one_of(*ParameterKind), f"one of {', '.join(ParameterKind)}")),
    "required": ("required", typed_yaml.TRUTH),
    "choices": ("choices", _WORDS),
    "least": ("least", typed_yaml.whole_number()),
    "most": ("most", typed_yaml.whole_number()),
    "untouched": ("untouched", typed_yaml.TRUTH),
}
HEADER_KEYS: Table = {
    "purpose": ("purpose", typed_yaml.not_empty(typed_yaml.PROSE, "one sentence")),
    "class": ("safety", typed_yaml.not_empty(typed_yaml.one_of(*SafetyClass), f"one of {', '.join(SafetyClass)}")),
    "why": ("why", typed_yaml.not_empty(typed_yaml.PROSE, "the reason of the class")),
    "idle": ("idle", typed_yaml.not_empty(typed_yaml.one_of(*Idle), f"one of {', '.join(Idle)}")),
    "by-hand": ("by_hand", typed_yaml.not_empty(_WORDS, "a list of commands")),
    "parameters": ("parameters", typed_yaml.mapping_of(typed_yaml.fields_of(PARAMETER_KEYS))),
    "disturbs": ("disturbs", _WORDS),
    "tools": ("tools", _WORDS),
    "writes": ("writes", _WORDS),
    "undo": ("undo", _WORDS),
    "reboot": ("reboot", typed_yaml.PROSE),
    "restarts": ("restarts", typed_yaml.one_of(*Restarted)),
}


def directory() -> Path:
    """Where the playbooks of this installation lie. Raises ConfigError if they are gone."""
    for place in PLACES:
        if place.is_dir():
            return place
    raise ConfigError(f"{PLACES[0]}: no such directory: this installation has no playbooks; install it again")


@cache
def headers() -> Mapping[str, RemedyHeader]:
    """The headers of all remedies by name. Raises ConfigError for one that is not valid."""
    here = directory()
    playbooks = {path.stem: header(path) for path in sorted(here.glob("*.yml"))}
    return playbooks | {path.stem: header(path) for path in sorted((here / ACTS).glob("*.yml"))}


def header(path: Path) -> RemedyHeader:
    """The header of a file. Raises ConfigError with file, line and key."""
    try:
        document = yaml_document.read_any(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror}") from error
    is_act = path.parent.name == ACTS
    here: Keys = () if is_act else IN_PLAYBOOK
    try:
        stated = typed_yaml.fields_of(HEADER_KEYS).read(_at(document, here), here)
    except InvalidValueError as error:
        raise document.located(error) from error
    parameters = {
        name: Parameter(**{**one, "kind": ParameterKind(one["kind"])})
        for name, one in stated.get("parameters", {}).items()
    }
    return RemedyHeader(
        path.stem,
        **{
            **stated,
            "safety": SafetyClass(stated["safety"]),
            "idle": Idle(stated["idle"]),
            "restarts": Restarted(stated.get("restarts", Restarted.NOTHING)),
            "parameters": parameters,
            "is_act": is_act,
        },
    )


def _at(document: Document, keys: Keys) -> object:
    value = document.value
    for depth, key in enumerate(keys):
        held = value[0] if isinstance(value, tuple | list) and len(value) == 1 and key == 0 else None
        held = value.get(key) if isinstance(value, Mapping) else held
        if held is None:
            raise InvalidValueError(keys[: depth + 1], None, "one play with the header as its variable `remedy`")
        value = held
    return value
