"""The Lease of a node's agent: that it is renewed says that the checks ran. Values in, objects out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

AGENT = "agent-"  # and the Node's name: what its agent's Lease is called
RENEW_SECONDS = 80.0  # seconds, or a little later (pace.LATER): two renewals are due while one is believed; design 3.5
DURATION_SECONDS = 180  # seconds after which nobody should believe what the agent last said


def name(node: str) -> str:
    return f"{AGENT}{node}"


def path(namespace: str, node: str = "") -> str:
    """Of a node's Lease, or of all."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
    return f"{leases}/{quote(name(node), safe='')}" if node else leases


def renewal(node: str, uid: str, now: datetime) -> dict[str, Any]:
    """A merge patch. Its owner is the Node of that `uid`, with which it goes."""
    return {"metadata": {"ownerReferences": [_owner(node, uid)]}, "spec": _spec(node, now)}


def created(namespace: str, node: str, uid: str, now: datetime) -> dict[str, Any]:
    """The object of a node that has none."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name(node), "namespace": namespace, "ownerReferences": [_owner(node, uid)]},
        "spec": _spec(node, now),
    }


def foreign(namespace: str, called: str) -> dict[str, Any]:
    """The object of a Lease that is no agent's, and held by nobody."""
    metadata = {"name": called, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def is_fresh(renewed: float, now: float) -> bool:
    """Whether the agent lives, both in seconds since 1970. What is renewed in the future says nothing of today."""
    return abs(now - renewed) <= DURATION_SECONDS


def _owner(node: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}


def _spec(node: str, now: datetime) -> dict[str, Any]:
    at = now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")  # metav1.MicroTime
    return {"holderIdentity": node, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": at}
