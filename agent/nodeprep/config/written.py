"""Settings as a file would state them, every key with its value; and what a reload changes, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nodeprep.config import keys
from nodeprep.config.agent_settings import CLASSES
from nodeprep.config.assign_rules import AssignRule
from nodeprep.config.configuration import Settings
from nodeprep.config.keys import KEYS, RESTART
from nodeprep.job_profile import API_VERSION
from nodeprep.newer_python import StrEnum
from nodeprep.values import field_names

VALUE_LIMIT_CHARACTERS = 60  # characters of one value in a line of words


def written(settings: Settings) -> dict[str, Any]:
    """Every key with its value in force, including defaults, in the order of the table of keys."""
    agent = settings.agent
    rules = {name: _stated(agent.confirmation.rules[kind], f"confirmation.{name}") for name, kind in CLASSES.items()}
    return {
        "apiVersion": API_VERSION,
        "kind": "Config",
        "default": settings.default,
        "want": {check: dict(numbers) for check, numbers in settings.want.items()},
        "waivers": [_stated(waiver, "waivers[]") for waiver in settings.waivers],
        "exclude": list(settings.exclude),
        "metadata-url": settings.metadata_url,
        "idle": _stated(settings.idle, "idle"),
        "mode": str(agent.mode),
        "assign": [_rule(rule) for rule in agent.assign],
        "gate": _stated(agent.gate, "gate"),
        "confirmation": rules | _stated(agent.confirmation, "confirmation"),
        "readiness": _stated(agent.readiness, "readiness"),
        "repair": _stated(agent.repair, "repair") | {"deadline": _stated(agent.repair.deadline, "repair.deadline")},
        "every": {name: _plain(period) for name, period in agent.every.items()},
        "metrics": _stated(agent.metrics, "metrics"),
        "history": _stated(agent.history, "history"),
    }


def changes(old: Settings, new: Settings) -> tuple[str, ...]:
    """What a reload changes, a line for each key. A key that needs a restart says so. Empty if nothing changes."""
    before, after = written(old), written(new)
    return (*_values(before, after), *_profiles(old, new))


def _values(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key in KEYS:
        if "[]" in key.path:
            continue
        was, now = _at(before, key.path), _at(after, key.path)
        if was != now:
            words = f"{_short(was)} -> {_short(now)}" if _short(was) != _short(now) else "changed"
            yield f"{key.path}: {words}" + (f" ({RESTART})" if key.reload == RESTART else "")


def _profiles(old: Settings, new: Settings) -> Iterator[str]:
    """Profiles with the same names as before whose files have changed."""
    if old.default == new.default and old.named() != new.named():
        yield f"default: the profile {new.default} says something else"
    for index, (was, now) in enumerate(zip(old.agent.assign, new.agent.assign, strict=False)):
        if _rule(was) == _rule(now) and was != now:
            yield f"assign[{index}]: its profiles say something else"


def _at(values: Mapping[str, Any], path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= VALUE_LIMIT_CHARACTERS else f"{text[: VALUE_LIMIT_CHARACTERS - 3]}..."


def _rule(rule: AssignRule) -> dict[str, Any]:
    said = {"match": dict(rule.match), "use": list(rule.use), "expect": rule.expect}
    return {key: value for key, value in said.items() if value}


def _stated(value: Any, under: str) -> dict[str, Any]:
    """The fields of a value that have a key under this path."""
    names = {name.replace("_", "-"): name for name in field_names(value)}
    return {key: _plain(getattr(value, names[key])) for key, own in keys.children(under).items() if own is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, StrEnum):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
