"""What our taints and labels are called in a cluster: by --config, else by the agents' own ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.cli.usage import usage
from nodeprep.config.document import Document, load, read
from nodeprep.config.keys import section
from nodeprep.decide.desired import GatePolicy
from nodeprep.doors.kube import Api
from nodeprep.model import Unreadable
from nodeprep.profile import ProfileError

CONFIG_MAP, KEY = "nodeprep-config", "config.yaml"


def names_in_force(api: Api, config: str | None, namespace: str) -> tuple[GatePolicy, str]:
    """The names, and in a line why they may be other ones, "" where that is known. Raises UsageError."""
    if config is not None:
        with usage():
            return _policy(load(config)), ""
    told = api.get("v1", "configmaps", CONFIG_MAP, namespace)
    if isinstance(told, Unreadable):
        return GatePolicy(), f"names of taints and labels: the defaults, for {told}; --config FILE names others"
    data = (told or {}).get("data")
    text = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return GatePolicy(), ""
    with usage():
        return _policy(read(text.encode(), f"ConfigMap {namespace}/{CONFIG_MAP}, {KEY}")), ""


def _policy(document: Document) -> GatePolicy:
    """Of the whole file only `gate` counts here: profiles that it names lie elsewhere. Raises ConfigError."""
    given = document.value.get("gate") if isinstance(document.value, Mapping) else None
    try:
        return GatePolicy(**section({} if given is None else given, ("gate",), "gate"))
    except ProfileError as error:
        raise document.located(error) from error
