"""Whether the machine goes down, which an agent asks when it is told to end: then the node closes before the reboot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodeprep.decide import kubernetes_text
from nodeprep.decide.conditions import TRAINING_READY
from nodeprep.decide.desired import Desired
from nodeprep.doors import clock
from nodeprep.doors.kube.reader import ApiAccess, ApiReader
from nodeprep.model import Unreadable
from nodeprep.values import replace

ASK_TIMEOUT_SECONDS = 2.0  # seconds for all questions; what cannot be asked in time leaves the gates as they are
SYSTEMD_TIMEOUT_SECONDS = 0.5  # seconds of them for systemctl, which answers in milliseconds
KUBELET_DELAY_SECONDS = 0.7  # seconds after which the Node is read again: the kubelet may end pods before it is written
CLOSING_TIMEOUT_SECONDS = 5.0  # seconds until the Node says so; a pod has 15 to end
# What the kubelet's Ready condition says while it ends its pods (kubelet, nodeshutdown, ShutdownStatus).
KUBELET_SAYS = "node is shutting down"
SYSTEMD_SAYS = "stopping"  # systemctl(1), is-system-running
REASON = "NodeShutdown"


def announced(access: ApiAccess | None, system_state: Callable[[float], str]) -> str:
    """Who says that the machine goes down, in words; "" if nobody does, or nobody could be asked in time.

    `system_state` asks this host's systemd within some seconds, and returns "" where it is not to be seen.
    """
    until = clock.now() + ASK_TIMEOUT_SECONDS
    if system_state(SYSTEMD_TIMEOUT_SECONDS) == SYSTEMD_SAYS:
        return f"systemd is {SYSTEMD_SAYS}"
    if access is None:
        return ""
    if _kubelet_says_so(access, until):
        return f"the kubelet says: {KUBELET_SAYS}"
    clock.sleep(min(KUBELET_DELAY_SECONDS, max(until - clock.now(), 0.0)))
    return f"the kubelet says: {KUBELET_SAYS}" if _kubelet_says_so(access, until) else ""


def _kubelet_says_so(access: ApiAccess, until: float) -> bool:
    left = until - clock.now()
    if left <= 0:
        return False
    with ApiReader(access, left) as api:
        node = api.get("v1", "nodes", access.node)
    status = None if node is None or isinstance(node, Unreadable) else node.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    ready = (one for one in found or () if isinstance(one, Mapping) and one.get("type") == "Ready")
    return any(one.get("status") != "True" and KUBELET_SAYS in str(one.get("message")) for one in ready)


def closed(desired: Desired, who: str) -> Desired:
    """What should stand on the Node over a reboot, with the reason that the machine goes down.

    `desired` is that of a node of which nothing is proven.
    """
    message = kubernetes_text.line(f"{who}; the node opens when its checks pass after the boot")
    conditions = (
        replace(one, status="False", reason=REASON, message=message) if one.type == TRAINING_READY else one
        for one in desired.conditions
    )
    taints = tuple(replace(one, value=REASON) for one in desired.taints)
    return replace(desired, conditions=tuple(conditions), taints=taints, fix="")
