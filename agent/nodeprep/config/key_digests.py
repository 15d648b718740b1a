"""Which keys a configuration sets, each with a digest of its value: what changed is told without any of the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nodeprep import job_profile
from nodeprep.config import written
from nodeprep.config.configuration import Settings

KEY_DIGITS = 4  # hexadecimal digits: a change that gives the same ones is missed once in 65,536
DIGITS = 10  # of the whole configuration


def key_digests(settings: Settings) -> dict[str, str]:
    """By key, for each key with another value than its default. Profiles count with what they say."""
    default, own = _values(Settings()), _values(settings)
    return {key: _digest(value, KEY_DIGITS) for key, value in own.items() if value != default.get(key)}


def digest(digests: Mapping[str, str]) -> str:
    """Of the whole configuration: the same for the same keys and values."""
    return _digest(sorted(digests.items()), DIGITS)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of which the value changed, came or went."""
    return tuple(key for key in sorted({*before, *after}) if before.get(key) != after.get(key))


def _values(settings: Settings) -> dict[str, Any]:
    said = written.written(settings)
    values: dict[str, Any] = {}
    for key, value in said.items():
        if isinstance(value, dict) and key != "want":
            values |= {f"{key}.{name}": one for name, one in value.items()}
        else:
            values[key] = value
    default = settings.default_profile
    profiles = [] if default is None else [job_profile.mapping(default.profile)]
    profiles += [job_profile.mapping(one.profile) for rule in settings.agent.assign for one in rule.profiles]
    return values | {"profiles": profiles}


def _digest(value: object, digits: int) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:digits]
