"""The Lease of a node's agent. Its renewal says that the checks ran. Values in, objects out."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from nodeprep.decide.fleet_notes import NOTE
from nodeprep.newer_python import UTC

AGENT = "agent-"  # followed by the Node's name: the name of its agent's Lease
RENEW_SECONDS = 80.0  # seconds, or a little later (pace.spread): two renewals are due while one is valid; design 3.5
DURATION_SECONDS = 180  # seconds for which a renewal is valid


def name(node: str) -> str:
    return f"{AGENT}{node}"


def path(namespace: str, node: str = "") -> str:
    """The path of a node's Lease, or of all Leases."""
    return path_of(namespace, name(node) if node else "")


def path_of(namespace: str, lease_name: str) -> str:
    """The path of a Lease of any name, or of all Leases."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
    return f"{leases}/{quote(lease_name, safe='')}" if lease_name else leases


def renewal(node: str, uid: str, now: datetime, note: str = "") -> dict[str, Any]:
    """A merge patch. The owner is the Node of that `uid`, so the Lease is deleted with that Node.

    `note` is what the agent tells others about repairs (decide/fleet_notes), "" for nothing.
    """
    said = {"ownerReferences": [_owner(node, uid)], **telling(note)["metadata"]}
    return {"metadata": said, "spec": spec(node, now, DURATION_SECONDS)}


def telling(note: str) -> dict[str, Any]:
    """A merge patch of the note alone. It says nothing about the checks."""
    return {"metadata": {"annotations": {NOTE: note or None}}}


def new_lease(namespace: str, node: str, uid: str, now: datetime, note: str = "") -> dict[str, Any]:
    """The object for a node without a Lease."""
    said = {"annotations": {NOTE: note}} if note else {}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name(node), "namespace": namespace, "ownerReferences": [_owner(node, uid)], **said},
        "spec": spec(node, now, DURATION_SECONDS),
    }


def foreign_lease(namespace: str, lease_name: str) -> dict[str, Any]:
    """The object of a Lease that belongs to no agent and that nobody holds."""
    metadata = {"name": lease_name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def is_fresh(renewed: float, now: float) -> bool:
    """Whether the agent lives. Both are seconds since 1970. A renewal in the future tells nothing about now."""
    return abs(now - renewed) <= DURATION_SECONDS


def _owner(node: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}


def spec(node: str, now: datetime, seconds: float) -> dict[str, Any]:
    """The `spec` of a Lease that a node holds from `now` on, for so many seconds."""
    at = now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")  # metav1.MicroTime
    return {"holderIdentity": node, "leaseDurationSeconds": round(seconds), "renewTime": at}
