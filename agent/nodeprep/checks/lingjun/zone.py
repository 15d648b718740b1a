"""Has Terway a vSwitch in the zone of this Lingjun node?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict

ZONE = "topology.kubernetes.io/zone"


def judge(seen: Seen) -> Iterator[Verdict]:
    cluster, terway = seen[Cluster], seen.get(Terway)
    if terway is not None and not terway.present:
        return  # without Terway nothing needs a vSwitch, even where the Node cannot be read
    if not cluster.node.is_lingjun or cluster.node.ignored_by_terway:
        return
    config = cluster.eni_config
    if config is None:
        return  # without any configuration, terway.pod says that Terway does not start
    listed = config.settings.get("vswitches")
    vswitches = listed if isinstance(listed, Mapping) else {}
    zones = ", ".join(sorted(str(zone)[:40] for zone, ids in vswitches.items() if ids)) or "none"
    zone = cluster.node.labels.get(ZONE) or (cluster.terway.zone if cluster.terway else "")
    if vswitches.get(zone):
        message = f"vswitches of {config.name} has zone {zone}"
        yield Verdict(NODE, Status.OK, "ZoneListed", message, None, zone, zones)
    elif zone:
        message = (
            f"zone {zone[:40]} of this node is not among the vswitches of {config.name} (zones: {zones}), and on "
            "Lingjun Terway has no other to fall back to: kubectl -n kube-system edit configmap eni-config"
        )
        yield Verdict(NODE, Status.FAIL, "ZoneNotListed", message, None, zone, zones)
    else:
        message = f"the node has no label {ZONE}, so Terway finds no vSwitch for it (zones of {config.name}: {zones})"
        yield Verdict(NODE, Status.FAIL, "NoZone", message, None, "none", zones)


CHECK = Check(
    id="lingjun.zone",
    question="Has Terway a vSwitch in the zone of this Lingjun node?",
    why="On ECS Terway falls back to the instance's own vSwitch; on Lingjun it gives up, and no pod gets an address.",
    fix="Add a vSwitch of the node's zone to vswitches in the ConfigMap eni-config, then restart Terway on the node.",
    reasons=(
        Reason("ZoneListed", Status.OK),
        Reason("ZoneNotListed", Status.FAIL),
        Reason(
            "NoZone",
            Status.FAIL,
            "Give the node its label topology.kubernetes.io/zone (kubectl label node), then restart Terway on the "
            "node.",
        ),
    ),
    source="AliyunContainerService/terway pkg/eni/node_reconcile.go ('failed to get vsw for zone')",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Cluster,),
    uses=(Terway,),
    judge=judge,
)
