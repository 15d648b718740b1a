"""Writes to Nodes and Leases that an agent of the Node "bound" may not do, and the rule that must stop each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from nodeprep.decide import fleet_holds, fleet_notes, repair_orders, repair_slots
from nodeprep.decide.desired import TRAINING_READY, GatePolicy
from tests.api_objects import ago

IMPORTED = time.monotonic()
NAMES = GatePolicy()
NODE, OTHER, NAMESPACE = "bound", "other", "nodeprep"
NODES = "/api/v1/nodes"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
ELSE = {"key": "example.com/else", "value": "a", "effect": "NoSchedule"}
BOOTSTRAP = {"key": NAMES.bootstrap_taint, "effect": "NoSchedule"}
UNHEALTHY = {"key": NAMES.unhealthy_taint, "value": "PortDown", "effect": "NoSchedule"}
POOL = "example.com/pool"


def node(name: str, **spec: Any) -> dict[str, Any]:
    """A Node with things of others: a pool's label, a human's annotation, foreign taints and conditions."""
    conditions = [
        {"type": kind, "status": "True", "reason": "Said", "message": "", "lastHeartbeatTime": ago(60)}
        for kind in ("Ready", "SufficientIP")
    ]
    return {
        "metadata": {
            "name": name,
            "labels": {POOL: "a", "kubernetes.io/hostname": name},
            "annotations": {"nodeprep.io/pause": "disk is being replaced", "example.com/note": "x"},
        },
        "spec": {"taints": [ELSE], **spec},
        "status": {
            "conditions": conditions,
            "capacity": {"cpu": "64", "rdma/hca": "4"},
            "allocatable": {"cpu": "63", "rdma/hca": "4"},
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        },
    }


def lease(holder: str | None, renewed: float | None = 0.0, seconds: int | None = 60) -> dict[str, Any]:
    """The spec of a Lease; `renewed` is seconds ago."""
    told = {
        "holderIdentity": holder,
        "renewTime": None if renewed is None else ago(renewed).replace("Z", ".000000Z"),
        "leaseDurationSeconds": seconds,
    }
    return {key: value for key, value in told.items() if value is not None}


def fresh(body: dict[str, Any]) -> dict[str, Any]:
    """The body as of now: its time is as far from the present as it was when this module was imported."""
    told = (body.get("spec") or {}).get("renewTime") if isinstance(body.get("spec"), dict) else None
    if told is None or told.startswith("9999"):
        return body
    at = datetime.fromisoformat(told) + timedelta(seconds=time.monotonic() - IMPORTED)
    return body | {"spec": body["spec"] | {"renewTime": at.isoformat(timespec="microseconds").replace("+00:00", "Z")}}


def entry(*fields: str, manager: str = "none") -> dict[str, Any]:
    """An entry of managedFields: the fields of a Lease's spec that `manager` claims, with a time in the future."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "coordination.k8s.io/v1",
        "time": "2999-12-31T23:59:59Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:{one}": {} for one in fields}},
    }


