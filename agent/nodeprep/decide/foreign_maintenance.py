"""Whether somebody else works on this node: a cordon, a drain, an autoscaler that takes it away, another remediator.

Two that mend one node undo each other's work. So what is seen here holds every remedy back, and nothing of it is ours:
the agent never cordons, and sets no other taint than its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.decide import kubernetes_text
from nodeprep.values import Value, field

# Conditions that are True while somebody works on the node (KEP-5683, node lifecycle conditions).
CONDITIONS = (
    "MaintenanceInProgress",
    "DrainInProgress",
    "Drained",
    "GracefulNodeShutdownInProgress",
)
# Taints of those who take a node away or mend it: Cluster Autoscaler, Karpenter (new and old name), cloud providers,
# Kubernetes' own for a node that is gone, Medik8s.
TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/unschedulable",
    "medik8s.io/remediation",
)
# Labels of operators that upgrade drivers (NVIDIA's GPU and network operator). These values mean that nothing happens.
UPGRADES = ("nvidia.com/gpu-driver-upgrade-state", "nvidia.com/ofed-driver-upgrade-state")
AT_REST = ("", "upgrade-done", "unknown")
# NVSentinel's state of a node (docs of NVIDIA/NVSentinel). It removes the label when it is done.
SENTINEL = "dgxc.nvidia.com/nvsentinel-state"
REBOOTS = "weave.works/kured-reboot-in-progress"  # an annotation of kured


class RepairNode(Value):
    """The Node as repair reads it, from the server itself. Only what says something here is kept.

    `taints` are pairs of key and effect. `true_conditions` are the types of conditions with the status True.
    """

    uid: str
    taints: tuple[tuple[str, str], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    true_conditions: tuple[str, ...] = ()
    unschedulable: bool = False
    deleting: bool = False


def hindrance(node: RepairNode) -> str:
    """What somebody else does to this node, "" for nothing."""
    if node.deleting:
        return "the Node is being deleted"
    if node.unschedulable:
        return "the Node is cordoned: kubectl uncordon it when the work is done"
    condition = next((one for one in CONDITIONS if one in node.true_conditions), "")
    if condition:
        return f"the Node's condition {condition} is True: somebody maintains it"
    taint = next((key for key in TAINTS if any(key == own for own, _ in node.taints)), "")
    if taint:
        return f"the Node has the taint {taint}: somebody takes it away or mends it"
    upgrade = next((key for key in UPGRADES if node.labels.get(key, "") not in AT_REST), "")
    if upgrade:
        state = kubernetes_text.line(node.labels[upgrade], 40)
        return f"an operator upgrades a driver here: label {upgrade} is {state!r}"
    if node.labels.get(SENTINEL):
        return f"NVSentinel handles this node: label {SENTINEL}"
    return f"kured reboots this node: annotation {REBOOTS}" if REBOOTS in node.annotations else ""
