"""The records that Terway and erdma-controller keep in Kubernetes, as values.

The fields are those of Terway 1.17 (pkg/apis/network.alibabacloud.com/v1beta1) and erdma-controller 0.2.
Raises OddObject where one has others.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster import (
    EXCLUSIVE,
    EniAddress,
    EniConfig,
    EniRecord,
    ErdmaDevice,
    ErdmaRecord,
    PodEni,
    TerwayNode,
)
from nodeprep.facts.kubernetes.cluster_objects import Object
from nodeprep.model import Unreadable, Why, guarded

SETTINGS = "eni_conf"  # the key of the ConfigMap that holds Terway's settings as JSON
# What checks ask for; the rest, of which credentials are a part, stays with the API server.
SETTINGS_READ = (
    "enable_erdma",
    "enable_ip_prefix",
    "ip_stack",
    "max_pool_size",
    "min_pool_size",
    "security_groups",
    "vswitches",
)


def terway_node(told: Object, now: float) -> TerwayNode:
    enis = cluster_objects.field(told, dict, "status", "networkInterfaces")
    labels = cluster_objects.words(told, "metadata", "labels")
    synced = cluster_objects.field(told, str, "status", "lastSyncOpenAPITime")
    return TerwayNode(
        instance=cluster_objects.field(told, str, "spec", "nodeMetadata", "instanceID"),
        zone=cluster_objects.field(told, str, "spec", "nodeMetadata", "zoneID"),
        labels={EXCLUSIVE: labels.get(EXCLUSIVE, "")} if labels else {},
        enis=tuple(_eni(key, enis[key]) for key in sorted(enis)),
        synced=cluster_objects.age(synced, now) if synced else None,
    )


def _eni(key: str, told: object) -> EniRecord:
    addresses, conditions = cluster_objects.field(told, dict, "ipv4"), cluster_objects.field(told, dict, "conditions")
    return EniRecord(
        id=cluster_objects.field(told, str, "id") or key,
        mac=cluster_objects.field(told, str, "macAddress").lower(),
        status=cluster_objects.field(told, str, "status"),
        type=cluster_objects.field(told, str, "networkInterfaceType"),
        traffic_mode=cluster_objects.field(told, str, "networkInterfaceTrafficMode"),
        primary_address=cluster_objects.field(told, str, "primaryIPAddress"),
        addresses=tuple(
            EniAddress(
                address=cluster_objects.field(one, str, "ip") or where,
                primary=cluster_objects.field(one, bool, "primary"),
                status=cluster_objects.field(one, str, "status"),
                pod=cluster_objects.field(one, str, "podID"),
            )
            for where, one in addresses.items()
        ),
        troubles=tuple(
            cluster_objects.said(f"{name}: {cluster_objects.field(one, str, 'message')}")
            for name, one in sorted(conditions.items())
        ),
    )


def pod_enis(told: Object) -> tuple[PodEni, ...]:
    """The ENIs of a PodENI, which has one for each network of its pod."""
    metadata, status = cluster_objects.field(told, dict, "metadata"), cluster_objects.field(told, dict, "status")
    return tuple(
        PodEni(
            record="/".join(cluster_objects.field(metadata, str, key) for key in ("namespace", "name")),
            phase=cluster_objects.field(status, str, "phase"),
            eni=(eni := cluster_objects.field(one, str, "eni", "id")),
            mac=cluster_objects.field(one, str, "eni", "mac").lower(),
            type=cluster_objects.field(status, str, "eniInfos", eni, "type"),
            trunk=cluster_objects.field(status, str, "trunkENIID"),
        )
        for one in cluster_objects.field(told, list, "spec", "allocations")
    )


def network_interface(told: Object) -> PodEni:
    status = cluster_objects.field(told, dict, "status")
    return PodEni(
        record=cluster_objects.field(told, str, "metadata", "name"),
        phase=cluster_objects.field(status, str, "phase"),
        eni=cluster_objects.field(told, str, "spec", "eni", "id"),
        mac=cluster_objects.field(told, str, "spec", "eni", "mac").lower(),
        type=cluster_objects.field(status, str, "eniInfo", "type"),
        trunk=cluster_objects.field(status, str, "trunkENIID"),
    )


def erdma(told: Object) -> ErdmaRecord:
    states = {
        cluster_objects.field(one, str, "id"): one for one in cluster_objects.field(told, list, "status", "devices")
    }
    return ErdmaRecord(
        jumbo=cluster_objects.field(told, bool, "spec", "jumboFrame"),
        devices=tuple(
            ErdmaDevice(
                eni=(eni := cluster_objects.field(one, str, "id")),
                mac=cluster_objects.field(one, str, "mac").lower(),
                primary=cluster_objects.field(one, bool, "isPrimaryENI"),
                status=cluster_objects.field(states.get(eni, {}), str, "status"),
                message=cluster_objects.said(cluster_objects.field(states.get(eni, {}), str, "message")),
            )
            for one in cluster_objects.field(told, list, "spec", "devices")
        ),
    )


def eni_config(base: Object, more: Object | None) -> EniConfig:
    """Terway's settings, merged with those of the ConfigMap that the node's label names (RFC 7396)."""
    names = [_name(one) for one in (base, more) if one is not None]
    settings: object = {}
    for name, one in zip(names, (base, more), strict=False):
        text = cluster_objects.field(one, dict, "data").get(SETTINGS)
        told = _settings(name, text) if isinstance(text, str) else {}
        if isinstance(told, Unreadable):
            return EniConfig(" + ".join(names), guarded(told))
        settings = merged(settings, told)
    known = settings if isinstance(settings, dict) else {}
    return EniConfig(" + ".join(names), {key: _plain(known[key]) for key in SETTINGS_READ if key in known})


def _name(told: Object | None) -> str:
    return "/".join(cluster_objects.field(told, str, "metadata", key) for key in ("namespace", "name"))


def _settings(name: str, text: str) -> dict[str, Any] | Unreadable:
    where = f"ConfigMap {name}, {SETTINGS}"
    try:
        told = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        return Unreadable(Why.MALFORMED, where, detail=f"line {error.lineno} column {error.colno}: {error.msg}")
    except (ValueError, RecursionError):
        return Unreadable(Why.MALFORMED, where, detail="JSON that nobody can read: too deep, or a number too long")
    return told if isinstance(told, dict) else Unreadable(Why.MALFORMED, where, detail="no JSON object")


def _finite(text: str) -> float:
    """Refuses NaN, Infinity and 1e999: Python reads them, and a snapshot cannot keep them. Raises ValueError."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def merged(base: object, patch: object) -> object:
    """RFC 7396: null takes a member away, an object is merged into an object, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


def _plain(value: object) -> object:
    """A setting as checks ask for it: a value, a list of values, or lists by name. What nests deeper is only there."""
    if isinstance(value, dict):
        return {str(key): _flat(one) for key, one in value.items()}
    return _flat(value)


def _flat(value: object) -> object:
    if isinstance(value, list):
        return tuple(one if isinstance(one, str | int | float | None) else True for one in value)
    return bool(value) if isinstance(value, dict) else value
