"""erdma.agent by its rows."""

from __future__ import annotations

from typing import Any

import pytest

from nodeprep.checks.erdma.agent import CHECK
from nodeprep.facts.kubernetes.cluster import Owner
from nodeprep.model import Unreadable, Why
from tests.cluster_values import cluster, container, erdma_record, node_object, pod
from tests.cluster_values import erdma_agent as agent
from tests.values import say, verdicts

DENIED = Unreadable(Why.DENIED, "pods", detail="403")
NOWHERE = node_object(annotations={"alibabacloud.com/instance-type-info": ""})
RESTART = "plugin_restart(pod=kube-system/alibabacloud-erdma-agent-7xk2p)"


ROWS = [
    ({"pods": (pod(), agent())}, "ok Ready"),
    ({"pods": (agent(ready=False),)}, f"warn NotReady {RESTART}"),
    ({"pods": (agent(deleted=True, ready=False),)}, "absent Nothing"),
    ({"pods": (agent(deleted=True), agent()), "erdma": erdma_record()}, "ok Ready"),
    ({"pods": (agent(name="other-agent"),)}, "absent Nothing"),
    ({"pods": (agent(labels={"tier": "controller"}),)}, "absent Nothing"),
    # Whoever may create a pod may give it any label, and a name that is free in the namespace.
    ({"pods": (agent(namespace="users", ready=False),)}, "absent Nothing"),
    ({"pods": (agent(owner=None, ready=False),)}, "absent Nothing"),
    ({"pods": (agent(owner=Owner("batch/v1", "Job", "alibabacloud-erdma-agent")),)}, "absent Nothing"),
    ({"pods": (agent(namespace="users"),), "erdma": erdma_record()}, "warn NoAgent"),
    ({"pods": (agent(namespace="users"), agent(ready=False))}, f"warn NotReady {RESTART}"),
    ({"pods": ()}, "absent Nothing"),
    ({"pods": (), "erdma": erdma_record()}, "warn NoAgent"),
    ({"pods": (), "erdma": DENIED}, "absent Nothing"),
    ({"pods": DENIED}, "unknown CannotLook"),
    ({"pods": DENIED, "node": NOWHERE}, "absent Nothing"),
    ({"pods": DENIED, "node": DENIED}, "absent Nothing"),
    ({"pods": DENIED, "node": NOWHERE, "erdma": erdma_record()}, "unknown CannotLook"),
]


@pytest.mark.parametrize(("different", "says"), ROWS)
def test_says(different: dict[str, Any], says: str) -> None:
    assert say(CHECK, cluster(**different)) == says


def test_messages() -> None:
    stuck = container(name="agent", ready=False, state="waiting: CrashLoopBackOff")
    (verdict,) = verdicts(CHECK, cluster(pods=(agent(ready=False, containers=(stuck,)),)))
    assert verdict.message == (
        "kube-system/alibabacloud-erdma-agent-7xk2p is Running and not Ready (agent is waiting: CrashLoopBackOff): "
        "kubectl describe pod, kubectl logs"
    )
    (verdict,) = verdicts(CHECK, cluster(pods=(), erdma=erdma_record()))
    assert verdict.message.startswith("erdma-controller keeps a record of ERIs for this node and no")