def slot(spec: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    """How a slot is taken and kept: only the entry of the write itself is left, because the write sets `renewTime`."""
    return {"metadata": {"managedFields": list(entries) or [entry("renewTime")]}, "spec": spec}


@dataclass(frozen=True, slots=True)
class Write:
    """A request and the rule that denies it. `bound`: from the agent of NODE, else from a token without a pod."""

    rule: str
    why: str
    body: dict[str, Any] = field(default_factory=dict)
    path: str = f"{NODES}/{NODE}"
    method: str = "PATCH"
    kind: str = MERGE
    bound: bool = True


def label(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": {key: value}}}


def said(key: str, value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def taints(*wanted: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"taints": list(wanted)}}


def condition(kind: str, **more: str) -> dict[str, Any]:
    one = {"type": kind, "status": "True", "reason": "Forged", "message": "", "lastHeartbeatTime": ago(0)}
    return {"status": {"conditions": [{**one, **more}]}}


OWN_STATUS, SLOT = f"{NODES}/{NODE}/status", f"{LEASES}/nodeprep-slot-0"
LASTS, ENDLESS, OVER = (f"{LEASES}/nodeprep-slot-{number}" for number in (1, 2, 3))  # foreign slots, by their time
MINE, NEW_NODES = (f"{LEASES}/{repair_slots.BOOTSTRAP_SLOT}{number}" for number in (0, 1))  # ours, and a free one
FLEET, OTHERS = f"{LEASES}/{fleet_holds.FLEET}", f"{LEASES}/agent-third"
PAUSE, RESUMED = repair_orders.PAUSE, f"{fleet_holds.RESUMED}link_up"
NOTE = '{"trying":{"link_up":1796083200.0}}'
UNTIL = "2030-01-01T00:00:00Z"
DAY = 86400
WIPED: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
OURS = label("nodeprep.io/state", "Ready")
OWNER = {"apiVersion": "v1", "kind": "Node", "name": OTHER, "uid": "0"}
MADE: dict[str, dict[str, Any]] = {"metadata": {"name": f"agent-{NODE}"}}
FINALIZERS = {"finalizers": ["example.com/hold"]}
HELD = {"spec": lease(NODE)}
MAKE = (LEASES, "POST")
APPROVED = said(repair_orders.APPROVE, f"driver_reload;until={UNTIL}")

DENIED = [
    Write("own-node", "another's label", OURS, path=f"{NODES}/{OTHER}"),
    Write("own-node", "another's taint", taints(ELSE, UNHEALTHY), path=f"{NODES}/{OTHER}"),
    Write("own-node", "another's condition", condition(TRAINING_READY), f"{NODES}/{OTHER}/status", kind=STRATEGIC),
    Write("own-node", "a token without a node", OURS, bound=False),
    Write("own-node", "a new Node", node("third"), NODES, "POST"),
    Write("own-node", "no Node any more", path=f"{NODES}/{NODE}", method="DELETE"),
    Write("own-node", "no Nodes any more", path=NODES, method="DELETE"),
    Write("labels", "a new one", label("team", "a")),
    Write("labels", "another value", label(POOL, "b")),
    Write("labels", "one removed", label(POOL, None)),
    Write("labels", "a role", label("node-role.kubernetes.io/control-plane", "")),
    Write("labels", "through the status", label("team", "a"), OWN_STATUS),
    Write("labels", "one that looks like ours", label("xnodeprep.io/state", "Ready")),
    Write("annotations", "the pause of a human", said("nodeprep.io/pause", None)),
    Write("annotations", "a pause of its own", said(PAUSE, f"for ever;until={UNTIL}")),
    Write("annotations", "an approval", said(repair_orders.APPROVE, f"driver_reload;until={UNTIL}")),
    Write("annotations", "a remedy resumed", said(RESUMED, UNTIL)),
    Write("annotations", "a reset", said("nodeprep.io/reset", "now")),
    Write("annotations", "of others", said("example.com/note", "y")),
    Write("annotations", "through the status", said("nodeprep.io/approve", "x"), OWN_STATUS),
    Write("taints", "all dropped", taints()),
    Write("taints", "another's replaced by ours", taints(UNHEALTHY)),
    Write("taints", "another's with a new value", taints(ELSE | {"value": "b"})),
    Write("taints", "a new one of others", taints(ELSE, {"key": "example.com/new", "effect": "NoSchedule"})),
    Write("taints", "the bootstrap taint set", taints(ELSE, BOOTSTRAP)),
    Write("taints", "ours, ending pods", taints(ELSE, UNHEALTHY | {"effect": "NoExecute"})),
    Write("cordon", "cordoned", {"spec": {"unschedulable": True}}),
    Write("spec", "another machine", {"spec": {"providerID": "cn-hangzhou.i-forged"}}),
    Write("spec", "a range of addresses", {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}}),
    Write("metadata", "a finalizer", {"metadata": {"finalizers": ["example.com/hold"]}}),
    Write("metadata", "an owner", {"metadata": {"ownerReferences": [OWNER]}}),
    Write("metadata", "who wrote what, wiped", WIPED),
    Write("metadata", "the same under a label", {"metadata": {**WIPED["metadata"], **OURS["metadata"]}}),
    Write("conditions", "Ready forged", condition("Ready", status="False"), OWN_STATUS, kind=STRATEGIC),
    Write("conditions", "one of nobody", condition("example.com/Fine"), OWN_STATUS, kind=STRATEGIC),
    Write("conditions", "none of ours", condition("nodeprep.io/OtherReady"), OWN_STATUS, kind=STRATEGIC),
    Write(
        "conditions",
        "another's removed",
        {"status": {"conditions": [{"$patch": "delete", "type": "SufficientIP"}]}},
        OWN_STATUS,
        kind=STRATEGIC,
    ),
    Write("conditions", "all replaced", condition(TRAINING_READY), OWN_STATUS),
    Write("status", "more devices", {"status": {"capacity": {"rdma/hca": "1k"}}}, OWN_STATUS),
    Write("status", "devices to give", {"status": {"allocatable": {"rdma/hca": "1k"}}}, OWN_STATUS),
    Write(
        "status", "addresses", {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}]}}, OWN_STATUS
    ),
    Write("status", "images", {"status": {"images": [{"names": ["a.test/b:c"], "sizeBytes": 1}]}}, OWN_STATUS),
    Write("status", "a kubelet", {"status": {"nodeInfo": {"kubeletVersion": "v0"}}}, OWN_STATUS),
    Write("own-namespace", "the kubelet's Lease", {"metadata": {"name": NODE}}, NODE_LEASES, "POST"),
    Write("own-lease", "another's", {"metadata": {"name": f"agent-{OTHER}"}}, LEASES, "POST"),
    Write("own-lease", "another name", {"metadata": {"name": "leader"}}, LEASES, "POST"),
    Write("own-lease", "a token without a node", MADE | {"spec": lease(NODE)}, LEASES, "POST", bound=False),
    Write("own-lease", "a new slot", {"metadata": {"name": "nodeprep-slot-9"}, "spec": lease(NODE)}, LEASES, "POST"),
    Write("own-lease", "a slot removed", path=SLOT, method="DELETE"),
    Write("own-lease", "all removed", path=LEASES, method="DELETE"),
    Write("lease-holder", "held by another", MADE | {"spec": lease(OTHER)}, LEASES, "POST"),
    Write("lease-holder", "held by nobody", MADE, LEASES, "POST"),
    Write(
        "lease-owner",
        "of another Node",
        {"metadata": {**MADE["metadata"], "ownerReferences": [OWNER]}, "spec": lease(NODE)},
        LEASES,
        "POST",
    ),
    Write(
        "lease-metadata",
        "with finalizers",
        {"metadata": MADE["metadata"] | FINALIZERS, "spec": lease(NODE)},
        LEASES,
        "POST",
    ),
    Write("own-lease", "what another says of its repairs", said(fleet_notes.NOTE, NOTE), OTHERS),
    Write("own-lease", "the fleet paused", said(PAUSE, f"for ever;until={UNTIL}"), FLEET),
    Write("own-lease", "the fleet's pause removed", said(PAUSE, None), FLEET),
    Write("own-lease", "a remedy resumed in the fleet", said(RESUMED, UNTIL), FLEET),
    Write("own-lease", "the fleet's Lease held", {"spec": lease(NODE)}, FLEET),
    Write("own-lease", "the fleet's Lease removed", path=FLEET, method="DELETE"),
    Write("lease-orders", "a pause", {"metadata": MADE["metadata"] | said(PAUSE, "x")["metadata"], **HELD}, *MAKE),
    Write("lease-orders", "an approval", {"metadata": MADE["metadata"] | APPROVED["metadata"], **HELD}, *MAKE),
    Write("lease-orders", "a resume", {"metadata": MADE["metadata"] | said(RESUMED, "x")["metadata"], **HELD}, *MAKE),
    Write("slot-holder", "given to another", {"spec": lease(OTHER)}, SLOT),
    Write("slot-clock", "without a time", slot({"holderIdentity": NODE}), SLOT),
    Write("slot-clock", "beside the entry of the former holder", {"spec": lease(NODE)}, OVER),
    Write("slot-clock", "beside a forged entry", slot(lease(NODE), entry("strategy")), SLOT),
    Write(
        "slot-clock",
        "among forged entries",
        slot(lease(NODE, -DAY), *(entry("strategy", manager=f"m{number}") for number in range(20))),
        LASTS,
    ),
    Write("slot-clock", "no entry at all", {**WIPED, "spec": lease(NODE)}, SLOT),
    Write(
        "slot-clock",
        "at the old time",
        slot({"holderIdentity": NODE, "leaseDurationSeconds": 30}, entry("leaseDurationSeconds")),
        LASTS,
    ),
    Write(
        "slot-clock",
        "kept for longer without renewing",
        slot({"holderIdentity": NODE, "leaseDurationSeconds": 3600}, entry("leaseDurationSeconds")),
        MINE,
    ),
    Write("slot-clock", "kept beside the entry of who made it", {"spec": lease(NODE)}, MINE),
    Write("slot-clock", "given back for another", {"spec": {"holderIdentity": None}}, LASTS),
    Write("slot-taken", "another's, whose time lasts", slot(lease(NODE)), LASTS),
    Write("slot-taken", "by one who says that it is tomorrow", slot(lease(NODE, -DAY)), LASTS),
    Write("slot-taken", "given back for another, with the time", slot(lease("", 30)), LASTS),
    Write("slot-taken", "another's, which never ends", slot(lease(NODE)), ENDLESS),
    Write("slot-expiry", "without an end", slot(lease(NODE, seconds=None)), SLOT),
    Write("slot-expiry", "by a clock that is slow", slot(lease(NODE, 90)), SLOT),
    Write("slot-expiry", "from tomorrow", slot(lease(NODE, -DAY)), SLOT),
    Write("slot-expiry", "for ever", slot(lease(NODE) | {"renewTime": "9999-12-31T23:59:59.000000Z"}), SLOT),
    Write("slot-expiry", "for more than an hour", slot(lease(NODE, seconds=3601)), SLOT),
    Write(
        "slot-metadata",
        "a note",
        {"metadata": slot({})["metadata"] | said(fleet_notes.NOTE, NOTE)["metadata"]} | HELD,
        SLOT,
    ),
    Write(
        "slot-metadata",
        "a pause of the fleet",
        {"metadata": slot({})["metadata"] | said(PAUSE, "x")["metadata"]} | HELD,
        SLOT,
    ),
    Write(
        "slot-metadata",
        "bound to a Node",
        {"metadata": slot({})["metadata"] | {"ownerReferences": [OWNER | {"name": NODE}]}, "spec": lease(NODE)},
        SLOT,
    ),
]
