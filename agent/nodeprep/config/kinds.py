"""Kinds of values that only the configuration has: names of Kubernetes and addresses."""

from __future__ import annotations

import re

from nodeprep import typed_yaml
from nodeprep.doors.node_host import METADATA
from nodeprep.pattern import Pattern

# Kubernetes' qualified name (apimachinery, util/validation): a name of 63 characters, and before it a DNS subdomain.
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN_LIMIT = 253  # characters
# An address and no name: to look a name up takes as long as its server likes.
METADATA_ADDRESS = Pattern(r"http://(?:([0-9]{1,3}(?:\.[0-9]{1,3}){3})|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?")


def _is_qualified(value: object) -> bool:
    if not isinstance(value, str):
        return False
    prefix, slash, name = value.rpartition("/")
    sound = not slash or (len(prefix) <= SUBDOMAIN_LIMIT and re.fullmatch(SUBDOMAIN, prefix) is not None)
    return sound and re.fullmatch(NAME, name) is not None


def _is_address(value: object) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - 2 ms that only a file with such a key costs

    try:
        return isinstance(value, str) and bool(ip_address(value))
    except ValueError:
        return False


def _is_metadata_url(value: object) -> bool:
    match = METADATA_ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    return max(int(octet) for octet in (match[1] or "0").split(".")) <= 255 and 0 < int(match[2] or 80) < 1 << 16


ADDRESS = typed_yaml.fitting("an IP address of this node, such as 127.0.0.1", _is_address)
QUALIFIED = typed_yaml.fitting("a name as Kubernetes takes it, such as nodeprep.io/unhealthy", _is_qualified)
METADATA_URL = typed_yaml.fitting(
    f"http:// and an IPv4 address, with a port or without, such as {METADATA}", _is_metadata_url
)
