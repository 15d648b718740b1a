"""Builders for tests: the metadata of an ECS instance with two ENIs. Change one thing."""

from __future__ import annotations

from typing import Any

from nodeprep.door_values import Instance, Interface
from nodeprep.facts.alibaba.imds import Imds
from nodeprep.model import Unreadable

PRIMARY_MAC = "00:16:3e:00:00:01"
SHARED_MAC = "00:16:3e:aa:bb:01"


def interface(**different: Any) -> Interface:
    """eni-primary, the primary ENI."""
    usual: dict[str, Any] = {
        "mac": PRIMARY_MAC,
        "eni": "eni-primary",
        "primary_address": "192.168.0.116",
        "addresses": ("192.168.0.116",),
        "ipv6_addresses": (),
        "prefix": 24,
        "gateway": "192.168.0.253",
        "vswitch": "vsw-bp1exemplar",
        "vswitch_cidr": "192.168.0.0/24",
    }
    return Interface(**(usual | different))


def shared(**different: Any) -> Interface:
    """eni-shared1, a second ENI with two addresses for pods."""
    usual: dict[str, Any] = {
        "mac": SHARED_MAC,
        "eni": "eni-shared1",
        "primary_address": "192.168.0.130",
        "addresses": ("192.168.0.130", "192.168.0.134", "192.168.0.135"),
    }
    return interface(**(usual | different))


def instance(*interfaces: Interface, **different: Any) -> Instance:
    """i-bp1exemplar; without interfaces, it has those two."""
    usual: dict[str, Any] = {
        "id": "i-bp1exemplar",
        "type": "ecs.g8i.4xlarge",
        "region": "cn-hangzhou",
        "zone": "cn-hangzhou-j",
        "primary_mac": PRIMARY_MAC,
        "token_required": False,
        "interfaces": interfaces or (interface(), shared()),
    }
    return Instance(**(usual | different))


def imds(found: Instance | Unreadable | None = None, **different: Any) -> Imds:
    """The metadata fact, read in 3 ms: `instance()` unless another is given."""
    usual: dict[str, Any] = {"at": 0.0, "instance": instance() if found is None else found, "milliseconds": 3.0}
    return Imds(**(usual | different))


NOT_ECS = Imds(0.0, None, None)
