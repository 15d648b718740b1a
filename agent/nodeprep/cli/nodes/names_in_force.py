"""The names of our taints and labels in a cluster: from --config, else from the ConfigMap that the agents mount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeprep import typed_yaml
from nodeprep.cli import usage
from nodeprep.config import config_file, keys, yaml_document
from nodeprep.config.document import Document
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube.reader import ApiReader
from nodeprep.job_profile import API_VERSION
from nodeprep.model import Unreadable
from nodeprep.typed_yaml import MAPPING, InvalidValueError
from nodeprep.values import Value

# The name of the ConfigMap that the agents mount ends with a hash, so their DaemonSet says which it is.
DAEMON_SET, CONFIG_MAP, KEY = "nodeprep", "nodeprep-config", "config.yaml"


class NamesInForce(Value):
    """The names in force, as far as they are known.

    `read_error` says in a line why the ConfigMap could not be read, so the names may be others. `missing` says that
    there is no ConfigMap. Both are "" if the names are known.
    """

    policy: GatePolicy
    read_error: str = ""
    missing: str = ""


def names_in_force(api: ApiReader, config: str | None, namespace: str) -> NamesInForce:
    """Raises UsageError for an invalid configuration."""
    if config is not None:
        with usage.usage():
            return NamesInForce(_policy(_configuration(config)))
    mounted = _config_map(api, namespace)
    name = CONFIG_MAP if isinstance(mounted, Unreadable) else mounted
    answer = api.get("v1", "configmaps", name, namespace)
    if isinstance(mounted, Unreadable) and answer is None:
        answer = mounted
    if isinstance(answer, Unreadable):
        return NamesInForce(
            GatePolicy(),
            read_error=f"names of taints and labels: the defaults ({answer}); --config FILE names others",
        )
    if answer is None:
        where = f"no ConfigMap {name} in namespace {namespace}"
        return NamesInForce(
            GatePolicy(),
            missing=f"names of taints and labels: the defaults ({where}); --config FILE names others",
        )
    data = answer.get("data")
    text = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return NamesInForce(GatePolicy())
    with usage.usage():
        return NamesInForce(_policy(yaml_document.read(text.encode(), f"ConfigMap {namespace}/{name}, {KEY}")))


def _config_map(api: ApiReader, namespace: str) -> str | Unreadable:
    """The name of the ConfigMap that the agents mount; without their DaemonSet, the one without a hash."""
    answer = api.get("apps/v1", "daemonsets", DAEMON_SET, namespace)
    if answer is None or isinstance(answer, Unreadable):
        return CONFIG_MAP if answer is None else answer
    found: Any = answer
    for key in ("spec", "template", "spec", "volumes"):
        found = found.get(key) if isinstance(found, Mapping) else None
    volumes = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    sources = [one.get("configMap") for one in volumes]
    names = [str(one.get("name")) for one in sources if isinstance(one, Mapping)]
    return next((one for one in names if one == CONFIG_MAP or one.startswith(f"{CONFIG_MAP}-")), CONFIG_MAP)


def _configuration(file: str) -> Document:
    """A file that is a configuration as far as we can tell: profiles that it names are elsewhere.

    Raises ConfigError for any other YAML, which would pass for a configuration without names of its own.
    """
    document = config_file.load(file)
    try:
        top = MAPPING.read(document.value, ())
        typed_yaml.only("Config").read(top.get("kind"), ("kind",))
        typed_yaml.only(API_VERSION).read(top.get("apiVersion"), ("apiVersion",))
        typed_yaml.only_known(top, (), keys.children())
    except InvalidValueError as error:
        raise document.located(error) from error
    return document


def _policy(document: Document) -> GatePolicy:
    """Only `gate` of the file counts here. Raises ConfigError."""
    given = document.value.get("gate") if isinstance(document.value, Mapping) else None
    try:
        return GatePolicy(**keys.section({} if given is None else given, ("gate",), "gate"))
    except InvalidValueError as error:
        raise document.located(error) from error
