"""Is Terway's configuration sound, and does it fit this node?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.alibaba.terway import Terway
from nodeprep.facts.kubernetes.cluster import Cluster, EniConfig
from nodeprep.model import NODE, Check, Confirmation, Reason, Seen, Severity, Stage, Status, Unreadable, Verdict, raw

ZONE = "topology.kubernetes.io/zone"
STACKS = ("ipv4", "ipv6", "dual")
SECURITY_GROUPS_LIMIT = 10  # security groups of one ENI


def judge(seen: Seen) -> Iterator[Verdict]:
    cluster = seen[Cluster]
    if not seen[Terway].present or cluster.node.ignored_by_terway or not cluster.node.is_alibaba:
        return
    lingjun, config = cluster.node.is_lingjun, cluster.eni_config
    faults = list(found(config, "" if lingjun else zone(cluster)))  # there lingjun.zone asks for the zone
    if config is not None and not faults:
        yield Verdict(NODE, Status.OK, "Sound", f"ConfigMap {config.name} is sound and fits this node")
        return
    # On ECS, Terway uses what the instance has. On Lingjun the instance has nothing to use.
    status = Status.FAIL if lingjun else Status.WARN
    name = config.name if config is not None else "kube-system/eni-config"
    reason, (observed, expected) = faults[0][0], faults[0][2:]
    message = f"ConfigMap {name}: {'; '.join(words for _, words, _, _ in faults)}; see kubectl -n kube-system get cm"
    yield Verdict(NODE, status, reason, message, None, observed, expected)


def zone(cluster: Cluster) -> str:
    labelled = cluster.node.labels.get(ZONE, "")
    return labelled or (cluster.terway.zone if cluster.terway is not None else "")


def found(config: EniConfig | None, zone: str) -> Iterator[tuple[str, str, str, str]]:
    """Each fault as reason, words, observed and expected."""
    if config is None:
        yield "NoConfig", "it is not there, and terway-init fails without it", "none", "eni_conf"
        return
    settings: Mapping[str, object] | Unreadable = raw(config)["settings"]
    if isinstance(settings, Unreadable):
        yield "NotJson", f"eni_conf is no JSON object: {settings.detail}", "malformed", "JSON"
        return
    vswitches = settings.get("vswitches") or {}
    known = sorted(vswitches) if isinstance(vswitches, Mapping) else []
    if zone and known and zone not in known:  # where no zone has one, the instance's own was chosen for all
        zones = ", ".join(known)[:100]
        words = f"vswitches has none for this node's zone {zone[:40]}, only for {zones}: it takes the instance's own"
        yield "NoVswitch", words, zones, zone
    groups = settings.get("security_groups") or []
    if isinstance(groups, list | tuple) and len(groups) > SECURITY_GROUPS_LIMIT:
        words = f"{len(groups)} security_groups, and an ENI takes {SECURITY_GROUPS_LIMIT}"
        yield "TooManyGroups", words, str(len(groups)), f"at most {SECURITY_GROUPS_LIMIT}"
    least, most = settings.get("min_pool_size"), settings.get("max_pool_size")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        words = f"min_pool_size {least} is more than max_pool_size {most}"
        yield "PoolSizes", words, str(least), f"at most {most}"
    stack = settings.get("ip_stack") or STACKS[0]
    if stack not in STACKS:
        yield "IpStack", f"ip_stack {str(stack)[:20]!r} is none of {', '.join(STACKS)}", str(stack)[:20], "ipv4"


CHECK = Check(
    id="terway.config",
    question="Is Terway's configuration sound, and does it fit this node?",
    why="A slip in eni_conf shows when the next node or pod comes: no address, or a vSwitch that nobody wanted.",
    fix="Mend eni_conf in ConfigMap kube-system/eni-config, or in the one that label terway-config names.",
    reasons=(
        Reason("Sound", Status.OK),
        Reason(
            "NoConfig",
            Status.FAIL,
            "Put the ConfigMap kube-system/eni-config back, or the one that label terway-config names, then restart "
            "Terway on the node.",
        ),
        Reason(
            "NoConfig",
            Status.WARN,
            "Put the ConfigMap kube-system/eni-config back, or the one that label terway-config names, then restart "
            "Terway on the node.",
        ),
        Reason("NotJson", Status.FAIL),
        Reason("NotJson", Status.WARN),
        Reason(
            "NoVswitch",
            Status.WARN,
            "Add a vSwitch of zone {expected} to vswitches in eni_conf (kubectl -n kube-system edit configmap "
            "eni-config), or in the ConfigMap that label terway-config names.",
        ),
        Reason("TooManyGroups", Status.FAIL),
        Reason("TooManyGroups", Status.WARN),
        Reason("PoolSizes", Status.FAIL),
        Reason("PoolSizes", Status.WARN),
        Reason("IpStack", Status.FAIL),
        Reason("IpStack", Status.WARN),
    ),
    source="Terway types/daemon/config.go, pkg/eni and docs/linjun.md; at most 10 groups: config.go",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway, Cluster),
    judge=judge,
)
