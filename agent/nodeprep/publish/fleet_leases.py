"""The Leases that agents read and write for repairs: objects of the API server in, values and bodies out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nodeprep.decide import fleet_holds, fleet_notes
from nodeprep.decide.fleet_notes import FleetLease
from nodeprep.facts.kubernetes import cluster_objects
from nodeprep.publish import agent_lease

Object = Mapping[str, Any]

# It claims `renewTime` alone, and the same write takes that from it. So of all entries that of the write is left, by
# whose time the admission policy judges (docs/adr/0020).
NO_OTHER_WRITER: Object = {
    "manager": "none",
    "operation": "Update",
    "apiVersion": "coordination.k8s.io/v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:renewTime": {}}},
}


def fleet_lease(lease: Object) -> FleetLease:
    """A Lease of our namespace. Malformed parts count as missing, but for a note: that one says everything."""
    metadata, spec = _part(lease, "metadata"), _part(lease, "spec")
    annotations = {key: str(value) for key, value in _part(metadata, "annotations").items()}
    name, seconds = str(metadata.get("name", "")), spec.get("leaseDurationSeconds")
    is_fleet = name == fleet_holds.FLEET
    return FleetLease(
        name=name,
        holder=str(spec.get("holderIdentity") or ""),
        renewed=cluster_objects.moment(spec.get("renewTime")),
        duration=float(seconds) if isinstance(seconds, int) and not isinstance(seconds, bool) else None,
        version=str(metadata.get("resourceVersion", "")),
        note=fleet_notes.parsed(annotations.get(fleet_notes.NOTE)),
        orders=annotations if is_fleet else {},
    )


def taking(node: str, version: str, now: datetime, seconds: float) -> dict[str, Any]:
    """A merge patch that takes or keeps a slot for so many seconds. Of another `version` it is a conflict (409)."""
    metadata = {"resourceVersion": version, "managedFields": [NO_OTHER_WRITER]}
    return {"metadata": metadata, "spec": agent_lease.spec(node, now, seconds)}


def giving_back(version: str) -> dict[str, Any]:
    """A merge patch that gives a slot back."""
    empty = dict.fromkeys(("holderIdentity", "leaseDurationSeconds", "renewTime"))
    return {"metadata": {"resourceVersion": version}, "spec": empty}


def _part(whole: Object, key: str) -> Object:
    part = whole.get(key)
    return part if isinstance(part, Mapping) else {}
