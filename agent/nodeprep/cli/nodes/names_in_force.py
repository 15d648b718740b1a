"""What our taints and labels are called in a cluster: by --config, else by the agents' own ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodeprep import typed_yaml
from nodeprep.cli import usage
from nodeprep.config import keys, yaml_document
from nodeprep.config.yaml_document import Document
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube.reader import ApiReader
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Unreadable
from nodeprep.typed_yaml import MAPPING, InvalidValueError

CONFIG_MAP, KEY = "nodeprep-config", "config.yaml"


@dataclass(frozen=True, slots=True)
class NamesInForce:
    """The names that are in force, as far as is known.

    `unread` says in a line why they may be other ones, for the ConfigMap could not be read; `none` that there is no
    ConfigMap. Both are "" where the names are known.
    """

    policy: GatePolicy
    unread: str = ""
    none: str = ""


def names_in_force(api: ApiReader, config: str | None, namespace: str) -> NamesInForce:
    """Raises UsageError for a configuration that cannot be meant."""
    if config is not None:
        with usage.usage():
            return NamesInForce(_policy(_configuration(config)))
    told = api.get("v1", "configmaps", CONFIG_MAP, namespace)
    if isinstance(told, Unreadable):
        return NamesInForce(
            GatePolicy(), unread=f"names of taints and labels: the defaults, for {told}; --config FILE names others"
        )
    if told is None:
        where = f"no ConfigMap {CONFIG_MAP} in namespace {namespace}"
        return NamesInForce(
            GatePolicy(), none=f"names of taints and labels: the defaults, for {where}; --config FILE names others"
        )
    data = told.get("data")
    text = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return NamesInForce(GatePolicy())
    with usage.usage():
        return NamesInForce(_policy(yaml_document.read(text.encode(), f"ConfigMap {namespace}/{CONFIG_MAP}, {KEY}")))


def _configuration(file: str) -> Document:
    """A file that is a configuration as far as can be told here: profiles that it names lie elsewhere.

    Raises ConfigError for any other YAML, which would pass for a configuration without names of its own.
    """
    document = yaml_document.load(file)
    try:
        top = MAPPING.read(document.value, ())
        typed_yaml.only("Config").read(top.get("kind"), ("kind",))
        typed_yaml.only(API_VERSION).read(top.get("apiVersion"), ("apiVersion",))
        typed_yaml.only_known(top, (), keys.children())
    except InvalidValueError as error:
        raise document.located(error) from error
    return document


def _policy(document: Document) -> GatePolicy:
    """Of the whole file only `gate` counts here. Raises ConfigError."""
    given = document.value.get("gate") if isinstance(document.value, Mapping) else None
    try:
        return GatePolicy(**keys.section({} if given is None else given, ("gate",), "gate"))
    except InvalidValueError as error:
        raise document.located(error) from error
