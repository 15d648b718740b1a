"""What our taints and labels are called in a cluster: by --config, else by the agents' own ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodeprep.cli.usage import usage
from nodeprep.config.document import Document, load, read
from nodeprep.config.keys import only_known, section
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube import Api
from nodeprep.model import Unreadable
from nodeprep.profile import API_VERSION, ProfileError, as_mapping, exactly

CONFIG_MAP, KEY = "nodeprep-config", "config.yaml"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that are in force, as far as is known.

    `unread` says in a line why they may be other ones, for the ConfigMap could not be read; `none` that there is no
    ConfigMap. Both are "" where the names are known.
    """

    policy: GatePolicy
    unread: str = ""
    none: str = ""


def names_in_force(api: Api, config: str | None, namespace: str) -> Names:
    """Raises UsageError for a configuration that cannot be meant."""
    if config is not None:
        with usage():
            return Names(_policy(_configuration(config)))
    told = api.get("v1", "configmaps", CONFIG_MAP, namespace)
    if isinstance(told, Unreadable):
        return Names(
            GatePolicy(), unread=f"names of taints and labels: the defaults, for {told}; --config FILE names others"
        )
    if told is None:
        where = f"no ConfigMap {CONFIG_MAP} in namespace {namespace}"
        return Names(
            GatePolicy(), none=f"names of taints and labels: the defaults, for {where}; --config FILE names others"
        )
    data = told.get("data")
    text = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return Names(GatePolicy())
    with usage():
        return Names(_policy(read(text.encode(), f"ConfigMap {namespace}/{CONFIG_MAP}, {KEY}")))


def _configuration(file: str) -> Document:
    """A file that is a configuration as far as can be told here: profiles that it names lie elsewhere.

    Raises ConfigError for any other YAML, which would pass for a configuration without names of its own.
    """
    document = load(file)
    try:
        top = as_mapping(document.value, ())
        exactly(top, "kind", "Config")
        exactly(top, "apiVersion", API_VERSION)
        only_known(top, ())
    except ProfileError as error:
        raise document.located(error) from error
    return document


def _policy(document: Document) -> GatePolicy:
    """Of the whole file only `gate` counts here. Raises ConfigError."""
    given = document.value.get("gate") if isinstance(document.value, Mapping) else None
    try:
        return GatePolicy(**section({} if given is None else given, ("gate",), "gate"))
    except ProfileError as error:
        raise document.located(error) from error
