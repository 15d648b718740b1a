"""The records that Terway and erdma-controller keep in Kubernetes, as values.

The fields are those of Terway 1.17 (pkg/apis/network.alibabacloud.com/v1beta1) and erdma-controller 0.2.
Raises OddObject where one has others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.facts.kubernetes.cluster import (
    EniAddress,
    EniConfig,
    EniRecord,
    ErdmaDevice,
    ErdmaRecord,
    PodEni,
    TerwayNode,
)
from nodeprep.facts.kubernetes.cluster_objects import MESSAGE_LIMIT_CHARACTERS, Object
from nodeprep.model import Unreadable, Why, guarded

SETTINGS = "eni_conf"  # the key of the ConfigMap that holds Terway's settings as JSON
SECRETS = ("secret", "access_key", "accesskey", "password", "token")  # in names of settings; none is read here


def terway_node(told: Object, now: float) -> TerwayNode:
    enis = cluster_objects.field(told, dict, "status", "networkInterfaces")
    synced = cluster_objects.field(told, str, "status", "lastSyncOpenAPITime")
    return TerwayNode(
        instance=cluster_objects.field(told, str, "spec", "nodeMetadata", "instanceID"),
        zone=cluster_objects.field(told, str, "spec", "nodeMetadata", "zoneID"),
        labels=cluster_objects.words(told, "metadata", "labels"),
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
            f"{name}: {cluster_objects.field(one, str, 'message')}"[:MESSAGE_LIMIT_CHARACTERS]
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
                message=cluster_objects.field(states.get(eni, {}), str, "message")[:MESSAGE_LIMIT_CHARACTERS],
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
        settings = _merged(settings, told)
    return EniConfig(" + ".join(names), _without_secrets(settings))


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


def _merged(base: object, patch: object) -> object:
    """RFC 7396: null takes a member away, an object is merged into an object, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = _merged(kept.get(key), value)
    return kept


def _without_secrets(settings: object) -> Any:
    if isinstance(settings, Mapping):
        return {key: _without_secrets(value) for key, value in settings.items() if not _is_secret(key)}
    return tuple(_without_secrets(one) for one in settings) if isinstance(settings, list) else settings


def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in SECRETS)
