"""Is there one owner of the resource aliyun/erdma, and not both Terway and erdma-controller?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeprep.facts.alibaba.terway import DEVICE_PLUGINS, Terway
from nodeprep.facts.kubernetes.cluster import Cluster, EniConfig
from nodeprep.model import (
    NODE,
    CannotLook,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    raw,
)

# How their device plugins call their sockets, after the time of their start.
TERWAY, CONTROLLER = "-erdma-eni.sock", "-erdma.sock"
AGENT = "alibabacloud-erdma-agent"  # its DaemonSet, whose pods carry tier=agent


def judge(seen: Seen) -> Iterator[Verdict]:
    terway = seen[Terway]
    if not terway.present:
        return
    configured, sockets = owners(seen.get(Cluster)), raw(terway)["device_plugins"]
    blind = isinstance(sockets, Unreadable)
    if blind and configured is None:
        raise CannotLook(sockets)
    names = () if blind else sockets
    served = {end for end in (TERWAY, CONTROLLER) for name in names if name.endswith(end)}
    if configured is not None and all(configured):
        message = (
            f"eni-config says enable_erdma, and {AGENT} runs here too: both serve aliyun/erdma and take the same ENIs. "
            "Turn one off; erdma-controller is for more than one ERI"
        )
        yield Verdict(NODE, Status.FAIL, "TwoOwners", message, observed="two", expected="one")
    elif len(served) > 1 and configured is None:
        message = (
            f"Terway and erdma-controller both have a socket among the kubelet's device plugins (*{TERWAY}, "
            f"*{CONTROLLER}), so the count of aliyun/erdma goes to and fro: turn one off"
        )
        yield Verdict(NODE, Status.FAIL, "TwoSockets", message, observed="two", expected="one")
    elif len(served) > 1:
        message = (
            f"two sockets (*{TERWAY}, *{CONTROLLER}), but not two owners in Kubernetes: one was left behind and goes "
            "when the kubelet is started again"
        )
        yield Verdict(NODE, Status.WARN, "SocketLeft", message, observed="two", expected="one")
    elif served or any(configured or ()):
        owner = "Terway" if TERWAY in served or (configured and configured[0]) else "erdma-controller"
        unseen = f" by Kubernetes' records; {DEVICE_PLUGINS} is not seen here, nor what was left in it" if blind else ""
        yield Verdict(NODE, Status.OK, "OneOwner", f"{owner} alone serves aliyun/erdma{unseen}", observed="one")


def owners(cluster: Cluster | None) -> tuple[bool, bool] | None:
    """Whether Terway is configured to serve it, and whether erdma-controller's agent is here; None without access."""
    if cluster is None:
        return None
    here = any(pod.is_erdma_agent and not pod.finished and not pod.deleted for pod in cluster.pods)
    return is_terway_configured(cluster, matters=here), here


def is_terway_configured(cluster: Cluster, *, matters: bool) -> bool:
    """Where it does not matter, a configuration that cannot be read is left for terway.config to tell."""
    config = raw(cluster)["eni_config"]
    settings = raw(config)["settings"] if isinstance(config, EniConfig) else config
    if isinstance(settings, Unreadable) and matters:
        raise CannotLook(settings)
    return isinstance(settings, Mapping) and settings.get("enable_erdma") is True


CHECK = Check(
    id="terway.two-erdma-owners",
    question="Is there one owner of the resource aliyun/erdma, and not both Terway and erdma-controller?",
    why="Both register the same resource and configure the same ENIs: jobs get devices that the other one took away.",
    fix="Set enable_erdma to false in eni-config and restart Terway, or keep erdma-controller's agent off this node.",
    reasons=(
        Reason("TwoOwners", Status.FAIL),
        Reason("TwoSockets", Status.FAIL),
        Reason("SocketLeft", Status.WARN, "systemctl restart kubelet: it clears the sockets of device plugins."),
        Reason("OneOwner", Status.OK),
    ),
    source="Terway deviceplugin/eni.go, alibabacloud-erdma-controller deploy and internal/deviceplugin (socket names)",
    severity=Severity.GATE,
    stage=Stage.NODE,
    confirmation=Confirmation.RECORDS,
    needs=(Terway,),
    uses=(Cluster,),
    judge=judge,
)
